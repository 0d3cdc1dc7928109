// NCCL for a program that may be built without it, and may start where there is no GPU.
//
//     const std::string why_not = why_no_nccl();     empty: it can be used
//     transport = make_nccl_transport(transport);    a rank's transport, with NCCL for data on cuda
//
// In builds with NCCL (YOTTA_HAVE_NCCL) nvcc compiles the bodies: one .cu file of the program
// includes this header. Link NCCL and the CUDA runtime. There, NCCL stands behind NcclTransport
// (nccl_transport.hpp): communicators that are made and connect without blocking the host, each
// with a CUDA stream of its own, and events that order it with the stream on which the rank
// computes.
//
//     computed, mark               record an event on the compute stream, on a lane's stream
//     lane_after, compute_after    that stream waits for an event
//     ready                        ncclCommGetAsyncError: in progress, done, or an error
//
// ncclCommSplit sets its communicator to NULL, and a thread of NCCL's writes it when the split is
// done (github.com/NVIDIA/nccl, issue 1472). So a lane that is left before that is never freed; it
// happens only when a rank has failed.
//
// Lanes' streams have the highest priority: what other ranks wait for goes before what is computed
// here. Their launches are ordered by NcclLanes, and by NCCL 2.26 and newer on the GPU too
// (NCCL_LAUNCH_ORDER_IMPLICIT).
//
// NCCL has a version of its header, when this is compiled, and of its library, when it runs: 2.10
// has bf16 and is the oldest; 2.13 says more of an error; 2.14 makes communicators that never block
// the host (before, joining waits for the others); 2.18 splits them. A library older than the
// header is refused by name, since their structs differ.
// Reference: NVIDIA NCCL documentation, "Creating a communicator with options", "Error handling".
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "yotta/comm/engine/transport.hpp"

namespace yotta {

struct NcclOptions {
  double timeout = 600;  // seconds that the host may wait for its GPU
};

#ifdef YOTTA_HAVE_NCCL
std::string why_no_nccl();
std::shared_ptr<Transport> make_nccl_transport(std::shared_ptr<Transport> inner,
                                               NcclOptions options = {});
#else
inline std::string why_no_nccl() {
  return "this program was built without NCCL (cmake --preset cuda builds with it where it is "
         "installed)";
}
inline std::shared_ptr<Transport> make_nccl_transport(std::shared_ptr<Transport> /*inner*/,
                                                      NcclOptions /*options*/ = {}) {
  fail(Where::current(), "{}", why_no_nccl());
}
#endif

// Prepares several ranks on one GPU, for correctness only. NCCL refuses two ranks of one host on
// one GPU. So each process claims to be a host of its own, and all communicate by loopback sockets.
// Call it before any other use of NCCL.
inline void share_gpu(int rank) {
  setenv("NCCL_HOSTID", ("yotta-rank-" + std::to_string(rank)).c_str(), 1);
  setenv("NCCL_NET", "Socket", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_MAX_CTAS", "4", 0);  // room on the GPU for all ranks' kernels at once
}

}  // namespace yotta

#if defined(YOTTA_HAVE_NCCL) && defined(__CUDACC__)
#include <nccl.h>

#include <cstring>

#include "yotta/comm/nccl/nccl_transport.hpp"
#include "yotta/device/cuda/cuda_accelerator.hpp"

#ifndef YOTTA_NCCL_VERSION  // an older one may be asked for
#define YOTTA_NCCL_VERSION NCCL_VERSION_CODE
#endif
static_assert(YOTTA_NCCL_VERSION >= NCCL_VERSION(2, 10, 0), "NCCL 2.10 is the oldest with bf16");

namespace yotta {

// Throws NCCL's error message unless a call was accepted.
inline void check_nccl(ncclResult_t code, ncclComm_t comm = nullptr) {
#if YOTTA_NCCL_VERSION >= NCCL_VERSION(2, 14, 0)
  if (code == ncclInProgress) return;
#endif
  if (code == ncclSuccess) return;
#if YOTTA_NCCL_VERSION >= NCCL_VERSION(2, 13, 0)
  const char* const last = ncclGetLastError(comm);
#else
  const char* const last = "";
  static_cast<void>(comm);
#endif
  const std::string text = last == nullptr ? "" : last;
  const bool shared = text.find("Duplicate GPU") != std::string::npos;
  throw CommError(Where::current(),
                  fmt::format("NCCL: {} {}{}", ncclGetErrorString(code), text,
                              shared ? "; as many processes as GPUs, or --share-gpu" : ""));
}

class NcclItself : public NcclLibrary {
 public:
  static_assert(sizeof(Id) == sizeof(ncclUniqueId));

  NcclItself() = default;
  ~NcclItself() override {
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
  }
  NcclItself(const NcclItself&) = delete;
  NcclItself& operator=(const NcclItself&) = delete;

  Id new_id() override {
    ncclUniqueId made;
    check_nccl(ncclGetUniqueId(&made));
    Id id;
    std::memcpy(id.data(), &made, sizeof made);
    return id;
  }
  Handle join(const Id& id, int size, int rank) override {
    auto lane = make_lane();
    ncclUniqueId theirs;
    std::memcpy(&theirs, id.data(), sizeof theirs);
#if YOTTA_NCCL_VERSION >= NCCL_VERSION(2, 14, 0)
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclCommInitRankConfig(&lane->comm, size, theirs, rank, &config));
#else
    check_nccl(ncclCommInitRank(&lane->comm, size, theirs, rank));
#endif
    return lane.release();
  }
#if YOTTA_NCCL_VERSION >= NCCL_VERSION(2, 18, 0)
  bool can_split() const override { return true; }
  Handle split(Handle handle, int color, int key) override {
    Lane* const part = (color < 0 ? std::make_unique<Lane>() : make_lane()).release();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclCommSplit(of(handle).comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key,
                             &part->comm, &config),
               of(handle).comm);
    return part;
  }
#else
  bool can_split() const override { return false; }
  Handle split(Handle, int, int) override { return nullptr; }
#endif
  bool is_made(Handle handle) override {
    return __atomic_load_n(&of(handle).comm, __ATOMIC_ACQUIRE) != nullptr;
  }
  bool ready(Handle handle) override {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(of(handle).comm, &state), of(handle).comm);
    check_nccl(state, of(handle).comm);
    return state == ncclSuccess;
  }
  void finalize([[maybe_unused]] Handle handle) override {
#if YOTTA_NCCL_VERSION >= NCCL_VERSION(2, 14, 0)
    check_nccl(ncclCommFinalize(of(handle).comm), of(handle).comm);
#endif
  }
  void leave(Handle handle, bool aborts) noexcept override {
    if (aborts && !is_made(handle)) return;  // NCCL may still write it
    const std::unique_ptr<Lane> lane(&of(handle));
    if (lane->comm != nullptr)
      static_cast<void>(aborts ? ncclCommAbort(lane->comm) : ncclCommDestroy(lane->comm));
    if (lane->stream != nullptr) static_cast<void>(cudaStreamDestroy(lane->stream));
  }
  void begin_group() override { check_nccl(ncclGroupStart()); }
  void end_group() override { check_nccl(ncclGroupEnd()); }
  Mark computed() override { return record(compute_stream()); }
  Mark mark(Handle handle) override { return record(of(handle).stream); }
  void lane_after(Handle handle, Mark mark) override {
    check_cuda(cudaStreamWaitEvent(of(handle).stream, event_of(mark), 0));
  }
  void compute_after(Mark mark) override {
    check_cuda(cudaStreamWaitEvent(compute_stream(), event_of(mark), 0));
  }
  bool has_passed(Mark mark) override { return !still_runs(cudaEventQuery(event_of(mark))); }
  // An event may be recorded again at once: a stream that waits for it waits for what it was when
  // the wait began.
  void forget(Mark mark) noexcept override { events_.push_back(event_of(mark)); }
  void send(Handle handle, ConstData data, int to) override {
    const Lane& lane = of(handle);
    check_nccl(ncclSend(data.bytes, size(data), ncclUint8, to, lane.comm, lane.stream), lane.comm);
  }
  void recv(Handle handle, Data data, int from) override {
    const Lane& lane = of(handle);
    check_nccl(ncclRecv(data.bytes, size(data), ncclUint8, from, lane.comm, lane.stream),
               lane.comm);
  }
  void broadcast(Handle handle, ConstData in, Data out, int root) override {
    const Lane& lane = of(handle);
    check_nccl(
        ncclBroadcast(in.bytes, out.bytes, size(in), ncclUint8, root, lane.comm, lane.stream),
        lane.comm);
  }
  void reduce(Handle handle, ConstData in, Data out, ReduceOp op, int root) override {
    const Lane& lane = of(handle);
    check_nccl(ncclReduce(in.bytes, out.bytes, count(in), type_of(in), op_of(op), root, lane.comm,
                          lane.stream),
               lane.comm);
  }
  void all_reduce(Handle handle, ConstData in, Data out, ReduceOp op) override {
    const Lane& lane = of(handle);
    check_nccl(ncclAllReduce(in.bytes, out.bytes, count(in), type_of(in), op_of(op), lane.comm,
                             lane.stream),
               lane.comm);
  }
  void reduce_scatter(Handle handle, ConstData in, Data out, ReduceOp op) override {
    const Lane& lane = of(handle);
    check_nccl(ncclReduceScatter(in.bytes, out.bytes, count(out), type_of(in), op_of(op), lane.comm,
                                 lane.stream),
               lane.comm);
  }
  void all_gather(Handle handle, ConstData in, Data out) override {
    const Lane& lane = of(handle);
    check_nccl(ncclAllGather(in.bytes, out.bytes, size(in), ncclUint8, lane.comm, lane.stream),
               lane.comm);
  }

 private:
  struct Lane {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
  };
  static std::unique_ptr<Lane> make_lane() {
    auto lane = std::make_unique<Lane>();
    lane->stream = make_urgent_stream();
    return lane;
  }
  static cudaEvent_t event_of(Mark mark) { return reinterpret_cast<cudaEvent_t>(mark); }
  Mark record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    if (events_.empty()) {
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    } else {
      event = events_.back();
      events_.pop_back();
    }
    check_cuda(cudaEventRecord(event, stream));
    return reinterpret_cast<Mark>(event);
  }
  static Lane& of(Handle handle) { return *static_cast<Lane*>(handle); }
  static size_t count(ConstData data) { return static_cast<size_t>(data.count); }
  static size_t size(ConstData data) { return static_cast<size_t>(data.nbytes()); }
  static ncclDataType_t type_of(ConstData data) {
    switch (data.dtype) {
      case DType::f64: return ncclFloat64;
      case DType::f32: return ncclFloat32;
      case DType::bf16: return ncclBfloat16;
      case DType::f16: return ncclFloat16;
      case DType::i64: return ncclInt64;
      case DType::i32: return ncclInt32;
      default: return ncclUint8;
    }
  }
  static ncclRedOp_t op_of(ReduceOp op) {
    switch (op) {
      case ReduceOp::max: return ncclMax;
      case ReduceOp::min: return ncclMin;
      case ReduceOp::prod: return ncclProd;
      default: return ncclSum;
    }
  }

  std::vector<cudaEvent_t> events_;  // free ones, to be used again
};

[[gnu::used]] inline std::string why_no_nccl() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) return "there is no NVIDIA GPU with a driver here";
  int version = 0;
  check_nccl(ncclGetVersion(&version));
  if (version >= YOTTA_NCCL_VERSION) return "";
  return fmt::format("this program was built with NCCL {}, and {} is loaded, which is older",
                     YOTTA_NCCL_VERSION, version);
}

[[gnu::used]] inline std::shared_ptr<Transport> make_nccl_transport(
    std::shared_ptr<Transport> inner, NcclOptions options) {
  ask_for_launch_order();
  auto made = std::make_shared<NcclTransport>(std::move(inner), std::make_shared<NcclItself>(),
                                              options.timeout);
  const std::weak_ptr<NcclTransport> watcher = made;
  accelerator_watch() = [watcher](Where where, double seconds) {
    if (const auto transport = watcher.lock()) transport->watch(where, seconds);
  };
  return made;
}

}  // namespace yotta

#endif  // YOTTA_HAVE_NCCL, nvcc
