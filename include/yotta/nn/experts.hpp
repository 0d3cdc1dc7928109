// Experts: E feed-forward layers, each on its own rows, as one grouped matmul.
//
//     rows (m, C), sorted by expert        counts 2, 0, 3: an expert may have no rows at all
//     . . . . ┐                 w_0 (F, C)
//     . . . . ┘ expert 0  ──>             ──> h (m, F) ──> act ──> down ──> y (m, C)
//     . . . . ┐                 w_2 (F, C)
//     . . . . │ expert 2  ──>
//     . . . . ┘
//
//     swiglu   y = down_e (silu(gate_e x) * up_e x)     3 C F weights per expert, as in Mixtral
//     gelu     y = down_e gelu(up_e x)                  2 C F weights per expert
//
// A loop over experts would be E small matmuls; a grouped matmul is one launch whose tiles belong
// to different experts, and is charged as one op. Experts have no biases.
//
// A rank may hold some of the experts (expert parallelism), and of each some of its F hidden
// numbers (tensor parallelism: then y is a part of the sum). Each expert's weights are parameters
// of their own, "experts.3.up.weight" with 3 counted in the whole layer, with the values that they
// have in the whole model.
//
// Cost: 2 C F FLOPs per weight matrix and row, twice that backward; the counts change nothing but
// the balance. Saved keeps the rows, h (and gate), and the activation's output.
// Letters: m rows, C width, F hidden width, E experts.
// References: Shazeer et al. 2017; Gale et al. 2022, MegaBlocks, section 5.
#pragma once

#include <span>

#include "yotta/nn/layer.hpp"
#include "yotta/nn/linear_ops.hpp"

namespace yotta {

// y (m, O) = each expert's rows of x (m, I) times its w (O, I)'. counts[e] rows for w[e].
Tensor grouped_linear(const Tensor& x, std::span<const int64_t> counts, std::span<const Tensor> w,
                      Where where = Where::current());
// dx (m, I) = dy (m, O) w, or dx += dy w.
void grouped_linear_backward_input_into(Tensor& dx, Into into, const Tensor& dy,
                                        std::span<const int64_t> counts, std::span<const Tensor> w,
                                        Where where = Where::current());
// dw[e] (O, I) += dy' x over the rows of expert e.
void grouped_linear_backward_weight(const Tensor& dy, const Tensor& x,
                                    std::span<const int64_t> counts, std::span<Tensor* const> dw,
                                    Where where = Where::current());

struct ExpertsOptions {
  bool gated = true;              // swiglu; else gelu
  int64_t width = 1, hidden = 4;  // C, F of each
  int64_t experts = 1;            // E
  Initial initial = normal(0.02);
  Initial initial_down = normal(0.02);
  // What is held here; 0 experts, 0 hidden: all.
  int64_t first_expert = 0, held_experts = 0;
  int64_t first_hidden = 0, held_hidden = 0;
};

class Experts {
 public:
  Experts(std::string name, const ExpertsOptions& options, const ParameterOptions& init = {});

  const std::string& name() const { return name_; }
  const ExpertsOptions& options() const { return options_; }  // held_* are filled in
  DType dtype() const { return up_[0].dtype(); }

  // F: rows (m, C) -> (m, C); counts[i]: rows of expert first_expert + i.
  Tensor forward(const Tensor& rows, std::span<const int64_t> counts, Saved& saved);
  // I: dy (m, C) -> drows (m, C).
  Tensor backward_input(const Tensor& dy, Saved& saved);
  // W: adds to the gradients of all experts held here, those without rows included.
  void backward_weight(Saved& saved);
  void add_parameters(std::vector<ParameterPtr>& to);

 private:
  std::string name_;
  ExpertsOptions options_;
  std::vector<Use> gate_, up_, down_;  // of each expert held: (F, C), (F, C), (C, F)
};

// Whether this parameter, or the part of one, belongs to one expert of many; by its name. Ranks of
// ep hold different ones.
bool is_expert_parameter(const Parameter& parameter);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/experts.ipp"
#endif
