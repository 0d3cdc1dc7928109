// nvcc compiles this file too.
#include "yotta/device/streams.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;

namespace {

constexpr int count = 5, n = 300, rounds = 3;

std::vector<float> results_of(void (*run)(const StreamPieces&)) {
  PinnedArray<float> in(count * n), out(count * n);
  for (size_t i = 0; i < in.size(); ++i) in.data()[i] = static_cast<float>(i % 100) / 100.0f;
  run({in.data(), out.data(), count, n, rounds});
  return {out.data(), out.data() + out.size()};
}

}  // namespace

TEST_CASE("overlapped pieces have the values of pieces in turn, whatever the order of streams") {
  const std::vector<float> expected = results_of(run_in_turn);
  CHECK(expected[50] == -0.30859375f);
#if defined(__CUDACC__)
  const int seeds = 1;
#else
  const int seeds = 20;
#endif
  for (int seed = 1; seed <= seeds; ++seed) {
#if !defined(__CUDACC__)
    emulator_options().seed = static_cast<uint64_t>(seed);
#endif
    CHECK(results_of(run_overlapped) == expected);
  }
#if !defined(__CUDACC__)
  emulator_options().seed = 1;
#endif
}

TEST_CASE("an event that was never recorded has happened") {
  Stream stream;
  Event event;
  check_cuda(cudaStreamWaitEvent(stream, event));
  CHECK(cudaEventQuery(event) == cudaSuccess);
  check_cuda(cudaEventSynchronize(event));
  check_cuda(cudaStreamSynchronize(stream));
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
}

TEST_CASE("memory in the order of a stream") {
  Stream stream;
  PinnedArray<float> host(4);
  float* x = nullptr;
  check_cuda(cudaMallocAsync(&x, 16, stream));
  check_cuda(cudaMemsetAsync(x, 0, 16, stream));
  check_cuda(cudaMemcpyAsync(host.data(), x, 16, cudaMemcpyDeviceToHost, stream));
  check_cuda(cudaFreeAsync(x, stream));
  check_cuda(cudaStreamSynchronize(stream));
  CHECK(host.data()[3] == 0.0f);
}
