// What the graded cases of exercise 19 call. adapter.cpp fills it with one solution.
#pragma once

#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

namespace exercise {

// What parallel/zero_bubble.hpp has, for files that hold a student's copy of it.
struct Held {
  int64_t before_input, before_weight;
  bool operator==(const Held&) const = default;
};
struct Rank {
  std::vector<double> forward, input;
  int64_t weights = 0;
  double free = 0;
};

struct Solution {
  Call<Held(int rank, int p, int k)> held;  // k = 1: ZB-H1, 2: ZB-H2
  Call<yotta::PipelineActions(int rank, int p, int64_t m, int k)> actions;
  Call<double(const yotta::PipelineSchedule& schedule, const yotta::PipelineCosts& costs)>
      bubble_rate;
  Call<double(yotta::PipelineOp op, int rank, const std::vector<Rank>& ranks, int64_t m,
              int64_t hold, const yotta::PipelineCosts& costs)>
      can_begin;
  Call<yotta::PipelineSchedule(int p, int64_t m, int64_t hold, const yotta::PipelineCosts& costs)>
      greedy;
  Call<yotta::PipelineActions(int rank, int p, int64_t m)> zb_v;
};
extern const Solution solution;

}  // namespace exercise
