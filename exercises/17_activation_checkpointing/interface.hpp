// What the graded cases of exercise 17 call. adapter.cpp fills it with one solution.
#pragma once

#include "yotta/core/exercise.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/revolve.hpp"

namespace exercise {

struct Solution {
  int64_t (*square_root_of)(int64_t n);
  yotta::LayerPtr (*checkpoint)(yotta::Layers slice);
  // Entries [first, last) in slices of `every` layers each.
  std::vector<yotta::LayerPtr> (*checkpointed)(yotta::Layers stack, int64_t every, int64_t first,
                                               int64_t last);
  std::unique_ptr<yotta::AttentionCore> (*recomputed)(std::unique_ptr<yotta::AttentionCore> core);
  yotta::LayerPtr (*replay)(yotta::Layers slice, yotta::ReplayActions actions);
};
extern const Solution solution;

}  // namespace exercise
