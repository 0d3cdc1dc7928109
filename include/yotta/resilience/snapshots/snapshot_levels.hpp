// Snapshot levels: where a rank's part of the model can come from after a failure.
//
//     level         who has it                              lost when
//     own memory    the rank itself                         it dies
//     peer memory   the same part of another replica; or,   both die
//                   with a single replica, the next rank
//     disk          all, if they share it                   (the job can be started again)
//     beginning     all: weights are drawn from a seed      never; but all steps are done again
//
//     rank 0          rank 1          rank 2               one replica, three parts
//     part 0          part 1          part 2               its own
//     part 2          part 0          part 1               the rank before it, every snapshot
//
// Memory is a hundred times as fast as a shared disk, and two ranks that die at once are rare. So
// the disk is written behind training, and read only where it has a newer step of all parts than
// memory has. What memory and disk have is one list of offers for find_healing (regroup.hpp).
// Contract: all ranks of a world make the same calls.
// Reference: Wang et al. (2023), Gemini, sections 3 and 4 (which peers keep whose snapshots).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/resilience/regroup.hpp"
#include "yotta/resilience/snapshots/snapshot.hpp"

namespace yotta {

// The worst level that any rank of an epoch needed.
enum class SnapshotLevel : uint8_t { own_memory, peer_memory, disk, beginning };
constexpr const char* name(SnapshotLevel level) {
  constexpr const char* names[] = {"own memory", "peer memory", "disk", "beginning"};
  return names[static_cast<int>(level)];
}

// A rank's part, and from where.
struct FoundSnapshot {
  int64_t step = 0;   // of all ranks
  std::string bytes;  // empty: the run begins
  SnapshotLevel level = SnapshotLevel::beginning;
  int64_t moved = 0;  // ranks that did not have their own
};

class SnapshotLevels {
 public:
  // part: of `parts`; folder: of snapshots on the disk, empty for none; run: their mark.
  SnapshotLevels(int part, int parts, std::string folder, uint64_t run)
      : part_(part), parts_(parts), folder_(std::move(folder)), run_(run) {}

  int part() const { return part_; }
  SnapshotKeeper& keeper() { return keeper_; }
  // Begins to take one; `writes`: this rank is the one that puts its part on the disk.
  void start(const SnapshotHeader& header, Optimizer& optimizer, bool writes);
  // Leaves half a file, as a rank does that is killed while it writes.
  void write_half(const SnapshotHeader& header, Optimizer& optimizer) const;
  // Gives the newest one to the next rank, once, and keeps that of the rank before.
  void send_to_next(const Communicator& world);

  // Drops the snapshots that do not belong to the run.
  void keep_if(const std::function<bool(const SnapshotHeader&)>& belongs);
  // The newest step of which all parts are somewhere, and this rank's part. parts: by rank. If
  // there is none, and steps in the folder, rank 0 warns.
  FoundSnapshot find(const Communicator& world, std::span<const int> parts);
  // Removes later steps of this part from the disk: they were given up.
  void forget_after(int64_t step) const;

 private:
  std::vector<Offer> memory_offers(const Communicator& world);
  std::vector<Offer> disk_offers(const Communicator& world, std::span<const int> parts,
                                 int64_t after) const;
  std::string fetch(const Communicator& world, const Healing& healing, std::span<const int> parts);
  void warn_of_folder(const Communicator& world) const;
  std::string held(int part, int64_t step);

  int part_, parts_;
  std::string folder_;
  uint64_t run_;
  SnapshotKeeper keeper_;
  std::map<std::pair<int64_t, int>, std::string> of_others_;  // by step and part
  int64_t sent_ = -1;                                         // the step
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/snapshots/impl/snapshot_levels.ipp"
#endif
