#include "yotta/core/cpu/convert.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;

TEST_CASE("numbers of any type become numbers of any other") {
  const std::vector<DType> types = {DType::f64, DType::f32,      DType::bf16,
                                    DType::f16, DType::fp8_e5m2, DType::fp8_e4m3,
                                    DType::i64, DType::i32,      DType::u8};
  for (const DType from : types)
    for (const DType to : types)
      for (const int64_t n : {0, 1, 255, 256, 600}) {  // across the blocks of 256
        std::vector<int64_t> source(static_cast<size_t>(n)), target(source.size());  // wide enough
        std::vector<double> values(source.size()), back(source.size());
        for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = static_cast<double>(i % 9);
        convert(source.data(), from, values.data(), DType::f64, n);
        convert(target.data(), to, source.data(), from, n);
        convert(back.data(), DType::f64, target.data(), to, n);
        CAPTURE(name(from));
        CAPTURE(name(to));
        CHECK(back == values);
      }
}

TEST_CASE("f32 to bf16 rounds to nearest, ties to even") {
  const float from[] = {1.00390625f, 1.01171875f, 3.3895314e38f};
  bfloat16 to[3];
  convert(to, DType::bf16, from, DType::f32, 3);
  CHECK(static_cast<float>(to[0]) == 1.0f);
  CHECK(static_cast<float>(to[1]) == 1.015625f);
  CHECK(to[2].bits == 0x7f7f);
  bfloat16 body[3];
  const Conversion<bfloat16, float> conversion{body, from};
  for (int i = 0; i < 3; ++i) conversion(i, OneLane{});
  CHECK(body[1].bits == to[1].bits);
}
