// The bodies of plan/block_walk.hpp.
#pragma once

#include "yotta/plan/block_walk.hpp"

#include "yotta/nn/rope.hpp"
#include "yotta/plan/attention_walk.hpp"

namespace yotta {

namespace detail {

class BlockWalk : public MixtureWalk {
 public:
  using MixtureWalk::MixtureWalk;

  LayerFigures figures() {
    attention_forward();
    second_forward();
    end_forward(stream(), stream());
    second_input();
    attention_input();
    end_input();
    second_weight();
    attention_weight();
    return end_weight();
  }

 private:
  int64_t queries() const { return z_.H * z_.d; }
  int64_t keys() const { return z_.K * z_.d; }

  void attention_forward() {
    norm();
    columns({queries(), keys(), keys()});
    if (drops_gathered()) walk_.drop(whole());
    if (!z_.is_gpt2) {
      walk_.op(rope_cost("rope", z_.dtype, z_.N * queries()));
      walk_.op(rope_cost("rope", z_.dtype, z_.N * keys()));
      walk_.hold(heads(queries() + keys()));
    }
    attend(z_, groups_.cp, walk_);
    row(queries());
    if (z_.shares_tokens && z_.keeps_gathered) walk_.drop(stream());  // what norm made
    if (!z_.is_gpt2) walk_.drop(heads(queries() + keys()));           // before rope
    add();
  }
  // The second half: an MLP, or a mixture.
  void second_forward() {
    norm();
    if (z_.mixture.E > 0) mixture_forward();
    if (z_.mixture.E == 0) mlp_forward(z_.F, z_.is_gpt2);
    add();
  }
  void second_input() {
    if (z_.mixture.E > 0) mixture_input();
    if (z_.mixture.E == 0) mlp_input(z_.F);
    norm_input();
    add();
  }
  void second_weight() {
    if (z_.mixture.E > 0) mixture_weight();
    if (z_.mixture.E == 0) mlp_weight(z_.F, z_.is_gpt2);
    norm_weight();
  }

  void attention_input() {
    row_input(queries());
    attend_back(z_, groups_.cp, walk_);
    if (!z_.is_gpt2) {
      walk_.op(rope_cost("rope_backward", z_.dtype, z_.N * queries()));
      walk_.op(rope_cost("rope_backward", z_.dtype, z_.N * keys()));
      walk_.touch(heads(queries()));
    }
    columns_input({queries(), keys(), keys()});
    walk_.drop(heads(queries()));  // the gradient of what o read
    norm_input();
    add();
    if (z_.shares_tokens) walk_.drop(stream());  // between the two halves; o has it gathered
  }

  void attention_weight() {
    linear_weight(z_.N, queries(), z_.C, z_.is_gpt2);
    walk_.drop(heads(queries()) + whole());
    gather_again({queries(), keys(), keys()});
    for (const int64_t outputs : {keys(), keys(), queries()}) column_weight(outputs);
    norm_weight();
  }
};

}  // namespace detail

YOTTA_INLINE LayerFigures block_figures(const LayerSizes& z, const PlanGroups& groups,
                                        const StepWalk& walk) {
  return detail::BlockWalk(z, groups, walk).figures();
}

YOTTA_INLINE LayerFigures checkpointed_figures(const LayerFigures& block) {
  LayerFigures once = block;
  once.saved = once.in;
  once.kept = 0;
  once.input += block.forward;
  once.input += block.weight;
  once.weight = {};
  const double kept = block.saved - block.in;  // beside x, while it runs again
  once.input_peak = std::max(block.forward_peak, kept + block.input_peak);
  const double again = block.kept - block.in;
  once.again = true, once.again_kept = again;
  once.input_peak = std::max(once.input_peak, again + block.weight_peak);
  once.growing_peak += again, once.passing_peak += again;
  once.weight_peak = 0;
  return once;
}

}  // namespace yotta
