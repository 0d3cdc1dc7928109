// The last rungs of the ladder, Hopper's, as a table beside tensor_cores_rungs.hpp: what each
// does, how it is launched, and what it asks of an SM for 4096 FLOPs, an mma.
//
//     for (const TensorCoreRung& rung : hopper_rungs<HopperTiles<256, 4, 2>>)
//       rung.run(a, b, c, m, n, k, stream);
//
//     rung         what threads of the block do                       tile of C
//     wgmma        128 copy, wait, multiply, wait                     64 x BN
//     TMA          128 multiply; one of them starts copies, too       64 x BN
//     producer     one starts copies; 128 or 256 multiply             64 x consumers x BN
//     persistent   the same, tile after tile; TMA stores              64 x consumers x BN
//     multicast    as producer; a block loads half of B for two       64 x consumers x BN
//
// sectors, wavefronts, and the roof are those of tensor_cores_rungs.hpp. Two things are assumed
// of wgmma: it reads its tiles in blocks of 8 rows of 16 bytes, and B once for all four warps. A
// warp group's tile of 64 x BN then takes as many wavefronts as a warp's of that size would with
// mma.sync: 32 (64 + BN) / (64 BN). Tiles are written once, by threads or by TMA: 32 (BM + BN) /
// (BM BN). Together, for 4096 FLOPs:
//
//     tile         wgmma    writing   all     roof of an H100
//     64 x 128     0.75     0.75      1.5     67%
//     64 x 256     0.625    0.625     1.25    80%
//     128 x 256    0.625    0.375     1       100%
//
// The emulator counts the same for the kernels as they run.
#pragma once

#include "yotta/device/tensor_cores_cluster.hpp"
#include "yotta/device/tensor_cores_persistent.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"
#include "yotta/machine/multiprocessors.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The sizes of all rungs; the first two have one warp group, and so 64 rows.
template <int BN_, int stages_, int consumers_>
struct HopperTiles {
  static constexpr int BN = BN_, stages = stages_, consumers = consumers_;
  using Narrow = TileRing<64, BN, stages>;
  using Ring = HopperRing<BN, stages, consumers>;
};

template <int BN>
constexpr double wgmma_wavefronts() {
  return 32.0 * (64 + BN) / (64 * BN);
}

// Half of B comes from the other block.
template <class T>
constexpr double multicast_sectors() {
  return 128.0 * (T::BM + T::BN / 2) / (T::BM * T::BN);
}

// C's way through shared memory and on to memory is not in here: it depends on k
// (store_wavefronts()).
template <class T>
inline constexpr std::array<TensorCoreCost, 5> hopper_costs = {{
    {"wgmma", "four warps multiply 64 x BN straight from shared memory",
     tile_sectors<typename T::Narrow>(),
     wgmma_wavefronts<T::BN>() + write_wavefronts<typename T::Narrow>()},
    {"TMA", "an engine copies tiles, mbarriers count their bytes",
     tile_sectors<typename T::Narrow>(),
     wgmma_wavefronts<T::BN>() + write_wavefronts<typename T::Narrow>()},
    {"producer", "one group loads, others multiply, none waits for all",
     tile_sectors<typename T::Ring>(),
     wgmma_wavefronts<T::BN>() + write_wavefronts<typename T::Ring>()},
    {"persistent", "blocks stay; a tile is stored while the next is multiplied",
     tile_sectors<typename T::Ring>(),
     wgmma_wavefronts<T::BN>() + write_wavefronts<typename T::Ring>()},
    {"multicast", "two blocks of a cluster share what TMA brings of B",
     multicast_sectors<typename T::Ring>(),
     wgmma_wavefronts<T::BN>() + write_wavefronts<typename T::Ring>()},
}};

// One block for each SM of an H100 or H200.
template <int BN, int stages, int consumers>
void launch_persistent_blocks(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                              cudaStream_t stream) {
  static const int blocks = multiprocessors_of("h100").count;
  launch_persistent<BN, stages, consumers>(a, b, c, m, n, k, blocks, stream);
}

template <class T>
inline constexpr std::array<TensorCoreRung, 5> hopper_rungs = {{
    {hopper_costs<T>[0], launch_wgmma<T::BN>},
    {hopper_costs<T>[1], launch_tma<T::BN, T::stages>},
    {hopper_costs<T>[2], launch_producer<T::BN, T::stages, T::consumers>},
    {hopper_costs<T>[3], launch_persistent_blocks<T::BN, T::stages, T::consumers>},
    {hopper_costs<T>[4], launch_multicast<T::BN, T::stages, T::consumers>},
}};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
