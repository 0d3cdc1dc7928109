// The bodies of plan/mlp_walk.hpp.
#pragma once

#include "yotta/plan/mlp_walk.hpp"

#include <numeric>

#include "yotta/nn/activations.hpp"
#include "yotta/nn/linear_ops.hpp"

namespace yotta {

YOTTA_INLINE double MlpWalk::matmul(const char* name, int64_t rows, int64_t outputs,
                                    int64_t inputs) const {
  return walk_.seconds_of(linear_cost(name, z_.dtype, rows, outputs, inputs));
}
YOTTA_INLINE double MlpWalk::with_bias(int64_t outputs) const {
  return has_bias_ ? walk_.seconds_of(add_bias_cost(z_.dtype, z_.n, outputs)) : 0;
}

YOTTA_INLINE void MlpWalk::columns(std::initializer_list<int64_t> outputs) {
  double piece = 0;
  for (const int64_t each : outputs) piece += matmul("linear", z_.n, each, z_.C) + with_bias(each);
  if (in_pieces())
    return gather_in_pieces(piece, std::accumulate(outputs.begin(), outputs.end(), int64_t{0}));
  gather();
  for (const int64_t each : outputs) linear(z_.N, z_.C, each, has_bias_);
}

YOTTA_INLINE void MlpWalk::columns_input(std::initializer_list<int64_t> outputs) {
  double piece = 0;
  for (const int64_t each : outputs) piece += matmul("linear_backward_input", z_.n, z_.C, each);
  if (in_pieces()) return reduce_in_pieces(piece);
  for (const int64_t each : outputs) linear_input(z_.N, z_.C, each);
  walk_.hold(whole());
  if (z_.tp > 1) reduce();
}

YOTTA_INLINE void MlpWalk::gather_again(std::initializer_list<int64_t> outputs) {
  if (!drops_gathered()) return;
  double piece = 0;
  for (const int64_t each : outputs)
    piece += matmul("linear_backward_weight", z_.n, each, z_.C) +
             (has_bias_ ? walk_.seconds_of(bias_backward_cost(z_.dtype, z_.n, each)) : 0);
  if (!in_pieces()) return gather();
  weigh_in_pieces(piece, z_.C * std::accumulate(outputs.begin(), outputs.end(), int64_t{0}));
}

// A matrix whose gradient was made by pieces, but for the last of them.
YOTTA_INLINE void MlpWalk::column_weight(int64_t outputs) {
  const bool has_begun = in_pieces() && drops_gathered();
  if (has_begun) early_ -= sums(z_.C * outputs);
  linear_weight(has_begun ? z_.n : z_.N, z_.C, outputs, has_bias_);
  walk_.drop(heads(outputs));
}

YOTTA_INLINE void MlpWalk::row(int64_t inputs) {
  if (in_pieces()) return reduce_in_pieces(matmul("linear", z_.n, z_.C, inputs) + with_bias(z_.C));
  linear(z_.N, inputs, z_.C, has_bias_);
  if (z_.tp > 1) reduce();
}

YOTTA_INLINE void MlpWalk::row_input(int64_t inputs) {
  const double piece = matmul("linear_backward_input", z_.n, inputs, z_.C);
  if (in_pieces()) return gather_in_pieces(piece, inputs);
  gather();
  linear_input(z_.N, inputs, z_.C);
  walk_.hold(heads(inputs));
}

// ---- MLP ----

YOTTA_INLINE void MlpWalk::mlp_forward(int64_t F, bool has_bias) {
  has_bias_ = has_bias;
  if (z_.is_gpt2) columns({F});
  if (!z_.is_gpt2) columns({F, F});
  if (drops_gathered()) walk_.drop(whole());
  walk_.op(z_.is_gpt2 ? gelu_cost(z_.dtype, z_.N * F) : swiglu_cost(z_.dtype, z_.N * F));
  walk_.hold(heads(F));
  row(F);
  if (z_.shares_tokens && z_.keeps_gathered) walk_.drop(stream());
  has_bias_ = z_.is_gpt2;
}

YOTTA_INLINE void MlpWalk::mlp_input(int64_t F) {
  row_input(F);
  walk_.op(z_.is_gpt2 ? gelu_backward_cost(z_.dtype, z_.N * F)
                      : swiglu_backward_cost(z_.dtype, z_.N * F));
  walk_.hold((z_.is_gpt2 ? 1 : 2) * heads(F));
  if (!z_.is_gpt2) walk_.drop(heads(F));  // gate
  if (z_.is_gpt2) columns_input({F});
  if (!z_.is_gpt2) columns_input({F, F});
  walk_.drop(2 * heads(F));  // h, and the gradient of what down read
}

YOTTA_INLINE void MlpWalk::mlp_weight(int64_t F, bool has_bias) {
  has_bias_ = has_bias;
  linear_weight(z_.N, F, z_.C, has_bias_);
  walk_.drop(heads(F) + whole());
  if (z_.is_gpt2) gather_again({F});
  if (!z_.is_gpt2) gather_again({F, F});
  for (int matrix = 0; matrix < (z_.is_gpt2 ? 1 : 2); ++matrix) column_weight(F);
  walk_.drop(z_.shares_tokens && !z_.keeps_gathered ? whole() + stream() : whole());
  has_bias_ = z_.is_gpt2;
}

}  // namespace yotta
