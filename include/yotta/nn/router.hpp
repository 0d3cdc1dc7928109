// Router: which k of E experts a token goes to, and how much each of them counts.
//
// A mixture of experts has E feed-forward layers in place of one, and each token runs through k of
// them: E times the weights at k times the FLOPs. The router is a small linear layer that chooses.
//
//     x (n, C) ──> logits (n, E) ──> s = softmax, or sigmoid ──> the k largest of s + b ──> expert
//                                                      their s, divided by their sum ──> weight
//
//     E = 4, k = 2      s  .1  .4  .3  .2         expert  1  2        weight  4/7  3/7
//
// What happens to one token, forward and backward, is expert_choice.hpp; here it is done to all.
//
// Experts may be in groups, one to a node: then a token's experts are in few of them, and few nodes
// get the token. The groups are chosen first, by the sum of their largest s + b.
//
//     2 of 4 experts in 1 of 2 groups       s  .1  .4 | .3  .2       .5 and .5: the first group
//
// Left alone, a router sends most tokens to few experts; load_balance.hpp has two cures, a loss and
// a bias, and a loss that keeps logits small. backward_input() adds the gradients of both losses,
// which are means over the tokens of the whole batch. What a trainer prints is the model's loss
// alone. The balance loss needs to know where all tokens went that are routed together: those of a
// microbatch, on all ranks that share it. So it takes two steps: route() leaves this rank's load in
// Saved, and whoever splits tokens over ranks sums it, in place:
//
//     Routing r = router.route(x, saved);
//     Tensor load = router.load(saved);             // (E + 1): assignments of each expert; tokens
//     ranks.all_reduce(load, ReduceOp::sum);
//
// Cost: 2 n C E FLOPs forward, twice that backward. Types: scores and weights are f32 for bf16.
// Letters: n tokens, C width, E experts, k experts of a token.
// References: Shazeer et al. 2017; Jiang et al. 2024, Mixtral, section 2.1 (softmax, renormalised);
// Fedus et al. 2021, Switch (the score itself); DeepSeek-V3 (2024), section 2.1.2 (sigmoid, bias,
// groups).
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "yotta/nn/expert_choice.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/load_balance.hpp"
#include "yotta/nn/router_options.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta {

// Where the tokens go. On meta the ids have no values: whoever needs them takes uniform_expert().
struct Routing {
  Tensor expert;  // (n, k) i32, the largest score first
  Tensor weight;  // (n, k)
};

namespace detail {

struct Logistic {
  template <class V>
  V operator()(V x) const {
    return logistic(x);
  }
};

// s (n, E) of the logits (n, E).
inline Tensor router_scores(RouterScore score, const Tensor& logits, Where where) {
  if (score == RouterScore::softmax) return softmax(logits, where);
  return map(elementwise_cost("sigmoid", logits.dtype(), logits.numel(), 4, 1, 1), Logistic{},
             where, logits);
}

constexpr OpCost router_cost(const char* name, DType dtype, int64_t n, int64_t E, int64_t k) {
  return op_cost(name, dtype, (k + 4) * n * E, n * E, 2 * n * k);
}

// Row i of a matrix of rows of `width` numbers.
template <class Number>
std::span<Number> row(std::span<Number> matrix, int64_t i, int64_t width) {
  return matrix.subspan(static_cast<size_t>(i * width), static_cast<size_t>(width));
}

// How good a group of experts is: the sum of its `count` largest s + b.
template <class Real>
Real group_score(std::span<const Real> s, std::span<const Real> b, int64_t count) {
  std::vector<Real> sums;
  for (size_t e = 0; e < s.size(); ++e) sums.push_back(biased(s, b, e));
  const auto end = sums.begin() + std::min<int64_t>(count, std::ssize(sums));
  std::partial_sort(sums.begin(), end, sums.end(), [](Real a, Real c) { return a > c; });
  return std::accumulate(sums.begin(), end, Real{0});
}
// The bias by which experts of the best groups alone are chosen: b (E), or -infinity. Of equal
// groups the first.
template <class Real>
std::vector<Real> group_bias(std::span<const Real> s, std::span<const Real> b,
                             const RouterOptions& o) {
  const auto each = static_cast<size_t>(o.experts / o.groups);
  const auto part = [&](std::span<const Real> of, size_t g) {
    return of.empty() ? of : of.subspan(g * each, each);
  };
  std::vector<std::pair<Real, size_t>> groups;
  const int64_t count = std::max<int64_t>(1, o.top_k / o.top_groups);
  for (size_t g = 0; g < static_cast<size_t>(o.groups); ++g)
    groups.push_back({-group_score(part(s, g), part(b, g), count), g});
  std::sort(groups.begin(), groups.end());
  std::vector<Real> bias(s.size(), -std::numeric_limits<Real>::infinity());
  for (size_t i = 0; i < static_cast<size_t>(o.top_groups); ++i)
    for (size_t e = groups[i].second * each; e < (groups[i].second + 1) * each; ++e)
      bias[e] = b.empty() ? 0 : b[e];
  return bias;
}

// Where each row of scores (n, E) goes. bias (1, E), or undefined.
inline Routing route_scores(const Tensor& scores, const Tensor& bias, const RouterOptions& o,
                            Where where) {
  const int64_t n = scores.dim(0), E = o.experts, k = o.top_k;
  const DType type = scores.dtype();
  charge(router_cost("router", type, n, E, k));
  Routing to{empty_beside(scores, {n, k}, DType::i32, where),
             empty_beside(scores, {n, k}, type, where)};
  if (scores.device() == Device::meta) return to;
  visit_real(type, where, [&]<class Real>(Type<Real>) {
    const auto s = scores.span<Real>(where);
    const auto b = bias.defined() ? bias.span<Real>(where) : std::span<const Real>();
    const auto expert = to.expert.span<int32_t>();
    const auto weight = to.weight.span<Real>();
    parallel_for(n, rows_per_thread(E * k), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const std::vector<Real> limited =
            o.groups > 1 ? group_bias<Real>(row(s, i, E), b, o) : std::vector<Real>();
        choose_experts<Real>(row(s, i, E), o.groups > 1 ? std::span<const Real>(limited) : b,
                             o.renormalise, row(expert, i, k), row(weight, i, k));
      }
    });
  });
  return to;
}

// dlogits (n, E) of dweight (n, k) and of both losses, means over `tokens`, or if 0 the load's.
inline Tensor logits_gradient(const RouterOptions& o, const Tensor& logits, const Tensor& expert,
                              const Tensor& dweight, const Tensor& load, int64_t tokens,
                              Where where) {
  const int64_t n = logits.dim(0), E = o.experts, k = o.top_k;
  const Tensor scores = router_scores(o.score, logits, where);
  charge(router_cost("router_backward", logits.dtype(), n, E, k));
  Tensor dlogits = zeros_like(logits, where);
  if (logits.device() == Device::meta) return dlogits;
  const double mean = 1 / (tokens > 0 ? static_cast<double>(tokens) : load.item({E}));
  const std::vector<double> g = balance_factors(o.balance_loss * mean, load, k, where);
  visit_real(logits.dtype(), where, [&]<class Real>(Type<Real>) {
    const auto s = scores.span<Real>(where), z = logits.span<Real>(where);
    const auto dw = dweight.span<Real>(where);
    const auto d = dlogits.span<Real>();
    const auto chosen = expert.span<int32_t>(where);
    parallel_for(n, rows_per_thread(8 * E), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto ds = row(d, i, E);
        if (o.balance_loss > 0) share_gradient(row(s, i, E).data(), g, ds.data());
        choose_experts_backward<Real>(row(s, i, E), row(chosen, i, k), row(dw, i, k), o.score,
                                      o.renormalise, ds);
        if (o.z_loss > 0)
          z_gradient(row(z, i, E).data(), static_cast<Real>(o.z_loss * mean), E, ds.data());
      }
    });
  });
  return dlogits;
}

}  // namespace detail

class Router : public Layer {
 public:
  // With a bias the name must be "router", alone or after a dot: RouterBiases goes by it.
  Router(std::string name, const RouterOptions& options, const ParameterOptions& init = {})
      : Layer(std::move(name)), options_(options) {
    options.check(this->name());
    weight_ = Use(make_parameter(this->name() + ".weight", {options.experts, options.width}, true,
                                 options.initial, init.seed, init.dtype));
    if (options.bias_rate == 0) return;
    bias_ = Use(make_parameter(this->name() + ".bias", {1, options.experts}, false, zeros(),
                               init.seed, computed(init.dtype)));
    if (!is_router_bias(*bias_.parameter()))
      fail(Where::current(),
           "{}: a router with a bias must be called \"router\", alone or after a dot "
           "(\"mlp.router\"): RouterBiases finds biases by this name",
           this->name());
  }

  const RouterOptions& options() const { return options_; }

  // F: x (..., C), n rows -> where each row goes. Keeps x, the logits, the choice and the load.
  Routing route(const Tensor& x, Saved& saved) {
    const Where where = Where::current();
    const int64_t E = options_.experts;
    const Tensor rows = as_type(as_rows(x), weight_.dtype());
    const Tensor logits = linear_as(computed(rows.dtype()), rows, weight_.parameter()->value);
    const Tensor scores = detail::router_scores(options_.score, logits, where);
    const Routing to = detail::route_scores(scores, bias_.value(), options_, where);
    Tensor load = empty_beside(x, {E + 1}, DType::f64, where);
    load.rows(0, E).copy_from(expert_counts(to.expert, E));
    load.rows(E, E + 1).fill(static_cast<double>(rows.dim(0)));
    saved.keep("x", rows);
    saved.keep("logits", logits);
    saved.keep("expert", to.expert);
    saved.keep("load", load);
    if (BatchLoads* const all = saved.position().loads)
      all->keep(name(), saved.position().first_sequence, load);
    return to;
  }

  // The same under Layer's name: returns the weights alone.
  Tensor forward(const Tensor& x, Saved& saved) override { return route(x, saved).weight; }

  // What route() has left: (E + 1) f64, to be summed in place over the ranks that hold other
  // tokens. backward_input() reads it, if there is a balance loss.
  Tensor load(const Saved& saved) const { return saved.get("load"); }

  // I: dx (n, C) of dweight (n, k), which is 0 where an assignment was dropped; with the gradients
  // of both losses. They are means over saved.position().tokens, or if that is 0 over the load's,
  // and the balance loss is of the loads in saved.position().loads, if there are any.
  Tensor backward_input(const Tensor& dweight, Saved& saved) override {
    const Where where = Where::current();
    const Tensor logits = saved.take("logits"), own = saved.take("load"), x = saved.get("x");
    const BatchLoads* const all = saved.position().loads;
    const Tensor load = all != nullptr ? all->sum(name(), where) : own;
    const int64_t n = logits.dim(0);
    expect_shape("router's backward", "dweight", dweight, {n, options_.top_k}, where);
    expect_dtype("router's backward", "dweight", dweight, logits.dtype(), where);
    const Tensor dlogits = detail::logits_gradient(options_, logits, saved.get("expert"), dweight,
                                                   load, saved.position().tokens, where);
    saved.keep("dy", dlogits);
    Tensor dx = empty_beside(x, {n, options_.width}, x.dtype(), where);
    linear_backward_input_into(dx, Into::overwrite, dlogits, weight_.parameter()->value);
    return dx;
  }

  // W: the weight's gradient; and the bias's, how far this rank's loads are above their mean.
  void backward_weight(Saved& saved) override {
    const Tensor x = saved.take("x"), dlogits = saved.take("dy"), expert = saved.take("expert");
    linear_backward_weight(dlogits, x, weight_.grad());
    weight_.mark_grad_ready();
    if (!bias_.defined()) return;
    const Tensor above = load_above_mean(expert, options_.experts);
    add_into(bias_.grad(), as_type(above, bias_.grad().dtype()));
    bias_.mark_grad_ready();
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    to.push_back(weight_.parameter());
    if (bias_.defined()) to.push_back(bias_.parameter());
  }

 private:
  RouterOptions options_;
  Use weight_;  // (E, C)
  Use bias_;    // (1, E), f32 (f64)
};

}  // namespace yotta
