// NCCL for the tests of every transport. What they send and reduce is in the host's memory, so it
// is copied to the device, travels by NCCL, and is copied back. The device is the accelerator of
// this process: a GPU, or the emulator's.
//
//     test ── post(host's data) ──► OnCuda ── copy ── post(twin on cuda) ──► NcclTransport
//          ◄── done ───────────────        ◄─ copy ── done ────────────────
#pragma once

#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/nccl/nccl_transport.hpp"

namespace yotta_test {

using namespace yotta;

class OnCuda : public Transport {
 public:
  explicit OnCuda(std::shared_ptr<Transport> nccl) : nccl_(std::move(nccl)) {}
  int rank() const override { return nccl_->rank(); }
  int size() const override { return nccl_->size(); }

  void post(Request& request) override {
    Twin& twin = twin_of(request);
    const bool sends = request.kind == Request::Kind::send;
    if (sends)
      twin.request.data = writable(there(twin, request.data));
    else
      twin.request.data = back(twin, request.data);
    nccl_->post(twin.request);
  }
  void post(Request& request, const NativeCall& call) override {
    Twin& twin = twin_of(request);
    NativeCall moved = call;
    const bool in_place = call.in.bytes != nullptr && call.in.bytes == call.out.bytes;
    moved.out = back(twin, call.out);
    moved.in = in_place ? ConstData(moved.out) : there(twin, call.in);
    if (in_place) copy_up(call.in, moved.out);
    nccl_->post(twin.request, moved);
  }
  bool has_queues(Device /*device*/) const override { return true; }
  bool test(Request& request) override {
    const auto found = twins_.find(&request);
    if (found == twins_.end()) return request.done;
    Twin& twin = *found->second;
    if (!nccl_->test(twin.request)) return false;
    if (twin.to.count > 0)
      accelerator()->copy(twin.to.bytes, twin.from.bytes, twin.to.nbytes(), Transfer::to_host);
    twins_.erase(found);
    return request.done = true;
  }
  void withdraw(Request& request) override {
    const auto found = twins_.find(&request);
    if (found == twins_.end()) return;
    nccl_->withdraw(found->second->request);
    twins_.erase(found);
    request.done = true;
  }
  void sleep(std::span<const Waiting> strands, double seconds) override {
    strands_.assign(strands.begin(), strands.end());
    for (Waiting& strand : strands_)
      for (Request*& request : strand.requests)
        if (const auto found = twins_.find(request); found != twins_.end())
          request = &found->second->request;
    nccl_->sleep(strands_, seconds);
  }
  void awake() override { nccl_->awake(); }

  bool failed() const override { return nccl_->failed(); }
  void check(Where where) override { nccl_->check(where); }
  void fail(const std::string& message) override { nccl_->fail(message); }
  void end(Where where) override { nccl_->end(where); }
  void split(int group, int color, int key) override { nccl_->split(group, color, key); }
  int open_group(int parent, int64_t sequence, int color, std::span<const int> members) override {
    return nccl_->open_group(parent, sequence, color, members);
  }
  bool has_native(ConstData whole) const override {
    whole.device = Device::cuda;
    return whole.count > 0 && nccl_->has_native(whole);  // a barrier has no data
  }
  // Only to have the calls compared: ranks that meet would do without NCCL.
  CollectiveRendezvous* enter(int group, int64_t number, const Call& call) override {
    if (CollectiveRendezvous* const met = nccl_->enter(group, number, call))
      nccl_->leave(group, *met);
    return nullptr;
  }

 private:
  // What stands for a request of the host's data.
  struct Twin {
    Request request;
    std::vector<std::unique_ptr<Buffer>> memory;
    Data from, to;  // to copy back: on the device, on the host
  };
  Twin& twin_of(const Request& request) {
    auto twin = std::make_unique<Twin>();
    Request& its = twin->request;
    its.kind = request.kind;
    its.group = request.group;
    its.peer = request.peer;
    its.tag = request.tag;
    its.call = request.call;
    its.is_detached = true;  // nothing here is on a stream
    return *(twins_[const_cast<Request*>(&request)] = std::move(twin));
  }
  static Data on_device(Twin& twin, ConstData data) {
    if (data.bytes == nullptr) return {nullptr, data.count, data.dtype, Device::cuda};
    twin.memory.push_back(std::make_unique<Buffer>(data.nbytes(), Device::cuda));
    return {static_cast<std::byte*>(twin.memory.back()->data()), data.count, data.dtype,
            Device::cuda};
  }
  static void copy_up(ConstData from, Data to) {
    accelerator()->copy(to.bytes, from.bytes, from.nbytes(), Transfer::to_device);
  }
  static ConstData there(Twin& twin, ConstData data) {
    const Data made = on_device(twin, data);
    if (data.bytes != nullptr) copy_up(data, made);
    return made;
  }
  static Data back(Twin& twin, Data data) {
    twin.from = on_device(twin, data);
    if (data.bytes != nullptr) twin.to = data;
    return twin.from;
  }

  std::shared_ptr<Transport> nccl_;
  std::map<Request*, std::unique_ptr<Twin>> twins_;
  std::vector<Waiting> strands_;
};

}  // namespace yotta_test
