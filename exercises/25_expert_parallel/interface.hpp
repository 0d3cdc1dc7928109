// What the graded cases of exercise 25 call. adapter.cpp fills it with one solution.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "course/cases/own_stack.hpp"
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
  Call<void(std::span<const double> s, std::span<const double> b, bool renormalise,
            std::span<int32_t> expert, std::span<double> weight)>
      choose;
  Call<void(std::span<const double> s, std::span<const int32_t> expert,
            std::span<const double> dweight, yotta::RouterScore score, bool renormalise,
            std::span<double> ds)>
      choose_backward;
  Call<void(const double* rows, std::span<const int64_t> row_of, std::span<const double> weight,
            std::span<double> sum)>
      combine;
  // Of two rows of one number, which has 16 bits; the first one counts 1.
  Call<float(float first, float second, float weight_of_second)> combine_bf16;
  // Of a rank.
  Call<Plan(Counts counts, int ep, int rank)> dispatch_plan;
  Call<Tensor(const Plan& plan, const Tensor& rows)> by_expert;
  Call<Tensor(const Plan& plan, const Tensor& rows)> by_rank;
  // `meanwhile` runs when the exchange has begun, before its end is waited for.
  Call<Tensor(const Tensor& rows, Counts to, Counts from, const Communicator& ep,
              const std::function<void()>& meanwhile)>
      exchange;
  Call<yotta::LayerPtr(const yotta::MoeOptions& options, const yotta::MoeAxes& axes)> make_layer;
  Call<void(const std::vector<yotta::ParameterPtr>& parameters, const Communicator& copies,
            const Communicator& data)>
      reduce_gradients;
  Call<int64_t(int64_t C, int64_t F, int64_t E, int64_t k)> weights_met;
};
extern const Solution solution;

}  // namespace exercise
