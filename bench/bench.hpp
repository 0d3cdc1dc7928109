// What the benchmarks share.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "course/options/usage.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/core/random.hpp"

namespace yotta::bench {

using Json = nlohmann::ordered_json;

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// "1.16 (1.09 to 1.31)": the median, the smallest and the largest; "-" if there are none.
inline std::string ratio_text(std::vector<double> ratios) {
  if (ratios.empty()) return "-";
  std::sort(ratios.begin(), ratios.end());
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", median(ratios), ratios.front(), ratios.back());
}

// The path of this program, to start it once more.
inline std::string own_path(const char* first_argument) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : first_argument;
}

// What a run was trained on, so that whoever repeats it can tell whether they have the same text.
inline Json text_mark(const std::string& bytes) {
  return {{"bytes", bytes.size()}, {"hash", fmt::format("{:016x}", hash_name(bytes))}};
}

// What a call takes: time, or with `processor_time` that of the processor, of all threads; then
// other programs on the machine matter less.
inline double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
template <class Call>
double seconds_of(bool processor_time, Call&& call) {
  const double start = processor_time ? processor_seconds() : seconds_now();
  call();
  return (processor_time ? processor_seconds() : seconds_now()) - start;
}

// Reads the options, then runs; 1, and on stderr why, if that fails.
template <class Run>
int run_benchmark(CLI::App& app, int argc, char** argv, Run&& run) {
  if (const auto status = parse_or_end(app, argc, argv)) return *status;
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

// Writes a report; 0, or 1 if it could not.
inline int write_json(const std::string& name, const Json& report) {
  std::ofstream file(name);
  file << report.dump(2) << "\n";
  file.close();
  if (file) return 0;
  fmt::print(stderr, "cannot write {}\n", name);
  return 1;
}

// What a benchmark ends with: 0 if its results are right and the report, if a file is asked for, is
// written.
inline int end_with(bool right, const std::string& json, const Json& report) {
  const int written = json.empty() ? 0 : write_json(json, report);
  return right ? written : 1;
}

}  // namespace yotta::bench
