// What the graded cases of exercise 27 call. adapter.cpp fills it with one solution.
#pragma once

#include <vector>

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
  Parts (*forward_flops)(const CountedModel&, double T, Counted scores);
  double (*hardware_flops)(const CountedModel&, double T, Counted scores, yotta::Recomputed again);
  double (*mfu_of_log)(const Log&, double flops_a_token);
  OpParts (*op_time)(const TraceEvent&, const MfuMachine&);
  void (*add_wait)(Waterfall&, const Trace&, yotta::EventId, double from, double until,
                   const MfuMachine&, double slow);
  Waterfall (*waterfall)(const Trace&, const MfuMachine&, double model_flops, double begin,
                         double end);
};
extern const Solution solution;

}  // namespace exercise
