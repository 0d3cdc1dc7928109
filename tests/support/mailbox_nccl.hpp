// An NCCL without GPUs, for tests of what is built on it: ranks are threads of one process, device
// memory is the emulator's, and what is sent lies in mailboxes.
//
//     rank's thread     join, split, all_reduce, send ...: each returns at once
//     another thread ┬─ NCCL's own: makes communicators, splits them, takes calls
//                    └─ the devices: read what is sent when the stream comes to it, write what has
//                       come
//
// It is as asynchronous as NCCL. The other thread draws what happens next from all that can happen;
// so does a rank that asks, so that a busy machine is not slow. Communicators appear late, calls
// are taken late, and what nothing orders ends in any order: also the messages and collectives of
// one group. A device has room for `room` collectives at once, those that were launched first:
// ranks that launch those of two communicators in different orders may stand still, as on a GPU.
// Errors come late. Computation that is put after an operation of several ranks first waits for
// them.
//
// What NCCL forbids, and would answer with wrong memory or nothing at all, is a complaint: a call
// on a communicator that is not there, or is busy; one that is freed while NCCL still writes it, or
// destroyed before it was finalised.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "support/longest_wait.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/nccl/nccl_library.hpp"

namespace yotta_test {

using namespace yotta;

// Something that happens on the other thread when it can.
struct LateEvent {
  std::function<bool()> can_happen;
  std::function<void()> happen;
};
using InOrder = std::deque<LateEvent>;

// What all ranks of the process share. Everything here and in MailboxNccl is changed under one
// lock.
class Mailboxes {
 public:
  using Key = std::tuple<NcclLibrary::Id, int64_t, int, int>;  // communicator, call, from, to
  // A rank's: adds what can happen there now.
  using Source = std::function<void(std::vector<const LateEvent*>&)>;

  Mailboxes() : other_thread_([this] { run(); }) {}
  ~Mailboxes() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    other_thread_.join();
  }
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  // Held by every call of a rank.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  void tell() { changed_.notify_all(); }
  void add(const void* rank, Source source) {
    const std::lock_guard lock(mutex_);
    sources_[rank] = std::move(source);
  }
  void remove(const void* rank) {
    const std::lock_guard lock(mutex_);
    sources_.erase(rank);
  }

  // Under the lock:
  void put(const Key& key, ConstData data) {
    boxes_[key].assign(data.bytes, data.bytes + data.nbytes());
  }
  std::vector<std::byte> take(const Key& key) {
    taken_.insert(key);
    return boxes_.at(key);
  }
  bool has(const Key& key) { return boxes_.count(key) > 0; }
  bool is_taken(const Key& key) { return taken_.count(key) > 0; }
  // One of all events that can happen, if there is one.
  bool step() {
    std::vector<const LateEvent*> possible;
    for (const auto& [rank, add] : sources_)
      if (!aborted_) add(possible);
    if (!possible.empty()) possible[draw_() % possible.size()]->happen();
    return !possible.empty();
  }
  int& joined(const NcclLibrary::Id& id) { return joined_[id]; }
  int& finalised(const NcclLibrary::Id& id) { return finalised_[id]; }
  void abort() { aborted_ = true; }
  void note(const std::string& text) { notes_.insert(text); }
  void complain(const std::string& text) { complaints_.insert(text); }
  void look() const {
    if (aborted_) throw CommError(Where::current(), "the mailbox was given up");
  }

  std::set<std::string> notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  std::set<std::string> complaints() {
    const std::lock_guard lock(mutex_);
    return complaints_;
  }
  // Made so far; aborted; how often compute was put behind a lane.
  std::atomic<int> ids = 0, lanes = 0, aborts = 0, waits = 0;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      if (!step()) changed_.wait(lock);
      lock.unlock();  // a rank may look
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand draw_;
  std::map<const void*, Source> sources_;
  std::map<Key, std::vector<std::byte>> boxes_;
  std::set<Key> taken_;
  std::set<std::string> notes_, complaints_;
  std::map<NcclLibrary::Id, int> joined_, finalised_;
  bool aborted_ = false, ends_ = false;
  std::thread other_thread_;  // last: it uses all of them
};

class MailboxNccl : public NcclLibrary {
 public:
  explicit MailboxNccl(std::shared_ptr<Mailboxes> mail) : mail_(std::move(mail)) {
    mail_->add(this, [this](std::vector<const LateEvent*>& possible) { add_possible(possible); });
  }
  ~MailboxNccl() override { mail_->remove(this); }
  bool splits = true;                               // as NCCL does since 2.18
  int64_t room = 1;                                 // for collectives on the device at once
  std::atomic<bool> is_stuck = false;               // NCCL's own thread takes no calls
  std::atomic<bool> holds_reduce_scatters = false;  // the device does not end them
  std::function<void()> meanwhile;                  // what the host does while the device waits

  Id new_id() override {
    Id id{};
    id[0] = static_cast<std::byte>(++mail_->ids);
    return id;
  }
  Handle join(const Id& id, int size, int rank) override {
    const auto lock = mail_->lock();
    Lane& lane = new_lane();
    enter(lane, id, size, rank);
    lane.is_made = lane.busy = true;
    later(
        lane, [this, &lane] { return mail_->joined(lane.id) == lane.size; },
        [&lane] { lane.busy = false; });
    return &lane;
  }
  bool can_split() const override { return splits; }
  Handle split(Handle handle, int color, int key) override {
    const auto lock = mail_->lock();
    Lane &lane = begin_call(handle), &made = new_lane();
    const int64_t call = lane.collectives++;
    mail_->note(fmt::format("rank {} of {}: color {}, key {}", lane.rank, lane.size, color, key));
    const std::array<int, 2> mine = {color, key};
    mail_->put(lane.key(call, lane.rank, -1), std::span<const int>(mine));
    lane.busy = true;
    made.awaits_nccl = true;
    later(
        lane, [this, &lane, call] { return all_have_put(lane, call); },
        [this, &lane, &made, call, color, key] {
          if (made.is_left) mail_->complain("NCCL wrote a communicator into freed memory");
          made.awaits_nccl = lane.busy = false;
          if (color >= 0) finish_split(lane, made, call, color, key);
        });
    return &made;
  }
  bool is_made(Handle handle) override {
    const auto lock = mail_->lock();
    return of(handle).is_made;
  }
  bool ready(Handle handle) override {
    const auto lock = mail_->lock();
    mail_->step();
    Lane& lane = of(handle);
    if (!lane.is_made) refuse("a call on a communicator that is not there yet");
    if (!lane.error.empty()) throw CommError(Where::current(), "NCCL: " + lane.error);
    mail_->look();
    return !lane.busy;
  }
  void finalize(Handle handle) override {
    const auto lock = mail_->lock();
    Lane& lane = begin_call(handle);
    ++mail_->finalised(lane.id);
    lane.is_finalised = lane.busy = true;
    later(
        lane, [this, &lane] { return lane.rest.empty() && mail_->finalised(lane.id) == lane.size; },
        [&lane] { lane.busy = false; });
  }
  void leave(Handle handle, bool aborts) noexcept override {
    const auto lock = mail_->lock();
    Lane& lane = of(handle);
    lane.is_left = true;
    if (aborts) {
      ++mail_->aborts;
      mail_->abort();
    } else if (lane.is_made && (!lane.is_finalised || lane.busy)) {
      mail_->complain("a communicator was destroyed before it was finalised");
    }
    mail_->tell();
  }
  void begin_group() override { in_group_ = true; }
  void end_group() override {
    in_group_ = false;
    const auto lock = mail_->lock();
    if (group_.empty()) return;
    launch(*std::exchange(group_lane_, nullptr), std::exchange(group_, {}), ++launches_);
  }
  Mark computed() override { return 1; }  // the emulator has computed it
  void lane_after(Handle, Mark) override {}
  Mark mark(Handle handle) override {
    const auto lock = mail_->lock();
    Lane& lane = of(handle);
    marks_.push_back({&lane, lane.ended + std::ssize(lane.rest)});
    return static_cast<Mark>(1 + marks_.size());
  }
  void compute_after(Mark mark) override {
    ++mail_->waits;
    const GiveUp late;
    while (!has_passed(mark)) {
      if (meanwhile) meanwhile();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (late) throw CommError(Where::current(), "the GPU stands still");
    }
  }
  bool has_passed(Mark mark) override {
    const auto lock = mail_->lock();
    mail_->step();
    const auto [lane, end] = marks_.at(mark - 2);
    if (lane->ended >= end) return true;
    mail_->look();
    return false;
  }
  void forget(Mark) noexcept override {}
  void send(Handle handle, ConstData data, int to) override {
    const auto lock = mail_->lock();
    Lane& lane = begin_call(handle);
    const auto key = lane.key(lane.sent[to]++, lane.rank, to);
    InOrder part = {{always, [this, key, data] { mail_->put(key, data); }}};
    if (!in_group_)  // else it goes side by side with what else is in the group
      part.push_back({[this, key] { return mail_->is_taken(key); }, [] {}});
    give(lane, std::move(part));
  }
  void recv(Handle handle, Data data, int from) override {
    const auto lock = mail_->lock();
    Lane& lane = begin_call(handle);
    const auto key = lane.key(lane.received[from]++, from, lane.rank);
    give(lane, {{[this, key] { return mail_->has(key); },
                 [this, key, data] {
                   const std::vector<std::byte> got = mail_->take(key);
                   if (std::ssize(got) != data.nbytes())
                     mail_->complain("a message of another length");
                   else
                     std::copy(got.begin(), got.end(), data.bytes);
                 }}});
  }
  void broadcast(Handle handle, ConstData in, Data out, int root) override {
    combine(handle, in, out, root, root,
            [](Data to, ConstData from, int) { copy_data(from, host(to)); });
  }
  void reduce(Handle handle, ConstData in, Data out, ReduceOp op, int root) override {
    if (of(handle).rank != root) out = {};
    sum(handle, in, out, op, 0, in.count);
  }
  void all_reduce(Handle handle, ConstData in, Data out, ReduceOp op) override {
    sum(handle, in, out, op, 0, in.count);
  }
  void reduce_scatter(Handle handle, ConstData in, Data out, ReduceOp op) override {
    sum(handle, in, out, op, of(handle).rank * out.count, out.count,
        [this] { return !holds_reduce_scatters; });
  }
  void all_gather(Handle handle, ConstData in, Data out) override {
    const int size = of(handle).size;
    combine(handle, in, out, 0, size - 1,
            [size](Data to, ConstData from, int r) { copy_data(from, host(to).chunk(r, size)); });
  }
  // What NCCL says, some time from now on, of all lanes of this rank.
  void break_lanes(const std::string& error) {
    const auto lock = mail_->lock();
    for (Lane& lane : lanes_) later(lane, always, [&lane, error] { lane.error = error; });
  }

 private:
  // A message, or a group: its parts go side by side.
  struct Rest {
    std::vector<InOrder> parts;
    int64_t launch = 0;  // the number of its collective among the device's; 0: a message
  };
  struct Lane {
    Id id{};
    int size = 0, rank = 0;
    bool is_made = false, busy = false;
    bool awaits_nccl = false;  // its communicator is on its way
    bool is_finalised = false, is_left = false;
    std::map<int, int64_t> sent = {}, received = {};
    int64_t collectives = 0;
    std::deque<LateEvent> calls = {};  // that NCCL has not taken yet
    std::deque<Rest> rest = {};        // what the device has to do, in order
    int64_t ended = 0;                 // of all that were ever in `rest`
    std::string error = {};
    LateEvent next_call = {};  // what may happen next of both, for the other thread
    std::vector<LateEvent> next_rest = {};
    Mailboxes::Key key(int64_t call, int from, int to) const { return {id, call, from, to}; }
  };
  // The emulator's device memory is the host's.
  static Data host(Data data) { return {data.bytes, data.count, data.dtype}; }
  static Lane& of(Handle handle) { return *static_cast<Lane*>(handle); }
  static bool always() { return true; }

  [[noreturn]] void refuse(const std::string& what) {
    mail_->complain(what);
    throw CommError(Where::current(), "NCCL: invalid argument: " + what);
  }
  Lane& begin_call(Handle handle) {
    Lane& lane = of(handle);
    if (!lane.is_made) refuse("a call on a communicator that is not there yet");
    if (lane.busy) refuse("a call on a communicator that is busy");
    return lane;
  }
  Lane& new_lane() {
    lanes_.emplace_back();
    return lanes_.back();
  }
  void enter(Lane& lane, const Id& id, int size, int rank) {
    ++mail_->lanes;
    ++mail_->joined(id);
    lane.id = id, lane.size = size, lane.rank = rank;
  }
  // NCCL's own thread does it when it can.
  void later(Lane& lane, std::function<bool()> can_happen, std::function<void()> happen) {
    lane.calls.push_back({std::move(can_happen), std::move(happen)});
    mail_->tell();
  }
  bool all_have_put(Lane& lane, int64_t call) {
    for (int r = 0; r < lane.size; ++r)
      if (!mail_->has(lane.key(call, r, -1))) return false;
    return true;
  }
  void finish_split(Lane& lane, Lane& made, int64_t call, int color, int key) {
    std::vector<std::pair<int, int>> part;  // (key, rank) of this color
    for (int r = 0; r < lane.size; ++r) {
      const std::vector<std::byte> theirs = mail_->take(lane.key(call, r, -1));
      const int* const words = reinterpret_cast<const int*>(theirs.data());
      if (words[0] == color) part.emplace_back(words[1], r);
    }
    std::sort(part.begin(), part.end());
    const auto place = std::find(part.begin(), part.end(), std::pair(key, lane.rank));
    Id id = lane.id;  // a name of its own
    id[1] = static_cast<std::byte>(1 + color);
    id[2] = static_cast<std::byte>(1 + call);
    enter(made, id, static_cast<int>(part.size()), static_cast<int>(place - part.begin()));
    made.is_made = true;
  }
  // NCCL takes a call: it is launched on the device.
  void launch(Lane& lane, std::vector<InOrder> parts, int64_t number) {
    lane.busy = true;
    later(lane, always, [this, &lane, parts = std::move(parts), number] {
      lane.rest.push_back({parts, number});
      if (number > 0) launched_.push_back(number);
      lane.busy = false;
    });
  }
  // A part of the group that is open, or a call of its own.
  void give(Lane& lane, InOrder part) {
    if (!in_group_) return launch(lane, {std::move(part)}, 0);
    group_lane_ = &lane;
    group_.push_back(std::move(part));
  }
  void add_possible(std::vector<const LateEvent*>& possible) {
    for (Lane& lane : lanes_) {
      if (!is_stuck && !lane.calls.empty() && lane.calls.front().can_happen()) {
        lane.next_call = {always, [&lane] {
                            const LateEvent call = std::move(lane.calls.front());
                            lane.calls.pop_front();
                            call.happen();
                          }};
        possible.push_back(&lane.next_call);
      }
      lane.next_rest.clear();
      if (lane.rest.empty() || !has_room(lane.rest.front().launch)) continue;
      for (InOrder& part : lane.rest.front().parts)
        if (!part.empty() && part.front().can_happen())
          lane.next_rest.push_back({always, [this, &lane, &part] { advance(lane, part); }});
      for (const LateEvent& each : lane.next_rest) possible.push_back(&each);
    }
  }
  bool has_room(int64_t number) const {
    const auto place = std::find(launched_.begin(), launched_.end(), number) - launched_.begin();
    return number == 0 || place < room;
  }
  void advance(Lane& lane, InOrder& part) {
    const LateEvent event = std::move(part.front());
    part.pop_front();
    event.happen();
    for (const InOrder& each : lane.rest.front().parts)
      if (!each.empty()) return;
    std::erase(launched_, lane.rest.front().launch);
    lane.rest.pop_front();
    ++lane.ended;
  }

  // Shows `in` to all; later, `out` is made of what ranks first to last have shown.
  template <class Add>
  void combine(Handle handle, ConstData in, Data out, int first, int last, Add add,
               const std::function<bool()>& may_end = always) {
    const auto lock = mail_->lock();
    Lane& lane = begin_call(handle);
    const int64_t call = lane.collectives++;
    const LateEvent show = {
        always, [this, &lane, call, in] { mail_->put(lane.key(call, lane.rank, -1), in); }};
    const auto all_show = [this, &lane, call, first, last, wants = out.count > 0, may_end] {
      for (int r = first; r <= last && wants; ++r)
        if (!mail_->has(lane.key(call, r, -1))) return false;
      return may_end();
    };
    give(lane, {show, {all_show, [this, &lane, call, in, out, first, last, add] {
                         for (int r = first; r <= last && out.count > 0; ++r) {
                           const std::vector<std::byte> theirs = mail_->take(lane.key(call, r, -1));
                           const int64_t count = std::ssize(theirs) / bytes_of(in.dtype);
                           add(out, ConstData(theirs.data(), count, in.dtype), r);
                         }
                       }}});
  }
  void sum(Handle handle, ConstData in, Data out, ReduceOp op, int64_t begin, int64_t count,
           const std::function<bool()>& may_end = always) {
    const auto add = [=](Data to, ConstData from, int r) {
      const ConstData part = from.part(begin, begin + count);
      if (r == 0) return copy_data(part, host(to));
      reduce_into(host(to), part, op);
    };
    combine(handle, in, out, 0, of(handle).size - 1, add, may_end);
  }

  std::shared_ptr<Mailboxes> mail_;
  std::deque<Lane> lanes_;
  std::vector<std::pair<Lane*, int64_t>> marks_;
  bool in_group_ = false;
  Lane* group_lane_ = nullptr;
  std::vector<InOrder> group_;  // the parts of the group that is open
  int64_t launches_ = 0;
  std::deque<int64_t> launched_;  // collectives that the device has not ended, in order
};

}  // namespace yotta_test
