// The log of a run's epochs (comm/epochs.hpp): who took part, from which step, and what it cost to
// go on.
//
//     epoch   places    new    from step   redone   state from     seconds
//     1       0 1 2 3   all    0           0        beginning      0
//     2       0 1 3     none   6           0        own memory     0.02        2 has died
//     3       0 1 2 3   2      11          0        peer memory    0.01        2 is healed
//
// Each member keeps a copy, which it gets when it joins: any of them may die. If all die, the job
// still has what rank 0 has kept after its last step (Epoch::keep).
//
// The log also says which snapshots belong to the run. A step is given up when an epoch begins
// before it, and then done again, perhaps on other sequences. A snapshot of such a step, taken
// before, is not used:
//
//     epoch 1    step 0 ... 5   6        snapshot after 7 steps, on a rank that dies or is away
//     epoch 2              from 6  ...   step 6 is done again: the snapshot does not belong
//
// Cost: when an epoch begins, an all_gather of 8 bytes, a broadcast of 8 and one of 72 for each
// epoch so far, an all_gather of 8 and an all_reduce of 24; after each step rank 0 keeps as many
// bytes as the broadcasts have, and 8.
// Contract: all ranks of an epoch's world make the same calls. 64 places at most.
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/resilience/snapshots/snapshot_levels.hpp"

namespace yotta {

// What an epoch began with.
struct EpochRecord {
  int64_t epoch = 1, ranks = 0;
  int64_t step = 0;    // steps done when it began
  int64_t redone = 0;  // steps that had been done, and are done again
  int64_t moved = 0;   // ranks that got their part from a peer, or from the disk
  SnapshotLevel level = SnapshotLevel::beginning;
  double seconds = 0;  // from the end of the last epoch to here; 0: it is the first
  // The places that take part, and those of them whose members are new: bit i is place i.
  uint64_t places = 0, joined = 0;
};

class EpochLog {
 public:
  const std::vector<EpochRecord>& records() const { return records_; }

  // All have the longest log that any of them has, or that the job has kept: rank 0 knows.
  void share(const Communicator& world, const std::string& kept = "");
  // What the job keeps after so many steps.
  std::string packed(int64_t steps_done) const;
  // The steps done when the job has last kept something; the same on all ranks after share().
  int64_t reached() const { return reached_; }
  // Does a snapshot belong to the run? Not if a later epoch began before its step.
  bool holds(const SnapshotHeader& header) const;

  // An epoch begins, with what was found. steps_done: by this member, before.
  void begin(const Communicator& world, const Epoch& epoch, const FoundSnapshot& found,
             int64_t steps_done);
  // This member's epoch has ended.
  void end() noexcept;

 private:
  void take_kept(const std::string& bytes);

  std::vector<EpochRecord> records_;
  int64_t reached_ = 0;
  double kept_at_ = 0;   // of the clock; 0: this member has not read it
  bool is_new_ = true;   // this member has begun no epoch
  double ended_at_ = 0;  // the last one; 0: there was none
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/snapshots/impl/epoch_log.ipp"
#endif
