#include "yotta/comm/data.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yotta;

namespace {
std::vector<double> reduced(ReduceOp op, DType dtype) {
  Tensor a = Tensor::from<float>({6, 1, 3}, {3}).to(dtype);
  const Tensor b = Tensor::from<float>({2, 5, 3}, {3}).to(dtype);
  reduce_into(a, b, op);
  return a.values();
}
}  // namespace

TEST_CASE("every operation in every type") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::fp8_e5m2,
                            DType::fp8_e4m3, DType::i64, DType::i32, DType::u8}) {
    CAPTURE(std::string(name(dtype)));
    CHECK(reduced(ReduceOp::sum, dtype) == std::vector<double>{8, 6, 6});
    CHECK(reduced(ReduceOp::mean, dtype) == std::vector<double>{8, 6, 6});
    CHECK(reduced(ReduceOp::max, dtype) == std::vector<double>{6, 5, 3});
    CHECK(reduced(ReduceOp::min, dtype) == std::vector<double>{2, 1, 3});
    if (dtype != DType::fp8_e5m2)  // 9 does not fit its two bits of mantissa
      CHECK(reduced(ReduceOp::prod, dtype) == std::vector<double>{12, 5, 9});
  }
}

TEST_CASE("NaN survives max and min from either side") {
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    std::vector<float> a = {NAN, 1};
    const std::vector<float> b = {1, NAN};
    reduce_into(a, b, op);
    CHECK(std::isnan(a[0]));
    CHECK(std::isnan(a[1]));
  }
}

TEST_CASE("chunks of 17 numbers over 4 ranks are 5, 4, 4, 4") {
  std::vector<int32_t> numbers(17);
  const Data all(numbers);
  CHECK(all.chunk(0, 4).count == 5);
  CHECK(all.chunk(3, 4).count == 4);
  CHECK(all.chunk(3, 4).bytes == all.bytes + 13 * 4);
  CHECK(chunk_count(17, 4, 0) == 5);
}

TEST_CASE("a chunk or a part that is not there is refused at the caller's line") {
  std::vector<int32_t> numbers(17);
  const Data all(numbers);
  const ConstData read = all;
  const auto expect_refused = [](const char* words, auto take) {
    try {
      take();
    } catch (const Error& error) {
      CAPTURE(error.what());
      CHECK(std::string(error.what()).find(words) != std::string::npos);
      CHECK(at(error.where()).starts_with("data_test.cpp"));
      return;
    }
    FAIL("not refused: " << words);
  };
  expect_refused("chunk -2 of 4: the chunks are 0 to 3; wrap(i, p)", [&] { all.chunk(-2, 4); });
  expect_refused("chunk 4 of 4", [&] { read.chunk(4, 4); });
  expect_refused("part 3 to 18 of 17 elements", [&] { all.part(3, 18); });
  expect_refused("part -1 to 2 of 17", [&] { read.part(-1, 2); });
  expect_refused("part 5 to 4 of 17", [&] { read.part(5, 4); });
  CHECK(all.part(17, 17).count == 0);
  CHECK(ConstData().chunk(1, 2).count == 0);
}

TEST_CASE("a sum over ranks becomes a mean") {
  std::vector<float> a = {6, 1};
  divide(a, 4);
  CHECK(a == std::vector<float>{1.5f, 0.25f});
  std::vector<int32_t> b = {7, -7};
  divide(b, 2);
  CHECK(b == std::vector<int32_t>{3, -3});
}
