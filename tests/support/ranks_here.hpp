// One test for every transport: the same cases run on threads, and again in several processes, by
// MPI and by sockets, where run_ranks has as many ranks as there are processes.
//
//     for (int p : ranks_here({1, 2, 3, 4, 8})) run_ranks(p, ...);    on threads all; on 3
//                                                                     processes 3
//     if (!enough_ranks(2)) return;                                   the case needs 2
//     world.all_reduce(x, ReduceOp::sum, {own_algorithm()});          native, where these ranks
//                                                                     have it
//
// tests/CMakeLists.txt lists the files that run so. What their ranks leave in captured variables is
// in another process: cases that need it ask on_threads().
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "yotta/comm/run_ranks.hpp"

namespace yotta_test {

// How many processes run this program together; 0: it was started alone, so ranks are threads.
int processes();
// Does the transport of these ranks run collectives itself? Sockets have only messages.
bool has_native();

inline yotta::Algorithm own_algorithm() {
  return has_native() ? yotta::Algorithm::native : yotta::Algorithm::automatic;
}

// NCCL's collectives wait on the device, where nothing shows for which rank, and only a time-out
// ends that; a receive waits on the host, for the envelope, which has no tag that an error message
// could name.
inline bool& waits_on_device() {
  static bool value = false;
  return value;
}

inline bool on_threads() { return processes() == 0; }

inline std::vector<int> ranks_here(std::vector<int> counts) {
  if (on_threads()) return counts;
  CHECK(processes() > 0);  // a process that takes no part has no other check in its case
  std::erase_if(counts, [](int count) { return count > processes(); });
  return counts.empty() ? counts : std::vector{*std::max_element(counts.begin(), counts.end())};
}

inline bool enough_ranks(int n) {
  CHECK(processes() >= 0);  // nor has a process of too few
  return on_threads() || n <= processes();
}

}  // namespace yotta_test
