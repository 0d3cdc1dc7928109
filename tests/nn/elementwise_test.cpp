#include "yotta/nn/elementwise.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("add, multiply and scale do what their names say, for every length of the last vector") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (int64_t n = 0; n <= 40; ++n) {
      const Tensor a = random_tensor({n}, "a", dtype), b = random_tensor({n}, "b", dtype);
      const Tensor sum = add(a, b), product = multiply(a, b), half = scale(a, 0.5);
      Tensor into = a.clone();
      add_into(into, b);
      CHECK(same_bits(into, sum));
      for (int64_t i = 0; i < n; ++i) {
        const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-15;
        CHECK(sum.item({i}) == doctest::Approx(a.item({i}) + b.item({i})).epsilon(tolerance));
        CHECK(product.item({i}) == doctest::Approx(a.item({i}) * b.item({i})).epsilon(tolerance));
        CHECK(half.item({i}) == a.item({i}) / 2);
      }
    }
}

TEST_CASE("the gradients of add, multiply and scale") {
  Tensor a = random_tensor({3, 7}, "a"), b = random_tensor({3, 7}, "b");
  const Tensor dy = random_tensor({3, 7}, "dy");
  CHECK(gradient_mismatch(a, dy, [&] { return dot(add(a, b), dy); }) == "");
  CHECK(gradient_mismatch(a, multiply(dy, b), [&] { return dot(multiply(a, b), dy); }) == "");
  CHECK(gradient_mismatch(b, multiply(dy, a), [&] { return dot(multiply(a, b), dy); }) == "");
  CHECK(gradient_mismatch(a, scale(dy, -3), [&] { return dot(scale(a, -3), dy); }) == "");
}

TEST_CASE("wrong shapes and types name the operation, both tensors and the caller's line") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  const std::string text = message_of([&] { add(a, b); });
  CHECK(contains(text, "elementwise_test.cpp:"));
  CHECK(contains(text, "add: a is (2, 3) f32 and b is (3, 2) f32"));
  CHECK(contains(message_of([&] { multiply(a, a.to(DType::f64)); }), "multiply: a is (2, 3) f32"));
  CHECK(contains(message_of([&] { scale(a.to(DType::bf16), 2); }), "computes in f32 or f64"));
}

TEST_CASE("each op is charged once, on meta too") {
  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor a = Tensor::empty({5, 7}), b = Tensor::empty({5, 7});
  CHECK(add(a, b).shape() == Shape{5, 7});
  CHECK(multiply(a, b).device() == Device::meta);
  scale(a, 2);
  CHECK(self.ledger.op("add").calls == 1);
  CHECK(self.ledger.op("add").flops == 35);
  CHECK(self.ledger.op("add").bytes_read == 2 * 35 * 4);
  CHECK(self.ledger.op("multiply").bytes_written == 35 * 4);
  CHECK(self.ledger.op("scale").bytes_read == 35 * 4);
}

TEST_CASE("the number of threads does not change a bit") {
  const Tensor a = random_tensor({70001}, "a", DType::f32),
               b = random_tensor({70001}, "b", DType::f32);
  CHECK(same_for_all_threads([&] { return add(a, b); }));
  CHECK(same_for_all_threads([&] { return multiply(a, b); }));
}
