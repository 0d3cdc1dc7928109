#include "yotta/nn/load_balance.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("the load of some assignments") {
  const Tensor expert = Tensor::from<int32_t>({1, 2, 0, 1, 1, 0}, {3, 2});
  CHECK(expert_counts(expert, 4).values() == std::vector<double>{2, 3, 1, 0});
  CHECK(expert_counts(Tensor::empty({0, 2}, DType::i32), 2).values() == std::vector<double>{0, 0});
}

TEST_CASE("the balance loss: alpha when all is even, E alpha / k when all goes to k of E") {
  const Tensor even = Tensor::from<double>({2, 2, 2, 2, 4}, {5});
  const Tensor scores = Tensor::full({4, 4}, 0.25, DType::f64);
  CHECK(balance_loss(0.5, even, 2, scores) == doctest::Approx(0.5).epsilon(1e-14));
  const Tensor one = Tensor::from<double>({0, 4, 0, 0, 4}, {5});
  const Tensor sure =
      Tensor::from<double>({0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}, {4, 4});
  CHECK(balance_loss(0.5, one, 1, sure) == doctest::Approx(2).epsilon(1e-14));
  // Switch, equation 4, by hand: f = 3/4, 1/4; P = .6, .4: 2 (.45 + .1) = 1.1.
  const Tensor load = Tensor::from<double>({3, 1, 4}, {3});
  const Tensor two = Tensor::from<double>({.9, .1, .8, .2, .6, .4, .1, .9}, {4, 2});
  CHECK(balance_loss(1, load, 1, two) == doctest::Approx(1.1).epsilon(1e-14));
  // Sigmoid scores are divided by their sum.
  const Tensor doubled = Tensor::from<double>({1.8, .2, .8, .2, 1.2, .8, .05, .45}, {4, 2});
  CHECK(balance_loss(1, load, 1, doubled) == doctest::Approx(1.1).epsilon(1e-14));
  CHECK(contains(message_of([&] { balance_loss(1, load, 1, scores); }),
                 "balance_loss: load is (3) f64, expected (5)"));
}

TEST_CASE("microbatches whose loads are added up have the balance loss of their batch") {
  const Tensor whole = Tensor::from<double>({.9, .1, .8, .2, .6, .4, .1, .9}, {4, 2});
  const Tensor first = Tensor::from<double>({2, 0, 2}, {3}),
               last = Tensor::from<double>({1, 1, 2}, {3});
  BatchLoads loads;
  loads.keep("router", 0, Tensor::full({3}, 9, DType::f64));
  loads.keep("router", 0, first);  // forward runs again
  loads.keep("router", 2, last);
  loads.keep("other", 0, Tensor::full({3}, 9, DType::f64));
  const Tensor load = loads.sum("router");
  CHECK(load.values() == std::vector<double>{3, 1, 4});
  const auto half = [&](int64_t begin, const Tensor& of) {  // its part of the mean over all tokens
    return balance_loss(1, of, 1, whole.rows(begin, begin + 2)) * of.item({2}) / 4;
  };
  CHECK(half(0, load) + half(2, load) == doctest::Approx(1.1).epsilon(1e-14));
  CHECK(half(0, first) + half(2, last) == doctest::Approx(1.35).epsilon(1e-14));  // each its own
  CHECK(contains(message_of([&] { loads.sum("third"); }), "third: no forward pass has left"));
}

TEST_CASE("the z-loss is the mean square of log sum of e^logit") {
  const Tensor logits = Tensor::from<double>({0, 0, 1000, 1000}, {2, 2});
  const double a = std::log(2.0), b = 1000 + a;
  CHECK(z_loss(3, logits) == doctest::Approx(1.5 * (a * a + b * b)).epsilon(1e-14));
}

TEST_CASE("the bias moves a step towards the mean load, whatever the distance, and uses it up") {
  const ParameterPtr bias =
      make_parameter("layers.0.mlp.router.bias", {1, 4}, false, zeros(), 0, DType::f64);
  CHECK(is_router_bias(*bias));
  CHECK_FALSE(is_router_bias(
      *make_parameter("layers.0.mlp.router.weight", {1, 4}, true, zeros(), 0, DType::f64)));
  const Tensor expert = Tensor::from<int32_t>({0, 0, 0, 0, 0, 1, 1, 3}, {4, 2});
  bias->gradient().copy_from(load_above_mean(expert, 4));
  CHECK(bias->grad.values() == std::vector<double>{12, 0, -8, -4});
  RouterBiases biases(0.125);
  biases.take({bias});
  CHECK(bias->value.values() == std::vector<double>{0, 0, 0, 0});  // until the step is taken
  biases.step();
  CHECK(bias->value.values() == std::vector<double>{-0.125, 0, 0.125, 0.125});
  CHECK(bias->grad.values() == std::vector<double>{0, 0, 0, 0});
}
