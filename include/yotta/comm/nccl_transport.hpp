// NCCL ranks: data on Device::cuda goes from GPU to GPU by NCCL; everything else goes as it did before.
//
//     Communicator ──► NcclTransport ─┬─ data on cuda ──► NcclLibrary   a lane: an NCCL communicator and its stream
//                                     └─ all else ──────► inner         the transport of the same ranks: MPI
//                                        data on cpu, splits, unique ids, who has failed
//
// A group has a lane for its collectives, made at the first one: a member makes a unique id and sends it to the others
// over `inner`, and all join. (Not by ncclCommSplit, which ranks that join no part would have to call too.)
// Messages have a lane for each pair of ranks and direction, so that no message waits behind one the other way.
// NCCL has no tags: between two ranks messages must be received in the order in which they were sent.
//
// Nothing blocks the host. What a lane does begins behind what the rank has computed so far, and what the rank computes
// after wait() comes behind the lane (join): both by events between streams. Lanes are joined, and connect, while the
// rank goes on; their requests wait in a queue meanwhile. A group's lane is in order.
//
//     compute stream   ─ grad 1 ─┬─ grad 2 ──────── wait() ─ step ─►
//     lane's stream              └─ all_reduce 1 ────┘
//
// When a rank fails the others hear of it over `inner`, also while they wait for the device (watch), and abort their
// lanes, since NCCL would wait for ever; so they do when NCCL reports an error, or after a time-out.
// The library behind is an interface, so that all of this is tested without a GPU; nccl.hpp has the real one.
// References: NVIDIA NCCL documentation, "Communicators" (non-blocking, abort) and "Point-to-point".
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/nccl_library.hpp"

namespace yotta {

class NcclTransport : public Transport {
 public:
  // All ranks of `inner` make one together.
  NcclTransport(std::shared_ptr<Transport> inner, std::shared_ptr<NcclLibrary> nccl,
                Where where = Where::current())
      : inner_(std::move(inner)),
        nccl_(std::move(nccl)),
        id_call_{"the id of an NCCL communicator", 128, DType::u8, -1, "", "", where} {
    for (int r = 0; r < inner_->size(); ++r) groups_[0].members.push_back(r);
    control_ = inner_->open_group(0, -1, 0, groups_[0].members);
  }
  ~NcclTransport() override { leave_all(inner_->failed()); }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void post(Request& request) override {
    if (request.data.device != Device::cuda) return inner_->post(request);
    const bool sends = request.kind == Request::Kind::send;
    const int from = sends ? rank() : request.peer, to = sends ? request.peer : rank();
    if (from == to)
      yotta::fail(request.call->where, "NCCL has no message of a rank to itself; copy the tensor");
    Lane& lane = lanes_[{from, to, -1}];
    if (lane.members.empty()) lane.members = {from, to};
    lane.queue.push_back({&request, {}});
    pump(lane);
  }
  void post(Request& request, const NativeCall& call) override {
    if (call.out.device != Device::cuda && call.in.device != Device::cuda)
      return inner_->post(request, call);
    Lane& lane = lane_of(request.group);
    lane.queue.push_back({&request, call});
    pump(lane);
  }
  bool test(Request& request) override {
    if (request.done) return true;
    for (auto& [name, lane] : lanes_)
      for (const Task& task : lane.queue)
        if (task.request == &request) {
          pump(lane);
          return request.done;
        }
    return inner_->test(request);
  }
  // What NCCL has been given cannot be taken back: its lane is aborted.
  void withdraw(Request& request) override {
    for (auto& [name, lane] : lanes_)
      for (size_t i = 0; i < lane.queue.size(); ++i)
        if (lane.queue[i].request == &request) {
          if (i == 0 && lane.busy) give_up(lane);
          lane.queue.erase(lane.queue.begin() + static_cast<std::ptrdiff_t>(i));
          request.done = true;
          return;
        }
    inner_->withdraw(request);
  }
  void join(int group) override {
    inner_->join(group);
    const auto lane = lanes_.find({0, 0, group});
    if (lane == lanes_.end() || !lane->second.unseen) return;
    nccl_->compute_after(lane->second.handle);
    lane->second.unseen = false;
  }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    bool active = false;
    for (auto& [name, lane] : lanes_) {
      pump(lane);
      active = active || !lane.queue.empty();
    }
    if (!active) return inner_->sleep(strands, seconds);
    check(strands[0].where);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, 20e-6)));
  }

  bool failed() const override { return inner_->failed(); }
  void check(Where where) override {
    try {
      inner_->check(where);
    } catch (...) {
      leave_all(true);
      throw;
    }
  }
  void fail(const std::string& message) override {
    inner_->fail(message);
    leave_all(true);
  }
  // Called while the host waits for the device, which may be waiting for a rank that is gone.
  void watch(Where where, double seconds, double timeout) {
    check(where);
    for (auto& [name, lane] : lanes_)
      if (lane.handle != nullptr) nccl_->ready(lane.handle);  // throws what went wrong in flight
    if (seconds < timeout) return;
    const std::string message = fmt::format(
        "rank {} has waited for its GPU for more than {} s: a collective or a message there waits "
        "for a rank that does not come",
        rank(), timeout);
    fail(message);
    throw Timeout(where, message);
  }
  void end(Where where) override {
    for (bool active = true; active;) {  // messages that were sent and not waited for
      active = false;
      for (auto& [name, lane] : lanes_) {
        pump(lane);
        active = active || !lane.queue.empty();
      }
      for (Request& each : sent_ids_) active = !inner_->test(each) || active;
      if (active) check(where);
    }
    accelerator_or_fail(where).wait(where);
    inner_->end(where);
  }

  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const int number = inner_->open_group(parent, sequence, color, members);
    // The same name on all members, who may have other numbers for it.
    uint64_t name = groups_[parent].name;
    for (const uint64_t part : {static_cast<uint64_t>(sequence), static_cast<uint64_t>(color)})
      name = (name ^ (part + 1)) * 0x100000001b3u;
    groups_[number] = {{members.begin(), members.end()}, name};
    return number;
  }
  bool shares_memory() const override { return inner_->shares_memory(); }
  bool has_native(ConstData whole) const override {
    if (whole.device != Device::cuda) return inner_->has_native(whole);
    return whole.dtype != DType::fp8_e5m2 && whole.dtype != DType::fp8_e4m3;
  }
  Gathering* enter(int group, int64_t number, const Call& call) override {
    return inner_->enter(group, number, call);
  }
  void arrive(Gathering& gathering, int group_rank) override {
    inner_->arrive(gathering, group_rank);
  }
  void leave(int group, Gathering& gathering) override { inner_->leave(group, gathering); }

 private:
  struct Task {
    Request* request;
    NativeCall call;  // of a collective
  };
  struct Lane {
    std::vector<int> members = {};  // world ranks
    int64_t tag = 0;                // of its id's message
    NcclLibrary::Handle handle = nullptr;
    std::unique_ptr<Request> id_request = nullptr;  // an id on its way
    NcclLibrary::Id id = {};
    std::deque<Task> queue = {};
    bool busy = false;    // the first of the queue has been given to NCCL
    bool unseen = false;  // the compute stream has not been put behind it
  };
  struct Members {
    std::vector<int> members = {};  // world ranks
    uint64_t name = 0xcbf29ce484222325u;
  };

  Lane& lane_of(int group) {
    Lane& lane = lanes_[{0, 0, group}];
    if (!lane.members.empty()) return lane;
    lane.members = groups_.at(group).members;
    lane.tag = 1 + static_cast<int64_t>(groups_.at(group).name % 16383);  // 0: messages
    return lane;
  }
  int place_in(const Lane& lane) const {
    const auto found = std::find(lane.members.begin(), lane.members.end(), rank());
    return static_cast<int>(found - lane.members.begin());
  }

  // Moves a lane on as far as it goes without waiting.
  void pump(Lane& lane) {
    if (given_up_) return;
    if (lane.handle == nullptr && !lane.queue.empty() && !try_join(lane)) return;
    while (!lane.queue.empty() && nccl_->ready(lane.handle)) {
      if (!std::exchange(lane.busy, !lane.busy)) {
        start(lane, lane.queue.front());
        continue;
      }
      Request& request = *lane.queue.front().request;
      lane.queue.pop_front();
      lane.unseen = true;
      if (request.kind != Request::Kind::native) see(lane);
      request.done = true;
    }
  }
  void start(Lane& lane, const Task& task) {
    const Request& request = *task.request;
    nccl_->after_compute(lane.handle);
    nccl_->begin_group();
    if (request.kind == Request::Kind::send)
      nccl_->send(lane.handle, request.data, 1);
    else if (request.kind == Request::Kind::recv)
      nccl_->recv(lane.handle, request.data, 0);
    else
      run_on_lane(*nccl_, lane.handle, task.call, static_cast<int>(lane.members.size()),
                  place_in(lane));
    nccl_->end_group();
  }
  void see(Lane& lane) {
    nccl_->compute_after(lane.handle);
    lane.unseen = false;
  }

  // Makes the lane's communicator once its id is here. The first member makes the id and sends it.
  bool try_join(Lane& lane) {
    const int place = place_in(lane);
    if (place == 0) {
      lane.id = nccl_->new_id();
      for (size_t i = 1; i < lane.members.size(); ++i) {
        sent_ids_.emplace_back();
        fill_id_request(sent_ids_.back(), lane, Request::Kind::send, lane.members[i]);
        inner_->post(sent_ids_.back());
      }
    } else if (lane.id_request == nullptr) {
      lane.id_request = std::make_unique<Request>();
      fill_id_request(*lane.id_request, lane, Request::Kind::recv, lane.members[0]);
      inner_->post(*lane.id_request);
    }
    if (place != 0 && !inner_->test(*lane.id_request)) return false;
    lane.handle = nccl_->join(lane.id, static_cast<int>(lane.members.size()), place);
    return true;
  }
  void fill_id_request(Request& request, Lane& lane, Request::Kind kind, int peer) const {
    request.kind = kind;
    request.group = control_;
    request.peer = peer;
    request.tag = lane.tag;
    request.data = {lane.id.data(), std::ssize(lane.id), DType::u8};
    request.call = &id_call_;
  }

  void give_up(Lane& lane) noexcept {
    if (lane.handle != nullptr) nccl_->leave(std::exchange(lane.handle, nullptr), true);
    lane.busy = false;
  }
  void leave_all(bool aborts) noexcept {
    given_up_ = given_up_ || aborts;
    for (auto& [name, lane] : lanes_)
      if (aborts)
        give_up(lane);
      else if (lane.handle != nullptr)
        nccl_->leave(std::exchange(lane.handle, nullptr), false);
  }

  std::shared_ptr<Transport> inner_;
  std::shared_ptr<NcclLibrary> nccl_;
  int control_ = 0;                           // a group of `inner` for ids
  std::map<int, Members> groups_;             // by number
  std::map<std::array<int, 3>, Lane> lanes_;  // {from, to, -1} or {0, 0, group}
  std::deque<Request> sent_ids_;
  bool given_up_ = false;  // a rank has failed: nothing is given to NCCL any more
  Call id_call_;
};

}  // namespace yotta
