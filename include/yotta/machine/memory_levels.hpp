// Memory levels: where the numbers lie that a chip computes with, and how fast they come from
// there. What is beyond the chip is in cluster.hpp.
//
//     registers ◄── shared memory and L1 ◄── L2 ◄── HBM ◄── other chips
//       34.6 MB           34.6 MB           50 MB   80 GB
//       371 TB/s          30.9 TB/s       9.4 TB/s  3.35 TB/s
//
// Each holds at least as much as the one before it, and gives fewer bytes per second. All SMs'
// parts are added up.
//
// References: NVIDIA H100 white paper (sizes, clock); A100 white paper (5120 bytes per clock from
// L2, which is used here, since NVIDIA gives no such figure for the H100).
#pragma once

#include <array>

#include "yotta/machine/chip.hpp"
#include "yotta/machine/multiprocessors.hpp"

namespace yotta {

struct MemoryLevel {
  const char* name;
  double bytes, bandwidth;
  double latency;  // of a load, seconds; 0: not measured
};

// Those of an H100, the smallest and fastest first.
inline std::array<MemoryLevel, 4> h100_memories() {
  const Chip& chip = chip_named("h100");
  const Multiprocessors& sms = multiprocessors_of("h100");
  const double clock = 1.83e9;
  const double registers = 4.0 * sms.registers * sms.count;
  return {{{"registers", registers, sms.count * clock * 128 * 3 * 4, 0},  // 3 operands, 128 lanes
           {"shared memory and L1", registers, sms.count * clock * 128, 0},  // as many bytes
           {"L2", 50e6, clock * 5120, 0},
           {"HBM", chip.memory, chip.bandwidth, sms.latency}}};
}

}  // namespace yotta
