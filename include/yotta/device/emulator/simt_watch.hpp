// The watch: what the emulator tells the checks about the lanes it runs. In the unchecked build it does nothing.
#pragma once

#include "yotta/device/emulator/simt_lane.hpp"
#if defined(YOTTA_CHECKED)
#include "yotta/device/emulator/access_checker.hpp"
#else
#include "yotta/device/emulator/source_lines.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

class AccessChecker {
 public:
  AccessChecker(const Task&, std::byte* /*dynamic_shared*/, const Stacks&) {}
  void block_starts(uint64_t /*number*/, const std::vector<Lane>& /*lanes*/) {}
  void block_ends() {}
  void lane_starts() {}
  static void lane_ends() {}
  void all_met() {}                                   // at the block's barrier
  void lanes_met(int /*warp*/, uint32_t /*mask*/) {}  // in __syncwarp()
  void warp_stands() {}                               // all its lanes wait or have returned
  void fence() {}                                     // __threadfence()
  // Of an instruction at which a lane was stopped; only programs with debug information know.
  static Line line_of(const Image& image, uintptr_t instruction) {
    return Sites(image).line_of(instruction);
  }
};

// While one of these lives, the lane that runs is in the emulator's code, not in the kernel's.
struct UncheckedScope {
  UncheckedScope() {}
};
inline bool in_kernel() { return true; }  // nobody knows better

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#endif
