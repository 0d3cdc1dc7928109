// The bodies of resilience/snapshots/snapshot.hpp.
#pragma once

#include "yotta/resilience/snapshots/snapshot.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "yotta/resilience/silent_corruption.hpp"

namespace yotta {

namespace detail {
struct SnapshotStart {
  char mark[8] = {'y', 'o', 't', 't', 'a', 's', 'n', '1'};
  uint64_t run = 0;
  int64_t epoch = 0, step = 0, optimizer_steps = 0, records = 0, memory = 0;  // memory: in bytes
};
}  // namespace detail

YOTTA_INLINE std::string pack_snapshot(const SnapshotHeader& header,
                                       std::span<const std::span<std::byte>> memory) {
  detail::SnapshotStart start;
  start.run = header.run, start.epoch = header.epoch, start.step = header.step;
  start.optimizer_steps = header.optimizer_steps, start.records = std::ssize(header.history);
  for (const auto& each : memory) start.memory += std::ssize(each);
  const size_t history = header.history.size() * sizeof(StepRecord);
  std::string bytes;
  bytes.reserve(sizeof start + history + static_cast<size_t>(start.memory) + sizeof(uint64_t));
  const auto add = [&](const void* from, size_t count) {
    bytes.append(static_cast<const char*>(from), count);
  };
  add(&start, sizeof start);
  add(header.history.data(), history);
  for (const auto& each : memory) add(each.data(), each.size());
  const uint64_t sum = checksum(bytes);
  add(&sum, sizeof sum);
  return bytes;
}

YOTTA_INLINE std::optional<SnapshotHeader> read_snapshot(std::string_view bytes) {
  detail::SnapshotStart start;
  const detail::SnapshotStart expected;
  uint64_t sum = 0;
  if (bytes.size() < sizeof start + sizeof sum) return {};
  const size_t end = bytes.size() - sizeof sum;
  std::memcpy(&sum, bytes.data() + end, sizeof sum);
  if (sum != checksum(bytes.substr(0, end))) return {};
  std::memcpy(&start, bytes.data(), sizeof start);
  if (std::memcmp(start.mark, expected.mark, sizeof start.mark) != 0) return {};
  const auto body = static_cast<int64_t>(end - sizeof start),
             record = static_cast<int64_t>(sizeof(StepRecord));
  if (start.records < 0 || start.records > body / record) return {};
  if (start.memory != body - start.records * record) return {};
  SnapshotHeader header{start.run, start.epoch, start.step, start.optimizer_steps, {}};
  header.history.resize(static_cast<size_t>(start.records));
  if (start.records > 0)
    std::memcpy(header.history.data(), bytes.data() + sizeof start,
                header.history.size() * sizeof(StepRecord));
  return header;
}

YOTTA_INLINE SnapshotHeader restore_snapshot(std::string_view bytes, Optimizer& optimizer,
                                             Where where) {
  std::optional<SnapshotHeader> header = read_snapshot(bytes);
  if (!header)
    fail(where, "a snapshot of {} bytes is not whole, so it was not restored: take an older one",
         bytes.size());
  const std::vector<std::span<std::byte>> memory = memory_of(optimizer, where);
  size_t needed = 0;
  for (const auto& each : memory) needed += each.size();
  size_t at = sizeof(detail::SnapshotStart) + header->history.size() * sizeof(StepRecord);
  if (bytes.size() != at + needed + sizeof(uint64_t))
    fail(where, "a snapshot holds {} bytes of weights and optimizer state, and this rank has {}",
         bytes.size() - at - sizeof(uint64_t), needed);
  for (const auto& each : memory) {
    std::memcpy(each.data(), bytes.data() + at, each.size());
    at += each.size();
  }
  optimizer.set_steps(header->optimizer_steps);
  return *header;
}

YOTTA_INLINE SnapshotKeeper::~SnapshotKeeper() {
  if (helper_.joinable()) helper_.join();
}

YOTTA_INLINE void SnapshotKeeper::start(const SnapshotHeader& header, Optimizer& optimizer,
                                        Write write, Where where) {
  wait();
  copied_step_ = header.step;
  copying_ = true;
  helper_ =
      std::thread([this, header, write = std::move(write), memory = memory_of(optimizer, where)] {
        try {
          copy_and_write(header, memory, write);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          failure_ = std::current_exception();
          copying_ = false;
          is_copied_.notify_all();
        }
      });
}
YOTTA_INLINE void SnapshotKeeper::copy_and_write(const SnapshotHeader& header,
                                                 std::span<const std::span<std::byte>> memory,
                                                 const Write& write) {
  const std::string bytes = pack_snapshot(header, memory);
  {
    const std::lock_guard lock(mutex_);
    copied_ = bytes;
    copying_ = false;
    is_copied_.notify_all();
  }
  try {
    if (write) write(header.step, bytes);
  } catch (const std::exception& problem) {
    write_problem_ = problem.what();
  }
}
YOTTA_INLINE void SnapshotKeeper::wait_copied() {
  std::unique_lock lock(mutex_);
  is_copied_.wait(lock, [&] { return !copying_; });
  if (!copied_) return;
  memory_[copied_step_] = std::move(*copied_);
  copied_.reset();
  drop_old();
}
YOTTA_INLINE void SnapshotKeeper::wait() {
  wait_copied();
  if (helper_.joinable()) helper_.join();
  if (!write_problem_.empty())
    disk_problem_ = std::exchange(write_problem_, std::string()), ++unwritten_;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}
YOTTA_INLINE const std::map<int64_t, std::string>& SnapshotKeeper::in_memory() {
  wait_copied();
  return memory_;
}
YOTTA_INLINE void SnapshotKeeper::add(int64_t step, std::string bytes) {
  wait_copied();
  memory_[step] = std::move(bytes);
  drop_old();
}
YOTTA_INLINE void SnapshotKeeper::keep_if(
    const std::function<bool(const SnapshotHeader&)>& belongs) {
  wait_copied();
  std::erase_if(memory_, [&](const auto& each) {
    const std::optional<SnapshotHeader> header = read_snapshot(each.second);
    return !header || !belongs(*header);
  });
}
YOTTA_INLINE void SnapshotKeeper::drop_old() {
  while (memory_.size() > kept) memory_.erase(memory_.begin());
}

}  // namespace yotta
