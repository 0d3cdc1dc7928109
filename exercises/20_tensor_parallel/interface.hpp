// What the graded cases of exercise 20 call. adapter.cpp fills it with one solution.
#pragma once

#include <memory>
#include <string>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/linear.hpp"

namespace exercise {

using yotta::LayerPtr;
using yotta::LinearOptions;
using yotta::ParameterOptions;
using yotta::Tensor;

struct MlpSizes {
  bool swiglu = false;
  int64_t width = 1, hidden = 1;
  bool bias = true;
  double dropout = 0;
};

struct Solution {
  LinearOptions (*cut_by_columns)(const LinearOptions& whole, const yotta::Communicator& tp,
                                  const std::string& layer);
  LinearOptions (*cut_by_rows)(const LinearOptions& whole, const yotta::Communicator& tp,
                               const std::string& layer);
  Tensor (*f_backward)(Tensor dx, const yotta::Communicator& tp);
  Tensor (*g_forward)(Tensor y, const yotta::Communicator& tp);
  LayerPtr (*make_columns)(const std::string& name, const LinearOptions& whole,
                           const ParameterOptions& made, const yotta::Communicator& tp);
  LayerPtr (*make_rows)(const std::string& name, const LinearOptions& whole,
                        const ParameterOptions& made, const yotta::Communicator& tp);
  LayerPtr (*make_mlp)(const std::string& name, const MlpSizes& sizes, const ParameterOptions& made,
                       const yotta::Communicator& tp);
};
extern const Solution solution;

}  // namespace exercise
