// What the graded cases of exercise 06 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/core/context.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/machine/roofline.hpp"

namespace exercise {

// Programs and queues as plain values. They are not yotta::HostCall and yotta::LaunchQueue: where a
// solution is compiled the library's own functions must not be seen, or a call with one of them
// could mean either.
struct HostCall {
  int kind = 0;
  std::string name;
  int stream = 0;
  double seconds = 0, bytes = 0;
  bool pinned = true;
  int event = -1, reads = -1, writes = -1;
};
struct Span {
  std::string name;
  int stream = 0;
  double issued = 0, begin = 0, end = 0;
  int reads = -1, writes = -1;
  bool is_copy = false;
};
struct Queue {
  double now = 0, kernels = 0, copies = 0;
  std::map<int, double> streams, events;
  std::vector<Span> spans;
};

// One function of LaunchQueue, on a queue in this state. `gap` is for run_kernel alone.
enum class Step { run_kernel, run_copy, record_event, wait_event, synchronize };

struct Solution {
  Call<double(double framework, double launch, double gap)> hiding_seconds;
  Call<Queue(Step which, Queue before, const HostCall& call, double gap)> step;
  Call<std::vector<HostCall>(double bytes, const std::vector<HostCall>& step, int steps)>
      overlapped_steps;
  // Of a graph that reads buffer `input` and has one call, which is returned with kind graph.
  Call<std::vector<HostCall>(int input, double bytes, const std::vector<double>& batches)>
      replayed_steps;
};
extern const Solution solution;

}  // namespace exercise
