// The ladder of bf16 kernels on tensor cores as a table: what each rung does, how it is launched,
// and what it asks of an SM for each mma, 4096 FLOPs.
//
//     for (const TensorCoreRung& rung : tensor_core_rungs<Tiles<64, 64, 32, 32, 32>>)
//       rung.run(a, b, c, m, n, k, stream);
//
//     sectors      of 32 bytes from global memory: an SM receives 2 per clock (assumed; see
//                  matmul_rungs.hpp) from the L2
//     wavefronts   passes through shared memory's 32 banks: an SM does 1 per clock
//     mma          an H100's SM does one per clock (4096 FLOPs) by wgmma, and 63% of that by
//                  mma.sync; an A100's does one in two
//
// The slowest of the three is the roof: clocks = max(4096 / FLOPs per clock, wavefronts, sectors /
// 2). The counts follow from the layouts below, address by address; the emulator counts the same
// for the kernels as they run.
//
// A warp's tile of WM x WN takes 32 (WM + WN) / (WM WN) wavefronts per mma from shared memory at
// best: 32 x 32 takes 2, 64 x 64 takes 1. On an H100 64 x 64 is just enough, with nothing left for
// writing the tiles, which is why its own instruction, wgmma, reads shared memory without passing
// through registers.
//
// No latency is known here: which rung can be fast, not which is. References: NVIDIA Hopper and
// Ampere tuning guides; Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
// Architecture" (2024).
#pragma once

#include <algorithm>
#include <array>

#include "yotta/device/tensor_cores.hpp"
#include "yotta/device/tensor_cores_pipeline.hpp"
#include "yotta/device/tensor_cores_tile.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Passes that shared memory needs for one request: the most different words that fall into one
// bank.
template <size_t count>
constexpr int bank_passes(const std::array<int, count>& words) {
  std::array<int, 32> passes = {};
  for (size_t i = 0; i < count; ++i) {
    const auto begin = words.begin(), at = begin + static_cast<std::ptrdiff_t>(i);
    if (std::find(begin, at, *at) == at) ++passes[static_cast<size_t>(*at % 32)];
  }
  return *std::max_element(passes.begin(), passes.end());
}

// Passes for a 16 x 16 tile at the corner of a shared tile with rows of `width` elements: by
// ldmatrix.x4, four phases of 8 rows of 16 bytes; as words, four loads of 32 bits (A), or eight of
// 16 bits (B).
template <int width, Rows rows>
constexpr int ldmatrix_passes() {
  int passes = 0;
  for (int block = 0; block < 4; ++block) {
    std::array<int, 32> words = {};
    for (int i = 0; i < 32; ++i)
      words[static_cast<size_t>(i)] =
          place<width, rows>(block % 2 * 8 + i / 4, block / 2) / 2 + i % 4;
    passes += bank_passes(words);
  }
  return passes;
}
template <int width, Rows rows>
constexpr int word_passes_b() {
  int passes = 0;
  for (int load = 0; load < 8; ++load) {
    std::array<int, 32> words = {};
    for (int lane = 0; lane < 32; ++lane) {
      const int row = 2 * (lane % 4) + load % 2 + 8 * (load / 2 % 2);
      words[static_cast<size_t>(lane)] = (place<width, rows>(row, load / 4) + lane / 4) / 2;
    }
    passes += bank_passes(words);
  }
  return passes;
}

// Wavefronts per mma: reading fragments, and writing the tiles (8 chunks of 16 bytes per pass).
template <class T, Loads loads, Rows rows>
constexpr double read_wavefronts() {
  const int a = ldmatrix_passes<T::BK, rows>();  // four loads of words touch the same banks
  const int b =
      loads == Loads::ldmatrix ? ldmatrix_passes<T::BN, rows>() : word_passes_b<T::BN, rows>();
  return static_cast<double>(a * (T::WM / 16) + b * (T::WN / 16)) / (T::WM / 16 * (T::WN / 8));
}
template <class T>
constexpr double write_wavefronts() {
  return 32.0 * (T::BM + T::BN) / (T::BM * T::BN);
}
// Sectors per mma when a block reads its tiles once.
template <class T>
constexpr double tile_sectors() {
  return 128.0 * (T::BM + T::BN) / (T::BM * T::BN);
}

// The part of an H100's peak that mma.sync reaches on registers alone (Luo et al. 2024: 62.9% on
// average).
inline constexpr double mma_sync_on_h100 = 0.63;

// What a rung is, and what it asks for per mma on large sizes that divide.
struct TensorCoreCost {
  const char* name;
  const char* idea;
  double sectors, wavefronts;

  // The share of the peak that the counts allow, on an SM of so many FLOPs per clock, of which the
  // rung's instruction does at most `most`.
  constexpr double attainable(double flops_a_clock = 4096, double most = 1) const {
    const double mma = 4096 / flops_a_clock;
    return mma / std::max({mma / most, wavefronts, sectors / 2});
  }
};

// The first two rungs read global memory element by element: a request for A touches 8 sectors, one
// for B 4; a fragment takes 8 and 4 requests.
template <class T>
inline constexpr std::array<TensorCoreCost, 6> tensor_core_costs = {{
    {"one fragment", "a warp makes 16 x 8, fragments straight from memory", 8 * 8 + 4 * 4, 0},
    {"warp tile", "a warp makes 32 x 32, each fragment used 4 times or 2", 64.0 / 4 + 16.0 / 2, 0},
    {"shared tile", "a block's warps share what they read", tile_sectors<T>(),
     read_wavefronts<T, Loads::words, Rows::plain>() + write_wavefronts<T>()},
    {"ldmatrix", "one instruction for four 8 x 8 blocks", tile_sectors<T>(),
     read_wavefronts<T, Loads::ldmatrix, Rows::plain>() + write_wavefronts<T>()},
    {"swizzled", "8 rows of a block in 8 groups of banks", tile_sectors<T>(),
     read_wavefronts<T, Loads::ldmatrix, Rows::swizzled>() + write_wavefronts<T>()},
    {"pipelined", "copies run while the tensor cores multiply", tile_sectors<T>(),
     read_wavefronts<T, Loads::ldmatrix, Rows::swizzled>() + write_wavefronts<T>()},
}};

using TensorCoreLauncher = void (*)(const bfloat16* a, const bfloat16* b, float* c, int m, int n,
                                    int k, cudaStream_t stream);

struct TensorCoreRung : TensorCoreCost {
  TensorCoreLauncher run;
};

// Launches a kernel of which a block of `warps` makes height x width of C.
template <auto kernel, int warps, int height, int width, size_t shared_bytes = 0>
void run_blocks_of(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                   cudaStream_t stream) {
  const auto across = static_cast<unsigned>((n + width - 1) / width);
  const auto down = static_cast<unsigned>((m + height - 1) / height);
  launch(kernel, {across, down}, 32 * warps, shared_bytes, stream, a, b, c, m, n, k);
}
template <class T, auto kernel, size_t shared_bytes = 0>
inline constexpr TensorCoreLauncher run_tiles =
    run_blocks_of<kernel, T::threads / 32, T::BM, T::BN, shared_bytes>;

template <class T, int stages = 3>
inline constexpr std::array<TensorCoreRung, 6> tensor_core_rungs = {{
    {tensor_core_costs<T>[0], run_blocks_of<matmul_mma<4>, 4, 16, 32>},
    {tensor_core_costs<T>[1], run_blocks_of<matmul_warp_mma<4, 2, 4>, 4, 32, 128>},
    {tensor_core_costs<T>[2], run_tiles<T, matmul_tile<T, Loads::words, Rows::plain>>},
    {tensor_core_costs<T>[3], run_tiles<T, matmul_tile<T, Loads::ldmatrix, Rows::plain>>},
    {tensor_core_costs<T>[4], run_tiles<T, matmul_tile<T, Loads::ldmatrix, Rows::swizzled>>},
    {tensor_core_costs<T>[5],
     run_tiles<T, matmul_pipeline<T, stages>, pipeline_bytes<T, stages>()>},
}};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
