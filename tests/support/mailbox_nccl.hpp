// An NCCL without GPUs, for tests of what is built on it: ranks are threads of one process, device
// memory is the emulator's, and what is sent lies in mailboxes.
//
//     send, or a part of a collective    goes into the mailbox of (communicator, call, sender,
//                                        receiver) at once
//     recv, or the rest of a collective  is done when the rank's computation needs it: in
//                                        compute_after()
//     the rest of a send                 is done when the receiver has taken it
//
// As with NCCL, joining is not done before all have joined, and after each call a lane is busy for
// a while. Streams are as strict as a GPU's: computation that is put after an operation of several
// ranks first waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "support/longest_wait.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/nccl/nccl_library.hpp"

namespace yotta_test {

using namespace yotta;

// What all ranks of the process share.
class Mailboxes {
 public:
  using Key = std::tuple<NcclLibrary::Id, int64_t, int, int>;  // communicator, call, from, to

  void put(const Key& key, ConstData data) {
    const std::lock_guard lock(mutex_);
    boxes_[key].assign(data.bytes, data.bytes + data.nbytes());
  }
  std::vector<std::byte> take(const Key& key) {
    const std::lock_guard lock(mutex_);
    taken_.insert(key);
    return boxes_.at(key);
  }
  bool has(const Key& key) { return holds(boxes_, key); }
  bool is_taken(const Key& key) { return holds(taken_, key); }
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    notes_.insert(text);
  }
  std::set<std::string> notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  void join(const NcclLibrary::Id& id) {
    const std::lock_guard lock(mutex_);
    ++joined_[id];
  }
  int joined(const NcclLibrary::Id& id) {
    const std::lock_guard lock(mutex_);
    return joined_[id];
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  std::atomic<int> ids = 0, lanes = 0, aborts = 0,
                   waits = 0;  // made so far; compute put behind a lane

 private:
  template <class Keys>
  bool holds(const Keys& keys, const Key& key) {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw CommError(Where::current(), "the mailbox was given up");
    return keys.count(key) > 0;
  }

  std::mutex mutex_;
  std::map<Key, std::vector<std::byte>> boxes_;
  std::set<Key> taken_;
  std::set<std::string> notes_;  // of splits
  std::map<NcclLibrary::Id, int> joined_;
  bool aborted_ = false;
};

class MailboxNccl : public NcclLibrary {
 public:
  explicit MailboxNccl(std::shared_ptr<Mailboxes> mail) : mail_(std::move(mail)) {}
  bool splits = true;               // as NCCL does since 2.18
  std::function<void()> meanwhile;  // what the host does while the device waits

  Id new_id() override {
    Id id{};
    id[0] = static_cast<std::byte>(++mail_->ids);
    return id;
  }
  Handle join(const Id& id, int size, int rank) override {
    ++mail_->lanes;
    mail_->join(id);
    lanes_.push_back({id, size, rank});
    return &lanes_.back();
  }
  bool can_split() const override { return splits; }
  Handle split(Handle handle, int color, int key) override {
    Lane& lane = of(handle);
    const int64_t call = lane.collectives++;
    mail_->note(fmt::format("rank {} of {}: color {}, key {}", lane.rank, lane.size, color, key));
    const std::array<int, 2> mine = {color, key};
    mail_->put(lane.key(call, lane.rank, -1), std::span<const int>(mine));
    std::vector<std::pair<int, int>> part;  // (key, rank) of this color
    for (int r = 0; r < lane.size; ++r) {
      while (!mail_->has(lane.key(call, r, -1)))
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      const std::vector<std::byte> theirs = mail_->take(lane.key(call, r, -1));
      const int* const words = reinterpret_cast<const int*>(theirs.data());
      if (words[0] == color) part.emplace_back(words[1], r);
    }
    if (color < 0) return nullptr;
    std::sort(part.begin(), part.end());
    const auto place = std::find(part.begin(), part.end(), std::pair(key, lane.rank));
    Id id = lane.id;  // a name of its own
    id[1] = static_cast<std::byte>(1 + color);
    id[2] = static_cast<std::byte>(1 + call);
    return join(id, static_cast<int>(part.size()), static_cast<int>(place - part.begin()));
  }
  bool ready(Handle handle) override {
    Lane& lane = of(handle);
    if (!lane.error.empty()) throw CommError(Where::current(), "NCCL: " + lane.error);
    return mail_->joined(lane.id) == lane.size && --lane.busy < 0;
  }
  void leave(Handle, bool aborts) noexcept override {
    if (!aborts) return;
    ++mail_->aborts;
    mail_->abort();
  }
  void begin_group() override { in_group_ = true; }
  void end_group() override { in_group_ = false; }
  Mark computed() override { return 1; }  // the emulator has computed it
  void lane_after(Handle handle, Mark) override { of(handle).busy = 2; }
  Mark mark(Handle handle) override {
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
    for (Lane& lane : lanes_)  // the device goes on by itself
      while (!lane.rest.empty() && lane.rest.front().is_possible()) {
        const auto rest = std::move(lane.rest.front());
        lane.rest.pop_front();
        rest.run();
        ++lane.ended;
      }
    const auto [lane, end] = marks_.at(mark - 2);
    return lane->ended >= end;
  }
  void forget(Mark) noexcept override {}
  void send(Handle handle, ConstData data, int to) override {
    Lane& lane = of(handle);
    const auto key = lane.key(lane.sent[to]++, lane.rank, to);
    mail_->put(key, data);
    if (in_group_) return;  // goes side by side with what else is in the group
    lane.rest.push_back({[this, key] { return mail_->is_taken(key); }, [] {}});
  }
  void recv(Handle handle, Data data, int from) override {
    Lane& lane = of(handle);
    const auto key = lane.key(lane.received[from]++, from, lane.rank);
    lane.rest.push_back({[this, key] { return mail_->has(key); },
                         [this, key, data] {
                           const std::vector<std::byte> got = mail_->take(key);
                           if (std::ssize(got) != data.nbytes())
                             throw CommError(Where::current(), "NCCL: a message of another length");
                           std::copy(got.begin(), got.end(), data.bytes);
                         }});
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
    sum(handle, in, out, op, of(handle).rank * out.count, out.count);
  }
  void all_gather(Handle handle, ConstData in, Data out) override {
    const int size = of(handle).size;
    combine(handle, in, out, 0, size - 1,
            [size](Data to, ConstData from, int r) { copy_data(from, host(to).chunk(r, size)); });
  }
  // What NCCL says from now on of all lanes of this rank.
  void break_lanes(const std::string& error) {
    for (Lane& lane : lanes_) lane.error = error;
  }

 private:
  // What the device does when it can.
  struct Rest {
    std::function<bool()> is_possible;
    std::function<void()> run;
  };
  struct Lane {
    Id id;
    int size, rank;
    int busy = 2;  // how often ready() still says no
    std::map<int, int64_t> sent = {}, received = {};
    int64_t collectives = 0;
    std::deque<Rest> rest = {};
    int64_t ended = 0;  // of all that were ever in `rest`
    std::string error = {};
    Mailboxes::Key key(int64_t call, int from, int to) const { return {id, call, from, to}; }
  };
  // The emulator's device memory is the host's.
  static Data host(Data data) { return {data.bytes, data.count, data.dtype}; }
  static Lane& of(Handle handle) { return *static_cast<Lane*>(handle); }

  // Shows `in` to all; later, `out` is made of what ranks first to last have shown.
  template <class Add>
  void combine(Handle handle, ConstData in, Data out, int first, int last, Add add) {
    Lane& lane = of(handle);
    const int64_t call = lane.collectives++;
    mail_->put(lane.key(call, lane.rank, -1), in);
    const bool wants = out.count > 0;
    const auto is_possible = [this, &lane, call, first, last, wants] {
      for (int r = first; r <= last && wants; ++r)
        if (!mail_->has(lane.key(call, r, -1))) return false;
      return true;
    };
    lane.rest.push_back({is_possible, [this, &lane, call, in, out, first, last, add] {
                           for (int r = first; r <= last && out.count > 0; ++r) {
                             const std::vector<std::byte> theirs =
                                 mail_->take(lane.key(call, r, -1));
                             const int64_t count = std::ssize(theirs) / bytes_of(in.dtype);
                             add(out, ConstData(theirs.data(), count, in.dtype), r);
                           }
                         }});
  }
  void sum(Handle handle, ConstData in, Data out, ReduceOp op, int64_t begin, int64_t count) {
    combine(handle, in, out, 0, of(handle).size - 1, [=](Data to, ConstData from, int r) {
      const ConstData part = from.part(begin, begin + count);
      const auto host = [](auto data) {
        return decltype(data){data.bytes, data.count, data.dtype};
      };
      if (r == 0) return copy_data(part, host(to));
      reduce_into(host(to), part, op);
    });
  }

  std::shared_ptr<Mailboxes> mail_;
  std::deque<Lane> lanes_;
  std::vector<std::pair<Lane*, int64_t>> marks_;
  bool in_group_ = false;
};

}  // namespace yotta_test
