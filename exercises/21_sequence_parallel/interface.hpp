// What the graded cases of exercise 21 call. adapter.cpp fills it with one solution.
#pragma once

#include <memory>
#include <string>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/nn/transformer.hpp"

namespace exercise {

using yotta::Communicator;
using yotta::Tensor;

// T: tokens of a sequence.
struct Solution {
  Tensor (*gather)(const Tensor& x, const Communicator& tp, int64_t T);  // g
  Tensor (*gather_backward)(const Tensor& dx, const Communicator& tp, int64_t T);
  void (*drop_gathered)(yotta::Readers&& readers, const Tensor& x, yotta::Saved& saved,
                        const Communicator& tp, int64_t T);
  // The shard is in `saved`.
  void (*gather_again)(yotta::Readers&& readers, yotta::Saved& saved, const Communicator& tp,
                       int64_t T);
  yotta::LayerPtr (*make_dropout)(const std::string& name, double probability,
                                  const Communicator& tp, int64_t T);
  bool (*sees_own_tokens)(const yotta::Parameter& parameter);
  void (*reduce_gradients)(const std::vector<yotta::ParameterPtr>& parameters,
                           const Communicator& tp);
};
extern const Solution solution;

}  // namespace exercise
