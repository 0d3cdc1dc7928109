// The bodies of resilience/snapshots/snapshot_files.hpp.
#pragma once

#include "yotta/resilience/snapshots/snapshot_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "yotta/core/system/files.hpp"

namespace yotta {

YOTTA_INLINE std::string snapshot_file(const std::string& folder, int64_t step, Part part) {
  return fmt::format("{}/step_{}/part_{}_of_{}.snapshot", folder, step, part.index, part.count);
}

namespace detail {
// The steps that have a folder, the newest first.
inline std::vector<int64_t> steps_in(const std::string& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int64_t step = -1;
    if (!name.starts_with("step_")) continue;
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (name == fmt::format("step_{}", step)) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}
inline bool has_all_parts(const std::string& folder, int64_t step, int count) {
  for (int part = 0; part < count; ++part)
    if (!std::filesystem::exists(snapshot_file(folder, step, {part, count}))) return false;
  return true;
}
inline void remove_snapshot(const std::string& folder, int64_t step, Part part) {
  const std::filesystem::path gone = snapshot_file(folder, step, part);
  std::error_code ignored;
  std::filesystem::remove(gone, ignored);
  std::filesystem::remove(partial_name(gone), ignored);  // of one that was killed there
  std::filesystem::remove(gone.parent_path(), ignored);  // when its last part has gone
}
}  // namespace detail

YOTTA_INLINE void write_snapshot(const std::string& folder, int64_t step, Part part,
                                 std::string_view bytes, Where where) {
  const std::filesystem::path path = snapshot_file(folder, step, part);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) fail(where, "{} cannot be made: {}", path.parent_path().string(), error.message());
  try {
    AtomicFile file(path, where);
    file.write(bytes.data(), std::ssize(bytes), where);
    file.commit(where);
  } catch (const Error&) {  // a full disk: no empty folder stays
    std::filesystem::remove(path.parent_path(), error);
    throw;
  }
  size_t newer = 0;
  bool is_safe = false;  // all parts of a newer step are there
  for (const int64_t old : detail::steps_in(folder)) {
    const bool is_last = !is_safe && detail::has_all_parts(folder, old, part.count);
    is_safe = is_safe || is_last;
    if (old <= step && ++newer > SnapshotKeeper::kept && !is_last)
      detail::remove_snapshot(folder, old, part);
  }
}

YOTTA_INLINE void remove_snapshots(const std::string& folder, Part part, int64_t after) {
  for (const int64_t step : detail::steps_in(folder))
    if (step > after) detail::remove_snapshot(folder, step, part);
}

YOTTA_INLINE std::vector<int64_t> good_steps(const std::string& folder, Part part, uint64_t run,
                                             int64_t after, Where where) {
  std::vector<int64_t> good;
  if (folder.empty()) return good;
  for (const int64_t step : detail::steps_in(folder)) {
    const std::string file = snapshot_file(folder, step, part);
    if (step <= after || !std::filesystem::exists(file)) continue;
    const std::optional<SnapshotHeader> header = read_snapshot(read_file(file, where));
    if (!header || header->step != step) continue;
    if (header->run != run)
      fail(where,
           "{} is of another run: give a folder of its own to this one, or remove the snapshots",
           file);
    good.push_back(step);
  }
  return good;
}

YOTTA_INLINE std::string why_no_step(const std::string& folder, int parts, Where where) {
  const std::vector<int64_t> steps = detail::steps_in(folder);
  std::string lacks;
  for (int part = 0; part < parts && !steps.empty(); ++part) {
    const std::string file = snapshot_file(folder, steps.front(), {part, parts});
    const bool is_there = std::filesystem::exists(file);
    if (is_there && read_snapshot(read_file(file, where))) continue;
    lacks += fmt::format("{}{} is {}", lacks.empty() ? "" : ", ", file,
                         is_there ? "cut short or changed" : "not there");
  }
  return lacks;
}

}  // namespace yotta
