// What the graded cases of exercise 21 call. adapter.cpp fills it with one solution.
#pragma once

#include <memory>
#include <string>

#include "course/cases/own_stack.hpp"
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
  Call<Tensor(const Tensor& x, const Communicator& tp, int64_t T)> gather;  // g
  Call<Tensor(const Tensor& dx, const Communicator& tp, int64_t T)> gather_backward;
  Call<void(yotta::Readers&& readers, const Tensor& x, yotta::Saved& saved, const Communicator& tp,
            int64_t T)>
      drop_gathered;
  // The shard is in `saved`.
  Call<void(yotta::Readers&& readers, yotta::Saved& saved, const Communicator& tp, int64_t T)>
      gather_again;
  Call<yotta::LayerPtr(const std::string& name, double probability, const Communicator& tp,
                       int64_t T)>
      make_dropout;
  Call<bool(const yotta::Parameter& parameter)> sees_own_tokens;
  Call<void(const std::vector<yotta::ParameterPtr>& parameters, const Communicator& tp)>
      reduce_gradients;
};
extern const Solution solution;

}  // namespace exercise
