// Thread ranks: the ranks of a world are threads of one process, so a send is a memcpy.
//
//     rank 0: post(send)              the letter box of rank 1                 rank 1: post(recv)
//     no recv is there: leave  ──►  [ send from 0, tag 7, -> buffer ]  ◄──  a send is there: take it,
//     the request, go on                                                     memcpy, both are done
//
// Whoever comes second finds the request of the other and copies, straight from the sender's buffer
// into the receiver's: one copy, whatever the size. One lock guards all letter boxes; the copy itself
// happens outside it. A rank that has waited for a few microseconds goes to sleep. Just before, under
// the same lock, it looks whether anybody can ever wake it: deadlock.hpp.
//
// Cost: one memcpy and two short locks a message. Memory: no buffers but those of the two sides.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "yotta/comm/deadlock.hpp"
#include "yotta/comm/gathering.hpp"

namespace yotta {

// What the threads share.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size) : ranks_(static_cast<size_t>(size)), groups_(1) {
    for (int r = 0; r < size; ++r) groups_[0].members.push_back(r);
  }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool failed() const { return failed_; }
  // The rank that failed first, or -1.
  int first_failed() const { return failed_rank_; }

  void post(Request& request) {
    std::unique_lock lock(mutex_);
    std::deque<Request*>& box = letter_box(request);
    const auto found = std::find_if(
        box.begin(), box.end(), [&](Request* other) { return belong_together(*other, request); });
    if (found == box.end()) {
      own_box(request).push_back(&request);
      return;
    }
    Request& other = **found;
    compare(other, request);
    box.erase(found);
    other.handle = in_transit;
    lock.unlock();
    Request& from = request.kind == Request::Kind::send ? request : other;
    Request& to = request.kind == Request::Kind::send ? other : request;
    copy_data(from.data, to.data);
    to.stamp = from.stamp;
    lock.lock();
    request.done = true;
    const int owner = other.owner;
    other.done = true;
    wake(owner);
  }

  void withdraw(Request& request) {
    std::unique_lock lock(mutex_);
    if (request.handle != in_transit) {
      std::erase(own_box(request), &request);
      return;
    }
    lock.unlock();  // somebody is copying: it will not take long
    while (!request.done) std::this_thread::yield();
  }

  void arrive(Request& request, int rank) {
    Gathering& gathering = *reinterpret_cast<Gathering*>(request.handle);
    if (!gathering.arrive(rank)) return;
    std::lock_guard lock(mutex_);
    for (int member : gathering.members()) wake(member);
  }
  static bool is_done(const Request& request) {
    if (request.kind != Request::Kind::meet) return request.done;
    return reinterpret_cast<const Gathering*>(request.handle)
        ->complete(static_cast<int>(request.tag));
  }

  void sleep(int rank, std::span<const Waiting> strands, double seconds) {
    std::unique_lock lock(mutex_);
    Rank& self = ranks_[static_cast<size_t>(rank)];
    for (const Waiting& strand : strands)
      if (is_ready(strand)) return;
    throw_if_failed(rank, strands[0].call->where);
    self.strands = strands;
    self.state = RankWait::State::waits;
    self.woken = false;
    look_for_deadlock();
    auto woken = [&] { return self.woken || failed_; };
    if (seconds < 1e6)
      self.bell.wait_for(lock, std::chrono::duration<double>(seconds), woken);
    else
      self.bell.wait(lock, woken);
    self.state = RankWait::State::runs;
    throw_if_failed(rank, strands[0].call->where);
  }

  void check(int rank, Where where) {
    if (!failed_) return;
    std::lock_guard lock(mutex_);
    throw_if_failed(rank, where);
  }
  // Only the first failure counts: what follows are its consequences.
  void fail(int rank, const std::string& message) {
    std::lock_guard lock(mutex_);
    if (!failed_) set_failed(rank, message);
  }
  // The rank's code has ended: whoever waits for it now waits in vain.
  void returned(int rank) {
    std::lock_guard lock(mutex_);
    ranks_[static_cast<size_t>(rank)].state = RankWait::State::returned;
    look_for_deadlock();
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) {
    std::lock_guard lock(mutex_);
    const auto [place, is_new] =
        group_numbers_.try_emplace({parent, sequence, color}, static_cast<int>(groups_.size()));
    if (is_new) groups_.emplace_back().members.assign(members.begin(), members.end());
    return place->second;
  }
  Gathering* enter(int rank, int number, int64_t sequence, const Call& call) {
    std::lock_guard lock(mutex_);
    Group& group = groups_[static_cast<size_t>(number)];
    const auto index = static_cast<size_t>(sequence - group.first);
    if (index == group.gatherings.size()) {  // the first to come
      group.gatherings.push_back(std::make_unique<Gathering>(group.members, rank, call));
    } else {
      group.gatherings[index]->compare(rank, call);
    }
    return group.gatherings[index].get();
  }
  void leave(int number, Gathering* gathering) {
    if (!gathering->leave()) return;
    std::lock_guard lock(mutex_);
    Group& group = groups_[static_cast<size_t>(number)];
    for (; !group.gatherings.empty() && group.gatherings.front()->over(); ++group.first)
      group.gatherings.pop_front();
  }

  // A message that nobody received, for the end of the run; empty if there is none.
  std::string find_unreceived() const {
    for (const Rank& rank : ranks_)
      for (const Request* send : rank.sends)
        return fmt::format("rank {} sent {} with tag {} to rank {} at {}, which never received it",
                           send->owner, describe_data(*send), send->tag, send->peer,
                           at(send->call->where));
    return "";
  }

 private:
  static constexpr uintptr_t in_transit = 1;
  struct Rank {
    std::deque<Request*> sends;  // to this rank, not yet received
    std::deque<Request*> recvs;  // of this rank, not yet sent
    RankWait::State state = RankWait::State::runs;
    std::span<const Waiting> strands;  // while it waits
    bool woken = false;
    std::condition_variable bell;
  };
  struct Group {
    std::vector<int> members;
    std::deque<std::unique_ptr<Gathering>> gatherings;  // of its collectives [first, ...)
    int64_t first = 0;
  };

  // Where a request waits for its other half, and where that would be.
  std::deque<Request*>& own_box(const Request& request) {
    return request.kind == Request::Kind::send ? ranks_[static_cast<size_t>(request.peer)].sends
                                               : ranks_[static_cast<size_t>(request.owner)].recvs;
  }
  std::deque<Request*>& letter_box(const Request& request) {
    return request.kind == Request::Kind::send ? ranks_[static_cast<size_t>(request.peer)].recvs
                                               : ranks_[static_cast<size_t>(request.owner)].sends;
  }
  static bool belong_together(const Request& a, const Request& b) {
    return a.group == b.group && a.tag == b.tag && a.owner == b.peer && a.peer == b.owner;
  }
  static std::string describe_data(const Request& request) {
    return fmt::format("{} {}", request.data.count, name(request.data.dtype));
  }
  static void compare(const Request& a, const Request& b) {
    if (a.data.count == b.data.count && a.data.dtype == b.data.dtype) return;
    const Request& send = a.kind == Request::Kind::send ? a : b;
    const Request& recv = a.kind == Request::Kind::send ? b : a;
    fail_as<Mismatch>(b.call->where,
                      "rank {} sends {} at {}, but rank {} receives {} at {}; both must name the "
                      "same count and type",
                      send.owner, describe_data(send), at(send.call->where), recv.owner,
                      describe_data(recv), at(recv.call->where));
  }
  void wake(int rank) {
    Rank& other = ranks_[static_cast<size_t>(rank)];
    if (other.state != RankWait::State::waits) return;
    other.woken = true;
    other.bell.notify_one();
  }

  static bool is_ready(const Waiting& strand) {
    if (strand.strand >= 0) return false;
    for (const Request* request : strand.requests)
      if (request != nullptr && !is_done(*request)) return false;
    return true;
  }
  void look_for_deadlock() {
    if (failed_) return;
    const std::vector<RankWait> waits = picture(/*with_text=*/false);
    const std::vector<bool> alive = find_alive(waits);
    const auto first = std::find(alive.begin(), alive.end(), false) - alive.begin();
    if (first == std::ssize(alive)) return;
    alive_ = alive;
    set_failed(static_cast<int>(first), describe_deadlock(picture(true), alive));
  }
  // Who waits for whom right now.
  std::vector<RankWait> picture(bool with_text) const {
    std::vector<RankWait> ranks(ranks_.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      ranks[r].state = ranks_[r].state;
      if (ranks_[r].state != RankWait::State::waits) continue;
      for (const Waiting& strand : ranks_[r].strands) {
        StrandWait& wait = ranks[r].strands.emplace_back();
        wait.ready = is_ready(strand);
        wait.strand = strand.strand;
        if (with_text) wait.doing = describe(*strand.call);
        for (const Request* request : strand.requests)
          if (request != nullptr && !is_done(*request)) add(*request, with_text, wait);
      }
    }
    return ranks;
  }
  void add(const Request& request, bool with_text, StrandWait& wait) const {
    if (request.kind == Request::Kind::meet) {
      const auto* gathering = reinterpret_cast<const Gathering*>(request.handle);
      wait.needs = gathering->missing(static_cast<int>(request.tag));
      return;
    }
    if (request.handle == in_transit) return;  // it is being copied right now: nobody is needed
    wait.needs.push_back(request.peer);
    if (with_text && request.tag >= 0) wait.hint = find_other_tag(request);
  }
  // A message that is there, but with another tag or in another group.
  std::string find_other_tag(const Request& request) const {
    if (request.kind == Request::Kind::send) return "";
    for (const Request* send : ranks_[static_cast<size_t>(request.owner)].sends) {
      if (send->owner != request.peer || send->tag < 0) continue;
      return fmt::format("rank {} has sent tag {} at {}, but rank {} waits for tag {}{}",
                         send->owner, send->tag, at(send->call->where), request.owner, request.tag,
                         send->group == request.group ? "" : " in another communicator");
    }
    return "";
  }

  void set_failed(int rank, const std::string& message) {
    failed_rank_ = rank;
    message_ = message;
    failed_ = true;
    for (Rank& other : ranks_) other.bell.notify_all();
  }
  void throw_if_failed(int rank, Where where) const {
    if (!failed_) return;
    if (!alive_.empty() && !alive_[static_cast<size_t>(rank)]) throw Deadlock(where, message_);
    fail_as<PeerFailed>(where, "rank {} has failed: {}", failed_rank_, message_);
  }

  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::deque<Group> groups_;
  std::map<std::tuple<int, int64_t, int>, int> group_numbers_;
  std::atomic<bool> failed_ = false;
  int failed_rank_ = -1;
  std::string message_;
  std::vector<bool> alive_;  // after a deadlock
};

// One rank's end of it.
class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadWorld> world, int rank)
      : world_(std::move(world)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  void post(Request& request) override {
    request.owner = rank_;
    if (request.kind == Request::Kind::meet)
      world_->arrive(request, request.peer);
    else
      world_->post(request);
  }
  bool test(Request& request) override { return ThreadWorld::is_done(request); }
  void withdraw(Request& request) override {
    if (request.kind != Request::Kind::meet) world_->withdraw(request);
  }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    world_->sleep(rank_, strands, seconds);
  }
  bool failed() const override { return world_->failed(); }
  void check(Where where) override { world_->check(rank_, where); }
  void fail(const std::string& message) override { world_->fail(rank_, message); }
  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    return world_->open_group(parent, sequence, color, members);
  }
  Gathering* enter(int group, int64_t number, const Call& call) override {
    return world_->enter(rank_, group, number, call);
  }
  void leave(int group, Gathering* gathering) override { world_->leave(group, gathering); }

 private:
  std::shared_ptr<ThreadWorld> world_;
  int rank_;
};

}  // namespace yotta
