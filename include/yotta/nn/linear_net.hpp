// The linear net Y = W_{L-1} ... W_1 W_0 X: the smallest model to distribute in every way.
//
//     X ──> [W_0] ──> [W_1] ──> ... ──> [W_{L-1}] ──> Y      each W is (C, C), X is (rows, C)
//
// It computes nothing that one matrix could not, but it has layers, weights, activations, and a
// backward pass, so it shows pipelines, FSDP and activation checkpointing with nothing in the way.
//
//     parameters   L C^2
//     activations  L rows C numbers kept for the backward pass (the input of each layer)
//     FLOPs        forward 2 L C^2 rows, backward 4 L C^2 rows
//
// A lecture gives the forward pass as L C^2 rows: that counts a multiply and an add as one.
#pragma once

#include <cmath>

#include "yotta/nn/linear.hpp"

namespace yotta {

struct LinearNetConfig {
  int64_t layers = 4;  // L
  int64_t width = 8;   // C
};

// L C^2 numbers; FLOPs of `rows` rows forward, and of a step: forward and twice as much backward.
constexpr int64_t parameters(const LinearNetConfig& c) { return c.layers * c.width * c.width; }
constexpr double forward_flops(const LinearNetConfig& c, int64_t rows) {
  return 2.0 * static_cast<double>(parameters(c)) * static_cast<double>(rows);
}
constexpr double step_flops(const LinearNetConfig& c, int64_t rows) {
  return 3 * forward_flops(c, rows);
}

// Numbers that one microbatch of `rows` rows keeps between its forward and backward pass.
constexpr int64_t saved_numbers(const LinearNetConfig& c, int64_t rows) {
  return c.layers * rows * c.width;
}

// The layers from `first` up to `last` (exclusive) of the net: all of it, or a pipeline stage.
// Weights have deviation 1 / sqrt(d), so that numbers keep their size on the way through.
inline std::vector<LayerPtr> make_linear_net(const LinearNetConfig& c, int64_t first, int64_t last,
                                             const ParameterOptions& init = {}) {
  const Initial initial = normal(1 / std::sqrt(static_cast<double>(c.width)));
  std::vector<LayerPtr> layers;
  for (int64_t i = first; i < last; ++i)
    layers.push_back(std::make_unique<Linear>(
        "layers." + std::to_string(i), LinearOptions{c.width, c.width, false, initial}, init));
  return layers;
}
inline std::vector<LayerPtr> make_linear_net(const LinearNetConfig& c,
                                             const ParameterOptions& init = {}) {
  return make_linear_net(c, 0, c.layers, init);
}

// A batch for it: numbers of a normal distribution, the same for everybody who asks.
inline Tensor drawn_rows(int64_t rows, int64_t width) {
  Tensor x = Tensor::empty({rows, width});
  fill_initial(x, {.rows = rows, .columns = width}, normal(1), 0, "rows");
  return x;
}

// A loss for it: the sum of y^2 / 2, whose gradient is y itself. 0 on meta.
inline double half_square(const Tensor& y) {
  double sum = 0;
  if (y.device() != Device::meta)
    for (const double value : y.values()) sum += value * value / 2;
  return sum;
}

}  // namespace yotta
