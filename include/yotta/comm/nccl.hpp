// NCCL itself, behind NcclTransport (nccl_transport.hpp): communicators that are made and connect without blocking the
// host, each with a CUDA stream of its own, and events that order it with the stream on which the rank computes.
//
//     after_compute    record an event on the compute stream; the lane's stream waits for it
//     compute_after    record an event on the lane's stream; the compute stream waits for it
//     ready            ncclCommGetAsyncError: in progress, done, or what went wrong
//
// Versions: NCCL 2.14 and newer make communicators that never block (ncclConfig_t); before, joining waits for the
// others. bf16 needs 2.10.
// Empty unless YOTTA_HAVE_NCCL is defined and nvcc compiles it: one .cu file of a program includes it, and gives the
// program what nccl_support.hpp declares. Link NCCL and the CUDA runtime.
// Reference: NVIDIA NCCL documentation, "Creating a communicator with options", "Error handling".
#pragma once

#if defined(YOTTA_HAVE_NCCL) && defined(__CUDACC__)

#include <nccl.h>

#include <cstring>

#include "yotta/comm/nccl_support.hpp"
#include "yotta/comm/nccl_transport.hpp"
#include "yotta/device/cuda_accelerator.hpp"

namespace yotta {

// Throws NCCL's words unless a call was accepted.
inline void check_nccl(ncclResult_t code, ncclComm_t comm = nullptr) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
  if (code == ncclInProgress) return;
#endif
  if (code == ncclSuccess) return;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
  const char* const last = ncclGetLastError(comm);
#else
  const char* const last = "";
  static_cast<void>(comm);
#endif
  throw CommError(Where::current(), fmt::format("NCCL: {} {}", ncclGetErrorString(code),
                                                last == nullptr ? "" : last));
}

class NcclItself : public NcclLibrary {
 public:
  static_assert(sizeof(Id) == sizeof(ncclUniqueId));

  Id new_id() override {
    ncclUniqueId made;
    check_nccl(ncclGetUniqueId(&made));
    Id id;
    std::memcpy(id.data(), &made, sizeof made);
    return id;
  }
  Handle join(const Id& id, int size, int rank) override {
    auto lane = std::make_unique<Lane>();
    ncclUniqueId theirs;
    std::memcpy(&theirs, id.data(), sizeof theirs);
    check_cuda(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
    check_cuda(cudaEventCreateWithFlags(&lane->event, cudaEventDisableTiming));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclCommInitRankConfig(&lane->comm, size, theirs, rank, &config));
#else
    check_nccl(ncclCommInitRank(&lane->comm, size, theirs, rank));
#endif
    return lane.release();
  }
  bool ready(Handle handle) override {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(of(handle).comm, &state), of(handle).comm);
    check_nccl(state, of(handle).comm);
    return state == ncclSuccess;
  }
  void leave(Handle handle, bool aborts) noexcept override {
    const std::unique_ptr<Lane> lane(&of(handle));
    static_cast<void>(aborts ? ncclCommAbort(lane->comm) : ncclCommDestroy(lane->comm));
    static_cast<void>(cudaEventDestroy(lane->event));
    static_cast<void>(cudaStreamDestroy(lane->stream));
  }
  void begin_group() override { check_nccl(ncclGroupStart()); }
  void end_group() override { check_nccl(ncclGroupEnd()); }
  void after_compute(Handle handle) override {
    check_cuda(cudaEventRecord(of(handle).event, compute_stream()));
    check_cuda(cudaStreamWaitEvent(of(handle).stream, of(handle).event, 0));
  }
  void compute_after(Handle handle) override {
    check_cuda(cudaEventRecord(of(handle).event, of(handle).stream));
    check_cuda(cudaStreamWaitEvent(compute_stream(), of(handle).event, 0));
  }
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
    cudaEvent_t event = nullptr;
  };
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
};

[[gnu::used]] inline std::string why_no_nccl() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  return "there is no NVIDIA GPU with a driver here";
}

[[gnu::used]] inline std::shared_ptr<Transport> make_nccl_transport(
    std::shared_ptr<Transport> inner, NcclOptions options) {
  auto made = std::make_shared<NcclTransport>(std::move(inner), std::make_shared<NcclItself>());
  const std::weak_ptr<NcclTransport> watcher = made;
  accelerator_watch() = [watcher, options](Where where, double seconds) {
    if (const auto transport = watcher.lock()) transport->watch(where, seconds, options.timeout);
  };
  return made;
}

}  // namespace yotta

#endif  // YOTTA_HAVE_NCCL, nvcc
