// What the benchmarks share.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "yotta/core/random.hpp"

namespace yotta::bench {

using Json = nlohmann::ordered_json;

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
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

// Writes a report; 0, or 1 if it could not.
inline int write_json(const std::string& name, const Json& report) {
  std::ofstream file(name);
  file << report.dump(2) << "\n";
  file.close();
  if (file) return 0;
  fmt::print(stderr, "cannot write {}\n", name);
  return 1;
}

}  // namespace yotta::bench
