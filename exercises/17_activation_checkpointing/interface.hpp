// What the graded cases of exercise 17 call. adapter.cpp fills it with one solution.
#pragma once

#include "yotta/core/exercise.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/parallel/revolve.hpp"

namespace exercise {

struct Solution {
  std::vector<int64_t> (*slices_of)(int64_t n, int64_t C);
  int64_t (*square_root_of)(int64_t n);
  yotta::LayerPtr (*checkpoint)(yotta::Layers slice);
  yotta::LayerPtr (*attention_checkpoint)(yotta::Layers slice);
  yotta::LayerPtr (*replay)(yotta::Layers slice, yotta::ReplayActions actions);
};
extern const Solution solution;

}  // namespace exercise
