// How a benchmark of a GPU ends where there is none.
#pragma once

#include <fmt/core.h>

namespace yotta::bench {

// Ends a benchmark that has nothing to run on, as "not run".
inline int not_run(const char* why) {
  fmt::print("not run: {}\n", why);
  return 77;
}

inline constexpr const char* no_nvcc =
    "this was built without nvcc; cmake --preset cuda builds it with";

}  // namespace yotta::bench
