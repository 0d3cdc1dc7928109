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
// Equal scores: the expert with the lower number is chosen. The bias b only chooses; it has no part
// in the weight. The choice itself has no gradient; the weights have one, and carry it to the
// logits.
//
// Left alone, a router sends most tokens to few experts. Three cures:
//     balance loss   alpha E sum over e of f_e P_e        f_e: the share of all n k assignments that
//                    (Switch, GShard)                     e gets; P_e: the mean of s_e / sum of s
//     z-loss         beta mean of (log sum of e^logit)^2  keeps logits small (ST-MoE)
//     bias           b_e += rate sign(mean load - load_e) after each step, no loss (DeepSeek-V3)
// Both losses are means over the tokens of the whole batch, and only their gradients are added:
// what a trainer prints is the model's loss alone.
//
// f_e is of all tokens that are routed together: a microbatch, on all ranks that share it. It is
// made in two steps. route() leaves this rank's load, a vector of E + 1 numbers, in Saved; whoever
// splits the tokens over ranks sums it over them, in place, before backward_input():
//
//     Routing r = router.route(x, saved);
//     Tensor load = router.load(saved);             // (E + 1): assignments of each expert; tokens
//     ranks.all_reduce(load, ReduceOp::sum);
//
// The bias needs no step of its own. Its "gradient" is the number of assignments, which every
// technique sums over microbatches and ranks like any gradient; then update_router_bias() uses it
// up, before the norm and the optimizer see it.
//
// Cost: 2 n C E FLOPs forward, twice that backward. Types: scores and weights are f32 for bf16.
// Letters: n tokens, C width, E experts, k experts of a token.
// References: Shazeer et al. 2017; Fedus et al. 2021, Switch, section 2.2; Zoph et al. 2022, ST-MoE,
// section 3.2; Jiang et al. 2024, Mixtral, section 2.1; Wang et al. 2024, Auxiliary-Loss-Free Load
// Balancing; DeepSeek-V3 (2024), section 2.1.2.
#pragma once

#include "yotta/nn/linear.hpp"

namespace yotta {

enum class RouterScore : uint8_t { softmax, sigmoid };

struct RouterOptions {
  int64_t width = 1;    // C
  int64_t experts = 2;  // E
  int64_t top_k = 1;    // k
  RouterScore score = RouterScore::softmax;
  // Whether the weights of a token are divided by their sum (Mixtral), or are its scores (Switch).
  // With k = 1 the quotient is always 1, and the model's loss would not train the router.
  bool renormalise = true;
  double balance_loss = 0;  // alpha
  double z_loss = 0;        // beta
  double bias_rate = 0;     // 0: no bias
  Initial initial = normal(0.02);
  // Throws with the rule that is broken.
  YOTTA_API void check(const std::string& layer, Where where = Where::current()) const;
};

// Where the tokens go. On meta the ids have no values: whoever needs them takes uniform_expert().
struct Routing {
  Tensor expert;  // (n, k) i32, the largest score first
  Tensor weight;  // (n, k)
};

// The stand-in for what depends on values: assignment a = token k + choice goes to expert a mod E.
constexpr int64_t uniform_expert(int64_t assignment, int64_t experts) {
  return assignment % experts;
}

class Router : public Linear {
 public:
  YOTTA_API Router(std::string name, const RouterOptions& options,
                   const ParameterOptions& init = {});

  const RouterOptions& options() const { return options_; }

  // F: x (..., C), n rows -> where each row goes. Keeps x, the logits, the choice and the load.
  YOTTA_API Routing route(const Tensor& x, Saved& saved);
  // What route() has left: (E + 1) f64, to be summed in place over the ranks that hold other tokens.
  // backward_input() reads it, if there is a balance loss.
  Tensor load(const Saved& saved) const { return saved.get("load"); }
  // I: dx (n, C) of dweight (n, k), which is 0 where an assignment was dropped; with the gradients of
  // both losses. They are means over saved.position().tokens, or if that is 0 over the load's.
  YOTTA_API Tensor backward_input(const Tensor& dweight, Saved& saved) override;
  // W: the weight's gradient; and the bias's, this rank's assignments.
  YOTTA_API void backward_weight(Saved& saved) override;
  YOTTA_API void add_parameters(std::vector<ParameterPtr>& to) override;

 private:
  RouterOptions options_;
  Use bias_;  // (E), f32 (f64)
};

// Assignments of each expert: expert (n, k) -> (E) f64.
YOTTA_API Tensor expert_counts(const Tensor& expert, int64_t experts,
                               Where where = Where::current());

// alpha E sum over e of f_e P_e, from `load` (E + 1) and the scores (n, E) of the same tokens.
YOTTA_API double balance_loss(const RouterOptions& options, const Tensor& load,
                              const Tensor& scores, Where where = Where::current());
// beta mean of (log sum of e^logit)^2 over the rows of `logits` (n, E).
YOTTA_API double z_loss(const RouterOptions& options, const Tensor& logits,
                        Where where = Where::current());

// Whether this is a router's bias, or a part of one; by its name.
YOTTA_API bool is_router_bias(const Parameter& parameter);
// b_e += rate sign(mean - load_e), where the gradient holds the loads; the gradient becomes zero.
// mean: assignments of the whole batch / E.
YOTTA_API void update_router_bias(Parameter& bias, double mean, double rate,
                                  Where where = Where::current());

}  // namespace yotta
