// Streams of the emulator: queues of kernels and copies that run late, and in random order wherever
// nothing orders them.
//
//     host        launch f   launch g   copy h   record e   wait e   launch k    synchronise
//     stream 1   [ f ][ g ]                 e ──┐                                   |
//     stream 2              [ h ]               └─────────── [ k ]                  |
//     run here                                                                      h f g k
//
// A call only appends to its stream. Work runs when the host waits for it (cudaStreamSynchronize,
// cudaEventSynchronize, cudaDeviceSynchronize, cudaMemcpy, cudaFree), one operation at a time:
// drawn from a seed among all that may go next, until what the host waits for has ended. So an
// operation of another stream may have run long ago or not at all, and a program that forgets an
// event computes something wrong with some seeds (emulator_options().seed).
//
// Checks. Each operation carries a clock and a footprint (stream_order.hpp). When it has run, it is
// compared with all operations that are neither before it nor known to have ended before it was
// issued; and with what the host did meanwhile to pinned memory. Footprints of copies are known in
// every build, those of kernels and the accesses of the host in the checked one. Where kernels are
// checked, operations run in the order in which they were issued: what is missing is found from
// the clocks, and the values that kernels see are the usual ones.
//
// The legacy default stream (nullptr). Its operations wait for all that was issued before on
// blocking streams, and run at once; later operations of blocking streams come after them. Streams
// of cudaStreamNonBlocking know nothing of it. A launch on it has ended when it returns, which a
// GPU does not promise: the checks act as on the GPU. All threads of the host count as one.
//
// A function of the host in a stream (cudaLaunchHostFunc) is an operation too: what it does to
// pinned memory, in the checked build, is its footprint.
//
// A failed operation is thrown by the call that made it run; what was queued then is dropped.
// References: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Runtime API,
// "Stream synchronization behavior".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/handles.hpp"
#include "yotta/device/emulator/stream_order.hpp"
#include "yotta/device/emulator/task.hpp"

namespace yotta {

// Work that was recorded instead of run.
struct GraphNode {
  StreamOperation operation;
  std::vector<size_t> after;                                  // the nodes that end before it begins
  std::vector<std::pair<const void*, uint64_t>> allocations;  // its pointers, and whose they were
};
struct Capture {
  std::vector<GraphNode> nodes;
  cudaStream_t origin = nullptr;
  bool relaxed = false;  // the host may allocate meanwhile
  bool is_void = false;  // because of an error
  bool ended = false;
  std::vector<size_t> left = {};  // nodes at the end of streams that were destroyed meanwhile
};

}  // namespace yotta

// A stream: what its next operation comes after.
struct CUstream_st {
  size_t place = 0;  // in clocks
  std::string name;  // "stream 2"
  bool blocking = true;
  int priority = 0;  // the less, the sooner
  uint32_t issued = 0;
  yotta::StreamClock clock = {};
  std::vector<std::shared_ptr<yotta::StreamOperation>> after = {};
  std::shared_ptr<yotta::Capture> capture = {};  // if it is captured,
  std::vector<size_t> nodes = {};                // what its next node comes after
};

// An event: what had been issued on its stream when it was recorded.
struct CUevent_st {
  yotta::StreamClock clock = {};
  std::vector<std::shared_ptr<yotta::StreamOperation>> after = {};
  std::shared_ptr<yotta::Capture> capture = {};  // if it was recorded in a capture
  std::vector<size_t> nodes = {};
  uint64_t epoch = 0;
  int64_t recorded = 0;  // when the host did so, in nanoseconds; 0: never
};

struct CUgraph_st {
  std::vector<yotta::GraphNode> nodes;
};

// A graph that can be launched. Each node belongs to a lane, in which one comes after the other;
// lanes have places in clocks, as streams have.
struct CUgraphExec_st {
  std::vector<yotta::GraphNode> nodes;
  std::vector<size_t> places;    // of the nodes' lanes
  std::vector<uint32_t> issued;  // by place
  std::shared_ptr<yotta::StreamOperation> last = {};
};

namespace yotta {

// Operations of streams that race, or that use memory that is not theirs. The message begins with
// the line of the later call.
class StreamError : public Error {
  using Error::Error;
};

// An access of the host to pinned memory.
struct HostAccess {
  Stretch at;
  const void* code = nullptr;  // the return address of the access
  std::string (*line_of)(const void* code) = nullptr;
  StreamClock clock = {};  // what the host had waited for
  uint64_t sequence = 0;
};

// All streams of this process.
class StreamQueue {
 public:
  static StreamQueue& instance();

  // The GPU reads the host's pageable memory itself (HMM, Grace): nothing is staged, and copies
  // from it run as late as all others.
  std::atomic<bool> reads_pageable = false;
  // A query that finds work under way is the thread's last error, for cudaGetLastError().
  std::atomic<bool> keeps_not_ready = false;

  std::atomic<uint64_t> launches = 0;  // of kernels, since the program began

  // False: no stream has been created, and nothing is to be done in order.
  bool in_use() const { return in_use_; }
  void seed(uint64_t value) { seed_ = value, steps_ = 0; }

  cudaStream_t create(bool blocking, int priority);
  cudaError_t priority(cudaStream_t stream, int* number);
  cudaError_t destroy(cudaStream_t stream);
  // Appends an operation to a stream; on the legacy default stream, runs it.
  cudaError_t submit(cudaStream_t stream, StreamOperation operation);
  // Until the host knows that all of the stream, the event or the device has ended.
  cudaError_t synchronise(cudaStream_t stream);
  cudaError_t synchronise(cudaEvent_t event);
  cudaError_t synchronise_all();
  // The same for calls that must not throw: false if an operation failed; the next call that may
  // throw says which.
  bool synchronise_quietly() noexcept;
  // Whether it has ended. If not, some operation runs.
  cudaError_t query(cudaStream_t stream);
  cudaError_t query(cudaEvent_t event);
  cudaEvent_t create_event();
  cudaError_t destroy(cudaEvent_t event);
  cudaError_t record(cudaEvent_t event, cudaStream_t stream);
  cudaError_t wait(cudaStream_t stream, cudaEvent_t event);
  // Between two records, on the host's clock.
  cudaError_t elapsed(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

  // Capture: while it lasts, submit() records.
  cudaError_t begin_capture(cudaStream_t stream, bool relaxed);
  cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph);
  bool captures(cudaStream_t stream);
  // The host is about to allocate, free or wait for everything, which a capture may forbid.
  cudaError_t host_work();
  bool known(cudaGraph_t graph) const { return graphs_.living(graph); }
  bool known(cudaGraphExec_t exec) const { return execs_.living(exec); }
  cudaError_t destroy(cudaGraph_t graph);
  cudaGraphExec_t instantiate(const CUgraph_st& graph);
  cudaError_t destroy(cudaGraphExec_t exec);
  cudaError_t launch(cudaGraphExec_t exec, cudaStream_t stream, Where where);

  // The host reads or writes pinned memory. A race is thrown by the next call that may throw.
  void host_access(HostAccess access);
  // Runs a function of the host as this operation, which has a footprint afterwards.
  void run_host_function(void (*function)(void*), void* data, StreamOperation& self);
  // Pinned memory appears and goes: then even the legacy stream has an order to keep.
  void pinned_changes(int by);

 private:
  using Shared = std::shared_ptr<StreamOperation>;
  static constexpr size_t most_history = 4096;  // operations that a race is looked for with

  bool known(cudaStream_t stream) const { return stream == nullptr || streams_.living(stream); }
  CUstream_st& of(cudaStream_t stream) { return stream == nullptr ? legacy_ : *stream; }
  void meet_blocking_streams();
  Shared issue(CUstream_st& stream, StreamOperation operation);
  void append(const Shared& operation);
  void append_nodes(CUgraphExec_st& exec, CUstream_st& stream, const Shared& begin);
  cudaError_t record_node(CUstream_st& stream, StreamOperation operation);
  cudaError_t wait_in_capture(CUstream_st& stream, const CUevent_st& event);
  bool default_stream_is_captured();
  void step();
  template <class Ended>
  void run_until(Ended ended);
  void host_has_seen(const StreamClock& clock);
  void execute(const Shared& operation);
  void check(const StreamOperation& operation);
  void host_has_seen_all();
  void forget_what_is_over();
  void forget_oldest();
  void forget_all();
  void abandon();
  void throw_held();
  void update_use();

  std::recursive_mutex mutex_;
  std::atomic<bool> in_use_ = false;
  std::atomic<uint64_t> seed_ = 1, steps_ = 0;  // ranks that are threads may set it
  uint64_t sequence_ = 0;
  uint64_t epoch_ = 1;              // clocks begin anew when nothing is in use
  size_t places_ = 1, pinned_ = 0;  // place 0 is the legacy default stream's
  CUstream_st legacy_{.name = "the legacy default stream"};
  Handles<CUstream_st> streams_;
  Handles<CUevent_st> events_;
  Handles<CUgraph_st> graphs_;
  Handles<CUgraphExec_st> execs_;
  std::vector<Shared> pending_;  // as they were issued
  std::vector<Shared> history_;  // have run; some operation is not ordered after them
  std::vector<HostAccess> host_accesses_;
  std::vector<HostAccess>* of_function_ = nullptr;  // while one of the host's runs in a stream
  StreamClock host_;                                // what the host knows to have ended
  std::exception_ptr held_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/stream_queue.ipp"
#endif
