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
// in a checksum (silent_corruption.hpp): what was cut short, or changed on the disk or on the way,
// is not used.
//
//     DIR/step_12/part_0_of_2.snapshot     one file for each part of the model that ranks hold;
//     DIR/step_12/part_1_of_2.snapshot     a step counts when all its parts are whole
//
// Unlike a checkpoint (model/files/sharded_checkpoint.hpp), which any layout of ranks can load, a
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

#include "yotta/resilience/regroup.hpp"

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

std::string pack_snapshot(const SnapshotHeader& header,
                          std::span<const std::span<std::byte>> memory);
// Its header; empty unless all its bytes are there and none has changed.
std::optional<SnapshotHeader> read_snapshot(std::string_view bytes);
// Sets the optimizer, and the weights that it steps. Errors: a snapshot that is not whole, or of
// another model or layout; nothing is changed then.
SnapshotHeader restore_snapshot(std::string_view bytes, Optimizer& optimizer,
                                Where where = Where::current());

// Takes snapshots beside training.
class SnapshotKeeper {
 public:
  static constexpr size_t kept = 2;
  // Puts a copy on the disk (snapshot_files.hpp); a helper thread calls it.
  using Write = std::function<void(int64_t step, std::string_view bytes)>;

  SnapshotKeeper() = default;
  ~SnapshotKeeper();
  SnapshotKeeper(const SnapshotKeeper&) = delete;
  SnapshotKeeper& operator=(const SnapshotKeeper&) = delete;

  // Begins to copy, and then to write, if `write` is not empty; waits first for the one before.
  void start(const SnapshotHeader& header, Optimizer& optimizer, Write write,
             Where where = Where::current());
  // Waits until the copy is made: call it before the weights change.
  void wait_copied();
  // Waits until it is also written, or writing has failed. Errors: those of the copy.
  void wait();
  // How many could not be written so far, and what the disk said of the last of these.
  int64_t unwritten() const { return unwritten_; }
  const std::string& disk_problem() const { return disk_problem_; }

  // The snapshots in memory, by step. Waits for the copy.
  const std::map<int64_t, std::string>& in_memory();
  // Keeps one that has come from elsewhere.
  void add(int64_t step, std::string bytes);
  // Drops the snapshots that no longer belong to the run.
  void keep_if(const std::function<bool(const SnapshotHeader&)>& belongs);

 private:
  void copy_and_write(const SnapshotHeader& header, std::span<const std::span<std::byte>> memory,
                      const Write& write);
  void drop_old();

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

#ifndef YOTTA_COMPILED
#include "yotta/resilience/snapshots/impl/snapshot.ipp"
#endif
