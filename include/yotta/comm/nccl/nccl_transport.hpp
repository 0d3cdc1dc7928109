// NCCL ranks: data on Device::cuda goes from GPU to GPU by NCCL; everything else goes by the
// transport beneath.
//
//     Communicator ─► NcclTransport ─┬─ data on cuda ─┬─ messages      ┐ on lanes:
//                                    │                └─ collectives   ┘ nccl_lanes.hpp
//                                    └─ all else ──► inner, these ranks' transport: MPI or sockets
//                                         data on cpu, splits, bootstrap messages, who has failed
//
// When a rank fails the others hear of it over `inner`, also while they wait for the device
// (watch), and abort their lanes, since NCCL would wait forever. They do the same when NCCL reports
// an error, or after a time-out. A rank that waits for a message that no rank sends is told so by
// `inner`, too. In a collective it is not told: NCCL waits on the device, which does not show for
// which rank, until the time-out.
//
// The library below is an interface (nccl_library.hpp), so that all of this is tested without a
// GPU; nccl.hpp has the real one. Nothing here blocks the host.
// References: NVIDIA NCCL documentation, "Communicators" (non-blocking, abort) and
// "Point-to-point".
#pragma once

#include <chrono>
#include <map>
#include <thread>

#include "yotta/comm/nccl/nccl_lanes.hpp"
#include "yotta/comm/waiting/control_plane.hpp"

namespace yotta {

class NcclTransport : public Transport {
 public:
  // All ranks of `inner` make one together. `timeout`: seconds that the host may wait for its GPU.
  NcclTransport(std::shared_ptr<Transport> inner, std::shared_ptr<NcclLibrary> nccl,
                double timeout = 600, Where where = Where::current());
  ~NcclTransport() override;
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void post(Request& request) override {
    if (request.data.device != Device::cuda) return inner_->post(request);
    messages_.post(request, groups_.at(request.group).id);
  }
  void post(Request& request, const NativeCall& call) override {
    if (call.out.device != Device::cuda && call.in.device != Device::cuda)
      return inner_->post(request, call);
    const std::vector<int>& members = groups_.at(request.group).members;
    const auto in_group = std::find(members.begin(), members.end(), rank()) - members.begin();
    request.data.device = Device::cuda;  // it is ours
    lanes_.add(
        lane_of(request.group, call.operation == Operation::reduce_scatter),
        {&request, [call, p = static_cast<int>(members.size()), r = static_cast<int>(in_group)](
                       NcclLibrary& nccl, NcclLibrary::Handle handle) {
           run_on_lane(nccl, handle, call, p, r);
         }});
  }
  // A lane keeps what it is given in its order.
  bool has_queues(Device device) const override { return device == Device::cuda; }
  bool test(Request& request) override {
    if (request.done) return true;
    if (!is_ours(request)) return inner_->test(request);
    if (request.kind == Request::Kind::recv) messages_.advance();
    if (NcclLane* lane = lanes_.find(request)) lanes_.pump(*lane);
    return request.done;
  }
  void withdraw(Request& request) override {
    if (!is_ours(request)) return inner_->withdraw(request);
    if (NcclLane* lane = lanes_.find(request))
      lanes_.withdraw(*lane, request);
    else
      messages_.withdraw(request);
    request.done = true;
  }
  void join(Request& request) override {
    if (request.data.device != Device::cuda) return inner_->join(request);
    lanes_.see(std::exchange(request.handle, 0));
  }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    messages_.advance();
    const bool lanes_are_idle = lanes_.pump_all() == nullptr;
    if (messages_.hand_out()) return;  // a request is done
    if (lanes_are_idle && !any_on_a_lane(strands))
      return inner_->sleep(as_inner_sees(strands), seconds);
    check(strands[0].where);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, 20e-6)));
  }
  void awake() override { inner_->awake(); }

  // Advances whatever can be advanced.
  void advance() {
    messages_.advance();
    lanes_.pump_all();
  }

  bool failed() const override { return inner_->failed(); }
  void check(Where where) override {
    try {
      inner_->check(where);
    } catch (...) {
      lanes_.leave_all(true);
      throw;
    }
  }
  void fail(const std::string& message) override {
    inner_->fail(message);
    lanes_.leave_all(true);
  }
  // Called while the host waits for the device, which may be waiting for a rank that has failed.
  void watch(Where where, double seconds) {
    check(where);
    lanes_.look();
    if (seconds < timeout_) return;
    const std::string message = fmt::format(
        "rank {} has waited for its GPU for more than {} s: a collective or a message there waits "
        "for a rank that does not come",
        rank(), timeout_);
    fail(message);
    throw Timeout(where, message);
  }
  void end(Where where) override {
    const std::string unreceived = messages_.find_unreceived();
    const auto begin = std::chrono::steady_clock::now();
    while (const Request* left = lanes_.pump_all(/*leaving=*/true)) {
      check(where);
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (waited.count() > timeout_) fail_unreceived(*left, where);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    accelerator_or_fail(where).wait(where);
    messages_.end();
    leave_lanes(where);
    inner_->end(where);
    if (!unreceived.empty()) throw CommError(where, unreceived);
  }

  void split(int parent, int color, int key) override {
    inner_->split(parent, color, key);
    NcclLane* const lane = lanes_.find_group(parent);
    if (lane == nullptr || !lanes_.can_split()) return;
    if (color < 0) return lanes_.split(*lane, color, key, nullptr);
    part_ = {lane, color, key};  // the part's number comes with open_group
  }
  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    const int number = inner_->open_group(parent, sequence, color, members);
    groups_[number] = {{members.begin(), members.end()},
                       group_id(groups_.at(parent).id, sequence, color)};
    if (const Part part = std::exchange(part_, {}); part.lane != nullptr)
      lanes_.split(*part.lane, part.color, part.key, &lane_of(number));
    return number;
  }
  bool shares_memory() const override { return inner_->shares_memory(); }
  bool has_native(ConstData whole) const override {
    if (whole.device != Device::cuda) return inner_->has_native(whole);
    return whole.dtype != DType::fp8_e5m2 && whole.dtype != DType::fp8_e4m3;
  }
  CollectiveRendezvous* enter(int group, int64_t number, const Call& call) override {
    return inner_->enter(group, number, call);
  }
  void arrive(CollectiveRendezvous& rendezvous, int group_rank) override {
    inner_->arrive(rendezvous, group_rank);
  }
  void leave(int group, CollectiveRendezvous& rendezvous) override {
    inner_->leave(group, rendezvous);
  }

 private:
  struct Members {
    std::vector<int> members = {};  // world ranks
    uint64_t id = 0;                // the same on all members, whatever their numbers for it are
  };
  // Of a split whose group is about to be opened.
  struct Part {
    NcclLane* lane = nullptr;
    int color = 0, key = 0;
  };

  NcclLane& lane_of(int group, bool reduces = false) {
    const Members& members = groups_.at(group);
    return lanes_.of_group(group, members.members, members.id, reduces);
  }
  // NCCL's communicators are finalised by all ranks together, and then left.
  void leave_lanes(Where where) {
    const auto wait = [&] {
      for (; !lanes_.are_ready(); std::this_thread::sleep_for(std::chrono::microseconds(20)))
        check(where);
    };
    wait();
    lanes_.finalize();
    wait();
    lanes_.leave_all(false);
  }
  bool any_on_a_lane(std::span<const Waiting> strands) {
    for (const Waiting& strand : strands)
      for (const Request* request : strand.requests)
        if (request != nullptr && lanes_.find(*request) != nullptr) return true;
    return false;
  }
  // `inner` knows the bootstrap message that a receive waits for, not the receive.
  std::span<const Waiting> as_inner_sees(std::span<const Waiting> strands) {
    strands_.assign(strands.begin(), strands.end());
    for (Waiting& strand : strands_)
      for (Request*& request : strand.requests)
        if (request != nullptr && is_ours(*request))
          if (Request* const envelope = messages_.waits_for(*request)) request = envelope;
    return strands_;
  }

  static bool is_ours(const Request& request) { return request.data.device == Device::cuda; }
  [[noreturn]] void fail_unreceived(const Request& left, Where where) {
    const std::string message =
        fmt::format("rank {} has ended, but after {} s nobody has come for {}", rank(), timeout_,
                    describe(*left.call));
    fail(message);
    throw Timeout(where, message);
  }

  std::shared_ptr<Transport> inner_;
  double timeout_;
  std::shared_ptr<NcclBootstrap> bootstrap_;
  NcclLanes lanes_;
  NcclMessages messages_;
  std::map<int, Members> groups_;  // by number
  Part part_;
  std::vector<Waiting> strands_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/nccl/impl/nccl_transport.ipp"
#endif
