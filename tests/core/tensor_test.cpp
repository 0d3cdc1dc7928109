#include "yotta/core/tensor.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("sizes that multiply to more than any memory holds are refused, and do not wrap round") {
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const Shape& shape :
       {Shape{most, 2}, Shape{int64_t{1} << 32, int64_t{1} << 32}, Shape{most}})
    CHECK(
        contains(message_of([&] { Tensor::empty(shape); }), "more numbers than any memory holds"));
  CHECK(product({int64_t{1} << 30, int64_t{1} << 29}) == int64_t{1} << 59);
}

TEST_CASE("a tensor is filled, read and described") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.numel() == 6);
  CHECK(x.nbytes() == 24);
  CHECK(x.dim(-1) == 3);
  CHECK(x.item({1, 2}) == 6);
  CHECK(x.describe() == "(2, 3) f32");
  CHECK(Tensor::full({2}, 1.5, DType::bf16).values() == std::vector<double>{1.5, 1.5});
  CHECK(Tensor::zeros({}, DType::i64).item() == 0);
}

TEST_CASE("rows and reshape are views of the same memory, clone is not") {
  Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  Tensor middle = x.rows(1, 2);
  Tensor flat = middle.reshape({-1});
  flat.data<float>()[0] = 30;
  CHECK(x.item({1, 0}) == 30);
  CHECK(middle.shares_memory(x));
  Tensor copy = x.clone();
  copy.fill(0);
  CHECK(x.item({1, 0}) == 30);
  CHECK_FALSE(copy.shares_memory(x));
  CHECK(x.rows(3, 3).numel() == 0);
}

TEST_CASE("conversion goes through every pair of types") {
  const DType all[] = {DType::f64,      DType::f32, DType::bf16, DType::f16, DType::fp8_e5m2,
                       DType::fp8_e4m3, DType::i64, DType::i32,  DType::u8};
  for (const DType from : all)
    for (const DType to : all)
      CHECK(Tensor::full({3}, 2, from).to(to).values() == std::vector<double>{2, 2, 2});
}

TEST_CASE("wrong use names the shapes and the caller's line") {
  const Tensor x = Tensor::zeros({2, 3});
  CHECK(contains(message_of([&] { x.reshape({4}); }), "(2, 3) f32 has 6 elements"));
  CHECK(contains(message_of([&] { x.reshape({4}); }), "tensor_test.cpp:"));
  CHECK(contains(message_of([&] { x.rows(1, 3); }), "rows 1 to 3 of a tensor (2, 3) f32"));
  CHECK(contains(message_of([&] { x.data<double>(); }), "was read as f64"));
  CHECK(contains(message_of([&] { x.item({2, 0}); }), "index 2 is outside"));
  CHECK(contains(message_of([&] { x.dim(2); }), "dim 2 of a tensor"));
  CHECK(contains(message_of([&] { Tensor().data<float>(); }), "holds nothing"));
  CHECK(contains(message_of([&] { Tensor::from<float>({1, 2}, {3}); }), "2 values do not fill"));
  CHECK(contains(message_of([&] { Tensor::zeros({-1}); }), "negative size"));
  CHECK(contains(message_of([&] { Tensor::zeros({2}).copy_from(x); }), "shapes must agree"));
  CHECK(contains(message_of([&] { expect_shape("gelu", "x", x, {3, 2}); }), "expected (3, 2)"));
}

TEST_CASE("a meta tensor has a shape and is counted, but has no data") {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const Tensor huge = Tensor::zeros({1 << 20, 1 << 20});
  CHECK(rank.ledger.memory()->live() == int64_t{4} << 40);
  CHECK(huge.rows(0, 2).reshape({1 << 21}).numel() == 1 << 21);
  CHECK(huge.clone().device() == Device::meta);
  CHECK(contains(message_of([&] { huge.data<float>(); }), "no data"));
}

TEST_CASE("memory is counted by kind, live and peak, also when it outlives its rank") {
  Tensor survivor;
  std::shared_ptr<MemoryCount> memory;
  {
    RankContext rank;
    const ContextScope scope(rank);
    memory = rank.ledger.memory();
    {
      const MemoryScope gradients(MemoryKind::gradients);
      survivor = Tensor::zeros({10});
    }
    { const Tensor passing = Tensor::zeros({100}); }
    CHECK(memory->live(MemoryKind::gradients) == 40);
    CHECK(memory->live(MemoryKind::activations) == 0);
    CHECK(memory->peak(MemoryKind::activations) == 400);
    CHECK(memory->peak() == 440);
    rank.ledger.reset();
    CHECK(memory->peak() == 40);
  }
  survivor = Tensor();
  CHECK(memory->live() == 0);
}

TEST_CASE("indices of a scalar, an empty tensor and a copy of nothing") {
  CHECK(Tensor::zeros({0, 3}).numel() == 0);
  CHECK(Tensor::zeros({0, 3}).reshape({3, 0}).dim(0) == 3);
  CHECK(Tensor().numel() == 0);
  CHECK_FALSE(Tensor().defined());
}
