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

  // All have the longest log that any of them has, or that the job has kept: rank 0 knows.
  YOTTA_API void share(const Communicator& world, const std::string& kept = "");
  // What the job keeps after so many steps.
  YOTTA_API std::string packed(int64_t steps_done) const;
  // The steps done when the job has last kept something; the same on all ranks after share().
  int64_t reached() const { return reached_; }
  // Does a snapshot belong to the run? Not if a later epoch began before its step.
  YOTTA_API bool holds(const SnapshotHeader& header) const;

  // An epoch begins, with what was found. steps_done: by this member, before.
  YOTTA_API void begin(const Communicator& world, const Epoch& epoch, const FoundSnapshot& found,
                       int64_t steps_done);
  // This member's epoch has ended.
  YOTTA_API void end() noexcept;

 private:
  YOTTA_API void take_kept(const std::string& bytes);

  std::vector<EpochRecord> records_;
  int64_t reached_ = 0;
  double kept_at_ = 0;   // of the clock; 0: this member has not read it
  bool is_new_ = true;   // this member has begun no epoch
  double ended_at_ = 0;  // the last one; 0: there was none
};

}  // namespace yotta

#if YOTTA_BODIES_OF(model_survival_json)
#include <algorithm>
#include <chrono>
#include <cstring>

namespace yotta {

namespace detail {
inline double seconds_of_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// What the job keeps: this, and the records. The clock is the same for all processes of a machine.
struct KeptStart {
  int64_t steps_done = 0;
  double at = 0;
};
// The places whose rank says 1.
inline uint64_t bits_of(const std::vector<int>& places, const std::vector<int64_t>& said) {
  uint64_t bits = 0;
  for (size_t rank = 0; rank < places.size(); ++rank)
    if (said[rank] == 1) bits |= uint64_t{1} << places[rank];
  return bits;
}
}  // namespace detail

std::string EpochLog::packed(int64_t steps_done) const {
  const detail::KeptStart start{steps_done, detail::seconds_of_clock()};
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof start);
  if (!records_.empty())
    bytes.append(reinterpret_cast<const char*>(records_.data()),
                 records_.size() * sizeof(EpochRecord));
  return bytes;
}
void EpochLog::take_kept(const std::string& bytes) {
  detail::KeptStart start;
  if (bytes.size() < sizeof start) return;
  std::memcpy(&start, bytes.data(), sizeof start);
  reached_ = start.steps_done, kept_at_ = start.at;
  const size_t records = (bytes.size() - sizeof start) / sizeof(EpochRecord);
  if (records <= records_.size()) return;
  records_.resize(records);
  std::memcpy(records_.data(), bytes.data() + sizeof start, records * sizeof(EpochRecord));
}

void EpochLog::share(const Communicator& world, const std::string& kept) {
  take_kept(kept);
  const std::vector<int64_t> sizes = said_by_all(world, {std::ssize(records_)}, "regroup");
  const auto longest = std::max_element(sizes.begin(), sizes.end());
  std::vector<int64_t> reached = {reached_};
  world.broadcast(reached, 0, {.label = "regroup"});
  reached_ = reached[0];
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
  const auto since = [](double at) { return at > 0 ? detail::seconds_of_clock() - at : 0; };
  std::vector<double> most = {since(ended_at_), since(kept_at_),
                              static_cast<double>(std::max(steps_done, reached_))};
  world.all_reduce(most, ReduceOp::max, {.label = "regroup"});
  record.seconds = most[0] > 0 ? most[0] : most[1];  // all have died: since the last step
  record.redone = std::max<int64_t>(0, static_cast<int64_t>(most[2]) - record.step);
  records_.push_back(record);
  is_new_ = false;
}

void EpochLog::end() noexcept { ended_at_ = detail::seconds_of_clock(); }

}  // namespace yotta
#endif  // YOTTA_BODIES
