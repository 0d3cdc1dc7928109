// What the graded cases of exercise 20 call. adapter.cpp fills it with one solution.
#pragma once

#include <memory>
#include <string>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/transformer.hpp"

namespace exercise {

using yotta::Communicator;
using yotta::Tensor;

struct Solution {
  Call<Tensor(Tensor dx, const Communicator& tp)> f_backward;
  Call<Tensor(Tensor y, const Communicator& tp)> g_forward;
  Call<void(yotta::Linear& layer, const Communicator& tp)> cut_by_columns;
  Call<void(yotta::Linear& layer, const Communicator& tp)> cut_by_rows;
  // A layer that cut_by_rows has cut, with g behind it.
  Call<yotta::LayerPtr(yotta::Linear&& cut, const Communicator& tp)> with_g;
  Call<void(yotta::Mlp& mlp, const Communicator& tp)> cut_mlp;
  Call<void(yotta::Attention& attention, const Communicator& tp)> cut_attention;
};
extern const Solution solution;

}  // namespace exercise
