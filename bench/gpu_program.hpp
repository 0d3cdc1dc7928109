// What the benchmarks of a GPU share: its name, how they end where there is none, and a clock.
#pragma once

#include <functional>
#include <string>

#include "yotta/core/error.hpp"  // {fmt}, as nvcc can read it

namespace yotta::bench {

// Ends a benchmark that has nothing to run on, as "not run".
inline int not_run(const char* why) {
  fmt::print("not run: {}\n", why);
  return 77;
}

inline constexpr const char* no_nvcc =
    "this was built without nvcc; cmake --preset cuda builds it with";

// In the emulator a benchmark of a GPU shows that all of it works: on small sizes, and its times
// mean nothing.
#ifdef YOTTA_EMULATED_GPU
inline constexpr bool in_emulator = true;
#else
inline constexpr bool in_emulator = false;
#endif

// The GPU's name; empty if there is none.
std::string gpu_name();

// The shortest time of a call in seconds, in batches that a function times, as core/cpu/measure.hpp
// takes it (which nvcc cannot read).
using ShortestOfBatches = std::function<double(const std::function<double(int calls)>&)>;

}  // namespace yotta::bench
