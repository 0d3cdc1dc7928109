// The bodies of resilience/snapshots/epoch_log.hpp.
#pragma once

#include "yotta/resilience/snapshots/epoch_log.hpp"

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

YOTTA_INLINE std::string EpochLog::packed(int64_t steps_done) const {
  const detail::KeptStart start{steps_done, detail::seconds_of_clock()};
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof start);
  if (!records_.empty())
    bytes.append(reinterpret_cast<const char*>(records_.data()),
                 records_.size() * sizeof(EpochRecord));
  return bytes;
}
YOTTA_INLINE void EpochLog::take_kept(const std::string& bytes) {
  detail::KeptStart start;
  if (bytes.size() < sizeof start) return;
  std::memcpy(&start, bytes.data(), sizeof start);
  reached_ = start.steps_done, kept_at_ = start.at;
  const size_t records = (bytes.size() - sizeof start) / sizeof(EpochRecord);
  if (records <= records_.size()) return;
  records_.resize(records);
  std::memcpy(records_.data(), bytes.data() + sizeof start, records * sizeof(EpochRecord));
}

YOTTA_INLINE void EpochLog::share(const Communicator& world, const std::string& kept) {
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

YOTTA_INLINE bool EpochLog::holds(const SnapshotHeader& header) const {
  return std::none_of(records_.begin(), records_.end(), [&](const EpochRecord& each) {
    return each.epoch > header.epoch && each.step < header.step;
  });
}

YOTTA_INLINE void EpochLog::begin(const Communicator& world, const Epoch& epoch,
                                  const FoundSnapshot& found, int64_t steps_done) {
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

YOTTA_INLINE void EpochLog::end() noexcept { ended_at_ = detail::seconds_of_clock(); }

}  // namespace yotta
