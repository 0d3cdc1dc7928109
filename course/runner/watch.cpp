#include "runner/watch.hpp"

#include <fmt/core.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runner/exercise.hpp"
#include "runner/progress.hpp"

namespace runner {
namespace {

constexpr auto settles_in = std::chrono::milliseconds(120);
constexpr int looks_every = 500, looks_beside_events_every = 2000;  // milliseconds

}  // namespace

Watch::Watch(bool look) {
  if (!look) events_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

Watch::~Watch() {
  if (events_ >= 0) close(events_);
}

void Watch::follow(const std::string& file) {
  if (events_ >= 0 && folder_ >= 0) inotify_rm_watch(events_, folder_);
  file_ = file;
  const std::string folder = std::filesystem::path(file).parent_path();
  // The folder: editors put another file in the place of the old one.
  if (events_ >= 0)
    folder_ = inotify_add_watch(events_, folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE);
  stamp_ = stamp(), print_ = print();
  settling_ = false;
}

int Watch::patience() const {
  if (!settling_) return events_ >= 0 && folder_ >= 0 ? looks_beside_events_every : looks_every;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(calm_ - Clock::now());
  return static_cast<int>(std::max<int64_t>(1, left.count() + 1));
}

bool Watch::saved() {
  char buffer[4096];
  while (events_ >= 0 && read(events_, buffer, sizeof buffer) > 0) {
  }
  const std::string now = stamp();
  if (now != stamp_) {
    stamp_ = now;
    settling_ = true;
    calm_ = Clock::now() + settles_in;
    return false;
  }
  if (!settling_ || Clock::now() < calm_) return false;
  settling_ = false;
  const std::string held = print();
  if (held.empty() || held == print_) return false;
  print_ = held;
  return true;
}

std::string Watch::stamp() const {
  struct stat status = {};
  if (stat(file_.c_str(), &status) != 0) return "";
  return fmt::format("{} {} {} {}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size,
                     status.st_ino);
}

std::string Watch::print() const {
  try {
    return print_of(read_text(file_));
  } catch (const std::runtime_error&) {
    return "";
  }
}

}  // namespace runner
