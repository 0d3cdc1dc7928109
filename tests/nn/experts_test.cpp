#include "yotta/nn/experts.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/expert_rows.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/router.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

std::vector<ParameterPtr> parameters_of(Experts& experts) {
  std::vector<ParameterPtr> all;
  experts.add_parameters(all);
  return all;
}

ExpertsOptions options(bool gated, int64_t E) {
  return {.gated = gated,
          .width = 3,
          .hidden = 4,
          .experts = E,
          .initial = normal(1),
          .initial_down = normal(1)};
}

// One expert on one row, as plain ops.
Tensor naive_expert(const Tensor& row, bool gated, const std::vector<ParameterPtr>& all, size_t e) {
  if (gated) {
    const Tensor gate = linear(row, all[3 * e]->value), up = linear(row, all[3 * e + 1]->value);
    return linear(swiglu(gate, up), all[3 * e + 2]->value);
  }
  return linear(gelu(linear(row, all[2 * e]->value)), all[2 * e + 1]->value);
}

// A mixture of experts put together from the three headers, as a layer: what parallel/ has on many
// ranks.
class Mixture : public Layer {
 public:
  Mixture(const RouterOptions& router, const ExpertsOptions& experts, double capacity)
      : Layer("mixture"),
        router_("mixture.router", router, {5, DType::f64}),
        experts_("mixture.experts", experts, {5, DType::f64}),
        capacity_(capacity) {}

  Tensor forward(const Tensor& x, Saved& saved) override {
    const int64_t E = router_.options().experts, k = router_.options().top_k;
    const Routing to = router_.route(x, saved.child("router"));
    const ExpertRows rows =
        sort_by_expert(to.expert, E, expert_capacity(capacity_, x.dim(0), k, E));
    const Tensor y =
        experts_.forward(gather_rows(x, rows.assignment, k), rows.counts, saved.child("experts"));
    saved.keep("assignment", rows.assignment);
    saved.keep("weight", to.weight);
    saved.keep("y", y);
    return combine_rows(y, rows.assignment, to.weight);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor assignment = saved.take("assignment"), weight = saved.take("weight");
    const CombineGradients d = combine_rows_backward(dy, saved.take("y"), assignment, weight);
    const Tensor drows = experts_.backward_input(d.drows, saved.child("experts"));
    Tensor dx = gather_rows_backward(drows, assignment, dy.dim(0), weight.dim(1));
    add_into(dx, router_.backward_input(d.dweight, saved.child("router")));
    return dx;
  }
  void backward_weight(Saved& saved) override {
    experts_.backward_weight(saved.child("experts"));
    router_.backward_weight(saved.child("router"));
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    router_.add_parameters(to);
    experts_.add_parameters(to);
  }

  Router& router() { return router_; }
  Experts& experts() { return experts_; }

 private:
  Router router_;
  Experts experts_;
  double capacity_;
};

}  // namespace

TEST_CASE("grouped matmuls are the matmuls of the groups, empty ones included") {
  const std::vector<int64_t> counts = {2, 0, 3};
  const Tensor x = random_tensor({5, 3}, "x"), dy = random_tensor({5, 4}, "dy");
  std::vector<Tensor> w, dw;
  for (const char* name : {"a", "b", "c"}) w.push_back(random_tensor({4, 3}, name));
  for (int e = 0; e < 3; ++e) dw.push_back(Tensor::full({4, 3}, 1, DType::f64));
  const Tensor y = grouped_linear(x, counts, w);
  CHECK(same_bits(y.rows(0, 2), linear(x.rows(0, 2), w[0])));
  CHECK(same_bits(y.rows(2, 5), linear(x.rows(2, 5), w[2])));
  Tensor dx = Tensor::full({5, 3}, 1, DType::f64);
  grouped_linear_backward_input_into(dx, Into::accumulate, dy, counts, w);
  CHECK(largest_difference(dx.rows(2, 5), add(linear_backward_input(dy.rows(2, 5), w[2]),
                                              Tensor::full({3, 3}, 1, DType::f64))) <= 1e-14);
  Tensor* const to[] = {&dw[0], &dw[1], &dw[2]};
  grouped_linear_backward_weight(dy, x, counts, to);
  Tensor expected = Tensor::full({4, 3}, 1, DType::f64);
  linear_backward_weight(dy.rows(0, 2), x.rows(0, 2), expected);
  CHECK(same_bits(dw[0], expected));
  CHECK(dw[1].values() == std::vector<double>(12, 1.0));
  CHECK(contains(message_of([&] {
                   grouped_linear(x, std::vector<int64_t>{2, 2, 3}, w);
                 }),
                 "7 rows of 3 groups in counts, but 5 rows and 3 weights"));
  CHECK(contains(message_of([&] {
                   grouped_linear(x, std::vector<int64_t>{2, 3}, w);
                 }),
                 "5 rows of 2 groups in counts, but 5 rows and 3 weights"));
  CHECK(contains(message_of([&] { grouped_linear(dy, counts, w); }), "must agree"));
}

TEST_CASE("a mixture equals a loop over tokens, k 1, 2, 4, with and without capacity") {
  for (const bool gated : {true, false})
    for (const int64_t k : {1, 2, 4})
      for (const double capacity : {0.0, 1.0, 0.5}) {
        CAPTURE(k);
        CAPTURE(capacity);
        const int64_t n = 7, E = 5;
        Mixture mixture({.width = 3, .experts = E, .top_k = k, .initial = normal(1)},
                        options(gated, E), capacity);
        const std::vector<ParameterPtr> all = parameters_of(mixture.experts());
        const Tensor x = random_tensor({n, 3}, "x");
        Saved saved, routed;
        const Tensor y = mixture.forward(x, saved);
        const Routing to = mixture.router().route(x, routed);
        std::vector<int64_t> taken(static_cast<size_t>(E), 0);
        Tensor expected = Tensor::zeros({n, 3}, DType::f64);
        int64_t dropped = 0;
        for (int64_t t = 0; t < n; ++t)
          for (int64_t j = 0; j < k; ++j) {
            const auto e = static_cast<size_t>(to.expert.data<int32_t>()[t * k + j]);
            if (taken[e]++ >= expert_capacity(capacity, n, k, E)) {
              ++dropped;
              continue;
            }
            Tensor row = expected.rows(t, t + 1);
            add_into(row,
                     scale(naive_expert(x.rows(t, t + 1), gated, all, e), to.weight.item({t, j})));
          }
        CHECK(largest_difference(y, expected) <= 1e-13);
        CHECK((capacity == 0.5 ? dropped > 0 : capacity > 0 || dropped == 0));
      }
}

TEST_CASE("gradients of a whole mixture: dropped tokens and experts without any included") {
  for (const bool gated : {true, false})
    for (const int64_t k : {1, 2, 4})
      for (const double capacity : {0.0, 0.5}) {
        std::vector<LayerPtr> layers;
        layers.push_back(std::make_unique<Mixture>(
            RouterOptions{
                .width = 3, .experts = 8, .top_k = k, .renormalise = k > 1, .initial = normal(1)},
            options(gated, 8), capacity));
        check_gradients(layers, random_tensor({5, 3}, "x"));
      }
}

TEST_CASE("experts are made with the values of the whole layer, whichever are held") {
  Experts whole("mlp.experts", options(true, 4), {9, DType::f64});
  ExpertsOptions half = options(true, 4);
  half.first_expert = 2, half.held_experts = 2, half.first_hidden = 2, half.held_hidden = 2;
  Experts part("mlp.experts", half, {9, DType::f64});
  const std::vector<ParameterPtr> all = parameters_of(whole), own = parameters_of(part);
  REQUIRE(all.size() == 12);
  REQUIRE(own.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(own[i]->name == all[i + 6]->name);
    Tensor shard = Tensor::empty(own[i]->value.shape(), DType::f64);
    take_shard(all[i + 6]->value, own[i]->range, shard);
    CHECK(same_bits(shard, own[i]->value));
    CHECK(is_expert_parameter(*own[i]));
  }
  CHECK(own[0]->name == "mlp.experts.2.gate.weight");
  const auto expert = [](const char* name) {
    return is_expert_parameter(*make_parameter(name, {1, 1}, false, ones(), 1, DType::f64));
  };
  CHECK(expert("experts.2.up.weight"));
  CHECK(!expert("mlp.shared_experts.up.weight"));
  CHECK(own[0]->range == ShardRange{2, 3, 2, 0, 4, 0});
  CHECK(own[2]->range == ShardRange{3, 2, 0, 2, 0, 4});
  ExpertsOptions wrong = options(true, 4);
  wrong.first_expert = 3, wrong.held_experts = 2;
  CHECK(contains(message_of([&] { Experts("e", wrong); }), "e: experts 3 to 5 of 4"));
}

TEST_CASE("no expert of a rank has rows: all gradients are there, as zeros") {
  Experts experts("e", options(true, 2), {9, DType::f64});
  int ready = 0;
  for (const ParameterPtr& each : parameters_of(experts))
    each->on_grad_ready = [&](Parameter&) { ++ready; };
  Saved saved;
  const std::vector<int64_t> none = {0, 0};
  const Tensor y = experts.forward(Tensor::zeros({0, 3}, DType::f64), none, saved);
  CHECK(y.shape() == Shape{0, 3});
  CHECK(experts.backward_input(y, saved).shape() == Shape{0, 3});
  experts.backward_weight(saved);
  CHECK(ready == 6);
  CHECK(saved.bytes() == 0);
}

TEST_CASE("experts: bf16, meta and cost") {
  Experts experts("e", options(true, 2), {9, DType::bf16});
  const std::vector<int64_t> counts = {1, 2};
  Saved saved;
  const Tensor x = random_tensor({3, 3}, "x", DType::bf16);
  const Tensor y = experts.forward(x, counts, saved);
  CHECK(y.dtype() == DType::bf16);
  CHECK(experts.backward_input(y, saved).dtype() == DType::bf16);
  experts.backward_weight(saved);
  CHECK(parameters_of(experts)[0]->grad.dtype() == DType::f32);

  RankContext self;
  const ContextScope scope(self);
  const DeviceScope meta(Device::meta);
  Experts shapes("e", options(true, 2));
  Saved kept;
  const Tensor there = shapes.forward(Tensor::empty({3, 3}), counts, kept);
  CHECK(there.shape() == Shape{3, 3});
  shapes.backward_input(there, kept);
  shapes.backward_weight(kept);
  CHECK(self.ledger.op("grouped_linear").flops == 3 * 2 * 3 * 3 * 4);
  CHECK(self.ledger.op("grouped_linear").calls == 3);
  CHECK(self.ledger.op("grouped_linear_backward_weight").flops == 3 * 2 * 3 * 3 * 4);
}
