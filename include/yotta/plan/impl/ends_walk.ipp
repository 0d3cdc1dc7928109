// The bodies of plan/ends_walk.hpp.
#pragma once

#include "yotta/plan/ends_walk.hpp"

#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/linear_ops.hpp"

namespace yotta {

namespace detail {

class EmbeddingWalk : public LayerWalk {
 public:
  using LayerWalk::LayerWalk;

  LayerFigures figures(const TransformerConfig& c, bool shares_table) {
    const int64_t looked_up = z_.N * z_.V / std::max<int64_t>(1, c.vocabulary);
    walk_.op(embedding_cost(z_.dtype, looked_up, z_.C));
    walk_.hold(whole());
    if (z_.tp > 1) reduce();
    if (z_.is_gpt2 && z_.shares_tokens) {
      walk_.op(embedding_cost(z_.dtype, z_.n, z_.C));
      add();
    } else if (z_.is_gpt2) {
      walk_.op(add_positions_cost(z_.dtype, z_.n, z_.C));
    }
    end_forward(0, stream());
    gather();
    end_input();
    walk_.op(embedding_backward_cost(z_.dtype, looked_up, z_.C));
    if (shares_table) made_ = -sums(z_.V * z_.C), figures_.table = -z_.V * z_.C;
    if (z_.is_gpt2) {
      walk_.op(z_.shares_tokens ? embedding_backward_cost(z_.dtype, z_.n, z_.C)
                                : positions_backward_cost(z_.dtype, z_.n, z_.C));
      ready(c.context * z_.C);
    }
    ready(z_.V * z_.C);
    figures_.weights.back().table = true;
    return end_weight();
  }
};

class HeadWalk : public LayerWalk {
 public:
  using LayerWalk::LayerWalk;

  LayerFigures figures(bool shares_table) {
    norm();
    if (in_pieces()) {
      gather_in_pieces(seconds("linear", z_.V, z_.C), z_.V);
    } else {
      gather();
      linear(z_.N, z_.C, z_.V, false);
    }
    if (z_.shares_tokens) walk_.drop(z_.keeps_gathered ? stream() : whole());
    loss();
    end_forward(stream(), 0);
    input();
    end_input();
    if (z_.shares_tokens && !z_.keeps_gathered) {
      if (in_pieces()) weigh_in_pieces(seconds("linear_backward_weight", z_.V, z_.C), z_.V * z_.C);
      if (!in_pieces()) gather();
    }
    const bool last_piece = in_pieces() && !z_.keeps_gathered;
    early_ = 0;
    linear_weight(last_piece ? z_.n : z_.N, z_.C, z_.V, false);
    walk_.drop(logits());
    figures_.weights.back().table = true;
    if (shares_table) {
      figures_.table = figures_.weights.back().numbers;
      figures_.weights.pop_back();
    }
    norm_weight();
    return end_weight();
  }

 private:
  double logits() const { return bytes(z_.N * z_.V); }
  double seconds(const char* name, int64_t outputs, int64_t inputs) const {
    return walk_.seconds_of(linear_cost(name, z_.dtype, z_.n, outputs, inputs));
  }
  void loss() {
    walk_.op(cross_entropy_cost(z_.dtype, z_.N, z_.V));
    walk_.touch(sums((z_.tp > 1 ? 4 : 2) * z_.N));
    if (z_.tp > 1) {
      walk_.all_reduce(Exposed::tp, groups_.tp, sums(z_.N));
      walk_.all_reduce(Exposed::tp, groups_.tp, sums(2 * z_.N));
    }
    walk_.op(cross_entropy_backward_cost(z_.dtype, z_.N, z_.V));
  }
  void input() {
    if (in_pieces()) {
      reduce_in_pieces(seconds("linear_backward_input", z_.C, z_.V));
    } else {
      linear_input(z_.N, z_.C, z_.V);
      walk_.hold(whole());
      if (z_.tp > 1) reduce();
    }
    norm_input();
  }
};

}  // namespace detail

YOTTA_INLINE LayerFigures embedding_figures(const TransformerConfig& config, const LayerSizes& z,
                                            const PlanGroups& groups, const StepWalk& walk,
                                            bool shares_table) {
  return detail::EmbeddingWalk(z, groups, walk).figures(config, shares_table);
}
YOTTA_INLINE LayerFigures head_figures(const LayerSizes& z, const PlanGroups& groups,
                                       const StepWalk& walk, bool shares_table) {
  return detail::HeadWalk(z, groups, walk).figures(shares_table);
}

}  // namespace yotta
