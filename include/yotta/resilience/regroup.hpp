// Regroup: what the ranks that are left decide when some have died. Each says what it has, all get
// the same numbers, and each computes the same decision from them.
//
//     place = replica x parts + part                      4 replicas of 2 ranks; place 3 is lost
//
//     replica 0     replica 1     replica 2     replica 3
//      0    1        2    x        4    5        6    7
//     part part     part part     part part     part part
//      0    1        0    1        0    1        0    1
//
// Who takes part. A replica is whole if all its places are; the others cannot train.
//     restart   all wait until every place has a member again; all go back to a snapshot
//     drop      replicas 0, 2, 3 go on; the batch is smaller by replica 1's sequences
//     replay    replicas 0, 2, 3 go on and share out the whole batch
//     reroute   all seven ranks go on: a part is a pipeline stage here, and places 1, 5 and 7 share
//               out what place 3 would have computed (rerouted_model.hpp)
// With drop and replay at least `quorum` replicas must be whole, with reroute each part needs that
// many ranks; else all wait.
//
// From which step. Each rank says what it has in memory: which part, after which step. The newest
// step of which every part exists is taken; a rank without its own part gets it from the lowest
// rank that has it.
//
//     part 0    after step 7, 8     (places 0 and 4; place 6 has 7 alone: it was a step behind)
//     part 1    after step 7        (places 1, 5 and 7)             ->  all go on after step 7
//
// Who is to blame, when none goes on and nobody has said anything. A rank that has died sends no
// heartbeats. One that hangs does, by a helper thread, but it has entered fewer collectives than
// the others, which wait for it in the next one.
//
// How often a snapshot is taken, where all go back to one. A snapshot costs `save` seconds, a
// failure comes every `mean` seconds and loses half of an interval on average. So of a second's
// work save / interval goes to snapshots and interval / (2 mean) to work done twice; the sum is
// least where both are equal. failure_arithmetic.hpp simulates it.
//
// What a smaller batch means (drop). The gradient is the mean over the sequences that were trained
// on: the sum over those who are left, divided by their number, and not by B. It has no bias and
// more noise, B / b times the variance with b of B sequences. So losses differ from those of the
// run without failures. With replay and reroute they do not, but for rounding.
//
// References: PyTorch torchft (quorum, healing from a peer); Gandhi et al. (2024), ReCycle, and
// Jang et al. (2023), Oobleck (going on without what is lost, and the same result). Young (1974)
// and Daly (2006) for the interval. PyTorch's flight recorder for counted collectives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/parallel/ddp.hpp"

namespace yotta {

enum class Recovery : uint8_t { restart, drop, replay, reroute };
inline constexpr int recoveries = 4;
constexpr const char* name(Recovery recovery) {
  constexpr const char* names[] = {"restart", "drop", "replay", "reroute"};
  return names[static_cast<int>(recovery)];
}

// The places of a job.
struct Places {
  int replicas = 1, parts = 1;

  constexpr int count() const { return replicas * parts; }
  constexpr int replica(int place) const { return place / parts; }
  constexpr int part(int place) const { return place % parts; }
};

// What each rank says, by rank.
inline std::vector<int64_t> said_by_all(const Communicator& world, const std::vector<int64_t>& own,
                                        const char* label) {
  std::vector<int64_t> all(own.size() * static_cast<size_t>(world.size()));
  world.all_gather(all, own, {.label = label});
  return all;
}

// ---- how often a snapshot is taken ----

// Seconds of work between two snapshots. Young's leaves out failures while a snapshot is taken, and
// further failures in work that is done again. Daly's has the next two terms; where `save` is 2
// mean or more, no interval pays, and it is `mean`.
struct Intervals {
  double young = 0, daly = 0;
};
inline Intervals best_intervals(double save, double mean, Where where = Where::current()) {
  if (!(save > 0) || !(mean > 0))
    fail(where, "a snapshot takes {} s and a failure comes every {} s: both must be above 0", save,
         mean);
  Intervals best;
  best.young = std::sqrt(2 * save * mean);
  const double x = save / (2 * mean);
  best.daly = x < 1 ? best.young * (1 + std::sqrt(x) / 3 + x / 9) - save : mean;
  return best;
}

// The sum that is to be least: what is lost of a second's work. All above 0.
inline double lost_share(double interval, double save, double mean) {
  return save / interval + interval / (2 * mean);
}

// ---- who takes part ----

// The replicas all of whose places have a member.
inline std::vector<int> whole_replicas(const Places& places, const std::vector<bool>& ready) {
  std::vector<int> whole;
  std::vector<int> members(static_cast<size_t>(places.replicas));
  for (int place = 0; place < places.count(); ++place)
    if (ready[static_cast<size_t>(place)]) ++members[static_cast<size_t>(places.replica(place))];
  for (int replica = 0; replica < places.replicas; ++replica)
    if (members[static_cast<size_t>(replica)] == places.parts) whole.push_back(replica);
  return whole;
}

namespace detail {

// All that are ready, if each part has enough of them.
inline std::vector<int> ready_places(const Places& places, const std::vector<bool>& ready,
                                     int quorum) {
  std::vector<int> all, of_part(static_cast<size_t>(places.parts));
  for (int place = 0; place < places.count(); ++place)
    if (ready[static_cast<size_t>(place)]) {
      all.push_back(place);
      ++of_part[static_cast<size_t>(places.part(place))];
    }
  const bool enough = *std::min_element(of_part.begin(), of_part.end()) >= std::max(quorum, 1);
  return enough ? all : std::vector<int>();
}

}  // namespace detail

inline std::vector<int> places_of_whole_replicas(Recovery recovery, const Places& places,
                                                 const std::vector<bool>& ready, int quorum) {
  const std::vector<int> whole = whole_replicas(places, ready);
  const int needed = recovery == Recovery::restart ? places.replicas : std::max(quorum, 1);
  if (static_cast<int>(whole.size()) < needed) return {};
  std::vector<int> members;
  for (const int replica : whole)
    for (int part = 0; part < places.parts; ++part)
      members.push_back(replica * places.parts + part);
  return members;
}

// The places that take part in the next epoch, in order; empty: all wait.
inline std::vector<int> places_of_epoch(Recovery recovery, const Places& places,
                                        const std::vector<bool>& ready, int quorum) {
  return recovery == Recovery::reroute ? detail::ready_places(places, ready, quorum)
                                       : places_of_whole_replicas(recovery, places, ready, quorum);
}

// ---- who is to blame ----

struct RankState {
  bool heartbeat = true;
  int64_t entered = 0;  // collectives
};
enum class Health : uint8_t { waits, hangs, crashed };
constexpr const char* name(Health health) {
  constexpr const char* names[] = {"waits", "hangs", "crashed"};
  return names[static_cast<int>(health)];
}

// Of each rank, when none has gone on for a while. All wait: the collective itself does not end.
inline std::vector<Health> diagnose_hang(std::span<const RankState> ranks) {
  int64_t most = 0;
  for (const RankState& each : ranks) most = std::max(most, each.entered);
  std::vector<Health> health;
  for (const RankState& each : ranks)
    health.push_back(!each.heartbeat       ? Health::crashed
                     : each.entered < most ? Health::hangs
                                           : Health::waits);
  return health;
}

// ---- from which step ----

// A rank has this part of the model, as it was after `step` steps.
struct Offer {
  int rank = 0, part = 0;
  int64_t step = 0;
  bool operator==(const Offer&) const = default;
};
struct Healing {
  int64_t step = 0;  // all go on after so many; 0: all begin again
  // By rank: itself, if it has its part after that step; else the lowest rank that has it; -1, if
  // all begin again.
  std::vector<int> sources;
};
// parts[rank]: the part of the model that a rank of the epoch trains.
inline Healing find_healing(std::span<const Offer> offers, std::span<const int> parts) {
  Healing healing;
  healing.sources.assign(parts.size(), -1);
  std::map<int64_t, std::map<int, std::set<int>>> ranks;  // by step, the newest last, and by part
  for (const Offer& each : offers) ranks[each.step][each.part].insert(each.rank);
  std::erase_if(ranks, [&](const auto& step) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](int part) { return step.second.count(part) == 0; });
  });
  if (ranks.empty()) return healing;
  const auto& [newest, by_part] = *ranks.rbegin();
  healing.step = newest;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const std::set<int>& have = by_part.at(parts[rank]);
    const bool has_own = have.count(static_cast<int>(rank)) > 0;
    healing.sources[rank] = has_own ? static_cast<int>(rank) : *have.begin();
  }
  return healing;
}

inline std::vector<Tensor*> tensors_of(Optimizer& optimizer) {
  std::vector<Tensor*> all;
  for (Optimizer::Slot& slot : optimizer.slots()) {
    all.push_back(&slot.parameter->value);
    all.push_back(&slot.master);
    for (Tensor& each : slot.state) all.push_back(&each);
  }
  return all;
}

// Where an optimizer's weights, masters and state lie, in the order of its slots: what a rank gets
// from another to be as if it had never been away. On the CPU.
inline std::vector<std::span<std::byte>> memory_of(Optimizer& optimizer,
                                                   Where where = Where::current()) {
  std::vector<std::span<std::byte>> memory;
  for (Tensor* const tensor : tensors_of(optimizer)) {
    if (!tensor->defined()) continue;
    if (tensor->device() != Device::cpu)
      fail(where, "snapshots are taken of the CPU's memory, and this model is on {}",
           name(tensor->device()));
    memory.push_back(
        {static_cast<std::byte*>(tensor->raw()), static_cast<size_t>(tensor->nbytes())});
  }
  return memory;
}

// ---- on what they train ----

// The sequences of a rank, of the batch's, and how many all ranks that are left train on.
struct ShareOfStep {
  int64_t begin = 0, end = 0;
  int64_t all = 0;  // what the losses and gradients are means over
};
// The rank's index is that among the `ranks` of its replica that train on different sequences. The
// batch is cut once, over all of these: rank i of replica r has part ranks * r + i of ranks times
// replicas parts. With drop r counts all replicas, with replay those that are left.
// With reroute a rank gets the whole batch: any microbatch may come to it.
// living: the replicas that take part, of `replicas`; own: this rank's, as an index of living.
inline ShareOfStep share_of_step(Recovery recovery, int64_t batch, int ranks, int index,
                                 int replicas, std::span<const int> living, int own) {
  ShareOfStep share;
  if (recovery == Recovery::reroute) return {0, batch, batch};
  const int left = static_cast<int>(living.size());
  const bool drops = recovery == Recovery::drop;
  const auto shard = [&](int replica, int i) {
    const int all = ranks * (drops ? replicas : left);
    return batch_shard(batch, all, ranks * replica + i);
  };
  const BatchShard mine = shard(drops ? living[static_cast<size_t>(own)] : own, index);
  share.begin = mine.begin, share.end = mine.end;
  for (int i = 0; i < left; ++i)
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchShard its = shard(drops ? living[static_cast<size_t>(i)] : i, rank);
      share.all += its.end - its.begin;
    }
  return share;
}

}  // namespace yotta
