// CollectiveRendezvous: where the thread ranks of a group meet for one collective.
//
//     first to arrive    leaves its call here: "all_reduce of 16 f32, sum, at a.cpp:10"
//     the others         compare theirs with it: any difference is a Mismatch, with both places
//     native collectives show their buffers here and meet: a barrier that counts arrivals
//
// A barrier is counted, never reset: the k-th meeting is complete when p k arrivals have been counted.
// While a rank reads the buffers of others it is a reader; a rank that has to give up a collective
// (somebody failed) waits until nobody reads before it lets go of its own buffers.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/engine/transport.hpp"

namespace yotta {

class CollectiveRendezvous {
 public:
  CollectiveRendezvous(const std::vector<int>& members, int first_rank, const Call& call)
      : first_rank_(first_rank), call_(call), seats_(members.size()), members_(members) {}

  // What is different between `call` of `rank` and that of whoever came first; empty if nothing is.
  std::string compare(int rank, const Call& call) const {
    auto same = [](const char* a, const char* b) { return std::string_view(a) == b; };
    if (same(call_.operation, call.operation) && call_.count == call.count &&
        call_.dtype == call.dtype && call_.root == call.root && same(call_.op, call.op) &&
        same(call_.algorithm, call.algorithm))
      return "";
    return describe_mismatch(first_rank_, describe(call_), rank, describe(call));
  }

  // What a native collective shows to the others, by rank of the group.
  struct Seat {
    ConstData in;
    Data out;
    std::atomic<int> meetings = 0;  // how often this rank has arrived
  };
  Seat& seat(int rank) { return seats_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(seats_.size()); }
  const std::vector<int>& members() const { return members_; }

  // Counts one arrival of `rank`; true for the last of a meeting.
  bool arrive(int rank) {
    ++seat(rank).meetings;
    return ++arrived_ % size() == 0;
  }
  // Have all arrived `meetings` times?
  bool complete(int meetings) const { return arrived_ >= meetings * size(); }
  // World ranks that have not yet.
  std::vector<int> missing(int meetings) const {
    std::vector<int> ranks;
    for (size_t r = 0; r < seats_.size(); ++r)
      if (seats_[r].meetings < meetings) ranks.push_back(members_[r]);
    return ranks;
  }

  void start_reading() { ++readers_; }
  void stop_reading() { --readers_; }
  void wait_for_readers() const {
    while (readers_ > 0) std::this_thread::yield();
  }

  // Under the lock of the world: one more rank is through with it; have all?
  void leave() { ++left_; }
  bool over() const { return left_ == size(); }

 private:
  int first_rank_;
  Call call_;
  std::vector<Seat> seats_;
  const std::vector<int>& members_;  // world ranks, of the group
  std::atomic<int64_t> arrived_ = 0;
  std::atomic<int> readers_ = 0;
  int left_ = 0;
};

// The groups of a world, and of each the gatherings of the collectives that not all its ranks have left.
class Groups {
 public:
  explicit Groups(int ranks) : groups_(1) {
    for (int r = 0; r < ranks; ++r) groups_[0].members.push_back(r);
  }
  const std::vector<int>& members(int group) const {
    return groups_[static_cast<size_t>(group)].members;
  }
  int open(int parent, int64_t sequence, int color, std::span<const int> members) {
    const auto [place, is_new] =
        numbers_.try_emplace({parent, sequence, color}, static_cast<int>(groups_.size()));
    if (is_new) groups_.emplace_back().members.assign(members.begin(), members.end());
    return place->second;
  }
  // That of the group's collective number `number`. The first rank to come makes it.
  CollectiveRendezvous& enter(int rank, int group_number, int64_t number, const Call& call) {
    Group& group = groups_[static_cast<size_t>(group_number)];
    const auto index = static_cast<size_t>(number - group.first);
    if (index == group.gatherings.size()) group.gatherings.emplace_back(group.members, rank, call);
    return group.gatherings[index];
  }
  void leave(int group_number, CollectiveRendezvous& gathering) {
    gathering.leave();
    Group& group = groups_[static_cast<size_t>(group_number)];
    for (; !group.gatherings.empty() && group.gatherings.front().over(); ++group.first)
      group.gatherings.pop_front();
  }

 private:
  struct Group {
    std::vector<int> members;          // world ranks
    std::deque<CollectiveRendezvous> gatherings;  // of its collectives from `first` on
    int64_t first = 0;
  };
  std::deque<Group> groups_;
  std::map<std::tuple<int, int64_t, int>, int> numbers_;  // by parent, sequence, color
};

}  // namespace yotta
