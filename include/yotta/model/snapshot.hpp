// Snapshot: all that a rank would lose if it died, as one run of bytes, copied while training goes
// on.
//
//     step        │  F   B   all_reduce │ optimizer │  F   B   all_reduce │ optimizer │
//     weights     =====================│  change   │======================│
//     memory      [ copy ]              ▲           [ copy ]
//     disk                 [ write .... └ waits for the copy only ......... ]
//
// Weights and optimizer state stand still from one optimizer step to the next. So a helper thread
// copies them during forward and backward, and the optimizer waits for it in the rare case that it
// is not done; then the thread writes the copy to the disk, while training goes on. The bytes end
// in a checksum: what was cut short, or changed on the disk or on the way, is not used.
//
//     DIR/step_12/part_0_of_2.snapshot     one file for each part of the model that ranks hold;
//     DIR/step_12/part_1_of_2.snapshot     a step counts when all its parts are whole
//
// Unlike a checkpoint (files/sharded_checkpoint.hpp), which any layout of ranks can load, a
// snapshot is what one rank holds: no message is needed to take or to restore it. Restored, a run
// computes the same bits as if nothing had happened.
// Cost: `kept` copies of weights and optimizer state in memory, and up to two more while one is
// taken; 12 bytes per parameter (f32, AdamW) to copy, and to write. Two are kept, since ranks may
// be one step apart when one dies. Losses so far, 16 bytes per step, are in the disk's first part
// alone: members that live have them (survivor.hpp).
// Contract: between start() and wait_copied() nobody changes what the optimizer holds.
// References: Mohan et al. (2021), CheckFreq, section 4 (copy, then write, beside training); Wang
// et al. (2023), Gemini (memory of peers as the first level).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "yotta/model/regroup.hpp"

namespace yotta {

// What is kept of a step that was taken.
struct StepRecord {
  double loss = 0;
  int64_t sequences = 0;  // that it was trained on

  bool operator==(const StepRecord&) const = default;
};

// The beginning of a snapshot.
struct SnapshotHeader {
  uint64_t run = 0;   // of which run it is
  int64_t epoch = 0;  // in which its last step was taken
  int64_t step = 0;   // steps done
  int64_t optimizer_steps = 0;
  std::vector<StepRecord> history;  // of each step done, or of none
};

// Differs for sure if one bit differs, or several within 8 bytes; beyond that, most probably.
YOTTA_API uint64_t checksum(std::string_view bytes);

YOTTA_API std::string pack_snapshot(const SnapshotHeader& header,
                                    std::span<const std::span<std::byte>> memory);
// Its header; empty unless all its bytes are there and none has changed.
YOTTA_API std::optional<SnapshotHeader> read_snapshot(std::string_view bytes);
// Sets the optimizer, and the weights that it steps. Errors: a snapshot that is not whole, or of
// another model or layout; nothing is changed then.
YOTTA_API SnapshotHeader restore_snapshot(std::string_view bytes, Optimizer& optimizer,
                                          Where where = Where::current());

// Takes snapshots beside training.
class SnapshotKeeper {
 public:
  static constexpr size_t kept = 2;
  // Puts a copy on the disk (files/snapshot_files.hpp); a helper thread calls it.
  using Write = std::function<void(int64_t step, std::string_view bytes)>;

  SnapshotKeeper() = default;
  YOTTA_API ~SnapshotKeeper();
  SnapshotKeeper(const SnapshotKeeper&) = delete;
  SnapshotKeeper& operator=(const SnapshotKeeper&) = delete;

  // Begins to copy, and then to write, if `write` is not empty; waits first for the one before.
  YOTTA_API void start(const SnapshotHeader& header, Optimizer& optimizer, Write write,
                       Where where = Where::current());
  // Waits until the copy is made: call it before the weights change.
  YOTTA_API void wait_copied();
  // Waits until it is also written, or writing has failed. Errors: those of the copy.
  YOTTA_API void wait();
  // How many could not be written so far, and what the disk said of the last of these.
  int64_t unwritten() const { return unwritten_; }
  const std::string& disk_problem() const { return disk_problem_; }

  // The snapshots in memory, by step. Waits for the copy.
  YOTTA_API const std::map<int64_t, std::string>& in_memory();
  // Keeps one that has come from elsewhere.
  YOTTA_API void add(int64_t step, std::string bytes);
  // Drops the snapshots that no longer belong to the run.
  YOTTA_API void keep_if(const std::function<bool(const SnapshotHeader&)>& belongs);

 private:
  YOTTA_API void copy_and_write(const SnapshotHeader& header,
                                std::span<const std::span<std::byte>> memory, const Write& write);
  YOTTA_API void drop_old();

  std::map<int64_t, std::string> memory_;
  int64_t copied_step_ = 0;
  std::thread helper_;
  std::mutex mutex_;
  std::condition_variable is_copied_;
  bool copying_ = false;               // these four are the helper's, too
  std::optional<std::string> copied_;  // until it is in memory_
  std::exception_ptr failure_;
  std::string write_problem_;  // of the one that the helper is at
  int64_t unwritten_ = 0;
  std::string disk_problem_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(model_survival_json)
#include <algorithm>
#include <cstring>
#include <utility>

namespace yotta {

uint64_t checksum(std::string_view bytes) {
  uint64_t sum = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;  // odd: another word gives another product
    sum ^= sum >> 32;
  }
  return sum;
}

namespace detail {
struct SnapshotStart {
  char mark[8] = {'y', 'o', 't', 't', 'a', 's', 'n', '1'};
  uint64_t run = 0;
  int64_t epoch = 0, step = 0, optimizer_steps = 0, records = 0, memory = 0;  // memory: in bytes
};
}  // namespace detail

std::string pack_snapshot(const SnapshotHeader& header,
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

std::optional<SnapshotHeader> read_snapshot(std::string_view bytes) {
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

SnapshotHeader restore_snapshot(std::string_view bytes, Optimizer& optimizer, Where where) {
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

SnapshotKeeper::~SnapshotKeeper() {
  if (helper_.joinable()) helper_.join();
}

void SnapshotKeeper::start(const SnapshotHeader& header, Optimizer& optimizer, Write write,
                           Where where) {
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
void SnapshotKeeper::copy_and_write(const SnapshotHeader& header,
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
void SnapshotKeeper::wait_copied() {
  std::unique_lock lock(mutex_);
  is_copied_.wait(lock, [&] { return !copying_; });
  if (!copied_) return;
  memory_[copied_step_] = std::move(*copied_);
  copied_.reset();
  drop_old();
}
void SnapshotKeeper::wait() {
  wait_copied();
  if (helper_.joinable()) helper_.join();
  if (!write_problem_.empty())
    disk_problem_ = std::exchange(write_problem_, std::string()), ++unwritten_;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}
const std::map<int64_t, std::string>& SnapshotKeeper::in_memory() {
  wait_copied();
  return memory_;
}
void SnapshotKeeper::add(int64_t step, std::string bytes) {
  wait_copied();
  memory_[step] = std::move(bytes);
  drop_old();
}
void SnapshotKeeper::keep_if(const std::function<bool(const SnapshotHeader&)>& belongs) {
  wait_copied();
  std::erase_if(memory_, [&](const auto& each) {
    const std::optional<SnapshotHeader> header = read_snapshot(each.second);
    return !header || !belongs(*header);
  });
}
void SnapshotKeeper::drop_old() {
  while (memory_.size() > kept) memory_.erase(memory_.begin());
}

}  // namespace yotta
#endif  // YOTTA_BODIES
