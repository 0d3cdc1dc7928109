// What a host and the way to its GPU cost, measured; in builds with nvcc (gpu_launch.cu).
#pragma once

#include <cstddef>

#include "gpu_program.hpp"

namespace yotta::bench {

// Seconds; each the shortest of some tries.
struct GpuLaunch {
  double launch = 0;        // of the host, for one launch of an empty kernel
  double waited = 0;        // the same, and the host waits until it has ended
  double separate = 0;      // a small kernel of many, each launched by itself
  double replayed = 0;      // the same in a graph
  double graph_launch = 0;  // of the host, for the launch of that graph
  int kernels = 0;          // of that graph
  int queue = 0;            // launches that the host can be ahead; 0: more than were tried
};
GpuLaunch measure_gpu_launch();

// Bytes/s from the host to the GPU.
struct GpuCopies {
  double pinned = 0, pageable = 0;
};
GpuCopies measure_gpu_copies(size_t bytes);

// Seconds of the pieces of device/streams.hpp: their copies alone, their kernels alone, in turn,
// and overlapped.
struct GpuOverlap {
  double copies = 0, kernels = 0, in_turn = 0, overlapped = 0;
  bool same = false;  // whether both ways have the same values
};
GpuOverlap measure_gpu_overlap(int pieces, int numbers, int rounds);

}  // namespace yotta::bench
