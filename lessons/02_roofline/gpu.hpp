// What a GPU can do, measured; in builds with nvcc (gpu.cu).
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace yotta {

struct GpuRates {
  std::string name;
  double fma = 0;        // FLOP/s in fp32, on the FMA lanes
  double bandwidth = 0;  // bytes/s of its memory
};

// The shortest time of a body in seconds, as core/cpu/measure.hpp takes it (which nvcc cannot
// read).
using Shortest = std::function<double(const std::function<void()>&)>;

// Nothing if there is no GPU.
std::optional<GpuRates> measure_gpu(const Shortest& shortest_seconds);

}  // namespace yotta
