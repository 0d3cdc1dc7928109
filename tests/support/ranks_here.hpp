// One test for every transport: the same cases run on threads, and once more in the processes of a job, by MPI and by
// TCP, where run_ranks has as many ranks as the job has processes.
//
//     for (int p : ranks_here({1, 2, 3, 4, 8})) run_ranks(p, ...);    on threads all; on 3 processes 3
//     if (!enough_ranks(2)) return;                                   the case needs 2
//     world.all_reduce(x, ReduceOp::sum, {own_algorithm()});          native, where these ranks have it
//
// A file with the line "// every transport" is linked into each kind of program. What its ranks leave in captured
// variables is in another process: cases that need it ask on_threads().
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "yotta/comm/run_ranks.hpp"

namespace yotta_test {

// Of the job that runs this program; 0: none, so ranks are threads.
int processes();
// Have these ranks collectives of their own? By TCP there are only messages.
bool has_native();

inline yotta::Algorithm own_algorithm() {
  return has_native() ? yotta::Algorithm::native : yotta::Algorithm::automatic;
}

// Ranks of NCCL wait on the device, where nobody sees for whom, and only a time-out ends it; a receive waits on the host,
// for the envelope, which has no tag for people to read.
inline bool& waits_on_device() {
  static bool value = false;
  return value;
}

inline bool on_threads() { return processes() == 0; }

inline std::vector<int> ranks_here(std::vector<int> counts) {
  if (on_threads()) return counts;
  CHECK(processes() > 0);  // a process beyond them has no other check in its case
  std::erase_if(counts, [](int count) { return count > processes(); });
  return counts.empty() ? counts : std::vector{*std::max_element(counts.begin(), counts.end())};
}

inline bool enough_ranks(int n) {
  CHECK(processes() >= 0);  // nor has one that is too few
  return on_threads() || n <= processes();
}

}  // namespace yotta_test
