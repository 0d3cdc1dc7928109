// The log of a run's epochs (comm/epochs.hpp): who took part, from which step, and what it cost to
// go on.
//
//     epoch   places    new    from step   redone   state from     seconds
//     1       0 1 2 3   all    0           0        beginning      0
//     2       0 1 3     none   6           0        own memory     0.02        2 has died
//     3       0 1 2 3   2      11          0        peer memory    0.01        2 is healed
//
// Each member keeps a copy, which it gets when it joins: any of them may die. The log also says
// which snapshots belong to the run. A step is given up when an epoch begins before it, and then
// done again, perhaps on other sequences. A snapshot of such a step, taken before, is not used:
//
//     epoch 1    step 0 ... 5   6        snapshot after 7 steps, on a rank that dies or is away
//     epoch 2              from 6  ...   step 6 is done again: the snapshot does not belong
//
// Cost: an all_gather of 8 bytes, a broadcast of 64 bytes for each epoch so far, an all_gather and
// an all_reduce of 8 and 16 bytes, when an epoch begins.
// Contract: all ranks of an epoch's world make the same calls. 64 places at most.
#pragma once

#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/model/snapshot_levels.hpp"

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

  // All have the longest log that any of them has.
  YOTTA_API void share(const Communicator& world);
  // Does a snapshot belong to the run? Not if a later epoch began before its step.
  YOTTA_API bool holds(const SnapshotHeader& header) const;

  // An epoch begins, with what was found. steps_done: by this member, before.
  YOTTA_API void begin(const Communicator& world, const Epoch& epoch, const FoundSnapshot& found,
                       int64_t steps_done);
  // This member's epoch has ended.
  YOTTA_API void end() noexcept;

 private:
  std::vector<EpochRecord> records_;
  bool is_new_ = true;   // this member has begun no epoch
  double ended_at_ = 0;  // the last one; 0: there was none
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
    if (said[rank] == 1) bits |= uint64_t{1} << places[rank];
  return bits;
}
}  // namespace detail

void EpochLog::share(const Communicator& world) {
  const std::vector<int64_t> sizes = said_by_all(world, {std::ssize(records_)}, "regroup");
  const auto longest = std::max_element(sizes.begin(), sizes.end());
  records_.resize(static_cast<size_t>(*longest));
  const auto bytes = static_cast<int64_t>(records_.size() * sizeof(EpochRecord));
  world.broadcast(Data(reinterpret_cast<std::byte*>(records_.data()), bytes, DType::u8),
                  static_cast<int>(longest - sizes.begin()), {.label = "regroup"});
}

bool EpochLog::holds(const SnapshotHeader& header) const {
  return std::none_of(records_.begin(), records_.end(), [&](const EpochRecord& each) {
    return each.epoch > header.epoch && each.step < header.step;
  });
}

void EpochLog::begin(const Communicator& world, const Epoch& epoch, const FoundSnapshot& found,
                     int64_t steps_done) {
  EpochRecord record{epoch.number, world.size(), found.step, 0, found.moved, found.level};
  const std::vector<int64_t> joined = said_by_all(world, {is_new_ ? 1 : 0}, "regroup");
  record.places = detail::bits_of(epoch.places, std::vector<int64_t>(joined.size(), 1));
  record.joined = detail::bits_of(epoch.places, joined);
  const double waited = ended_at_ > 0 ? detail::seconds_of_clock() - ended_at_ : 0;
  std::vector<double> most = {waited, static_cast<double>(steps_done)};
  world.all_reduce(most, ReduceOp::max, {.label = "regroup"});
  record.seconds = most[0];
  record.redone = std::max<int64_t>(0, static_cast<int64_t>(most[1]) - record.step);
  records_.push_back(record);
  is_new_ = false;
}

void EpochLog::end() noexcept { ended_at_ = detail::seconds_of_clock(); }

}  // namespace yotta
#endif  // YOTTA_BODIES
