// CUDA graphs: many launches for the price of one.
//
// A launch costs the host some microseconds. A step of many small kernels is then as long as its
// launches, and the device is idle between two kernels. A graph is such a step, recorded once and
// launched as a whole.
//
//     launches    host │l│l│l│l│l│l│        host  │ L │
//                 GPU    │k│ │k│ │k│ │k│    GPU       │k│k│k│k│k│k│
//
// Capture: body(stream) is called as usual, but its launches and copies are recorded and do not
// run. The graph keeps their pointers and sizes. So body must not wait for results or read them,
// must not allocate, and must launch the same work each time: a new shape is another graph.
// New data goes into the same memory, or update() records new pointers and sizes into the graph; it
// is cheap while the nodes and what they wait for stay the same.
//
// Cost: recording and making ready (instantiate) once, then one launch a step instead of one a
// kernel. What each costs the host, and when it pays: lesson 06.
// References: CUDA C++ Programming Guide, "CUDA Graphs"; A. Gray, "Getting started with CUDA
// graphs", NVIDIA, 2019.
#pragma once

#include "yotta/device/streams.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/emulator/graph_words.hpp"
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

class CudaGraph {
 public:
  // Records what body(stream) starts.
  template <class Body>
  CudaGraph(cudaStream_t stream, Body body, Where where = Where::current()) {
    const cudaGraph_t graph = capture(stream, body, where);
    check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes_), where);
    const cudaError_t code = cudaGraphInstantiate(&exec_, graph, 0);
    check_cuda(cudaGraphDestroy(graph), where);
    check_cuda(code, where);
  }
  ~CudaGraph() { static_cast<void>(cudaGraphExecDestroy(exec_)); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // All of it, as one operation of the stream.
  void launch(cudaStream_t stream, Where where = Where::current()) {
#if defined(__CUDACC__)
    check_cuda(cudaGraphLaunch(exec_, stream), where);
#else
    check_cuda(cudaGraphLaunch(exec_, stream, where), where);
#endif
  }

  // The pointers and sizes of body's work from now on. False if that has another form than what was
  // recorded: then it needs a graph of its own.
  template <class Body>
  bool update(cudaStream_t stream, Body body, Where where = Where::current()) {
    const cudaGraph_t graph = capture(stream, body, where);
    cudaGraphExecUpdateResultInfo info{};
    const cudaError_t code = cudaGraphExecUpdate(exec_, graph, &info);
    check_cuda(cudaGraphDestroy(graph), where);
    if (code == cudaErrorGraphExecUpdateFailure) {
      static_cast<void>(cudaGetLastError());  // else the next launch reports it as its own
      return false;
    }
    check_cuda(code, where);
    return true;
  }

  // Kernels and copies.
  size_t nodes() const { return nodes_; }

 private:
  template <class Body>
  static cudaGraph_t capture(cudaStream_t stream, Body& body, Where where) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), where);
    try {
      body(stream);
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph));
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &graph), where);
    return graph;
  }

  cudaGraphExec_t exec_ = nullptr;
  size_t nodes_ = 0;
};

// x -> x^2 - 1/2, `steps` times, each a kernel of its own: on x in place.
inline void launch_each(cudaStream_t stream, float* x, int n, int steps) {
  for (int i = 0; i < steps; ++i)
    launch(iterate_map<float>, static_cast<unsigned>(n + 127) / 128, 128, 0, stream, x, x, n, 1);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
