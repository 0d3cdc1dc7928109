// Multiprocessors: what a GPU's chip is made of, and what each of its parts (an SM) has.
//
//     chip    SM │ SM │ SM │ ...                 an H100 has 132
//     an SM   64 warps   32 blocks   65,536 registers   228 KiB of shared memory
//             a load from device memory comes after 479 clocks, 262 ns
//
// chip.hpp says what the whole chip can do in a second; this says how that is divided, which sets
// how many threads are there at once (device/occupancy.hpp) and how many must be, so that nobody
// waits for memory (latency_hiding.hpp).
//
// nvcc compiles this file too.
// References: NVIDIA A100, H100 and Blackwell architecture white papers (numbers of SMs, clocks);
// CUDA C++ Programming Guide, "Compute Capabilities" (what an SM has); Luo et al., "Benchmarking
// and Dissecting the Nvidia Hopper GPU Architecture" (2024), table of memory latencies: A100 466.3
// clocks, H800 (an H100 with slower links) 478.8.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "yotta/core/error.hpp"

namespace yotta {

struct Multiprocessors {
  const char* chip;                // its name in known_chips
  int count;                       // SMs of the chip
  double latency;                  // of a load from device memory, seconds; 0: not measured
  int warps, blocks, registers;    // of one SM
  size_t shared, shared_of_block;  // bytes: of one SM, and at most of one block
};

inline constexpr std::array<Multiprocessors, 5> known_multiprocessors = {{
    {"a100", 108, 466.3 / 1.41e9, 64, 32, 65536, 164 * 1024, 163 * 1024},
    {"h100", 132, 478.8 / 1.83e9, 64, 32, 65536, 228 * 1024, 227 * 1024},
    {"h100-pcie", 114, 0, 64, 32, 65536, 228 * 1024, 227 * 1024},
    {"h200", 132, 0, 64, 32, 65536, 228 * 1024, 227 * 1024},
    {"b200", 148, 0, 64, 32, 65536, 228 * 1024, 227 * 1024},
}};

// Those of a chip. Errors: it has none, or none is known.
inline const Multiprocessors& multiprocessors_of(std::string_view chip,
                                                 Where where = Where::current()) {
  std::string known;
  for (const Multiprocessors& each : known_multiprocessors) {
    if (each.chip == chip) return each;
    known += fmt::format(" {}", each.chip);
  }
  fail(where, "no multiprocessors are known of a chip '{}'; known are{}", chip, known);
}

}  // namespace yotta
