#include "yotta/nn/norm.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/nn/elementwise.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("layernorm gives each row mean 0 and variance 1") {
  for (const int64_t C : {1, 2, 7, 16, 33, 100}) {
    const Tensor x = scale(random_tensor({5, C}, "x"), 10);
    const LayernormOutput out =
        layernorm(x, Tensor::full({C}, 1, DType::f64), Tensor::zeros({C}, DType::f64), 1e-12);
    for (int64_t n = 0; n < 5; ++n) {
      double mean = 0, square = 0;
      for (int64_t c = 0; c < C; ++c) mean += out.y.item({n, c}) / static_cast<double>(C);
      for (int64_t c = 0; c < C; ++c)
        square += out.y.item({n, c}) * out.y.item({n, c}) / static_cast<double>(C);
      CHECK(std::abs(mean) <= 1e-10);
      CHECK(square == doctest::Approx(C == 1 ? 0 : 1).epsilon(1e-9));
    }
  }
}

TEST_CASE("known values: layernorm and rmsnorm of 1 2 3 4") {
  const Tensor x = Tensor::from<double>({1, 2, 3, 4}, {1, 4});
  const Tensor w = Tensor::from<double>({1, 1, 2, 1}, {4});
  const Tensor b = Tensor::from<double>({0, 0, 0, 10}, {4});
  const LayernormOutput layer = layernorm(x, w, b, 0);
  CHECK(layer.mean.item({0}) == 2.5);
  CHECK(layer.rstd.item({0}) == doctest::Approx(1 / std::sqrt(1.25)));
  CHECK(layer.y.item({0, 0}) == doctest::Approx(-1.5 / std::sqrt(1.25)));
  CHECK(layer.y.item({0, 2}) == doctest::Approx(2 * 0.5 / std::sqrt(1.25)));
  CHECK(layer.y.item({0, 3}) == doctest::Approx(10 + 1.5 / std::sqrt(1.25)));
  const RmsnormOutput rms = rmsnorm(x, w, 0.5);
  CHECK(rms.y.item({0, 2}) == doctest::Approx(2 * 3 / std::sqrt(8.0)));
}

TEST_CASE("gradients of layernorm") {
  for (const int64_t C : {3, 17}) {
    Tensor x = random_tensor({4, C}, "x"), w = random_tensor({C}, "w"), b = random_tensor({C}, "b");
    const Tensor dy = random_tensor({4, C}, "dy");
    const double eps = 0.1;  // large, so that forgetting it would show
    const auto loss = [&] { return dot(layernorm(x, w, b, eps).y, dy); };
    const LayernormOutput out = layernorm(x, w, b, eps);
    Tensor dw = Tensor::zeros({C}, DType::f64), db = Tensor::zeros({C}, DType::f64);
    layernorm_backward_weight(dy, x, out.mean, out.rstd, dw, db);
    CHECK(gradient_mismatch(x, layernorm_backward_input(dy, x, w, out.mean, out.rstd), loss) == "");
    CHECK(gradient_mismatch(w, dw, loss) == "");
    CHECK(gradient_mismatch(b, db, loss) == "");
    layernorm_backward_weight(dy, x, out.mean, out.rstd, dw, db);
    CHECK(gradient_mismatch(w, scale(dw, 0.5), loss) == "");  // it accumulates
  }
}

TEST_CASE("gradients of rmsnorm") {
  for (const int64_t C : {3, 17}) {
    Tensor x = random_tensor({4, C}, "x"), w = random_tensor({C}, "w");
    const Tensor dy = random_tensor({4, C}, "dy");
    const auto loss = [&] { return dot(rmsnorm(x, w, 0.1).y, dy); };
    const RmsnormOutput out = rmsnorm(x, w, 0.1);
    Tensor dw = Tensor::zeros({C}, DType::f64);
    rmsnorm_backward_weight(dy, x, out.rstd, dw);
    CHECK(gradient_mismatch(x, rmsnorm_backward_input(dy, x, w, out.rstd), loss) == "");
    CHECK(gradient_mismatch(w, dw, loss) == "");
    rmsnorm_backward_weight(dy, x, out.rstd, dw);
    CHECK(gradient_mismatch(w, scale(dw, 0.5), loss) == "");
  }
}

TEST_CASE("layernorm does not change when a row is shifted and scaled; rmsnorm when it is scaled") {
  const Tensor x = random_tensor({3, 20}, "x"), w = random_tensor({20}, "w");
  const Tensor b = random_tensor({20}, "b");
  const Tensor shifted = add(scale(x, 3), Tensor::full({3, 20}, 5, DType::f64));
  CHECK(largest_difference(layernorm(shifted, w, b, 0).y, layernorm(x, w, b, 0).y) <= 1e-12);
  CHECK(largest_difference(rmsnorm(scale(x, 3), w, 0).y, rmsnorm(x, w, 0).y) <= 1e-12);
}

TEST_CASE("f32 agrees with f64, far from zero too") {
  const Tensor x = add(random_tensor({6, 384}, "x"), Tensor::full({6, 384}, 20, DType::f64));
  const Tensor w = random_tensor({384}, "w"), b = random_tensor({384}, "b");
  const Tensor dy = random_tensor({6, 384}, "dy");
  const auto single = [](const Tensor& t) { return t.to(DType::f32); };
  const LayernormOutput wide = layernorm(x, w, b),
                        narrow = layernorm(single(x), single(w), single(b));
  CHECK(largest_difference(narrow.y, wide.y) <= 1e-5);
  CHECK(largest_difference(
            layernorm_backward_input(single(dy), single(x), single(w), narrow.mean, narrow.rstd),
            layernorm_backward_input(dy, x, w, wide.mean, wide.rstd)) <= 1e-5);
}

TEST_CASE("norms: errors, cost, meta and threads") {
  const Tensor x = Tensor::zeros({2, 3}), w = Tensor::zeros({4}), b = Tensor::zeros({3});
  CHECK(contains(message_of([&] { layernorm(x, w, b); }),
                 "layernorm: weight is (4) f32, expected (3)"));
  CHECK(contains(message_of([&] { rmsnorm(w, w); }), "rmsnorm: x is (4) f32, expected (N, C)"));
  CHECK(contains(message_of([&] { rmsnorm(x, w); }), "norm_test.cpp:"));

  const Tensor big = random_tensor({301, 300}, "big", DType::f32);
  const Tensor ones = Tensor::full({300}, 1), zeros = Tensor::zeros({300});
  const LayernormOutput out = layernorm(big, ones, zeros);
  CHECK(same_for_all_threads([&] { return layernorm(big, ones, zeros).y; }));
  CHECK(same_for_all_threads(
      [&] { return layernorm_backward_input(big, big, ones, out.mean, out.rstd); }));
  CHECK(same_for_all_threads([&] {
    Tensor dw = Tensor::zeros({300}), db = Tensor::zeros({300});
    layernorm_backward_weight(big, big, out.mean, out.rstd, dw, db);
    add_into(dw, db);
    return dw;
  }));
  CHECK(layernorm(Tensor::zeros({0, 3}), b, b).y.shape() == Shape{0, 3});

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({10, 8}), c = Tensor::empty({8}), r = Tensor::empty({10});
  CHECK(layernorm(m, c, c).mean.shape() == Shape{10});
  CHECK(rmsnorm_backward_input(m, m, c, r).shape() == Shape{10, 8});
  CHECK(self.ledger.op("layernorm").flops == 8 * 80);
  CHECK(self.ledger.op("layernorm").bytes_read == 4 * (80 + 16));
  CHECK(self.ledger.op("layernorm").bytes_written == 4 * (80 + 20));
}
