// Load balance: two ways to keep a router from sending all tokens to a few experts, and a loss that
// keeps its logits small.
//
//     tokens   ##########          balance loss   alpha E sum over e of f_e P_e
//              ####                z-loss         beta mean of (log sum of e^logit)^2
//              #                   bias           b_e += rate sign(mean load - load_e)
//     expert   0   1   2   3
//
// The balance loss (GShard, Switch): f_e is the share of all n k assignments that expert e gets,
// and P_e the mean over tokens of s_e / sum of s. f has no gradient, P has. The sum is 1 / E when
// both are uniform, so the loss is alpha then, and larger when they lean the same way. Its gradient
// pulls the scores of busy experts down: with g_e = alpha E f_e and p = s / S, S the sum of s,
//     d(sum of g_e p_e)/ds_e = (g_e - sum over i of g_i p_i) / S.
// f must be known before a gradient can be: the load, a vector of E + 1 numbers (assignments of
// each expert, then tokens), summed over all ranks that hold tokens of the same microbatch.
// Microbatches with an f each have another loss than their batch. BatchLoads adds up all of theirs;
// then every forward pass comes before the first backward pass, and all that is saved is held.
//
// The z-loss (ST-MoE) keeps logits small, where they are exact and gradients do not die:
//     d(beta L^2)/dz_e = 2 beta L e^(z_e - L), L = log sum of e^z.
//
// The bias (DeepSeek-V3) disturbs no gradient: it is added to the scores for the choice only, and
// moved by a fixed step after each batch. Its parameter's "gradient" is how far each load is above
// the mean, times E so that it is a whole number: E load_e - n k. Every technique sums it over
// microbatches and ranks as it does any gradient; then RouterBiases takes it away, before the norm
// and the optimizer see it, and moves the bias if the step is taken. It works number by number, so
// a rank may hold a part of the bias.
//
// Cost: nothing beside a matmul: some n E FLOPs.
// Letters: n tokens, E experts, k experts of a token.
// References: Lepikhin et al. 2020, GShard, algorithm 1; Fedus et al. 2021, Switch, section 2.2;
// Zoph et al. 2022, ST-MoE, section 3.2; Wang et al. 2024, Auxiliary-Loss-Free Load Balancing.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

// Assignments of each expert: expert (n, k) -> (E) f64. On meta it has no values.
inline Tensor expert_counts(const Tensor& expert, int64_t experts, Where where = Where::current()) {
  const DeviceScope device(expert.device());
  Tensor counts = Tensor::zeros({experts}, DType::f64, where);
  for_each_id(expert, where, [&](int64_t, int32_t e) { counts.data<double>()[e] += 1; });
  return counts;
}

// E load_e - n k of the assignments (n, k): (E) f64, zero where the load is the mean.
inline Tensor load_above_mean(const Tensor& expert, int64_t experts,
                              Where where = Where::current()) {
  Tensor counts = expert_counts(expert, experts, where);
  if (counts.device() == Device::meta) return counts;
  for (double& each : counts.span<double>())
    each = static_cast<double>(experts) * each - static_cast<double>(expert.numel());
  return counts;
}

// The loads of a step's microbatches, for losses that count the whole batch.
class BatchLoads {
 public:
  // One a router and microbatch: forward that runs again, in a checkpoint, finds the same load.
  void keep(const std::string& router, int64_t first_sequence, const Tensor& load) {
    for (Kept& each : all_)
      if (each.router == router && each.first_sequence == first_sequence) {
        each.load = load;
        return;
      }
    all_.push_back({router, first_sequence, load});
  }
  // The sum (E + 1) over the microbatches of a router. On meta it has no values.
  Tensor sum(const std::string& router, Where where = Where::current()) const {
    Tensor sum;
    for (const Kept& each : all_) {
      if (each.router != router) continue;
      if (!sum.defined()) sum = zeros_like(each.load, where);
      if (sum.device() == Device::meta) break;
      const auto to = sum.span<double>(where);
      const auto from = each.load.span<double>(where);
      for (size_t e = 0; e < to.size(); ++e) to[e] += from[e];
    }
    if (!sum.defined()) fail(where, "{}: no forward pass has left its load", router);
    return sum;
  }

 private:
  struct Kept {
    std::string router;
    int64_t first_sequence;
    Tensor load;
  };
  std::vector<Kept> all_;
};

namespace detail {

// alpha E f_e: what P_e is multiplied with. load (E + 1).
inline std::vector<double> balance_factors(double alpha, const Tensor& load, int64_t top_k,
                                           Where where) {
  std::vector<double> g = load.values(where);
  const double tokens = g.back(), E = static_cast<double>(g.size() - 1);
  g.pop_back();
  for (double& each : g) each *= alpha * E / (tokens * static_cast<double>(top_k));
  return g;
}

}  // namespace detail

// alpha E sum over e of f_e P_e, from `load` (E + 1) and the scores (n, E) of the same tokens.
inline double balance_loss(double alpha, const Tensor& load, int64_t top_k, const Tensor& scores,
                           Where where = Where::current()) {
  expect_dims("balance_loss", "scores", scores, 2, "(n, E)", where);
  expect_shape("balance_loss", "load", load, {scores.dim(1) + 1}, where);
  const std::vector<double> g = detail::balance_factors(alpha, load, top_k, where);
  const std::vector<double> s = scores.values(where);
  double loss = 0;
  for (size_t first = 0; first < s.size(); first += g.size()) {
    double sum = 0, along = 0;
    for (size_t e = 0; e < g.size(); ++e) sum += s[first + e], along += g[e] * s[first + e];
    loss += along / sum;
  }
  return loss / load.item({scores.dim(1)});
}

// beta mean of (log sum of e^logit)^2 over the rows of `logits` (n, E).
inline double z_loss(double beta, const Tensor& logits, Where where = Where::current()) {
  expect_dims("z_loss", "logits", logits, 2, "(n, E)", where);
  const int64_t E = logits.dim(1);
  const std::vector<double> z = logits.values(where);
  double sum = 0;
  for (int64_t n = 0; n < logits.dim(0); ++n) {
    const double lse = detail::log_sum_exp(z.data() + n * E, E);
    sum += lse * lse;
  }
  return beta * sum / static_cast<double>(logits.dim(0));
}

// Whether this is a router's bias, or a part of one; by its name.
inline bool is_router_bias(const Parameter& parameter) {
  return parameter.name == "router.bias" || parameter.name.ends_with(".router.bias");
}

// The biases among some parameters, from the sums of their gradients to the step.
class RouterBiases {
 public:
  explicit RouterBiases(double rate) : rate_(rate) {}
  // When gradients are summed: keeps those of biases, the sums of load_above_mean(), and leaves
  // zeros.
  void take(const std::vector<ParameterPtr>& parameters) {
    above_.clear();
    for (const ParameterPtr& each : parameters) {
      if (!is_router_bias(*each)) continue;
      above_.emplace_back(each, each->gradient().clone());
      each->zero_grad();
    }
  }

  // When the step is taken: b_e -= rate sign(what was kept).
  void step(Where where = Where::current()) {
    for (auto& [bias, above] : above_) {
      if (above.device() == Device::meta) continue;
      visit_real(above.dtype(), where, [&]<class Real>(Type<Real>) {
        const auto gradient = above.span<Real>(where);
        const auto b = bias->value.span<Real>(where);
        for (size_t e = 0; e < b.size(); ++e)
          b[e] -= static_cast<Real>(gradient[e] > 0 ? rate_ : gradient[e] < 0 ? -rate_ : 0);
      });
    }
  }

 private:
  double rate_;
  std::vector<std::pair<ParameterPtr, Tensor>> above_;
};

namespace detail {

// ds (E) += the gradient of sum over e of g_e p_e, where p = s / sum of s.
template <class Real>
void share_gradient(const Real* s, const std::vector<double>& g, Real* ds) {
  Real T = 0, along = 0;
  for (size_t e = 0; e < g.size(); ++e) {
    T += s[e];
    along += static_cast<Real>(g[e]) * s[e];
  }
  for (size_t e = 0; e < g.size(); ++e) ds[e] += (static_cast<Real>(g[e]) - along / T) / T;
}

// dz (E) += the gradient of beta (log sum of e^z)^2.
template <class Real>
void z_gradient(const Real* z, Real beta, int64_t E, Real* dz) {
  const Real lse = log_sum_exp(z, E);
  for (int64_t e = 0; e < E; ++e) dz[e] += 2 * beta * lse * std::exp(z[e] - lse);
}

}  // namespace detail

}  // namespace yotta
