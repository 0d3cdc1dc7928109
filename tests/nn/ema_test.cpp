#include "yotta/nn/ema.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
ParameterPtr weight(DType dtype) { return make_parameter("w", {1, 3}, false, ones(), 0, dtype); }
}  // namespace

TEST_CASE("the average follows the formula, and starts with a small decay") {
  const ParameterPtr w = weight(DType::f64);
  Sgd sgd({w});
  Ema ema(sgd.slots(), 0.9);
  double expected = 1;
  for (int64_t step = 1; step <= 200; ++step) {
    w->value.fill(static_cast<double>(step));
    ema.after_step(step);
    const auto t = static_cast<double>(step);
    const double d = std::min(0.9, (1 + t) / (10 + t));
    expected = d * expected + (1 - d) * t;
    CHECK(std::abs(ema.averages()[0].item({2}) - expected) <= 1e-9);
  }
  CHECK(std::abs(expected - (200 - 9)) < 1e-3);  // 0.9 looks back over 10 steps
}

TEST_CASE("to exchange twice changes nothing; once, the averages are the weights") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ParameterPtr w = weight(dtype);
    Sgd sgd({w});
    Ema ema(sgd.slots(), 0.5);
    sgd.slots()[0].weight().fill(3);
    w->value.fill(3);
    ema.after_step(1);  // d = 2/11
    const double average = ema.averages()[0].item({0});
    CHECK(std::abs(average - (2.0 + 27.0) / 11) < 1e-6);
    ema.exchange();
    CHECK(sgd.slots()[0].weight().item({1}) == average);
    CHECK(std::abs(w->value.item({1}) - average) < 0.01);
    ema.exchange();
    CHECK(w->value.item({1}) == 3);
    CHECK(ema.averages()[0].item({0}) == average);
  }
}

TEST_CASE("decays that are none are refused") {
  Sgd sgd({weight(DType::f32)});
  for (const double wrong : {1.0, -0.1, std::nan("")})
    CHECK(contains(message_of([&] { Ema(sgd.slots(), wrong); }), "a decay of"));
}
