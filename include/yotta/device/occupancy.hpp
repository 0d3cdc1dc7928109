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
// block takes 1 KiB of shared memory beside what it asks for.
//
// How many registers a thread needs is the decision of the compiler for the GPU. On a GPU
// block_needs() of kernel.hpp asks for it. In the emulator they are not known (0): they do not
// limit, the chip may hold fewer blocks than are counted here, and the report says up to how many
// registers its answer holds. Without a GPU, but with nvcc, bench/gpu_registers prints them.
// nvcc compiles this file too.
// References: CUDA C++ Programming Guide, "Compute Capabilities"; what the chips have:
// machine/multiprocessors.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "yotta/machine/multiprocessors.hpp"

namespace yotta {

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

// No blocks if one is larger than a block may be.
constexpr Occupancy occupancy(const Multiprocessors& sm, const BlockNeeds& block) {
  constexpr int unit = 256, parts = 4, most_threads = 1024;  // units and parts: of registers
  constexpr size_t reserved = 1024, step = 128;              // of shared memory
  const int warps = (block.threads + 31) / 32;
  if (warps <= 0 || block.threads > most_threads) return {0, 0, 0, 0, std::max(warps, 0), sm.warps};
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

// The most registers a thread may need for as many blocks as fit if none is needed.
constexpr int most_registers(const Multiprocessors& sm, BlockNeeds block) {
  block.registers = 0;
  const int blocks = occupancy(sm, block).blocks();
  for (block.registers = 255; block.registers > 0; --block.registers)  // 255: of any thread
    if (occupancy(sm, block).blocks() == blocks) break;
  return block.registers;
}

// "4 blocks of 8 warps on each of 132 SMs (50% of its warps), limited by shared memory: 8 by ..."
inline std::string occupancy_report(const Multiprocessors& sm, const BlockNeeds& block) {
  const Occupancy fits = occupancy(sm, block);
  const std::string registers =
      block.registers > 0
          ? fmt::format("{} by registers", fits.by_registers)
          : fmt::format("registers not known: fewer fit if a thread needs more than {}",
                        most_registers(sm, block));
  return fmt::format(
      "{} blocks of {} warps on each of {} SMs ({:.0f}% of its warps), limited by {}: {} by "
      "threads, {} by blocks, {} by shared memory, {}",
      fits.blocks(), fits.warps_of_block, sm.count, 100 * fits.fraction(), fits.limit(),
      fits.by_warps, fits.by_blocks, fits.by_shared, registers);
}

}  // namespace yotta
