#include "yotta/nn/softmax.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "yotta/nn/elementwise.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("softmax agrees with its formula, rows sum to one") {
  for (const int64_t C : {1, 2, 15, 16, 17, 100}) {
    const Tensor x = scale(random_tensor({3, C}, "x"), 3), y = softmax(x);
    for (int64_t n = 0; n < 3; ++n) {
      double sum = 0, total = 0;
      for (int64_t c = 0; c < C; ++c) sum += std::exp(x.item({n, c}));
      for (int64_t c = 0; c < C; ++c) {
        CHECK(y.item({n, c}) == doctest::Approx(std::exp(x.item({n, c})) / sum).epsilon(1e-13));
        total += y.item({n, c});
      }
      CHECK(total == doctest::Approx(1).epsilon(1e-13));
    }
  }
}

TEST_CASE("a shift of all scores changes nothing, however large") {
  const Tensor x = Tensor::from<float>({0, 1, 2, 3}, {1, 4});
  const Tensor far = add(x, Tensor::full({1, 4}, 4096));
  CHECK(same_bits(softmax(far), softmax(x)));
  CHECK(largest_difference(softmax(add(x, Tensor::full({1, 4}, -1e4))), softmax(x)) <= 1e-6);
}

TEST_CASE("minus infinity has no probability, NaN spoils its row only") {
  Tensor x = Tensor::from<float>({1, -INFINITY, 1, 1, 2, std::nanf("")}, {2, 3});
  const Tensor y = softmax(x);
  CHECK(y.item({0, 0}) == 0.5);
  CHECK(y.item({0, 1}) == 0);
  for (int64_t c = 0; c < 3; ++c) CHECK(std::isnan(y.item({1, c})));
}

TEST_CASE("the gradient of softmax") {
  Tensor x = random_tensor({4, 19}, "x");
  const Tensor dy = random_tensor({4, 19}, "dy");
  const Tensor dx = softmax_backward(dy, softmax(x));
  CHECK(gradient_mismatch(
            x, dx, [&] { return dot(softmax(x), dy); }, 1e-9) == "");
}

TEST_CASE("softmax: f32, errors, cost, meta and threads") {
  const Tensor x = scale(random_tensor({4, 300}, "x"), 5), dy = random_tensor({4, 300}, "dy");
  const Tensor narrow = softmax(x.to(DType::f32));
  CHECK(largest_difference(narrow, softmax(x)) <= 1e-6);
  CHECK(largest_difference(softmax_backward(dy.to(DType::f32), narrow),
                           softmax_backward(dy, softmax(x))) <= 1e-5);
  CHECK(contains(message_of([&] { softmax(Tensor::zeros({3})); }),
                 "softmax: x is (3) f32, expected (N, C)"));
  CHECK(contains(message_of([&] {
                   softmax_backward(x, Tensor::zeros({4, 2}));
                 }),
                 "softmax_backward: dy is (4, 300) f64 and y is (4, 2) f32"));
  CHECK(contains(message_of([&] { softmax(Tensor::zeros({3})); }), "softmax_test.cpp:"));

  const Tensor big = random_tensor({203, 300}, "big", DType::f32);
  CHECK(same_for_all_threads([&] { return softmax(big); }));
  CHECK(same_for_all_threads([&] { return softmax_backward(big, big); }));

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({10, 8});
  CHECK(softmax(m).shape() == Shape{10, 8});
  CHECK(softmax_backward(m, m).shape() == Shape{10, 8});
  CHECK(self.ledger.op("softmax").flops == 400);
  CHECK(self.ledger.op("softmax_backward").bytes_read == 640);
}
