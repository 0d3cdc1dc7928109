// Survivor: what a member of a job keeps from epoch to epoch (comm/epochs.hpp), so that training
// goes on when ranks die.
//
//     epoch e    regroup ─ step ─ step ─ step ─ ste#        a rank has died: all calls throw
//     epoch e+1  regroup ─ ste ...
//                │
//                ├─ the log of epochs, from whoever has the longest
//                ├─ who has which part after which step?  two all_gathers  (snapshot_levels.hpp)
//                ├─ a newer step was done? somebody who is not here has it: wait until all are here
//                ├─ who lacks its part gets it from a peer, weights and optimizer state alike
//                ├─ the disk has a newer step? from there. Nobody has any? all begin again
//                └─ losses and sequences of the steps so far, from whoever has them
//
//     step       begin_step ─ F ─ B ─ sums ─ [ the copy is made; to a peer ] ─ optimizer ─ end_step
//
// Memory is the first level: its own, that of another replica, or, where there is no other replica,
// that of the next rank, which gets every snapshot. The disk is the second.
//
// In step, exactly: members join at a step boundary alone, all take the same step next, and
// snapshots of steps that were given up are dropped: a snapshot belongs to the run if no later
// epoch began before it. What is lost: with restart at most the steps since the last snapshot,
// which are done again; with replay and reroute the step that was under way; with drop the
// sequences of the lost replicas. With a single replica the next rank gets a snapshot in the step
// after it: a rank that dies before that takes the run back to the snapshot before, unless the disk
// has all parts of the newer one.
// A full disk disables that level only: a warning is printed, and training goes on.
//
// Cost, beside the copies of snapshot.hpp: one broadcast of 8 bytes per step but for restart;
// with a single replica a snapshot is sent to the next rank each time.
// Contract: all ranks of an epoch's world make the same calls. The optimizer has this part's
// weights; ZeRO's are gathered by the caller after regroup(). 64 places at most.
#pragma once

#include <string>
#include <vector>

#include "yotta/resilience/faults/faults.hpp"
#include "yotta/resilience/snapshots/epoch_log.hpp"

namespace yotta {

struct SurvivorOptions {
  Recovery recovery = Recovery::replay;
  Places places = {};
  int quorum = 1;           // whole replicas that are needed, with reroute ranks of each part
  int64_t every = 1;        // steps between snapshots; 1 but for restart
  std::string folder = {};  // of snapshots on the disk; empty: none
  uint64_t run = 0;         // what its snapshots are marked with
  int64_t first = 0;        // steps done when the job begins
  FaultPlan faults = {};
  // How many faults of a place have happened; empty: as many as members have died there.
  std::function<int(int place)> happened = {};
};

class Survivor {
 public:
  // `die` is how this member ends, if the plan has a fault for it.
  Survivor(const Joiner& self, SurvivorOptions options, std::function<void()> die,
           Where where = Where::current());

  // In a new epoch, with a new model: returns the steps done, and sets the optimizer to them. 0:
  // the run begins again, and the optimizer is as it was. Below 0: those who are here lack steps
  // that others may have, and all are there now: end this epoch.
  int64_t regroup(const Communicator& world, const Epoch& epoch, Optimizer& optimizer);

  // The trainer's, with what a survivor does in a step, and with the plan's points.
  TrainHooks hooks(TrainHooks inner, const Communicator& world);
  const FaultPoint& point() const { return point_; }
  void begin_step(int64_t step) { point_.begin_step(step); }
  // After a step: `record` is that of the step.
  void end_step(const StepRecord& record, Optimizer& optimizer);
  // Do others wait to take part, and is it time? The same answer on all ranks. It ends this epoch.
  bool lets_others_in(const Communicator& world, const Epoch& epoch) const;
  // The work is done: until the last snapshot is written.
  void finish();
  // Call it before the model is destroyed: no helper thread reads its memory afterwards. It is
  // called when a step throws, too.
  void leave() noexcept;

  const std::vector<StepRecord>& history() const { return history_; }
  const std::vector<EpochRecord>& log() const { return log_.records(); }
  const SurvivorOptions& options() const { return options_; }

 private:
  // Do the members of this epoch have less than was done? Then all are needed.
  bool needs_all(const Epoch& epoch, int64_t step) const {
    return std::ssize(epoch.places) < options_.places.count() && step + 1 < log_.reached();
  }
  void await_all(const Communicator& world, const Epoch& epoch) const;
  void restore(const Communicator& world, FoundSnapshot& found, Optimizer& optimizer);
  void share_history(const Communicator& world, int64_t knows, size_t steps);
  void warn_of_disk();
  int faults_before(const Joiner& member) const {
    return options_.happened ? options_.happened(member.place) : member.number;
  }

  Joiner self_;
  SurvivorOptions options_;
  FaultPoint point_;
  SnapshotLevels levels_;
  std::vector<StepRecord> history_;
  size_t history_epochs_ = 0;  // of the log, to which it belongs
  EpochLog log_;
  std::function<void(const std::string&)> keep_;  // of rank 0: the log outlives all members
  int64_t epoch_ = 0, steps_done_ = 0;
  bool writes_ = false;    // to the disk: it is the first of those that hold its part
  int64_t unwritten_ = 0;  // snapshots that are not on the disk, of which a warning has told
};

// Leaves when it ends.
class EpochScope {
 public:
  explicit EpochScope(Survivor& survivor) : survivor_(survivor) {}
  ~EpochScope() { survivor_.leave(); }
  EpochScope(const EpochScope&) = delete;
  EpochScope& operator=(const EpochScope&) = delete;

 private:
  Survivor& survivor_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/impl/survivor.ipp"
#endif
