// The program of device/streams.hpp with one wait too few, which lesson 06 shows twice: by its
// values, and in missing_event_checked.cpp under the emulator's checks.
#pragma once

#include <string>
#include <vector>

#include "yotta/device/streams.hpp"

namespace yotta {

// What the checked build says of run_without_wait().
std::string error_without_wait();

inline namespace YOTTA_DEVICE_BUILD {

// run_overlapped(), but no copy waits until the kernel has read the buffer.
inline void run_without_wait(const StreamPieces& pieces) {
  const auto n = static_cast<size_t>(pieces.n);
  DeviceArray<float> x(2 * n), y(n);
  x.named("x"), y.named("y");
  Stream copies, work;
  Event filled[2];
  for (int i = 0; i < pieces.count; ++i) {
    const size_t at = static_cast<size_t>(i) * n;
    float* const buffer = x.data() + static_cast<size_t>(i % 2) * n;
    check_cuda(
        cudaMemcpyAsync(buffer, pieces.in + at, pieces.bytes(), cudaMemcpyHostToDevice, copies));
    check_cuda(cudaEventRecord(filled[i % 2], copies));
    check_cuda(cudaStreamWaitEvent(work, filled[i % 2]));
    launch(iterate_map<float>, pieces.blocks(), 128, 0, work, buffer, y.data(), pieces.n,
           pieces.rounds);
    check_cuda(
        cudaMemcpyAsync(pieces.out + at, y.data(), pieces.bytes(), cudaMemcpyDeviceToHost, work));
  }
  check_cuda(cudaStreamSynchronize(work));
}

// What a program makes of five pieces of 300 numbers.
inline std::vector<float> five_pieces(void (*run)(const StreamPieces&)) {
  const int count = 5, n = 300;
  PinnedArray<float> in(count * n), out(count * n);
  for (size_t i = 0; i < in.size(); ++i) in.data()[i] = static_cast<float>(i) / 2000.0f;
  run({in.data(), out.data(), count, n, 3});
  return {out.data(), out.data() + out.size()};
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
