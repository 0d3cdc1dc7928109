// An NCCL without GPUs, for tests of what is built on it: ranks are threads of one process, device memory is the
// emulator's, and what is sent lies in mailboxes.
//
//     send, or a part of a collective    goes into the mailbox of (communicator, call, sender, receiver) at once
//     recv, or the rest of a collective  is done when the rank's computation needs it: in compute_after()
//
// As with NCCL, joining is not done before all have joined, and after each call a lane is busy for a while.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>

#include "yotta/comm/nccl_library.hpp"

namespace yotta_test {

using namespace yotta;

// What all ranks of the process share.
class Mailboxes {
 public:
  using Key = std::tuple<NcclLibrary::Id, int64_t, int, int>;  // communicator, call, from, to

  void put(const Key& key, ConstData data) {
    const std::lock_guard lock(mutex_);
    boxes_[key].assign(data.bytes, data.bytes + data.nbytes());
    changed_.notify_all();
  }
  // Waits for it; gives up when a rank has aborted.
  std::vector<std::byte> take(const Key& key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return boxes_.count(key) > 0 || aborted_; });
    if (boxes_.count(key) == 0) throw CommError(Where::current(), "the mailbox was given up");
    return boxes_.at(key);
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
    changed_.notify_all();
  }
  std::atomic<int> ids = 0, lanes = 0, aborts = 0,
                   waits = 0;  // made so far; compute put behind a lane

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::vector<std::byte>> boxes_;
  std::map<NcclLibrary::Id, int> joined_;
  bool aborted_ = false;
};

class MailboxNccl : public NcclLibrary {
 public:
  explicit MailboxNccl(std::shared_ptr<Mailboxes> mail) : mail_(std::move(mail)) {}

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
  void after_compute(Handle handle) override { of(handle).busy = 2; }
  void compute_after(Handle handle) override {
    ++mail_->waits;
    Lane& lane = of(handle);
    while (!lane.rest.empty()) {
      const auto rest = std::move(lane.rest.front());
      lane.rest.pop_front();
      rest();
    }
  }
  void send(Handle handle, ConstData data, int to) override {
    Lane& lane = of(handle);
    mail_->put(lane.key(lane.sent[to]++, lane.rank, to), data);
  }
  void recv(Handle handle, Data data, int from) override {
    Lane& lane = of(handle);
    const auto key = lane.key(lane.received[from]++, from, lane.rank);
    lane.rest.push_back([this, key, data] {
      const std::vector<std::byte> got = mail_->take(key);
      if (std::ssize(got) != data.nbytes())
        throw CommError(Where::current(), "NCCL: a message of another length");
      std::copy(got.begin(), got.end(), data.bytes);
    });
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
  struct Lane {
    Id id;
    int size, rank;
    int busy = 2;  // how often ready() still says no
    std::map<int, int64_t> sent = {}, received = {};
    int64_t collectives = 0;
    std::deque<std::function<void()>> rest = {};
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
    lane.rest.push_back([this, &lane, call, in, out, first, last, add] {
      for (int r = first; r <= last && out.count > 0; ++r) {
        const std::vector<std::byte> theirs = mail_->take(lane.key(call, r, -1));
        const int64_t count = std::ssize(theirs) / bytes_of(in.dtype);
        add(out, ConstData(theirs.data(), count, in.dtype), r);
      }
    });
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
  bool in_group_ = false;
};

}  // namespace yotta_test
