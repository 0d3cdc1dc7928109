// What this machine can do: its matmul rate and its memory rate, measured.
//
// Every speed in the course is stated as a share of these two numbers, taken in the same process on
// the same day: 60 GFLOP/s say nothing; 70% of the matmul rate does. The two corners of the
// roofline (lesson 02) are the same pair.
//
//     rate = most work done in one try / time of that try, after a warm-up
//
// The best of several tries, since whatever else runs on the machine can only slow a try down.
// Cost: the time given, plus 12 MiB (matmul) or 192 MiB (memory) while it runs.
// Reference: McCalpin, STREAM (1995), whose triad and way of counting bytes these are.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "yotta/core/context.hpp"
#include "yotta/core/dtype.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/core/parallel_for.hpp"

namespace yotta {

// Of a clock that never goes back; only differences mean anything.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The shortest time of `body()` in seconds: one warm-up, then at least 3 tries, until the budget is
// spent.
template <class Body>
double shortest_seconds(double seconds_budget, Body&& body) {
  body();
  double best = 1e300;
  const double begin = seconds_now();
  for (int tries = 0; tries < 3 || seconds_now() - begin < seconds_budget; ++tries) {
    const double start = seconds_now();
    body();
    best = std::min(best, seconds_now() - start);
  }
  return std::max(best, 1e-9);  // a clock may be coarser than a small body
}

// The shortest mean time of a call, of something that is timed from outside, as a GPU by events:
// seconds_of(calls) runs so many calls and says how long they took. There are more and more calls
// until a batch takes 5 ms, so that its ends do not count; then at least 3 batches, until the
// budget is spent.
template <class SecondsOf>
double shortest_of_batches(double seconds_budget, SecondsOf&& seconds_of) {
  constexpr int most = 1 << 16;
  int calls = 1;
  seconds_of(calls);  // the warm-up
  while (calls < most && seconds_of(calls) < 5e-3) calls *= 2;
  double best = 1e300, spent = 0;
  for (int tries = 0; tries < 3 || spent < seconds_budget; ++tries) {
    const double seconds = seconds_of(calls);
    best = std::min(best, seconds / calls);
    spent += std::max(seconds, 1e-4);  // a clock that stands still ends, too
  }
  return std::max(best, 1e-9);
}

// The best matmul rate of `threads` threads, in GFLOP/s, on squares of `size`. Factors are bf16, or
// else f32; sums are f32.
double measure_matmul_gflops(int threads, double seconds_budget = 0.5, int64_t size = 1024,
                             DType factors = DType::f32);

// The best rate of x = y + 3 z over three arrays much larger than a core's caches, in GB/s: two
// reads and one write per element (the line that a write first fetches is not counted, as in
// STREAM).
double measure_memory_gbps(int threads, double seconds_budget = 0.5,
                           int64_t array_bytes = int64_t{64} << 20);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/cpu/impl/measure.ipp"
#endif
