// What the graded cases of exercise 20 call. adapter.cpp fills it with one solution.
#pragma once

#include <memory>
#include <string>

#include "course/shared/light_communicator.hpp"
#include "yotta/comm/axis.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/linear.hpp"

namespace exercise {

using yotta::LayerPtr;
using yotta::LinearOptions;
using yotta::ParameterOptions;
using yotta::Tensor;
using Light = yotta::student::Communicator;

struct MlpSizes {
  bool swiglu = false;
  int64_t width = 1, hidden = 1;
  bool bias = true;
  double dropout = 0;
};

struct Solution {
  LinearOptions (*cut_by_columns)(const LinearOptions& whole, const Light& tp,
                                  const std::string& layer);
  LinearOptions (*cut_by_rows)(const LinearOptions& whole, const Light& tp,
                               const std::string& layer);
  Tensor (*f_backward)(Tensor dx, const Light& tp);
  Tensor (*g_forward)(Tensor y, const Light& tp);
  LayerPtr (*make_columns)(const std::string& name, const LinearOptions& whole,
                           const ParameterOptions& made, const Light& tp);
  LayerPtr (*make_rows)(const std::string& name, const LinearOptions& whole,
                        const ParameterOptions& made, const Light& tp);
  LayerPtr (*make_mlp)(const std::string& name, const MlpSizes& sizes, const ParameterOptions& made,
                       const Light& tp);
};
extern const Solution solution;

}  // namespace exercise
