// The wgmmas of a block that are at work, warp by warp: each warp of a group multiplies its own 16
// rows of A.
//
//     wgmma         operands are noted; d becomes NaN, so that whoever reads it too early sees that
//     wait_group    when all four warps have committed: operands of all four must be what they
//                   were, and are multiplied; d of this warp gets its sums
//
// Several wgmmas may add to the same d. It gets its numbers when none of them is at work.
//
// The four warps of a group may be at different places until one waits, but each must execute the
// same wgmmas in the same order: the first one to come notes what it executes, the others are
// compared with that.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/emulator/device_build.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What a d in flight holds: a NaN that no arithmetic makes.
inline constexpr uint32_t unfinished_sum = 0x7fd3a5c1u;
inline constexpr uint32_t unfinished_f16 = 0x7ed3u;

// One at work.
struct Wgmma {
  int n = 0, group = 0;
  int bytes = 2;  // of a number
  bool accumulate = false;
  bool done = false;  // multiplied, and its warp has not waited for it yet
  // Multiplies A (16, k) by B (n, k) and adds to the sums (16, n).
  void (*multiply)(int n, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                   std::vector<uint32_t>& sums) = nullptr;
  std::vector<const std::byte*> a = {}, b = {};    // where the numbers lie, (16, k) and (n, k)
  std::vector<uint32_t> a_bits = {}, b_bits = {};  // what they were
  const void* registers = nullptr;                 // of A, of the warp's first lane
  const void* sums = nullptr;                      // whose: d of the warp's first lane
  Where where = {};
};

// d of the 32 lanes of a warp.
struct WgmmaSums {
  void* d[32] = {};
  int n = 0, bytes = 4, at_work = 0;  // bytes: of a sum
  std::vector<uint32_t> values = {};  // (16, n), as bits
  Where where = {};                   // of the first wgmma at work
};

// Registers as a wgmma has left them, or has read them: of 32 lanes.
struct KnownRegisters {
  std::vector<uint32_t> bits = {};
  int fences = 0;  // that the warp had passed by then
};

struct WgmmaWarp {
  std::vector<Wgmma> at_work;
  std::map<const void*, WgmmaSums> sums;            // by d of the first lane
  std::map<const void*, KnownRegisters> registers;  // by those of the first lane
  int group = 0, fences = 0;
  size_t executed = 0;
};

// What the warps of a group execute.
struct WgmmaStep {
  Where where = {};
  uint64_t a = 0, b = 0;
};

class Wgmmas {
 public:
  std::map<int, WgmmaWarp> warps;  // by number
  std::map<int, int> registers;    // that setmaxnreg has given to a thread, by warp

  void clear() {
    warps.clear();
    registers.clear();
    steps_.clear();
  }
  // The next wgmma of a warp: what the first warp of its group executed there.
  const WgmmaStep& next(int warp, const WgmmaStep& mine) {
    std::vector<WgmmaStep>& steps = steps_[warp / 4];
    const size_t number = warps[warp].executed++;
    if (number == steps.size()) steps.push_back(mine);
    return steps[number];
  }
  // Whether all four warps of this one's group have committed so many groups.
  bool committed(int warp, int groups) const {
    for (int each = warp / 4 * 4; each < warp / 4 * 4 + 4; ++each) {
      const auto found = warps.find(each);
      if (groups > 0 && (found == warps.end() || found->second.group < groups)) return false;
    }
    return true;
  }
  // What is wrong with the registers of a block of so many warps; empty if nothing is.
  std::string wrong_registers(int all_warps) const {
    int sum = 0;
    for (const auto& [warp, each] : registers) {
      for (int other = warp / 4 * 4; other < warp / 4 * 4 + 4; ++other)
        if (const auto found = registers.find(other);
            found == registers.end() || found->second != each)
          return fmt::format(
              "setmaxnreg: not all four warps of the group of warp {} name the same number", warp);
      sum += 32 * each;
    }
    if (static_cast<int>(registers.size()) < all_warps || sum <= 65536) return {};
    return fmt::format(
        "setmaxnreg: the threads of the block have {} registers together, and a "
        "multiprocessor has 65536. A group would wait for ever",
        sum);
  }
  // A warp that has executed fewer than another of its group; -1: none.
  int missing() const {
    for (const auto& [group, steps] : steps_)
      for (int warp = 4 * group; warp < 4 * group + 4; ++warp) {
        const auto found = warps.find(warp);
        if (found == warps.end() || found->second.executed < steps.size()) return warp;
      }
    return -1;
  }
  // The first one that a warp has not executed.
  const WgmmaStep& missed_by(int warp) const {
    const auto found = warps.find(warp);
    return steps_.at(warp / 4)[found == warps.end() ? 0 : found->second.executed];
  }

 private:
  std::map<int, std::vector<WgmmaStep>> steps_;  // by group
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
