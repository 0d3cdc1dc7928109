// What the benchmarks of a GPU are as programs.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>

namespace yotta::bench {

// Ends a benchmark that has nothing to run on, as "not run".
inline int not_run(const char* why) {
  fmt::print("not run: {}\n", why);
  return 77;
}

inline constexpr const char* no_nvcc =
    "this was built without nvcc; cmake --preset cuda builds it with";

// Reads the options, and runs; an error ends it with 1.
template <class Run>
int gpu_program(CLI::App& app, int argc, char** argv, Run run) {
  CLI11_PARSE(app, argc, argv);
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace yotta::bench
