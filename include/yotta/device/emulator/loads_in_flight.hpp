// Counts, while a kernel runs, how many bytes a chip has asked its memory for at once: those that
// Little's law speaks of (machine/latency_hiding.hpp).
//
//     blocks that are there   [0 loads.....][2 loads.....]
//                             [1 loads.....][3 loads.....]
//     bytes on their way       two blocks' all the time
//
// Each thread loads once. The load takes some turns of all blocks that are there, and its block
// stays as long. Nobody tells the count how many fit: the emulator starts a block when there is
// room (occupancy.hpp), and the blocks add up.
#pragma once

#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// on_their_way[0]: bytes now; on_their_way[1]: the most so far.
__global__ inline void load_once(int* on_their_way, int bytes_a_load) {
  if (threadIdx.x > 0) return;  // one for its block
  constexpr int turns = 3;      // of the others: what memory's latency is here
  const int bytes = static_cast<int>(blockDim.x) * bytes_a_load;
  atomicMax(&on_their_way[1], atomicAdd(&on_their_way[0], bytes) + bytes);
  for (int i = 0; i < turns; ++i) atomicAdd(&on_their_way[0], 0);  // lets others go first
  atomicSub(&on_their_way[0], bytes);
}

// Starts as many blocks as fit while it lives; then the options are what they were.
class BlocksAtOnce {
 public:
  BlocksAtOnce() { emulator_options().blocks_at_once = true; }
  ~BlocksAtOnce() { emulator_options() = before_; }
  BlocksAtOnce(const BlocksAtOnce&) = delete;
  BlocksAtOnce& operator=(const BlocksAtOnce&) = delete;

 private:
  EmulatorOptions before_ = emulator_options();
};

// The most bytes on their way at once, for blocks of so many threads and bytes of shared memory on
// emulator_options().chip: more blocks than any chip holds.
inline int loads_in_flight(int threads, size_t shared, int bytes_a_load) {
  const BlocksAtOnce scope;
  const auto& chip = emulator_options().chip;
  const int blocks = (chip.blocks + 1) * chip.count;
  DeviceArray<int> on_their_way(std::vector<int>{0, 0});
  launch(load_once, blocks, threads, shared, nullptr, on_their_way.data(), bytes_a_load);
  return on_their_way.to_host()[1];
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
