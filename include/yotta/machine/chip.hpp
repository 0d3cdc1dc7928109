// Chips: what one accelerator can do, from its datasheet.
//
//     ┌──────────────────────────┐   bandwidth    ┌────────┐
//     │ matrix units: FLOP/s     │ ◄────────────► │ memory │        link ═══► other chips
//     └──────────────────────────┘   bytes/s      └────────┘        bytes/s, one way
//
// An operation of F FLOPs that moves N bytes takes max(F / peak, N / bandwidth) plus the launch
// overhead: the roofline (Williams, Waterman, Patterson, 2009). Real kernels reach a part of it.
// Compare what you measure with these numbers to see how large a part.
//
// Peaks are dense. A vendor's figure with an asterisk is for 2:4 sparse matrices: it is twice the
// dense one, and no model is trained that way. f32 means true f32 products, PyTorch's default, not
// TF32. Launch overhead is on no datasheet: 0.9 us is what a kernel costs beyond its own time when
// many are launched one after another (NVIDIA, "Getting started with CUDA graphs", 2019: 3.8 us per
// kernel of 2.9 us). A TPU runs a step as one compiled program: 0.
#pragma once

#include <array>
#include <string_view>

#include "yotta/core/dtype.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

struct Chip {
  const char* name;
  double f64, f32, bf16, fp8, int8;  // dense FLOP/s (f16 is as bf16); 0: cannot
  double memory;                     // bytes
  double bandwidth;                  // of the memory, bytes/s
  double link;                       // bytes/s, one way, of one link
  int links;                         // of that speed: 1 to a switch, 2 per axis of a torus
  int domain;                        // chips that its links reach
  double card;                       // bytes/s, one way, of its network card; 0: it has none
  double launch_overhead;            // seconds per operation
  const char* source;

  constexpr bool operator==(const Chip&) const = default;
};

inline constexpr double no_limit = 1e300;  // of an ideal machine
inline constexpr double seconds_a_day = 86400;

inline constexpr std::array<Chip, 8> known_chips = {{
    {"a100", 9.7e12, 19.5e12, 312e12, 0, 624e12, 80e9, 2.0e12, 300e9, 1, 8, 25e9, 0.9e-6,
     "NVIDIA A100 datasheet, SXM 80 GB: 2,039 GB/s, rounded here; NVLink 600 GB/s both ways; DGX "
     "A100 datasheet: eight 200 Gb/s ConnectX-6 for eight GPUs"},
    {"h100", 34e12, 67e12, 989.4e12, 1979e12, 1979e12, 80e9, 3.35e12, 450e9, 1, 8, 50e9, 0.9e-6,
     "NVIDIA H100 architecture whitepaper (bf16) and datasheet, SXM, sparse figures halved; NVLink "
     "900 GB/s both ways; DGX H100 datasheet: 400 Gb/s a GPU, ConnectX-7"},
    {"h100-pcie", 26e12, 51e12, 756e12, 1513e12, 1513e12, 80e9, 2.0e12, 300e9, 1, 2, 50e9, 0.9e-6,
     "NVIDIA H100 datasheet, PCIe, sparse figures halved; NVLink bridge of two 600 GB/s both ways; "
     "a network card as the SXM's is assumed"},
    {"h200", 34e12, 67e12, 989e12, 1979e12, 1979e12, 141e9, 4.8e12, 450e9, 1, 8, 50e9, 0.9e-6,
     "NVIDIA H200 datasheet, SXM, sparse figures halved; NVLink 900 GB/s both ways; DGX H200 "
     "datasheet: 400 Gb/s a GPU, ConnectX-7"},
    {"b200", 40e12, 80e12, 2250e12, 4500e12, 4500e12, 192e9, 8.0e12, 900e9, 1, 8, 50e9, 0.9e-6,
     "NVIDIA Blackwell datasheet, dense figures; NVLink 1800 GB/s both ways; DGX B200 datasheet: "
     "400 Gb/s a GPU, ConnectX-7"},
    {"v5e", 0, 197e12 / 6, 197e12, 0, 393e12, 16e9, 0.82e12, 45e9, 4, 256, 0, 0,
     "Google Cloud TPU v5e; f32 as six bf16 products (JAX's highest precision)"},
    {"v5p", 0, 459e12 / 6, 459e12, 0, 918e12, 95e9, 2.765e12, 90e9, 6, 8960, 0, 0,
     "Google Cloud TPU v5p; f32 as six bf16 products"},
    {"v6e", 0, 918e12 / 6, 918e12, 0, 1836e12, 32e9, 1.638e12, 100e9, 4, 256, 0, 0,
     "Google Cloud TPU v6e, 800 GB/s both ways per chip over 4 links; f32 as six bf16 products"},
}};

// Others that measured runs name, and that stand on desks.
inline constexpr std::array<Chip, 4> more_chips = {{
    {"a100-40gb", 9.7e12, 19.5e12, 312e12, 0, 624e12, 40e9, 1.555e12, 300e9, 1, 8, 25e9, 0.9e-6,
     "NVIDIA A100 datasheet, SXM 40 GB; NVLink and network cards as a100"},
    {"h100-96gb", 34e12, 67e12, 989.4e12, 1979e12, 1979e12, 96e9, 2.4e12, 450e9, 1, 8, 50e9, 0.9e-6,
     "as h100, with 96 GB of HBM2e: TorchTitan's benchmarks (2024), Meta's Grand Teton platform"},
    {"rtx4090", 1.29e12, 82.6e12, 165.2e12, 330.3e12, 660.6e12, 24e9, 1.008e12, 25e9, 1, 8, 12.5e9,
     0.9e-6,
     "NVIDIA Ada architecture whitepaper 1.1, sums in f32, dense; PCIe 4.0 x16, no NVLink; a "
     "network card of 100 Gb/s is assumed"},
    {"rtx3090", 0.556e12, 35.6e12, 71e12, 0, 284e12, 24e9, 0.936e12, 25e9, 1, 8, 12.5e9, 0.9e-6,
     "NVIDIA Ampere GA102 whitepaper 2.0, sums in f32, dense; PCIe 4.0 x16; a network card of 100 "
     "Gb/s is assumed"},
}};

// One chip that computes `flops` FLOP/s in every type and has no other limit, for learning and for
// tests.
constexpr Chip ideal_chip(double flops) {
  return {"ideal",  flops,    flops, flops,   flops,    flops, no_limit,
          no_limit, no_limit, 1,     1 << 30, no_limit, 0,     "an idea"};
}

// Dense FLOP/s in a type. i32 and i64 count like f32, u8 like int8. Errors: the chip cannot.
double peak(const Chip& chip, DType dtype, Where where = Where::current());

// A chip by name. Errors: there is no such chip; the message lists the known ones.
const Chip& chip_named(std::string_view name, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/chip.ipp"
#endif
