// Survivor: what a member of a job keeps from epoch to epoch (comm/epochs.hpp), so that training
// goes on when ranks die.
//
//     epoch e    regroup ─ step ─ step ─ step ─ ste#        a rank has died: all calls throw
//     epoch e+1  regroup ─ ste ...
//                │
//                ├─ the log of epochs, from whoever has the longest
//                ├─ who has which part after which step?    one all_gather   (regroup.hpp)
//                ├─ who lacks its part gets it from a peer, weights and optimizer state alike
//                └─ in no memory? from the disk. Not there? all begin again
//
//     step       begin_step ─ F ─ B ─ sums ─ [ the copy is made; to a peer ] ─ optimizer ─ end_step
//
// Memory is the first level: its own, that of another replica, or, where there is no other replica,
// that of the next rank, which gets every snapshot. The disk is the second.
//
// In step, exactly: members join at a step boundary alone, all take the same step next, and
// snapshots of steps that were given up are dropped: a snapshot belongs to the run if no later
// epoch began before it. What is lost: at most the steps since the last snapshot, which are done
// again (restart); the step that was under way (replay); the sequences of the lost replicas (drop).
// With a single replica the next rank gets a snapshot in the step after it: a rank that dies before
// that takes the run back to the snapshot before.
//
// Cost, beside the copies of snapshot.hpp: one broadcast of 8 bytes a step with drop and replay;
// with a single replica a snapshot is sent to the next rank each time.
// Contract: all ranks of an epoch's world make the same calls. The optimizer has this part's
// weights; ZeRO's are gathered by the caller after regroup().
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/model/faults.hpp"
#include "yotta/model/snapshot_levels.hpp"

namespace yotta {

struct SurvivorOptions {
  Recovery recovery = Recovery::replay;
  Places places;
  int quorum = 1;      // replicas without which drop and replay wait
  int64_t every = 1;   // steps between snapshots; drop and replay: 1
  std::string folder;  // of snapshots on the disk; empty: none
  uint64_t run = 0;    // what its snapshots are marked with
  int64_t first = 0;   // steps done when the job begins
  FaultPlan faults;
};

// What an epoch began with.
struct EpochRecord {
  int64_t epoch = 1, ranks = 0;
  int64_t step = 0;    // steps done when it began
  int64_t redone = 0;  // steps that had been done, and are done again
  int64_t moved = 0;   // ranks that got their part from a peer, or from the disk
  SnapshotLevel level = SnapshotLevel::beginning;
  double seconds = 0;  // from the end of the last epoch to here; 0: it is the first
  // The places that take part, and those of them whose members are new: bit i is place i, below 64.
  uint64_t places = 0, joined = 0;
};

class Survivor {
 public:
  // `die` is how this member ends, if the plan has a fault for it.
  YOTTA_API Survivor(const Joiner& self, SurvivorOptions options, std::function<void()> die);

  // In a new epoch, with a new model: returns the steps done, and sets the optimizer to them. 0:
  // the run begins again, and the optimizer is as it was.
  YOTTA_API int64_t regroup(const Communicator& world, const Epoch& epoch, Optimizer& optimizer);

  // The trainer's, with what a survivor does in a step, and with the plan's points.
  YOTTA_API TrainHooks hooks(TrainHooks inner, const Communicator& world);
  const FaultPoint& point() const { return point_; }
  void begin_step(int64_t step) { point_.begin_step(step); }
  // After a step: `record` is that of the step.
  YOTTA_API void end_step(const StepRecord& record, Optimizer& optimizer);
  // Do others wait to take part, and is it time? The same answer on all ranks. It ends this epoch.
  YOTTA_API bool lets_others_in(const Communicator& world, const Epoch& epoch) const;
  // The work is done: until the last snapshot is written. Errors: the disk's.
  void finish() { levels_.keeper().wait(); }
  // Before the model goes: nobody reads its memory any more. Is called when a step throws, too.
  YOTTA_API void leave() noexcept;

  const std::vector<StepRecord>& history() const { return history_; }
  const std::vector<EpochRecord>& log() const { return log_; }
  const SurvivorOptions& options() const { return options_; }

 private:
  YOTTA_API void share_log(const Communicator& world);
  YOTTA_API void write_log(const Communicator& world, EpochRecord record);

  Joiner self_;
  SurvivorOptions options_;
  FaultPoint point_;
  SnapshotLevels levels_;
  std::vector<StepRecord> history_;
  std::vector<EpochRecord> log_;
  int64_t epoch_ = 0, steps_done_ = 0;
  bool writes_ = false;  // to the disk: it is the first of those that hold its part
  double left_at_ = 0;   // when the last epoch ended; 0: there was none
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

namespace yotta {

namespace detail {
inline double seconds_of_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// The places whose rank says 1.
inline uint64_t bits_of(const std::vector<int>& places, const std::vector<int64_t>& said) {
  uint64_t bits = 0;
  for (size_t rank = 0; rank < places.size(); ++rank)
    if (said[rank] == 1 && places[rank] < 64) bits |= uint64_t{1} << places[rank];
  return bits;
}
}  // namespace detail

Survivor::Survivor(const Joiner& self, SurvivorOptions options, std::function<void()> die)
    : self_(self),
      options_(std::move(options)),
      levels_(options_.places.part(self.place), options_.places.parts, options_.folder,
              options_.run) {
  const std::vector<Fault> faults = options_.faults.of(self.place);
  const auto number = static_cast<size_t>(self.number);
  if (number < faults.size()) point_ = FaultPoint(faults[number], std::move(die));
  if (options_.recovery != Recovery::restart) options_.every = 1;
}

// ---- a new epoch ----

int64_t Survivor::regroup(const Communicator& world, const Epoch& epoch, Optimizer& optimizer) {
  const bool is_new = log_.empty();
  share_log(world);
  std::vector<int> parts;
  for (const int place : epoch.places) parts.push_back(options_.places.part(place));
  writes_ = world.rank() < options_.places.parts;
  FoundSnapshot found = levels_.find(world, parts);
  const bool begins = found.level == SnapshotLevel::beginning;
  if (begins) found.step = options_.first;
  point_.begin_step(found.step);
  point_.at(FaultPhase::healing);
  levels_.keep_if([&](const SnapshotHeader& header) { return header.step <= found.step; });
  history_.clear();
  if (!begins) {
    history_ = restore_snapshot(found.bytes, optimizer).history;
    levels_.keeper().add(found.step, std::move(found.bytes));
  }
  epoch_ = epoch.number;
  EpochRecord record{epoch.number, world.size(), found.step, 0, found.moved, found.level};
  const std::vector<int64_t> joined = detail::gathered(world, {is_new ? 1 : 0});
  record.places = detail::bits_of(epoch.places, std::vector<int64_t>(joined.size(), 1));
  record.joined = detail::bits_of(epoch.places, joined);
  write_log(world, record);
  return found.step;
}

// All have the longest log that any of them has. What is not of this run goes: a step that was
// given up when a later epoch began before it.
void Survivor::share_log(const Communicator& world) {
  const std::vector<int64_t> sizes = detail::gathered(world, {std::ssize(log_)});
  const auto longest = std::max_element(sizes.begin(), sizes.end());
  log_.resize(static_cast<size_t>(*longest));
  const auto bytes = static_cast<int64_t>(log_.size() * sizeof(EpochRecord));
  world.broadcast(Data(reinterpret_cast<std::byte*>(log_.data()), bytes, DType::u8),
                  static_cast<int>(longest - sizes.begin()), {.label = "regroup"});
  levels_.keep_if([this](const SnapshotHeader& header) {
    return std::none_of(log_.begin(), log_.end(), [&](const EpochRecord& each) {
      return each.epoch > header.epoch && each.step < header.step;
    });
  });
}

void Survivor::write_log(const Communicator& world, EpochRecord record) {
  const double waited = left_at_ > 0 ? detail::seconds_of_clock() - left_at_ : 0;
  std::vector<double> most = {waited, static_cast<double>(steps_done_)};
  world.all_reduce(most, ReduceOp::max, {.label = "regroup"});
  record.seconds = most[0];
  record.redone = std::max<int64_t>(0, static_cast<int64_t>(most[1]) - record.step);
  steps_done_ = record.step;
  log_.push_back(record);
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
  if (steps_done_ % options_.every != 0) return;
  const SnapshotHeader header{options_.run, epoch_, steps_done_, optimizer.steps(), history_};
  if (point_.is_due(FaultPhase::save)) {
    if (writes_) levels_.write_half(header, optimizer);
    point_.die();
  }
  levels_.start(header, optimizer, writes_);
}

bool Survivor::lets_others_in(const Communicator& world, const Epoch& epoch) const {
  if (options_.recovery == Recovery::restart) return false;  // all are there
  std::vector<int64_t> answer = {0};
  if (world.rank() == 0) {
    std::vector<bool> ready(static_cast<size_t>(options_.places.count()));
    for (const int place : epoch.places) ready[static_cast<size_t>(place)] = true;
    for (const auto& [place, number] : epoch.waiting()) {
      const std::vector<Fault> faults = options_.faults.of(place);
      const auto killed_by = static_cast<size_t>(number - 1);  // what ended the one before it
      const bool stays_away = number > 0 && killed_by < faults.size() &&
                              steps_done_ < faults[killed_by].step + faults[killed_by].back;
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
  left_at_ = detail::seconds_of_clock();
}

}  // namespace yotta
#endif  // YOTTA_BODIES
