#include "gpu_launch.hpp"

#include <algorithm>

#include "gpu_tools.hpp"
#include "yotta/device/graphs.hpp"

namespace yotta::bench {
namespace {

__global__ void empty() {}

// Keeps the GPU busy for so many of its clocks.
__global__ void busy(long long clocks) {
  const long long begin = clock64();
  while (clock64() - begin < clocks) continue;
}

constexpr int tries = in_emulator ? 1 : 20;

// The shortest of some tries of a body, in seconds of the host; the GPU is idle before each.
template <class Body>
double shortest(const Body& body) {
  double best = 1e300;
  for (int i = 0; i < tries; ++i) {
    check_cuda(cudaDeviceSynchronize());
    best = std::min(best, seconds_of(body));
  }
  check_cuda(cudaDeviceSynchronize());
  return best;
}

// How many launches return at once while the GPU is busy.
int queue_depth(cudaStream_t stream) {
  constexpr int most = in_emulator ? 100 : 100000;
  launch(busy, 1, 1, 0, stream, in_emulator ? 1ll : 1'000'000'000ll);  // half a second
  int count = 0;
  while (count < most && seconds_of([&] { launch(empty, 1, 1, 0, stream); }) < 5e-3) ++count;
  check_cuda(cudaStreamSynchronize(stream));
  return count < most ? count : 0;
}

}  // namespace

std::string gpu_name() { return first_gpu(); }

GpuLaunch measure_gpu_launch() {
  constexpr int n = in_emulator ? 5 : 500;  // fewer than a queue holds
  Stream stream;
  DeviceArray<float> x(1024);
  x.fill_zero();
  const auto wait = [&] { check_cuda(cudaStreamSynchronize(stream)); };
  const auto small = [&](cudaStream_t s) { launch_each(s, x.data(), 1024, n); };
  CudaGraph graph(stream, small);
  GpuLaunch found{.kernels = n};
  found.launch = shortest([&] {
                   for (int i = 0; i < n; ++i) launch(empty, 1, 1, 0, stream);
                 }) /
                 n;
  found.waited = shortest([&] {
    launch(empty, 1, 1, 0, stream);
    wait();
  });
  found.separate = shortest([&] { small(stream), wait(); }) / n;
  found.replayed = shortest([&] { graph.launch(stream), wait(); }) / n;
  found.graph_launch = shortest([&] { graph.launch(stream); });
  found.queue = queue_depth(stream);
  return found;
}

GpuCopies measure_gpu_copies(size_t bytes) {
  DeviceArray<char> x(bytes);
  PinnedArray<char> pinned(bytes);
  std::vector<char> pageable(bytes, 1);
  std::fill_n(pinned.data(), bytes, 1);
  const auto rate = [&](const char* from) {
    return static_cast<double>(bytes) /
           shortest([&] { check_cuda(cudaMemcpy(x.data(), from, bytes, cudaMemcpyHostToDevice)); });
  };
  return {rate(pinned.data()), rate(pageable.data())};
}

GpuOverlap measure_gpu_overlap(int pieces, int numbers, int rounds) {
  const size_t n = static_cast<size_t>(numbers), all = static_cast<size_t>(pieces) * n;
  PinnedArray<float> in(all), out(all);
  const std::vector<float> x = random_numbers<float>(all, "pieces");
  std::copy(x.begin(), x.end(), in.data());
  const StreamPieces work{in.data(), out.data(), pieces, numbers, rounds};
  DeviceArray<float> buffer(n);
  GpuOverlap found;
  found.copies =
      pieces * shortest([&] {
        check_cuda(cudaMemcpy(buffer.data(), in.data(), work.bytes(), cudaMemcpyHostToDevice));
      });
  found.kernels = pieces * shortest([&] {
                    launch(iterate_map<float>, work.blocks(), 128, 0, nullptr, buffer.data(),
                           buffer.data(), numbers, rounds);
                    check_cuda(cudaDeviceSynchronize());
                  });
  found.in_turn = shortest([&] { run_in_turn(work); });
  const std::vector<float> expected(out.data(), out.data() + all);
  found.overlapped = shortest([&] { run_overlapped(work); });
  found.same = std::equal(expected.begin(), expected.end(), out.data());
  return found;
}

}  // namespace yotta::bench
