#include "runner/places.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace fs = std::filesystem;

namespace runner {
namespace {

int open_lock(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
  if (file < 0)
    throw std::runtime_error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  return file;
}

constexpr const char* run_prefix = "run.";
constexpr const char* run_lock = "/lock";

// No folder is being made meanwhile: one without a lock is dead.
void remove_dead_runs(const std::string& parent) {
  for (const auto& entry : fs::directory_iterator(parent)) {
    const std::string path = entry.path();
    if (!entry.path().filename().string().starts_with(run_prefix)) continue;
    std::error_code ignored;
    if (FileLock::is_free(path + run_lock)) fs::remove_all(path, ignored);
  }
}

std::string make_run(const std::string& parent) {
  std::string path = parent + "/" + run_prefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    throw std::runtime_error(
        fmt::format("cannot make a folder in {}: {}", parent, std::strerror(errno)));
  return path;
}

}  // namespace

FileLock::FileLock(const std::string& path) : file_(open_lock(path)) {
  while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FileLock::~FileLock() { close(file_); }

bool FileLock::is_free(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  const bool taken = flock(file, LOCK_EX | LOCK_NB) != 0;
  close(file);
  return !taken;
}

std::unique_ptr<FileLock> FileLock::if_free(const std::string& path) {
  const int file = open_lock(path);
  if (flock(file, LOCK_EX | LOCK_NB) == 0)
    return std::unique_ptr<FileLock>(new FileLock(Held{file}));
  close(file);
  return nullptr;
}

std::string build_lock() { return YOTTA_BUILD_DIR "/.lock"; }
std::string build_output() { return YOTTA_BUILD_DIR "/.building"; }

std::string building(const std::string& ninja_said) {
  static const std::regex step(R"((?:^|\n)\[(\d+)/(\d+)\] )");
  std::string last;
  for (std::sregex_iterator it(ninja_said.begin(), ninja_said.end(), step), end; it != end; ++it)
    last = fmt::format("building, {} of {}", (*it)[1].str(), (*it)[2].str());
  return last;
}

std::string building_now() {
  if (FileLock::is_free(build_lock())) return "";
  std::ifstream file(build_output(), std::ios::ate);
  const std::streamoff size = std::max<std::streamoff>(file.tellg(), 0);
  file.seekg(std::max<std::streamoff>(0, size - 16384));  // a step's line has some 200 characters
  return building(std::string(std::istreambuf_iterator<char>(file), {}));
}

RunFolder::RunFolder(const std::string& parent) {
  fs::create_directories(parent);
  const FileLock one_at_a_time(parent + "/.lock");
  remove_dead_runs(parent);
  path_ = make_run(parent);
  alive_ = std::make_unique<FileLock>(path_ + run_lock);
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string keep_copy(const std::string& file) {
  for (int number = 1;; ++number) {
    const std::string copy = file + ".before" + (number == 1 ? "" : fmt::format(".{}", number));
    if (fs::exists(fs::symlink_status(copy))) continue;
    fs::copy_file(file, copy);
    return copy;
  }
}

}  // namespace runner
