#include "yotta/nn/router.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/layer_check.hpp"
#include "yotta/nn/elementwise.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

RouterOptions options(int64_t E, int64_t k, RouterScore score = RouterScore::softmax) {
  return {.width = 5, .experts = E, .top_k = k, .score = score, .initial = normal(1)};
}

std::vector<ParameterPtr> parameters_of(Router& router) {
  std::vector<ParameterPtr> all;
  router.add_parameters(all);
  return all;
}

// A router whose logits are the numbers of x.
std::unique_ptr<Router> direct(RouterOptions o) {
  o.width = o.experts;
  auto router = std::make_unique<Router>("router", o, ParameterOptions{0, DType::f64});
  Tensor& weight = parameters_of(*router)[0]->value;
  weight.zero();
  for (int64_t e = 0; e < o.experts; ++e) weight.data<double>()[e * o.experts + e] = 1;
  return router;
}

std::vector<int32_t> ids(const Tensor& expert) {
  const auto span = expert.span<int32_t>();
  return {span.begin(), span.end()};
}

// The scores of a row of logits as plain loops.
std::vector<double> naive_scores(const std::vector<double>& z, RouterScore score) {
  std::vector<double> s;
  double sum = 0;
  for (const double each : z) sum += std::exp(each);
  for (const double each : z)
    s.push_back(score == RouterScore::softmax ? std::exp(each) / sum : 1 / (1 + std::exp(-each)));
  return s;
}

}  // namespace

TEST_CASE("a token goes to its k best experts, with weights that sum to one") {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const bool renormalise : {true, false}) {
      RouterOptions o = options(4, 2, score);
      o.renormalise = renormalise;
      const auto made = direct(o);
      Router& router = *made;
      const std::vector<double> z = {0.5, 2, -1, 1.5};
      Saved saved;
      const Routing to = router.route(Tensor::from<double>(z, {1, 4}), saved);
      const std::vector<double> s = naive_scores(z, score);
      const double sum = renormalise ? s[1] + s[3] : 1;
      CHECK(ids(to.expert) == std::vector<int32_t>{1, 3});
      CHECK(to.weight.item({0, 0}) == doctest::Approx(s[1] / sum).epsilon(1e-14));
      CHECK(to.weight.item({0, 1}) == doctest::Approx(s[3] / sum).epsilon(1e-14));
      CHECK(router.load(saved).values() == std::vector<double>{0, 1, 0, 1, 1});
    }
}

TEST_CASE("equal scores: the expert with the lower number is chosen") {
  const auto made = direct(options(5, 3));
  Router& router = *made;
  const Tensor x = Tensor::from<double>({1, 1, 1, 1, 1, 0, 2, 2, 0, 2}, {2, 5});
  Saved saved;
  const Routing to = router.route(x, saved);
  CHECK(ids(to.expert) == std::vector<int32_t>{0, 1, 2, 1, 2, 4});
}

TEST_CASE("a bias changes who is chosen, and not the weight") {
  RouterOptions o = options(3, 1, RouterScore::sigmoid);
  o.renormalise = false, o.bias_rate = 0.5;
  const auto made = direct(o);
  Router& router = *made;
  const ParameterPtr bias = parameters_of(router)[1];
  CHECK(bias->name == "router.bias");
  CHECK_FALSE(bias->is_matrix);
  bias->value.copy_from(Tensor::from<double>({-1, 0.25, 0}, {3}));
  Saved saved;
  const Routing to = router.route(Tensor::from<double>({3, 1, 0}, {1, 3}), saved);
  CHECK(ids(to.expert) == std::vector<int32_t>{1});
  CHECK(to.weight.item({0, 0}) == doctest::Approx(1 / (1 + std::exp(-1.0))).epsilon(1e-14));
}

// loss = sum of weight * dy + both losses, against differences; the choice must not change on the
// way, so the scores are kept apart by the seed.
TEST_CASE("gradients of the router: both scores, k 1, 2, 4, with and without each loss") {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const int64_t k : {1, 2, 4})
      for (const bool renormalise : {true, false})
        for (const auto& [alpha, beta] :
             {std::pair{0.0, 0.0}, std::pair{0.7, 0.0}, std::pair{0.0, 0.3}, std::pair{0.7, 0.3}}) {
          CAPTURE(k);
          CAPTURE(alpha);
          RouterOptions o = options(4, k, score);
          o.renormalise = renormalise, o.balance_loss = alpha, o.z_loss = beta;
          Router router("router", o, {3, DType::f64});
          const ParameterPtr weight = parameters_of(router)[0];
          Tensor x = random_tensor({6, 5}, "x");
          const Tensor dy = random_tensor({6, k}, "dy");
          const auto loss = [&] {
            Saved saved;
            const Routing to = router.route(x, saved);
            const Tensor logits = saved.get("logits");
            Tensor scores = zeros_like(logits, Where::current());
            for (int64_t n = 0; n < 6; ++n) {
              const std::vector<double> s = naive_scores(logits.rows(n, n + 1).values(), score);
              std::copy(s.begin(), s.end(), scores.data<double>() + n * 4);
            }
            return dot(to.weight, dy) + balance_loss(alpha, router.load(saved), k, scores) +
                   z_loss(beta, logits);
          };
          Saved saved;
          router.route(x, saved);
          weight->gradient().fill(0.25);
          const Tensor dx = router.backward_input(dy, saved);
          router.backward_weight(saved);
          CHECK(saved.bytes() == 0);
          Tensor added = weight->grad.clone();
          for (double& g : added.span<double>()) g -= 0.25;
          CHECK(gradient_mismatch(x, dx, loss, 1e-8) == "");
          CHECK(gradient_mismatch(weight->value, added, loss, 1e-8) == "");
        }
}

TEST_CASE("two halves of a batch with their loads summed give the gradients of the whole") {
  RouterOptions o = options(4, 2);
  o.balance_loss = 0.5, o.z_loss = 0.1, o.bias_rate = 0.01;
  const Tensor x = random_tensor({8, 5}, "x"), dy = random_tensor({8, 2}, "dy");
  const BatchPosition place{.tokens = 8};
  const auto gradients = [&](int64_t parts) {
    Router router("router", o, {3, DType::f64});
    std::vector<Saved> saved;
    for (int64_t p = 0; p < parts; ++p) {
      saved.emplace_back(place);
      router.route(x.rows(p * 8 / parts, (p + 1) * 8 / parts), saved.back());
    }
    Tensor sum = Tensor::zeros({5}, DType::f64);
    for (const Saved& each : saved) add_into(sum, router.load(each));
    std::vector<double> all;
    for (int64_t p = 0; p < parts; ++p) {
      Saved& own = saved[static_cast<size_t>(p)];
      router.load(own).copy_from(sum);
      const Tensor dx = router.backward_input(dy.rows(p * 8 / parts, (p + 1) * 8 / parts), own);
      for (const double each : dx.values()) all.push_back(each);
      router.backward_weight(own);
    }
    for (const ParameterPtr& each : parameters_of(router))
      for (const double number : each->grad.values()) all.push_back(number);
    return Tensor::from<double>(all, {std::ssize(all)});
  };
  CHECK(largest_difference(gradients(2), gradients(1)) <= 1e-14);
  CHECK(largest_difference(gradients(4), gradients(1)) <= 1e-14);
}

TEST_CASE("the gradient of the bias is how far the loads are above their mean") {
  RouterOptions o = options(3, 1);
  o.bias_rate = 1;
  const auto made = direct(o);
  Router& router = *made;
  const ParameterPtr bias = parameters_of(router)[1];
  int ready = 0;
  bias->on_grad_ready = [&](Parameter&) { ++ready; };
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    Saved saved;
    router.route(Tensor::from<double>({9, 0, 0, 0, 0, 9, 9, 0, 0}, {3, 3}), saved);
    router.backward_input(Tensor::zeros({3, 1}, DType::f64), saved);
    router.backward_weight(saved);
  }
  CHECK(bias->grad.values() == std::vector<double>{6, -6, 0});
  CHECK(ready == 2);
}

TEST_CASE("router: leading dims, no rows, bf16, meta, errors") {
  Router router("router", options(4, 2), {0, DType::bf16});
  Saved saved;
  const Tensor x = random_tensor({2, 3, 5}, "x", DType::bf16);
  const Routing to = router.route(x, saved);
  CHECK(to.expert.shape() == Shape{6, 2});
  CHECK(to.weight.dtype() == DType::f32);
  CHECK(router.backward_input(to.weight, saved).dtype() == DType::bf16);
  router.backward_weight(saved);
  Saved none;
  CHECK(router.route(Tensor::zeros({0, 5}, DType::bf16), none).weight.shape() == Shape{0, 2});
  CHECK(router.backward_input(Tensor::zeros({0, 2}), none).shape() == Shape{0, 5});

  for (const auto& [E, k] : {std::pair{2, 3}, std::pair{2, 0}, std::pair{0, 1}})
    CHECK(contains(message_of([&] { Router("mlp.router", options(E, k)); }),
                   fmt::format("mlp.router: a token of width 5 goes to {} of {} experts", k, E)));
  RouterOptions o = options(4, 2);
  o.z_loss = std::nan("");
  CHECK(contains(message_of([&] { Router("r", o); }), "r: the z-loss is nan, expected 0 or more"));
  o = options(4, 2), o.bias_rate = 0.1;
  for (const char* name : {"r", "mlp.gate", "mlprouter"})
    CHECK(contains(message_of([&] { Router(name, o); }),
                   fmt::format("{}: a router with a bias must be called \"router\"", name)));
  for (const char* name : {"router", "mlp.router"}) {
    Router named(name, o);
    CHECK(is_router_bias(*parameters_of(named)[1]));
  }

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  Router shapes("router", options(4, 2));
  Saved kept;
  const Routing there = shapes.route(Tensor::empty({6, 5}), kept);
  CHECK(there.expert.shape() == Shape{6, 2});
  CHECK(shapes.backward_input(there.weight, kept).shape() == Shape{6, 5});
  shapes.backward_weight(kept);
  CHECK(self.ledger.op("linear").flops == 2 * 6 * 5 * 4);
}

TEST_CASE("experts in groups: the best groups first, by the sum of their largest s + b") {
  const std::vector<double> s = {.1, .4, .3, .2, .05, .6}, none;
  RouterOptions o{.width = 4, .experts = 6, .top_k = 2};
  o.groups = 3, o.top_groups = 1;  // sums of two: .5, .5, .65
  const auto chosen = [&](const std::vector<double>& b) {
    const std::vector<double> bias = detail::group_bias<double>(s, b, o);
    std::vector<int32_t> expert(2);
    std::vector<double> weight(2);
    choose_experts<double>(s, bias, true, expert, weight);
    return expert;
  };
  CHECK(chosen(none) == std::vector<int32_t>{5, 4});
  CHECK(chosen({0, 0, 0, 0, -.5, 0}) == std::vector<int32_t>{1, 0});  // of equal groups the first
  CHECK(chosen({0, 0, .1, .1, 0, 0}) == std::vector<int32_t>{2, 3});
  o.top_groups = 2;  // now by the largest of each: .4, .3, .6
  CHECK(chosen(none) == std::vector<int32_t>{5, 1});
  CHECK(chosen({0, 0, .35, 0, 0, 0}) == std::vector<int32_t>{2, 5});
}

TEST_CASE("a router whose experts are in groups sends no token to more of them") {
  RouterOptions o{.width = 8, .experts = 12, .top_k = 4};
  o.score = RouterScore::sigmoid, o.groups = 4, o.top_groups = 2, o.initial = normal(1);
  Router limited("router", o, {5, DType::f64});
  o.groups = o.top_groups = 1;
  Router free("router", o, {5, DType::f64});
  const Tensor x = random_tensor({40, 8}, "x");
  Saved a, b;
  const Routing to = limited.route(x, a), anywhere = free.route(x, b);
  int differ = 0;
  for (int64_t i = 0; i < 40; ++i) {
    std::set<int32_t> groups;
    double sum = 0;
    for (int64_t j = 0; j < 4; ++j) {
      const int32_t e = to.expert.data<int32_t>()[i * 4 + j];
      groups.insert(e / 3), sum += to.weight.data<double>()[i * 4 + j];
      differ += e != anywhere.expert.data<int32_t>()[i * 4 + j];
    }
    CHECK(groups.size() <= 2);
    CHECK(sum == doctest::Approx(1));
  }
  CHECK(differ > 0);
}
