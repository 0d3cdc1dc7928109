// How collectives of thread ranks meet. All ranks are in one memory, so nothing has to be sent.
//
// SharedMemoryChannel: what a native collective may use. Each rank shows the others its addresses,
// all meet, and then every rank reads what it needs.
//
//   rank 0  show(in, out) ─ meet ─ reads its part of every `in` ─ meet ─ reads others' `out` ─ meet
//   rank 1  show(in, out) ─ meet ─ ...                                                          ▲
//                                            no rank leaves while others still read its buffers ┘
//
// CollectiveRendezvous: the state that the ranks of a group share during one collective.
//
//   the first to arrive  stores its call: "all_reduce of 16 f32, sum, at a.cpp:10"
//   the others           compare theirs with it: any difference is a Mismatch that names both calls
//   native collectives   show their buffers here, and meet at a barrier that counts arrivals
//
// The barrier is counted and never reset: the k-th is complete when p k arrivals have been counted.
// A rank that reads the buffers of others is counted as a reader. If a rank fails, the others give
// up the collective; each waits until nobody reads before it releases its own buffers.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "yotta/comm/data.hpp"
#include "yotta/comm/engine/transport.hpp"
#include "yotta/comm/failures.hpp"

namespace yotta {

// Like Channel, it hides whether the caller runs on the rank's own stack or in a fiber.
class SharedMemoryChannel {
 public:
  virtual ~SharedMemoryChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // What the others may see of this rank after the next meet().
  virtual void show(ConstData in, Data out) = 0;
  // A barrier: blocks until all ranks of the group have called it as often as this one. What they
  // wrote before is visible after. A collective must end with a meet() if other ranks have read
  // this rank's buffers since the last one.
  virtual void meet() = 0;
  virtual ConstData in(int rank) const = 0;
  virtual Data out(int rank) const = 0;

  // Counts in this rank's ledger what it has read from the others' memory, and they from its. A
  // native collective sends no message, but the bytes cross from rank to rank all the same.
  virtual void count(const Traffic& traffic) = 0;
};

class CollectiveRendezvous {
 public:
  CollectiveRendezvous(const std::vector<int>& members, int first_rank, const Call& call)
      : first_rank_(first_rank), call_(call), slots_(members.size()), members_(members) {}

  // Says how `call` of `rank` differs from that of the first to arrive; empty if it does not.
  std::string compare(int rank, const Call& call) const {
    auto same = [](const char* a, const char* b) { return std::string_view(a) == b; };
    if (same(call_.operation, call.operation) && call_.count == call.count &&
        call_.dtype == call.dtype && call_.root == call.root && same(call_.op, call.op) &&
        same(call_.algorithm, call.algorithm))
      return "";
    return describe_mismatch(first_rank_, describe(call_), rank, describe(call));
  }

  // What one rank shows to the others during a native collective.
  struct Slot {
    ConstData in;
    Data out;
    std::atomic<int> arrivals = 0;  // of this rank, at barriers
  };
  Slot& slot(int rank) { return slots_[static_cast<size_t>(rank)]; }  // a rank of the group
  int size() const { return static_cast<int>(slots_.size()); }
  const std::vector<int>& members() const { return members_; }

  // Counts one arrival of `rank`; true if it completes a barrier.
  bool arrive(int rank) {
    ++slot(rank).arrivals;
    return ++arrived_ % size() == 0;
  }
  // Have all ranks arrived at so many barriers?
  bool complete(int barriers) const { return arrived_ >= barriers * size(); }
  // World ranks that have not yet arrived at so many.
  std::vector<int> missing(int barriers) const {
    std::vector<int> ranks;
    for (size_t r = 0; r < slots_.size(); ++r)
      if (slots_[r].arrivals < barriers) ranks.push_back(members_[r]);
    return ranks;
  }

  void start_reading() { ++readers_; }
  void stop_reading() {
    if (--readers_ == 0) readers_.notify_all();
  }
  void wait_for_readers() const {
    for (int now = readers_; now > 0; now = readers_) readers_.wait(now);
  }

  // Called under the lock of the world, once per rank.
  void leave() { ++left_; }
  bool all_have_left() const { return left_ == size(); }

 private:
  int first_rank_;
  Call call_;
  std::vector<Slot> slots_;          // by rank of the group
  const std::vector<int>& members_;  // world ranks of the group
  std::atomic<int64_t> arrived_ = 0;
  std::atomic<int> readers_ = 0;
  int left_ = 0;
};

// The groups of a world of threads, each with the collectives that are in progress.
class ThreadGroups {
 public:
  explicit ThreadGroups(int ranks) {
    for (int r = 0; r < ranks; ++r) groups_[0].members.push_back(r);
  }
  const std::vector<int>& members(int group) const { return groups_.at(group).members; }
  int open(int parent, int64_t sequence, int color, std::span<const int> members) {
    const Name name{parent, sequence, color};
    const auto [entry, is_new] = numbers_.try_emplace(name, opened_ + 1);
    if (!is_new) return entry->second;
    OneGroup& group = groups_[++opened_];
    group.name = name;
    group.members.assign(members.begin(), members.end());
    return opened_;
  }
  // A member will not use the group any more. The group is dropped with its last member. Its number
  // is never used again, since unreceived messages may be queued under it.
  void close(int number) {
    const auto group = groups_.find(number);
    if (++group->second.closed < std::ssize(group->second.members)) return;
    numbers_.erase(group->second.name);
    groups_.erase(group);
  }
  // The rendezvous of the group's collective number `number`. The first rank to arrive makes it.
  CollectiveRendezvous& enter(int rank, int group_number, int64_t number, const Call& call) {
    OneGroup& group = groups_.at(group_number);
    const auto index = static_cast<size_t>(number - group.first);
    if (index == group.collectives.size())
      group.collectives.emplace_back(group.members, rank, call);
    return group.collectives[index];
  }
  void leave(int group_number, CollectiveRendezvous& rendezvous) {
    rendezvous.leave();
    OneGroup& group = groups_.at(group_number);
    for (; !group.collectives.empty() && group.collectives.front().all_have_left(); ++group.first)
      group.collectives.pop_front();
  }

 private:
  using Name = std::tuple<int, int64_t, int>;  // parent, sequence, color
  struct OneGroup {
    Name name;
    std::vector<int> members;                      // world ranks
    std::deque<CollectiveRendezvous> collectives;  // from number `first` on
    int64_t first = 0;
    int64_t closed = 0;  // members that have
  };
  std::map<int, OneGroup> groups_;  // by number
  std::map<Name, int> numbers_;
  int opened_ = 0;  // the last number
};

}  // namespace yotta
