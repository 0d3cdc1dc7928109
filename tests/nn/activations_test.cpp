#include "yotta/nn/activations.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double silu_of(double x) { return x / (1 + std::exp(-x)); }
}  // namespace

TEST_CASE("gelu and silu agree with their formulas and have the known values") {
  Tensor x = scale(random_tensor({501}, "x"), 3);
  const Tensor y = gelu(x), z = silu(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    CHECK(y.item({i}) == doctest::Approx(gelu_of(x.item({i}))).epsilon(1e-13));
    CHECK(z.item({i}) == doctest::Approx(silu_of(x.item({i}))).epsilon(1e-13));
  }
  const Tensor known = gelu(Tensor::from<float>({0, 1, -1, 2, 100, -100}, {6}));
  CHECK(known.item({0}) == 0);
  CHECK(known.item({1}) == doctest::Approx(0.841192).epsilon(1e-6));
  CHECK(known.item({2}) == doctest::Approx(-0.158808).epsilon(1e-6));
  CHECK(known.item({3}) == doctest::Approx(1.954598).epsilon(1e-6));
  CHECK(known.item({4}) == 100);
  CHECK(known.item({5}) == 0);
}

TEST_CASE("gradients of gelu, silu and swiglu") {
  Tensor x = scale(random_tensor({5, 9}, "x"), 2), up = random_tensor({5, 9}, "up");
  const Tensor dy = random_tensor({5, 9}, "dy");
  CHECK(gradient_mismatch(
            x, gelu_backward(dy, x), [&] { return dot(gelu(x), dy); }, 1e-9) == "");
  CHECK(gradient_mismatch(
            x, silu_backward(dy, x), [&] { return dot(silu(x), dy); }, 1e-9) == "");
  const SwigluGradients d = swiglu_backward(dy, x, up);
  const auto loss = [&] { return dot(swiglu(x, up), dy); };
  CHECK(gradient_mismatch(x, d.dgate, loss, 1e-9) == "");
  CHECK(gradient_mismatch(up, d.dup, loss, 1e-9) == "");
}

TEST_CASE("swiglu is silu times up") {
  const Tensor gate = random_tensor({4, 33}, "gate"), up = random_tensor({4, 33}, "up");
  CHECK(largest_difference(swiglu(gate, up), multiply(silu(gate), up)) <= 1e-15);
}

TEST_CASE("f32 agrees with f64 to its own precision") {
  const Tensor x = scale(random_tensor({1000}, "x"), 4), up = random_tensor({1000}, "up");
  const Tensor dy = random_tensor({1000}, "dy");
  const auto single = [](const Tensor& t) { return t.to(DType::f32); };
  CHECK(largest_difference(gelu(single(x)), gelu(x)) <= 1e-6);
  CHECK(largest_difference(silu(single(x)), silu(x)) <= 1e-6);
  CHECK(largest_difference(gelu_backward(single(dy), single(x)), gelu_backward(dy, x)) <= 3e-6);
  CHECK(largest_difference(silu_backward(single(dy), single(x)), silu_backward(dy, x)) <= 3e-6);
  CHECK(largest_difference(swiglu_backward(single(dy), single(x), single(up)).dgate,
                           swiglu_backward(dy, x, up).dgate) <= 3e-6);
}

TEST_CASE("a NaN that goes in comes out, and only there") {
  Tensor x = Tensor::full({20}, 1);
  x.data<float>()[17] = std::nanf("");
  const std::vector<double> y = gelu(x).values(), z = silu_backward(x, x).values();
  for (size_t i = 0; i < 20; ++i) {
    CHECK(std::isnan(y[i]) == (i == 17));
    CHECK(std::isnan(z[i]) == (i == 17));
  }
}

TEST_CASE("activations: errors, cost, meta and threads") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({2, 4});
  CHECK(contains(message_of([&] { swiglu(a, b); }), "swiglu: gate is (2, 3) f32 and up is (2, 4)"));
  CHECK(contains(message_of([&] { gelu_backward(b, a); }), "gelu_backward: dy is (2, 4) f32"));
  CHECK(contains(message_of([&] { gelu_backward(b, a); }), "activations_test.cpp:"));

  const Tensor x = random_tensor({60013}, "x", DType::f32);
  CHECK(same_for_all_threads([&] { return gelu(x); }));
  CHECK(same_for_all_threads([&] { return swiglu_backward(x, x, x).dgate; }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({10, 10});
  CHECK(swiglu_backward(m, m, m).dup.shape() == Shape{10, 10});
  gelu(m);
  CHECK(self.ledger.op("gelu").calls == 1);
  CHECK(self.ledger.op("gelu").flops == 900);
  CHECK(self.ledger.op("gelu").bytes_read == 400);
  CHECK(self.ledger.op("swiglu_backward").bytes_written == 800);
}
