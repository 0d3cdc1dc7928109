// Thread ranks: the ranks of a world are threads of one process, so a send is a memcpy.
//
//    rank 0: post(send)            RequestMatcher                           rank 1: post(recv)
//    no recv is posted: add  ──►  [ send from 0, tag 7, -> buffer ]  ◄──  finds the send: takes it,
//    the request, continue                                                memcpy, both are done
//
// Whichever side comes second finds the other side's request and copies straight from the sender's
// buffer into the receiver's: one copy, whatever the size. One lock guards the matcher and the
// state of waiting ranks; the copy itself happens outside it. A rank that has polled for some
// microseconds sleeps. Just before, under the same lock, it proves that another rank can still wake
// it (deadlock.hpp).
//
// Cost: one memcpy and two short locks per message. Memory: no buffers but those of the two sides.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "yotta/comm/matching/message_matcher.hpp"
#include "yotta/comm/threads/collective_rendezvous.hpp"
#include "yotta/comm/waiting/deadlock.hpp"

namespace yotta {

// What all thread ranks of a world share.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size)
      : matcher_(size), ranks_(static_cast<size_t>(size)), groups_(size) {}
  int size() const { return static_cast<int>(ranks_.size()); }

  // --- messages ---
  void post(Request& request) {
    std::unique_lock lock(mutex_);
    Request* const other = matcher_.find(request);
    if (other == nullptr) return matcher_.add(request);
    compare(*other, request);
    matcher_.remove(*other);
    other->handle = in_transit;
    lock.unlock();
    const bool sends = request.kind == Request::Kind::send;
    const Request& from = sends ? request : *other;
    Request& to = sends ? *other : request;
    copy_data(from.data, to.data);
    to.stamp = from.stamp;
    lock.lock();
    wake(other->owner);  // it cannot look before the lock is released
    request.done = true;
    other->done = true;
    if (withdrawing_ > 0) copied_.notify_all();  // `other` may no longer exist
  }
  void withdraw(Request& request) {
    std::unique_lock lock(mutex_);
    if (request.handle != in_transit) return matcher_.remove(request);
    ++withdrawing_;
    copied_.wait(lock, [&] { return request.done.load(); });  // another rank is copying
    --withdrawing_;
  }
  // A message that nobody received, for the end of a run; empty if there is none.
  std::string find_unreceived() const {
    std::lock_guard lock(mutex_);
    return matcher_.find_unreceived();
  }

  // --- collectives ---
  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) {
    std::lock_guard lock(mutex_);
    return groups_.open(parent, sequence, color, members);
  }
  void close_group(int group) {
    std::lock_guard lock(mutex_);
    groups_.close(group);
  }
  CollectiveRendezvous& enter(int rank, int group, int64_t number, const Call& call) {
    std::lock_guard lock(mutex_);
    CollectiveRendezvous& rendezvous = groups_.enter(rank, group, number, call);
    const std::string difference = rendezvous.compare(rank, call);
    if (!difference.empty()) mismatch(rank, call.where, difference);
    return rendezvous;
  }
  void leave(int group, CollectiveRendezvous& rendezvous) {
    std::lock_guard lock(mutex_);
    groups_.leave(group, rendezvous);
  }
  void arrive(CollectiveRendezvous& rendezvous, int group_rank) {
    if (!rendezvous.arrive(group_rank)) return;
    std::lock_guard lock(mutex_);
    for (int member : rendezvous.members()) wake(member);
  }

  // --- waiting ---
  static bool is_done(const Request& request) {
    if (request.kind != Request::Kind::meet) return request.done;
    return rendezvous_of(request).complete(static_cast<int>(request.tag));
  }
  void sleep(int rank, std::span<const Waiting> strands, double seconds) {
    std::unique_lock lock(mutex_);
    Rank& self = ranks_[static_cast<size_t>(rank)];
    for (const Waiting& strand : strands)
      if (is_ready(strand)) return;
    throw_if_failed(rank, strands[0].where);
    self.strands = strands;
    self.state = state_of(strands);
    self.woken = false;
    check_for_deadlock();
    self.wake_up.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return self.woken || failed_; });
    self.state = RankWait::State::runs;
    self.strands = {};
    throw_if_failed(rank, strands[0].where);
  }
  // The rank's code has ended: it will send nothing more.
  void returned(int rank) {
    std::lock_guard lock(mutex_);
    ranks_[static_cast<size_t>(rank)].state = RankWait::State::returned;
    check_for_deadlock();
  }

  // --- failures ---
  bool failed() const { return failed_; }
  int first_failed() const { return failed_rank_; }  // -1: none
  void check(int rank, Where where) const {
    if (!failed_) return;
    std::lock_guard lock(mutex_);
    throw_if_failed(rank, where);
  }
  // Only the first failure counts: later ones are its consequences.
  void fail(int rank, const std::string& message) {
    std::lock_guard lock(mutex_);
    if (!failed_) set_failed(rank, message);
  }

 private:
  static constexpr uintptr_t in_transit = 1;  // in Request::handle: it is being copied
  struct Rank {
    RankWait::State state = RankWait::State::runs;
    std::span<const Waiting> strands;  // while it waits; else none
    bool woken = false;
    std::condition_variable wake_up;
  };

  void compare(const Request& first, const Request& second) {
    const int64_t rounding = first.image < 0 ? 0 : 1;  // of mirrored ranks' rings
    if (std::abs(first.data.count - second.data.count) <= rounding &&
        first.data.dtype == second.data.dtype &&
        (first.data.device == second.data.device || first.data.count == 0))
      return;
    const bool sends = first.kind == Request::Kind::send;
    const Request &send = sends ? first : second, &recv = sends ? second : first;
    mismatch(second.owner, second.call->where,
             describe_different_sizes(describe_data(send) + " at " + at(send.call->where), recv,
                                      recv.owner));
  }
  [[noreturn]] void mismatch(int rank, Where where, const std::string& text) {
    if (!failed_) set_failed(rank, text);
    throw Mismatch(where, text);
  }
  void wake(int rank) {
    Rank& other = ranks_[static_cast<size_t>(rank)];
    if (other.state != RankWait::State::waits) return;
    other.woken = true;
    other.wake_up.notify_one();
  }
  static const CollectiveRendezvous& rendezvous_of(const Request& meet) {
    return *reinterpret_cast<const CollectiveRendezvous*>(meet.handle);
  }
  static bool is_ready(const Waiting& strand) {
    if (strand.strand >= 0) return false;
    for (const Request* request : strand.requests)
      if (request != nullptr && !is_done(*request)) return false;
    return true;
  }

  void check_for_deadlock() {
    if (failed_) return;
    const std::vector<bool> alive = find_alive(wait_graph(/*with_text=*/false));
    const auto first = std::find(alive.begin(), alive.end(), false) - alive.begin();
    if (first == std::ssize(alive)) return;
    alive_ = alive;
    set_failed(static_cast<int>(first), describe_deadlock(wait_graph(/*with_text=*/true), alive));
  }
  // Which rank waits for which right now.
  std::vector<RankWait> wait_graph(bool with_text) const {
    std::vector<RankWait> ranks(ranks_.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      ranks[r].state = ranks_[r].state;
      for (const Waiting& strand : ranks_[r].strands) {
        StrandWait& wait = ranks[r].strands.emplace_back();
        wait.ready = is_ready(strand);
        wait.strand = strand.strand;
        if (with_text) describe_wait(strand, members_of(first_request(strand)), wait);
        for (const Request* request : strand.requests)
          if (request != nullptr && !is_done(*request)) add_needs(*request, with_text, wait);
      }
    }
    return ranks;
  }
  std::span<const int> members_of(const Request* request) const {
    if (request == nullptr) return {};
    return groups_.members(request->group);
  }
  void add_needs(const Request& request, bool with_text, StrandWait& wait) const {
    if (request.kind == Request::Kind::meet) {
      wait.needs = rendezvous_of(request).missing(static_cast<int>(request.tag));
    } else if (request.handle != in_transit) {  // else it is being copied: no rank need act
      if (wait.needs != std::vector{request.peer}) wait.needs.push_back(request.peer);
      if (with_text && request.kind == Request::Kind::recv && request.tag >= 0)
        wait.hint = matcher_.find_other_tag(request);
    }
  }

  void set_failed(int rank, const std::string& message) {
    failed_rank_ = rank;
    message_ = message;
    failed_ = true;
    for (Rank& other : ranks_) other.wake_up.notify_one();
  }
  void throw_if_failed(int rank, Where where) const {
    if (!failed_) return;
    if (!alive_.empty() && !alive_[static_cast<size_t>(rank)]) throw Deadlock(where, message_);
    if (rank == failed_rank_)
      fail_as<CommError>(where, "this rank has failed before, its world is over: {}", message_);
    fail_as<PeerFailed>(where, "rank {} has failed: {}", failed_rank_, message_);
  }

  mutable std::mutex mutex_;
  RequestMatcher matcher_;
  std::vector<Rank> ranks_;
  int withdrawing_ = 0;  // ranks that sleep on copied_ until a copy has ended
  std::condition_variable copied_;
  ThreadGroups groups_;
  std::atomic<bool> failed_ = false;
  std::atomic<int> failed_rank_ = -1;
  std::string message_;
  std::vector<bool> alive_;  // after a deadlock
};

// The transport of one rank.
class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadWorld> world, int rank);
  ~ThreadTransport() override;
  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }

  void post(Request& request) override {
    request.owner = rank_;
    world_->post(request);
  }
  bool test(Request& request) override { return ThreadWorld::is_done(request); }
  void withdraw(Request& request) override { world_->withdraw(request); }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    world_->sleep(rank_, strands, seconds);
  }

  bool failed() const override { return world_->failed(); }
  void check(Where where) override { world_->check(rank_, where); }
  void fail(const std::string& message) override { world_->fail(rank_, message); }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    return world_->open_group(parent, sequence, color, members);
  }
  void close_group(int group) override { world_->close_group(group); }
  bool shares_memory() const override { return true; }
  CollectiveRendezvous* enter(int group, int64_t number, const Call& call) override {
    return &world_->enter(rank_, group, number, call);
  }
  void arrive(CollectiveRendezvous& rendezvous, int group_rank) override {
    world_->arrive(rendezvous, group_rank);
  }
  void leave(int group, CollectiveRendezvous& rendezvous) override {
    world_->leave(group, rendezvous);
  }

 private:
  std::shared_ptr<ThreadWorld> world_;
  int rank_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/threads/impl/thread_transport.ipp"
#endif
