// The bodies of resilience/survivor.hpp.
#pragma once

#include "yotta/resilience/survivor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "yotta/core/options.hpp"

namespace yotta {

namespace detail {
inline SurvivorOptions checked(SurvivorOptions o, Where where) {
  check_option(where, "Places::replicas", o.places, &Places::replicas, one_or_more);
  check_option(where, "Places::parts", o.places, &Places::parts, one_or_more);
  check_option(where, "SurvivorOptions::quorum", o, &SurvivorOptions::quorum,
               {1, static_cast<double>(o.places.replicas)});
  check_option(where, "SurvivorOptions::every", o, &SurvivorOptions::every, one_or_more);
  check_option(where, "SurvivorOptions::first", o, &SurvivorOptions::first, zero_or_more);
  if (o.places.count() > 64)
    fail(where, "a job of {} places that goes on when ranks die: 64 at most", o.places.count());
  return o;
}
}  // namespace detail

YOTTA_INLINE Survivor::Survivor(const Joiner& self, SurvivorOptions options,
                                std::function<void()> die, Where where)
    : self_(self),
      options_(detail::checked(std::move(options), where)),
      levels_(options_.places.part(self.place), options_.places.parts, options_.folder,
              options_.run) {
  const std::vector<Fault> faults = options_.faults.of(self.place);
  const auto next = static_cast<size_t>(faults_before(self));
  if (next < faults.size()) point_ = FaultPoint(faults[next], std::move(die));
  if (options_.recovery != Recovery::restart) options_.every = 1;
}

// ---- a new epoch ----

YOTTA_INLINE int64_t Survivor::regroup(const Communicator& world, const Epoch& epoch,
                                       Optimizer& optimizer) {
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
YOTTA_INLINE void Survivor::await_all(const Communicator& world, const Epoch& epoch) const {
  std::vector<int64_t> all = {0};
  while (all[0] == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (world.rank() == 0)
      all[0] = std::ssize(epoch.places) + std::ssize(epoch.waiting()) == options_.places.count();
    world.broadcast(all, 0, {.label = "regroup"});
  }
}

// Sets the optimizer; what is of later steps has been given up.
YOTTA_INLINE void Survivor::restore(const Communicator& world, FoundSnapshot& found,
                                    Optimizer& optimizer) {
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
YOTTA_INLINE void Survivor::share_history(const Communicator& world, int64_t knows, size_t steps) {
  const std::vector<int64_t> all = said_by_all(world, {knows}, "regroup");
  history_.resize(steps);
  const auto bytes = static_cast<int64_t>(steps * sizeof(StepRecord));
  world.broadcast(Data(reinterpret_cast<std::byte*>(history_.data()), bytes, DType::u8),
                  static_cast<int>(std::max_element(all.begin(), all.end()) - all.begin()),
                  {.label = "regroup"});
}

// ---- a step ----

YOTTA_INLINE TrainHooks Survivor::hooks(TrainHooks inner, const Communicator& world) {
  TrainHooks hooks = with_faults(std::move(inner), point_);
  hooks.before_step = [this, world, before = hooks.before_step] {
    levels_.keeper().wait_copied();
    if (options_.places.replicas == 1 && world.size() > 1) levels_.send_to_next(world);
    before();
  };
  return hooks;
}

YOTTA_INLINE void Survivor::end_step(const StepRecord& record, Optimizer& optimizer) {
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

YOTTA_INLINE void Survivor::finish() {
  levels_.keeper().wait();
  warn_of_disk();
  if (unwritten_ > 0)
    fmt::print(stderr, "{} snapshots of place {} are not on the disk\n", unwritten_, self_.place);
}

// Once, and not for each snapshot.
YOTTA_INLINE void Survivor::warn_of_disk() {
  const int64_t unwritten = levels_.keeper().unwritten();
  if (unwritten > 0 && unwritten_ == 0)
    fmt::print(stderr,
               "a snapshot is not on the disk; training goes on, and the last one that was written "
               "stays there: {}\n",
               levels_.keeper().disk_problem());
  unwritten_ = unwritten;
}

YOTTA_INLINE bool Survivor::lets_others_in(const Communicator& world, const Epoch& epoch) const {
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

YOTTA_INLINE void Survivor::leave() noexcept {
  try {
    levels_.keeper().wait_copied();
  } catch (...) {  // the copy was not made: there is one less
  }
  log_.end();
}

}  // namespace yotta
