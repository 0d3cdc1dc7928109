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
  CHECK(contains(message_of([&] { scale(a.to(DType::f16), 2); }), "computes in f32 or f64"));
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

TEST_CASE("add_bias adds to every row, bias_backward sums every column, added to what is there") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor bias = Tensor::from<float>({10, 20}, {2});
  CHECK(add_bias(x, bias).values() == std::vector<double>{11, 22, 13, 24, 15, 26});
  Tensor dbias = Tensor::full({2}, 100);
  bias_backward(x, dbias);
  CHECK(dbias.values() == std::vector<double>{109, 112});
}

TEST_CASE("column sums for sizes around the vector and the group of rows") {
  for (const int64_t N : {0, 1, 31, 32, 33, 100})
    for (const int64_t C : {0, 1, 15, 16, 17, 70}) {
      const Tensor dy = random_tensor({N, C}, "dy");
      Tensor dbias = Tensor::zeros({C}, DType::f64);
      bias_backward(dy, dbias);
      for (int64_t c = 0; c < C; ++c) {
        double sum = 0;
        for (int64_t n = 0; n < N; ++n) sum += dy.item({n, c});
        CHECK(dbias.item({c}) == doctest::Approx(sum).epsilon(1e-12));
      }
    }
}

TEST_CASE("the gradient of add_bias") {
  const Tensor x = random_tensor({5, 19}, "x"), dy = random_tensor({5, 19}, "dy");
  Tensor bias = random_tensor({19}, "bias"), dbias = Tensor::zeros({19}, DType::f64);
  bias_backward(dy, dbias);
  CHECK(gradient_mismatch(bias, dbias, [&] { return dot(add_bias(x, bias), dy); }) == "");
}

TEST_CASE("columns: errors, cost, meta and threads") {
  const Tensor x = Tensor::zeros({2, 3});
  Tensor wrong = Tensor::zeros({2});
  CHECK(
      contains(message_of([&] { add_bias(x, wrong); }), "add_bias: bias is (2) f32, expected (3)"));
  CHECK(contains(message_of([&] { bias_backward(x, wrong); }), "elementwise_test.cpp:"));

  const Tensor big = random_tensor({257, 401}, "big", DType::f32);
  CHECK(same_for_all_threads([&] {
    Tensor sum = Tensor::zeros({401});
    bias_backward(big, sum);
    return sum;
  }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  Tensor m = Tensor::empty({10, 8}), c = Tensor::empty({8});
  CHECK(add_bias(m, c).shape() == Shape{10, 8});
  bias_backward(m, c);
  CHECK(self.ledger.op("add_bias").bytes_read == 4 * 88);
  CHECK(self.ledger.op("bias_backward").flops == 80);
  CHECK(self.ledger.op("bias_backward").bytes_written == 4 * 8);
}
