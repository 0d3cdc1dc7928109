// The CUDA matmul ladder as a table: what each rung does, how it is launched, and what it should
// cost.
//
//     for (const MatmulRung& rung : matmul_rungs) rung.run(a, b, c, m, n, k, stream);
//
// What limits a rung is given by two counts per multiply-add of a warp (32 FMAs, one instruction,
// 64 FLOPs):
//     sectors      of 32 bytes from global memory: an SM receives 2 per clock from the L2 (assumed)
//     wavefronts   passes through shared memory's 32 banks: an SM does 1 per clock
// while its four schedulers start 4 multiply-adds per clock. So of the peak a rung can reach at
// most
//     share = 1/4 / max(1/4, wavefronts, sectors / 2)
// which is a roofline with three roofs. It knows no latency: it says which rung *can* be fast. The
// emulator counts both for the kernels as written, and the tests compare them with this table.
//
// The 2 is assumed here: NVIDIA prints no figure for an H100. It is rather high, since an A100's L2
// gives 5120 bytes per clock to 108 SMs (A100 whitepaper, 2020), which is 1.5 sectors each.
//
// References: NVIDIA Hopper tuning guide (SM: 128 FMA lanes, 128 bytes of shared memory per clock);
// Boehm (2022), whose measurements on an RTX A6000 are in the table.
#pragma once

#include <algorithm>
#include <array>

#include "yotta/device/matmul_kernels.hpp"
#include "yotta/device/matmul_pipelined.hpp"
#include "yotta/device/matmul_register_tiles.hpp"
#include "yotta/device/roofline_matmul.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

using MatmulLauncher = void (*)(const float* a, const float* b, float* c, int m, int n, int k,
                                cudaStream_t stream);

struct MatmulRung {
  const char* name;
  const char* idea;
  int BM, BN, BK, TM, TN;      // tiles of C of a block and of a thread; BK 0: no shared memory
  double sectors, wavefronts;  // per multiply-add of a warp, inner loop, large sizes that divide
  double a6000_gflops;         // published, 4092 x 4092; 0: not
  MatmulLauncher run;

  constexpr int threads() const { return BM * BN / (TM * TN); }
  // The share of the peak that the counts allow.
  constexpr double attainable() const { return 0.25 / std::max({0.25, wavefronts, sectors / 2}); }
};

constexpr unsigned blocks_for(int size, int tile) {
  return static_cast<unsigned>((size + tile - 1) / tile);
}

// Launches a kernel of (BM, BN) tiles with so many threads per block, in one dimension.
template <auto kernel, int BM, int BN, int threads>
void run_tiled(const float* a, const float* b, float* c, int m, int n, int k, cudaStream_t stream) {
  launch(kernel, {blocks_for(n, BN), blocks_for(m, BM)}, threads, 0, stream, a, b, c, m, n, k);
}
// The kernel for rows that all begin on 16 bytes, where they do.
template <auto always, auto where_rows_allow, int BM, int BN, int threads>
void run_quads(const float* a, const float* b, float* c, int m, int n, int k, cudaStream_t stream) {
  const bool all = k % 4 == 0 && n % 4 == 0;
  launch(all ? always : where_rows_allow, {blocks_for(n, BN), blocks_for(m, BM)}, threads, 0,
         stream, a, b, c, m, n, k);
}
inline void run_uncoalesced(const float* a, const float* b, float* c, int m, int n, int k,
                            cudaStream_t stream) {
  launch(matmul_uncoalesced<32>, {blocks_for(m, 32), blocks_for(n, 32)}, {32, 32}, 0, stream, a, b,
         c, m, n, k);
}
template <auto kernel>
void run_square(const float* a, const float* b, float* c, int m, int n, int k,
                cudaStream_t stream) {
  launch(kernel, {blocks_for(n, 32), blocks_for(m, 32)}, {32, 32}, 0, stream, a, b, c, m, n, k);
}

inline constexpr std::array<MatmulRung, 8> matmul_rungs = {{
    {"naive", "one thread per number, x for rows", 32, 32, 0, 1, 1, 33, 0, 309, run_uncoalesced},
    {"coalesced", "x for columns: neighbours read neighbours", 32, 32, 0, 1, 1, 5, 0, 1987,
     run_square<matmul_coalesced<32>>},
    {"shared tile", "a block reads a number once for all threads", 32, 32, 32, 1, 1, 0.25, 2, 2980,
     run_square<matmul_shared_tile<32>>},
    {"register column", "8 sums a thread: one load of B serves 8", 64, 64, 8, 8, 1, 0.125, 1.125,
     8475, run_tiled<matmul_register_column<64, 64, 8, 8>, 64, 64, 512>},
    {"register tile", "8 x 8 sums a thread: 16 loads for 64 FMAs", 128, 128, 8, 8, 8, 0.0625, 0.75,
     15972, run_tiled<matmul_register_tile<128, 128, 8, 8, 8>, 128, 128, 256>},
    {"vectorised", "four numbers per load, A transposed", 128, 128, 8, 8, 8, 0.0625, 0.375, 18237,
     run_quads<matmul_vectorised<128, 128, 8, Quads::always>, matmul_vectorised<128, 128, 8>, 128,
               128, 256>},
    {"double-buffered", "the next tile travels during the products", 128, 128, 8, 8, 8, 0.0625,
     0.375, 0,
     run_quads<matmul_double_buffered<128, 128, 8, Quads::always>,
               matmul_double_buffered<128, 128, 8>, 128, 128, 256>},
    {"warp tile", "a warp's lanes read 32 neighbouring numbers", 128, 128, 8, 8, 8, 0.0625, 0.25,
     21779,
     run_quads<matmul_warp_tile<128, 128, 8, Quads::always>, matmul_warp_tile<128, 128, 8>, 128,
               128, 256>},
}};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
