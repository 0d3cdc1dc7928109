// nvcc compiles this file too.
#include "yotta/device/graphs.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

std::vector<float> numbers() {
  std::vector<float> x(200);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 200.0f;
  return x;
}

std::vector<float> expected(int steps) {
  DeviceArray<float> x(numbers());
  launch_each(nullptr, x.data(), 200, steps);
  return x.to_host();
}

}  // namespace

TEST_CASE("a capture runs nothing, and each launch of the graph runs all of it") {
  Stream stream;
  DeviceArray<float> x(numbers());
  CudaGraph graph(stream, [&](cudaStream_t s) { launch_each(s, x.data(), 200, 4); });
  CHECK(graph.nodes() == 4);
  CHECK(x.to_host() == numbers());
  graph.launch(stream);
  graph.launch(stream);
  CHECK(x.to_host() == expected(8));
}

TEST_CASE("an update takes new pointers and sizes, and refuses another form") {
  Stream stream;
  DeviceArray<float> x(numbers()), y(numbers());
  CudaGraph graph(stream, [&](cudaStream_t s) { launch_each(s, x.data(), 200, 3); });
  CHECK(graph.update(stream, [&](cudaStream_t s) { launch_each(s, y.data(), 100, 3); }));
  graph.launch(stream);
  CHECK(x.to_host() == numbers());
  CHECK(y.to_host()[99] == expected(3)[99]);
  CHECK(y.to_host()[100] == numbers()[100]);
  CHECK_FALSE(graph.update(stream, [&](cudaStream_t s) { launch_each(s, y.data(), 100, 2); }));
}

TEST_CASE("branches of a graph are captured through events, and joined again") {
  Stream a, b;
  Event fork, join;
  DeviceArray<float> x(numbers()), y(numbers());
  CudaGraph graph(a, [&](cudaStream_t) {
    launch_each(a, x.data(), 200, 1);
    check_cuda(cudaEventRecord(fork, a));
    check_cuda(cudaStreamWaitEvent(b, fork));
    check_cuda(cudaMemcpyAsync(y.data(), x.data(), 800, cudaMemcpyDeviceToDevice, b));
    check_cuda(cudaEventRecord(join, b));
    check_cuda(cudaStreamWaitEvent(a, join));
    launch_each(a, x.data(), 200, 1);
  });
  CHECK(graph.nodes() == 3);
  graph.launch(a);
  CHECK(x.to_host() == expected(2));
  CHECK(y.to_host() == expected(1));
}

TEST_CASE("what a capture forbids has CUDA's code") {
  Stream a, b;
  Event event;
  check_cuda(cudaEventRecord(event, b));
  DeviceArray<float> x(numbers());
  cudaGraph_t graph = nullptr;
  const auto begin = [&] { check_cuda(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); };
  SUBCASE("to wait") {
    begin();
    CHECK(cudaStreamSynchronize(a) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("to allocate") {
    begin();
    float* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("to use the default stream") {
    begin();
    CHECK(cudaMemsetAsync(x.data(), 0, 4, nullptr) == cudaErrorStreamCaptureImplicit);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("to wait for a captured event") {
    begin();
    launch_each(a, x.data(), 200, 1);
    check_cuda(cudaEventRecord(event, a));
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("to leave a stream behind") {
    begin();
    launch_each(a, x.data(), 200, 1);
    check_cuda(cudaEventRecord(event, a));
    check_cuda(cudaStreamWaitEvent(b, event));
    launch_each(b, x.data(), 200, 1);
    CHECK(cudaStreamEndCapture(b, &graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureUnjoined);
  }
  SUBCASE("to end what has not begun") {
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorIllegalState);
  }
  static_cast<void>(cudaGetLastError());
  check_cuda(cudaStreamSynchronize(a));
  CHECK(x.to_host() == numbers());
}

#if !defined(__CUDACC__)
TEST_CASE("a graph that is launched with pointers to freed memory is found") {
  Stream stream;
  auto x = std::make_unique<DeviceArray<float>>(numbers());
  CudaGraph graph(stream, [&](cudaStream_t s) { launch_each(s, x->data(), 200, 1); });
  graph.launch(stream);
  x = std::make_unique<DeviceArray<float>>(numbers());
  const std::string message = message_of([&] { graph.launch(stream); });
  CHECK(contains(message, "graphs_test.cpp"));
  CHECK(contains(message, "stale pointer: the graph repeats the kernel of graphs.hpp"));
  CHECK(contains(message, "cudaGraphExecUpdate"));
}
#endif
