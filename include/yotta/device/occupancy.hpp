// Occupancy: how many blocks of a kernel a multiprocessor (SM) holds at once, and what limits them.
//
// A block lives on one SM from its first instruction to its last, with all of its threads,
// registers and shared memory. An SM takes as many blocks as it has room for; the others wait.
//
//     an H100's SM     64 warps   32 blocks   65,536 registers   228 KiB of shared memory
//     a block of 256 threads, 40 registers each, 48 KiB
//                       8 warps    1 block     10,240 registers    49 KiB
//     fit               8         32           6                   4         so 4: shared memory
//
// Why it matters: warps that wait for memory cost nothing while others run (lesson 06 counts how
// many that takes), and blocks that wait for each other must all be there at once.
//
// Registers are given out by the warp, in units of 256, from four equal parts of the file. Each
// block takes 1 KiB of shared memory beside what it asks for. How many registers a thread needs is
// the compiler's decision (nvcc -Xptxas -v); 0 stands for not known, and does not limit.
// nvcc compiles this file too.
// References: CUDA C++ Programming Guide, "Compute Capabilities"; NVIDIA A100, H100 and Blackwell
// architecture white papers (numbers of SMs).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "yotta/core/error.hpp"

namespace yotta {

// What the SMs of a chip have.
struct Multiprocessors {
  const char* chip;
  int count;
  int warps, blocks, registers;    // of one SM
  size_t shared, shared_of_block;  // bytes: of one SM, and at most of one block
};

inline constexpr std::array<Multiprocessors, 5> known_multiprocessors = {{
    {"a100", 108, 64, 32, 65536, 164 * 1024, 163 * 1024},
    {"h100", 132, 64, 32, 65536, 228 * 1024, 227 * 1024},
    {"h100-pcie", 114, 64, 32, 65536, 228 * 1024, 227 * 1024},
    {"h200", 132, 64, 32, 65536, 228 * 1024, 227 * 1024},
    {"b200", 148, 64, 32, 65536, 228 * 1024, 227 * 1024},
}};

// Those of a chip of machine/chip.hpp. Errors: it has none, or none is known.
inline const Multiprocessors& multiprocessors_of(std::string_view chip,
                                                 Where where = Where::current()) {
  for (const Multiprocessors& each : known_multiprocessors)
    if (each.chip == chip) return each;
  fail(where,
       "no multiprocessors are known of a chip '{}'; known are a100 h100 h100-pcie h200 b200",
       chip);
}

// What a block needs.
struct BlockNeeds {
  int threads = 0;
  size_t shared = 0;  // bytes, static and dynamic
  int registers = 0;  // of one thread; 0: not known
};

struct Occupancy {
  int by_warps = 0, by_blocks = 0, by_registers = 0, by_shared = 0;  // blocks an SM, by each limit
  int warps_of_block = 0, warps_of_sm = 0;

  constexpr int blocks() const { return std::min({by_warps, by_blocks, by_registers, by_shared}); }
  constexpr int warps() const { return blocks() * warps_of_block; }
  // The part of the SM's warps that are there.
  constexpr double fraction() const { return static_cast<double>(warps()) / warps_of_sm; }
  constexpr const char* limit() const {
    if (blocks() == by_warps) return "threads";
    if (blocks() == by_shared) return "shared memory";
    return blocks() == by_registers ? "registers" : "the number of blocks";
  }
};

constexpr Occupancy occupancy(const Multiprocessors& sm, const BlockNeeds& block) {
  constexpr int unit = 256, parts = 4;           // of registers
  constexpr size_t reserved = 1024, step = 128;  // of shared memory
  const int warps = (block.threads + 31) / 32;
  const int of_warp = (32 * block.registers + unit - 1) / unit * unit;
  const int warps_by_registers = of_warp == 0 ? sm.warps : sm.registers / parts / of_warp * parts;
  const size_t shared = (block.shared + reserved + step - 1) / step * step;
  return {sm.warps / warps,
          sm.blocks,
          warps_by_registers / warps,
          static_cast<int>(sm.shared / shared),
          warps,
          sm.warps};
}

// "4 blocks of 8 warps an SM (50% of its warps), limited by shared memory: 8 by threads, ..."
inline std::string occupancy_report(const Multiprocessors& sm, const BlockNeeds& block) {
  const Occupancy fits = occupancy(sm, block);
  return fmt::format(
      "{} blocks of {} warps on each of {} SMs ({:.0f}% of its warps), limited by {}: {} by "
      "threads, "
      "{} by blocks, {} by registers{}, {} by shared memory",
      fits.blocks(), fits.warps_of_block, sm.count, 100 * fits.fraction(), fits.limit(),
      fits.by_warps, fits.by_blocks, fits.by_registers, block.registers == 0 ? " (not known)" : "",
      fits.by_shared);
}

}  // namespace yotta
