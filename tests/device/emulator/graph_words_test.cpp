#include "yotta/device/emulator/graph_words.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "device/emulator/stream_numbers.hpp"
#include "support/message_of.hpp"
#include "yotta/device/emulator/stream_queue.hpp"
#include "yotta/device/streams.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("nodes of a graph keep their order, and branches have none") {
  Stream a, b;
  Event fork, join;
  std::vector<int> order;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  add(a, order, 1);
  check_cuda(cudaEventRecord(fork, a));
  check_cuda(cudaStreamWaitEvent(b, fork));
  add(a, order, 2);
  add(b, order, 3);
  check_cuda(cudaEventRecord(join, b));
  check_cuda(cudaStreamWaitEvent(a, join));
  add(a, order, 4);
  check_cuda(cudaStreamEndCapture(a, &graph));
  check_cuda(cudaGraphInstantiate(&exec, graph));
  check_cuda(cudaGraphDestroy(graph));
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StreamQueue::instance().seed(seed);
    order.clear();
    check_cuda(cudaGraphLaunch(exec, b));
    check_cuda(cudaStreamSynchronize(b));
    seen.insert(order);
  }
  CHECK(seen == std::set<std::vector<int>>{{1, 2, 3, 4}, {1, 3, 2, 4}});
  order.clear();
  check_cuda(cudaGraphLaunch(exec, a));
  check_cuda(cudaGraphLaunch(exec, b));  // not before the first has ended
  check_cuda(cudaDeviceSynchronize());
  CHECK(order.size() == 8);
  CHECK(order[3] == 4);
  CHECK(order[4] == 1);
  check_cuda(cudaGraphExecDestroy(exec));
}

TEST_CASE("branches of a graph that touch the same bytes race") {
  Stream a, b;
  Event fork, join;
  DeviceArray<int> x(4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  check_cuda(cudaEventRecord(fork, a));
  check_cuda(cudaStreamWaitEvent(b, fork));
  check_cuda(cudaMemsetAsync(x.data(), 0, 16, a));
  check_cuda(cudaMemsetAsync(x.data(), 1, 16, b));
  check_cuda(cudaEventRecord(join, b));
  check_cuda(cudaStreamWaitEvent(a, join));
  check_cuda(cudaStreamEndCapture(a, &graph));
  check_cuda(cudaGraphInstantiate(&exec, graph));
  check_cuda(cudaGraphDestroy(graph));
  check_cuda(cudaGraphLaunch(exec, a));
  const std::string message = message_of([&] { check_cuda(cudaStreamSynchronize(a)); });
  CHECK(contains(message, "race between streams"));
  CHECK(contains(message, "a graph on stream 1"));
  check_cuda(cudaGraphExecDestroy(exec));
}

TEST_CASE("an event of another capture, or from outside of any, is refused") {
  Stream a, b;
  Event event, outside;
  std::vector<int> order;
  cudaGraph_t graph = nullptr;
  add(b, order, 1);
  check_cuda(cudaEventRecord(outside, b));
  check_cuda(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamWaitEvent(a, outside) == cudaErrorStreamCaptureIsolation);
  check_cuda(cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal));
  check_cuda(cudaEventRecord(event, b));
  CHECK(cudaStreamWaitEvent(a, event) == cudaErrorStreamCaptureMerge);
  CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(b, &graph) == cudaErrorStreamCaptureInvalidated);
  check_cuda(cudaDeviceSynchronize());
  CHECK(order.size() == 1);
}

TEST_CASE("graphs that are none, or have been destroyed, are refused") {
  Stream stream;
  std::vector<int> order;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphExecUpdateResultInfo info;
  size_t count = 0;
  CHECK(cudaGraphInstantiate(&exec, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphLaunch(nullptr, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamEndCapture(stream, nullptr) == cudaErrorInvalidValue);
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
  add(stream, order, 1);
  check_cuda(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(nullptr, graph) == cudaErrorInvalidValue);
  check_cuda(cudaGraphInstantiate(&exec, graph));
  check_cuda(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
  CHECK(cudaGraphInstantiate(&exec, graph) == cudaErrorInvalidValue);
  CHECK(cudaGraphGetNodes(graph, nullptr, &count) == cudaErrorInvalidValue);
  CHECK(cudaGraphExecUpdate(exec, graph, &info) == cudaErrorInvalidValue);
}

TEST_CASE("a destroyed graph cannot be launched, and one that is under way ends") {
  Stream stream;
  std::vector<int> order;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add(stream, order, 1);
  check_cuda(cudaStreamEndCapture(stream, &graph));
  check_cuda(cudaGraphInstantiate(&exec, graph));
  check_cuda(cudaGraphDestroy(graph));
  check_cuda(cudaGraphLaunch(exec, stream));
  check_cuda(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphLaunch(exec, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGraphExecDestroy(exec) == cudaErrorInvalidValue);
  check_cuda(cudaStreamSynchronize(stream));
  CHECK(order == std::vector<int>{1});
}

TEST_CASE("a stream that is destroyed in a capture leaves work behind only if it was not joined") {
  for (const bool joined : {true, false}) {
    Stream a;
    Event fork, join;
    std::vector<int> order;
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    {
      Stream b;
      check_cuda(cudaEventRecord(fork, a));
      check_cuda(cudaStreamWaitEvent(b, fork));
      add(b, order, 1);
      check_cuda(cudaEventRecord(join, b));
      if (joined) check_cuda(cudaStreamWaitEvent(a, join));
    }
    CHECK(cudaStreamEndCapture(a, &graph) ==
          (joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    if (joined) check_cuda(cudaGraphDestroy(graph));
  }
}
