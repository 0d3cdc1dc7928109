// What the graded cases of exercise 27 call. adapter.cpp fills it with one solution.
#pragma once

#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/parallel/activation_memory.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/plan/waterfall.hpp"

namespace exercise {

using yotta::CountedModel;
using yotta::MfuMachine;
using yotta::Trace;
using yotta::TraceEvent;
using yotta::Waterfall;

enum class Counted { none, causal, all };  // scores

struct Parts {
  double projections, scores, feed_forward, output;
};
struct Log {
  std::vector<double> step_seconds;
  int64_t warm_up;
  double tokens_a_rank;
  int64_t data_ranks, chips;
  double printed_peak;
  bool sparse;
};
struct OpParts {
  double counted, wider, memory, launch;
};

struct Solution {
  Call<Parts(const CountedModel&, double T, Counted scores)> forward_flops;
  Call<double(const CountedModel&, double T, Counted scores, yotta::Recomputed again)>
      hardware_flops;
  Call<double(const Log&, double flops_a_token)> mfu_of_log;
  Call<OpParts(const TraceEvent&, const MfuMachine&)> op_time;
  Call<void(Waterfall&, const Trace&, yotta::EventId, double from, double until, const MfuMachine&,
            double slow)>
      add_wait;
  Call<Waterfall(const Trace&, const MfuMachine&, double model_flops, double begin, double end)>
      waterfall;
};
extern const Solution solution;

}  // namespace exercise
