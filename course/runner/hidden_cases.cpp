#include "runner/hidden_cases.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/process.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double configure_seconds = 600;

std::string alive_lock(const std::string& build) { return build + "/.hidden_lock"; }

void set_hidden(const std::string& folder, const std::string& build) {
  const std::string cache = read_text(build + "/CMakeCache.txt");
  if (cache.find("YOTTA_HIDDEN:STRING=" + folder + "\n") != std::string::npos) return;
  const FileLock lock(build + "/.lock");
  run_limited({"cmake", build, "-DYOTTA_HIDDEN:STRING=" + folder}, configure_seconds);
}

// The lock's path, after a word to who may have to wait.
std::string announced(const std::string& lock) {
  if (!FileLock::is_free(lock))
    fmt::print(stderr, "Another ./yotta grade runs in this tree: waiting until it has ended ...\n");
  return lock;
}

}  // namespace

HiddenCases::HiddenCases(const std::string& folder, const std::string& build)
    : build_(build), alive_(announced(alive_lock(build))) {
  if (!folder.empty() && !fs::is_directory(folder))
    throw std::runtime_error("there is no folder " + folder);
  set_hidden(folder.empty() ? "" : fs::canonical(folder).string(), build);
}

HiddenCases::~HiddenCases() { set_hidden("", build_); }

void remove_left_hidden_cases(const std::string& build) {
  if (const auto mine = FileLock::if_free(alive_lock(build))) set_hidden("", build);
}

}  // namespace runner
