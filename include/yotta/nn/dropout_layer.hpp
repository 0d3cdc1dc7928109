// Dropout as a layer that draws the same mask in every layout of ranks.
//
//     the whole batch                    a rank holds some sequences, and some positions of each:
//       positions ->                     number (s, t, c) of the whole batch is draw
//     s [ . . . . . . . . ]                  (s * 2^20 + t) * C + c
//     | [ . . . . # # # # ] <- this rank     of the generator named after the layer and the step
//     v [ . . . . # # # # ]
//
// The step is part of the name, so that every step drops different numbers; running forward again
// for the same BatchPosition (to recompute activations) drops the same ones. With p = 0, and
// outside training, it does nothing and keeps nothing.
// x (B, T, C); keeps B T C bytes. Positions must be below 2^20.
#pragma once

#include "yotta/core/options.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/layer.hpp"

namespace yotta {

inline constexpr int64_t most_positions = int64_t{1} << 20;

// The generator of a layer's masks at a step.
inline Random mask_random(const BatchPosition& position, const std::string& layer) {
  return {position.seed, layer + ".mask." + std::to_string(position.step)};
}

class Dropout : public Layer {
 public:
  Dropout(std::string name, double probability, Where where = Where::current())
      : Layer(std::move(name)), probability_(probability) {
    check_number(where, "the probability of dropout", probability, below_one);
  }

  // x (B, T, C) -> y (B, T, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const BatchPosition& position = saved.position();
    if (probability_ == 0 || !position.training) return x;
    const int64_t B = x.dim(0), T = x.dim(1), width = x.dim(2);
    const Positions& positions = position.positions;
    // Numbers that are neighbours in the whole: a sequence's columns, or each of its two runs; of a
    // packed sequence each token alone.
    const int64_t runs = positions.packing != nullptr ? T : positions.runs();
    const auto first_of_run = [&](int64_t run) {
      const int64_t sequence = position.first_sequence + run / runs;
      return (sequence * most_positions + positions.place(run * (T / runs), T)) * width;
    };
    Tensor mask;
    Tensor y =
        dropout_rows(x, B * runs, probability_, mask_random(position, name()), first_of_run, mask);
    saved.keep("mask", std::move(mask));
    return y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return saved.has("mask") ? dropout_backward(dy, saved.take("mask"), probability_) : dy;
  }
  void backward_weight(Saved&) override {}
  void add_parameters(std::vector<ParameterPtr>&) override {}
  double probability() const { return probability_; }

 private:
  double probability_;
};

}  // namespace yotta
