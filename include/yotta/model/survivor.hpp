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

#include "yotta/model/epoch_log.hpp"
#include "yotta/model/faults.hpp"

namespace yotta {

struct SurvivorOptions {
  Recovery recovery = Recovery::replay;
  Places places;
  int quorum = 1;      // whole replicas that are needed, with reroute ranks of each part
  int64_t every = 1;   // steps between snapshots; 1 but for restart
  std::string folder;  // of snapshots on the disk; empty: none
  uint64_t run = 0;    // what its snapshots are marked with
  int64_t first = 0;   // steps done when the job begins
  FaultPlan faults;
  // How many faults of a place have happened; empty: as many as members have died there.
  std::function<int(int place)> happened;
};

class Survivor {
 public:
  // `die` is how this member ends, if the plan has a fault for it.
  YOTTA_API Survivor(const Joiner& self, SurvivorOptions options, std::function<void()> die);

  // In a new epoch, with a new model: returns the steps done, and sets the optimizer to them. 0:
  // the run begins again, and the optimizer is as it was. Below 0: those who are here lack steps
  // that others may have, and all are there now: end this epoch.
  YOTTA_API int64_t regroup(const Communicator& world, const Epoch& epoch, Optimizer& optimizer);

  // The trainer's, with what a survivor does in a step, and with the plan's points.
  YOTTA_API TrainHooks hooks(TrainHooks inner, const Communicator& world);
  const FaultPoint& point() const { return point_; }
  void begin_step(int64_t step) { point_.begin_step(step); }
  // After a step: `record` is that of the step.
  YOTTA_API void end_step(const StepRecord& record, Optimizer& optimizer);
  // Do others wait to take part, and is it time? The same answer on all ranks. It ends this epoch.
  YOTTA_API bool lets_others_in(const Communicator& world, const Epoch& epoch) const;
  // The work is done: until the last snapshot is written.
  YOTTA_API void finish();
  // Call it before the model is destroyed: no helper thread reads its memory afterwards. It is
  // called when a step throws, too.
  YOTTA_API void leave() noexcept;

  const std::vector<StepRecord>& history() const { return history_; }
  const std::vector<EpochRecord>& log() const { return log_.records(); }
  const SurvivorOptions& options() const { return options_; }

 private:
  // Do the members of this epoch have less than was done? Then all are needed.
  bool needs_all(const Epoch& epoch, int64_t step) const {
    return std::ssize(epoch.places) < options_.places.count() && step + 1 < log_.reached();
  }
  YOTTA_API void await_all(const Communicator& world, const Epoch& epoch) const;
  YOTTA_API void restore(const Communicator& world, FoundSnapshot& found, Optimizer& optimizer);
  YOTTA_API void share_history(const Communicator& world, int64_t knows, size_t steps);
  YOTTA_API void warn_of_disk();
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

#if YOTTA_BODIES_OF(model_survival_json)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace yotta {

Survivor::Survivor(const Joiner& self, SurvivorOptions options, std::function<void()> die)
    : self_(self),
      options_(std::move(options)),
      levels_(options_.places.part(self.place), options_.places.parts, options_.folder,
              options_.run) {
  if (options_.places.count() > 64)
    fail(Where::current(), "a job of {} places that goes on when ranks die: 64 at most",
         options_.places.count());
  const std::vector<Fault> faults = options_.faults.of(self.place);
  const auto next = static_cast<size_t>(faults_before(self));
  if (next < faults.size()) point_ = FaultPoint(faults[next], std::move(die));
  if (options_.recovery != Recovery::restart) options_.every = 1;
}

// ---- a new epoch ----

int64_t Survivor::regroup(const Communicator& world, const Epoch& epoch, Optimizer& optimizer) {
  log_.share(world, world.rank() == 0 && epoch.kept ? epoch.kept() : std::string());
  levels_.keep_if([this](const SnapshotHeader& header) { return log_.holds(header); });
  std::vector<int> parts;
  for (const int place : epoch.places) parts.push_back(options_.places.part(place));
  const auto own = std::find(parts.begin(), parts.end(), options_.places.part(self_.place));
  writes_ = own - parts.begin() == world.rank();
  FoundSnapshot found = levels_.find(world, parts);
  if (found.level == SnapshotLevel::beginning) found.step = options_.first;
  if (needs_all(epoch, found.step)) {
    await_all(world, epoch);
    return -1;
  }
  point_.begin_step(found.step);
  point_.at(FaultPhase::healing);
  restore(world, found, optimizer);
  log_.begin(world, epoch, found, steps_done_);
  epoch_ = epoch.number;
  history_epochs_ = log().size();
  keep_ = world.rank() == 0 ? epoch.keep : nullptr;
  if (keep_) keep_(log_.packed(found.step));
  return steps_done_ = found.step;
}

// Until each place has a member. If one dies meanwhile, the broadcast throws.
void Survivor::await_all(const Communicator& world, const Epoch& epoch) const {
  std::vector<int64_t> all = {0};
  while (all[0] == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (world.rank() == 0)
      all[0] = std::ssize(epoch.places) + std::ssize(epoch.waiting()) == options_.places.count();
    world.broadcast(all, 0, {.label = "regroup"});
  }
}

// Sets the optimizer; what is of later steps has been given up.
void Survivor::restore(const Communicator& world, FoundSnapshot& found, Optimizer& optimizer) {
  levels_.keep_if([&](const SnapshotHeader& header) { return header.step <= found.step; });
  if (writes_) levels_.forget_after(found.step);
  const auto steps = static_cast<size_t>(found.step - options_.first);
  auto knows = static_cast<int64_t>(history_epochs_ << 32 | std::min(history_.size(), steps));
  if (found.level != SnapshotLevel::beginning) {
    SnapshotHeader header = restore_snapshot(found.bytes, optimizer);
    if (header.history.size() == steps) knows = INT64_MAX, history_ = std::move(header.history);
    levels_.keeper().add(found.step, std::move(found.bytes));
  }
  share_history(world, knows, steps);
}

// Of so many steps, from the rank that knows most: the snapshot has them, or else it took part in
// the last epoch and has taken the most steps there.
void Survivor::share_history(const Communicator& world, int64_t knows, size_t steps) {
  const std::vector<int64_t> all = said_by_all(world, {knows}, "regroup");
  history_.resize(steps);
  const auto bytes = static_cast<int64_t>(steps * sizeof(StepRecord));
  world.broadcast(Data(reinterpret_cast<std::byte*>(history_.data()), bytes, DType::u8),
                  static_cast<int>(std::max_element(all.begin(), all.end()) - all.begin()),
                  {.label = "regroup"});
}

// ---- a step ----

TrainHooks Survivor::hooks(TrainHooks inner, const Communicator& world) {
  TrainHooks hooks = with_faults(std::move(inner), point_);
  hooks.before_step = [this, world, before = hooks.before_step] {
    levels_.keeper().wait_copied();
    if (options_.places.replicas == 1 && world.size() > 1) levels_.send_to_next(world);
    before();
  };
  return hooks;
}

void Survivor::end_step(const StepRecord& record, Optimizer& optimizer) {
  history_.push_back(record);
  ++steps_done_;
  if (keep_) keep_(log_.packed(steps_done_));
  if (steps_done_ % options_.every != 0) return;
  SnapshotHeader header{options_.run, epoch_, steps_done_, optimizer.steps(), {}};
  const bool starts_jobs = writes_ && levels_.part() == 0 && !options_.folder.empty();
  if (starts_jobs) header.history = history_;  // a member that lives has them
  if (point_.is_due(FaultPhase::save)) {
    if (writes_) levels_.write_half(header, optimizer);
    point_.die();
  }
  levels_.start(header, optimizer, writes_);
  warn_of_disk();
}

void Survivor::finish() {
  levels_.keeper().wait();
  warn_of_disk();
  if (unwritten_ > 0)
    fmt::print(stderr, "{} snapshots of place {} are not on the disk\n", unwritten_, self_.place);
}

// Once, and not for each snapshot.
void Survivor::warn_of_disk() {
  const int64_t unwritten = levels_.keeper().unwritten();
  if (unwritten > 0 && unwritten_ == 0)
    fmt::print(stderr,
               "a snapshot is not on the disk; training goes on, and the last one that was written "
               "stays there: {}\n",
               levels_.keeper().disk_problem());
  unwritten_ = unwritten;
}

bool Survivor::lets_others_in(const Communicator& world, const Epoch& epoch) const {
  if (options_.recovery == Recovery::restart) return false;  // all are there
  std::vector<int64_t> answer = {0};
  if (world.rank() == 0) {
    std::vector<bool> ready(static_cast<size_t>(options_.places.count()));
    for (const int place : epoch.places) ready[static_cast<size_t>(place)] = true;
    for (const auto& [place, number] : epoch.waiting()) {
      const std::vector<Fault> faults = options_.faults.of(place);
      const int happened = faults_before({place, number});
      const auto last = static_cast<size_t>(happened - 1);  // what ended the one before it
      const bool stays_away = happened > 0 && last < faults.size() &&
                              steps_done_ < faults[last].step + faults[last].back;
      ready[static_cast<size_t>(place)] = !stays_away;
    }
    const auto more = places_of_epoch(options_.recovery, options_.places, ready, options_.quorum);
    answer[0] = more.size() > epoch.places.size() ? 1 : 0;
  }
  world.broadcast(answer, 0, {.label = "regroup"});
  return answer[0] == 1;
}

void Survivor::leave() noexcept {
  try {
    levels_.keeper().wait_copied();
  } catch (...) {  // the copy was not made: there is one less
  }
  log_.end();
}

}  // namespace yotta
#endif  // YOTTA_BODIES
