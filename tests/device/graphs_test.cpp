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
namespace {

// Pointers within structs, as kernels with many arrays have them.
struct Rows {
  int n;
  struct {
    float *x, *y;
  } arrays[2];
};
__global__ void copy_rows(int first, Rows rows) {
  for (int i = first; i < rows.n; ++i) rows.arrays[1].y[i] = rows.arrays[0].x[i];
}

// What a graph says that is launched once more when its array is another.
template <class Body>
std::string stale(Body body) {
  Stream stream;
  auto x = std::make_unique<DeviceArray<float>>(numbers());
  CudaGraph graph(stream, [&](cudaStream_t s) { body(s, x->data()); });
  graph.launch(stream);
  x = std::make_unique<DeviceArray<float>>(numbers());
  const std::string message = message_of([&] { graph.launch(stream); });
  CHECK(graph.update(stream, [&](cudaStream_t s) { body(s, x->data()); }));
  graph.launch(stream);
  check_cuda(cudaStreamSynchronize(stream));
  return message;
}

}  // namespace

TEST_CASE("a graph that is launched with pointers to freed memory is found, wherever they are") {
  DeviceArray<float> y(numbers());
  PinnedArray<float> host(200);
  const std::string direct = stale([&](cudaStream_t s, float* x) { launch_each(s, x, 200, 1); });
  CHECK(contains(direct, "graphs_test.cpp"));
  CHECK(contains(direct, "stale pointer: the graph repeats the kernel of graphs.hpp"));
  CHECK(contains(direct, "cudaGraphExecUpdate"));
  CHECK(contains(stale([&](cudaStream_t s, float* x) {
                   const Rows rows{200, {{x, x}, {y.data(), y.data()}}};
                   launch(copy_rows, 1, 1, 0, s, 0, rows);
                 }),
                 "stale pointer: the graph repeats the kernel of graphs_test.cpp"));
  CHECK(contains(stale([&](cudaStream_t s, float* x) {
                   check_cuda(cudaMemcpyAsync(y.data(), x, 800, cudaMemcpyDeviceToDevice, s));
                 }),
                 "stale pointer: the graph repeats the cudaMemcpyAsync of graphs_test.cpp"));
  CHECK(contains(stale([&](cudaStream_t s, float* x) {
                   check_cuda(cudaMemcpyAsync(x, host.data(), 800, cudaMemcpyHostToDevice, s));
                 }),
                 "stale pointer: the graph repeats the cudaMemcpyAsync"));
  CHECK(
      contains(stale([&](cudaStream_t s, float* x) { check_cuda(cudaMemsetAsync(x, 0, 800, s)); }),
               "stale pointer: the graph repeats the cudaMemsetAsync"));
}

TEST_CASE(
    "pinned memory and memory of cudaFreeAsync are found too, a graph of living memory runs") {
  Stream stream;
  DeviceArray<float> y(numbers());
  auto host = std::make_unique<PinnedArray<float>>(200);
  const auto copy = [&](cudaStream_t s) {
    check_cuda(cudaMemcpyAsync(y.data(), host->data(), 800, cudaMemcpyHostToDevice, s));
  };
  CudaGraph from_host(stream, copy);
  host = std::make_unique<PinnedArray<float>>(200);
  CHECK(contains(message_of([&] { from_host.launch(stream); }), "stale pointer"));

  float* x = nullptr;
  check_cuda(cudaMallocAsync(&x, 800, stream));
  CudaGraph set(stream, [&](cudaStream_t s) { check_cuda(cudaMemsetAsync(x, 0, 800, s)); });
  set.launch(stream);
  check_cuda(cudaFreeAsync(x, stream));  // after the launch: right
  CHECK(contains(message_of([&] { set.launch(stream); }), "stale pointer"));
  float* again = nullptr;
  check_cuda(cudaMallocAsync(&again, 800, stream));  // perhaps at the same address
  CHECK(contains(message_of([&] { set.launch(stream); }), "stale pointer"));
  check_cuda(cudaFreeAsync(again, stream));
  check_cuda(cudaStreamSynchronize(stream));
}
#endif
