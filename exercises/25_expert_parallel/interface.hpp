// What the graded cases of exercise 25 call. adapter.cpp fills it with one solution.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/expert_share.hpp"

namespace exercise {

using yotta::Communicator;
using yotta::Counts;
using yotta::Tensor;

struct Plan {
  std::vector<int64_t> to, from, arriving, held;
};

struct Solution {
  // Of one token.
  void (*choose)(std::span<const double> s, std::span<const double> b, bool renormalise,
                 std::span<int32_t> expert, std::span<double> weight);
  void (*choose_backward)(std::span<const double> s, std::span<const int32_t> expert,
                          std::span<const double> dweight, yotta::RouterScore score,
                          bool renormalise, std::span<double> ds);
  void (*combine)(const double* rows, std::span<const int64_t> row_of,
                  std::span<const double> weight, std::span<double> sum);
  // Of two rows of one number, which has 16 bits; the first one counts 1.
  float (*combine_bf16)(float first, float second, float weight_of_second);
  // Of a rank.
  Plan (*dispatch_plan)(Counts counts, int ep, int rank);
  Tensor (*by_expert)(const Plan& plan, const Tensor& rows);
  Tensor (*by_rank)(const Plan& plan, const Tensor& rows);
  // `meanwhile` runs when the exchange has begun, before its end is waited for.
  Tensor (*exchange)(const Tensor& rows, Counts to, Counts from, const Communicator& ep,
                     const std::function<void()>& meanwhile);
  yotta::LayerPtr (*make_layer)(const yotta::MoeOptions& options, const yotta::MoeAxes& axes);
  void (*reduce_gradients)(const std::vector<yotta::ParameterPtr>& parameters,
                           const Communicator& copies, const Communicator& data);
  int64_t (*weights_met)(int64_t C, int64_t F, int64_t E, int64_t k);
};
extern const Solution solution;

}  // namespace exercise
