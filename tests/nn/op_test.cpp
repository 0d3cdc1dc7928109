#include "yotta/nn/op.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a result is made beside its input: same device, whatever the context says") {
  Tensor cpu = Tensor::zeros({2, 3}, DType::f64), meta;
  {
    const DeviceScope scope(Device::meta);
    meta = Tensor::zeros({2, 3});
    CHECK(empty_like(cpu, Where::current()).device() == Device::cpu);
    CHECK(zeros_like(cpu, Where::current()).values() == std::vector<double>(6));
  }
  CHECK(empty_like(meta, Where::current()).device() == Device::meta);
  const Tensor other = empty_beside(cpu, {4}, DType::i32, Where::current());
  CHECK(other.shape() == Shape{4});
  CHECK(other.dtype() == DType::i32);
}

TEST_CASE("wrong operands are named with the operation, both shapes and the caller's line") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  const Tensor c = Tensor::zeros({2, 3}, DType::f64);
  const auto same = [&](const Tensor& x) {
    return message_of([&] { expect_same("add", "a", a, "b", x, Where::current()); });
  };
  CHECK(contains(same(b), "add: a is (2, 3) f32 and b is (3, 2) f32"));
  CHECK(contains(same(c), "b is (2, 3) f64"));
  CHECK(contains(same(b), "op_test.cpp:"));
  CHECK(same(a) == "nothing was thrown");
  CHECK(contains(
      message_of([&] { expect_dtype("embedding", "ids", a, DType::i32, Where::current()); }),
      "embedding: ids is (2, 3) f32, expected i32"));
  CHECK(contains(
      message_of([&] { expect_dims("softmax", "x", a, 3, "(B, T, C)", Where::current()); }),
      "softmax: x is (2, 3) f32, expected (B, T, C)"));
}

TEST_CASE("costs count FLOPs once and bytes by the type's width") {
  constexpr OpCost cost = elementwise_cost("gelu", DType::bf16, 100, 8, 2, 1);
  CHECK(cost.flops == 800);
  CHECK(cost.bytes_read == 400);
  CHECK(cost.bytes_written == 200);
  CHECK(op_cost("sum", DType::f64, 7, 3, 1).bytes_read == 24);
}

TEST_CASE("rows for a thread: enough work each, at least one") {
  CHECK(rows_per_thread(1) == elements_per_thread);
  CHECK(rows_per_thread(0) == elements_per_thread);
  CHECK(rows_per_thread(10 * elements_per_thread) == 1);
}
