#include "counts.hpp"

#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"

namespace yotta {
namespace {

using Small = Tiles<64, 64, 32, 32, 32>;
using Large = Tiles<128, 256, 32, 64, 64>;

RungCounts as_expected(const TensorCoreCost& rung) {
  RungCounts counts;
  counts.name = rung.name;
  counts.idea = rung.idea;
  counts.expected_sectors = rung.sectors;
  counts.expected_wavefronts = rung.wavefronts;
  counts.on_h100 = rung.attainable(4096, mma_sync_on_h100);
  counts.on_a100 = rung.attainable(2048);
  return counts;
}

// Waits for nothing: what cp_async_wait<0>() and a barrier are for.
__global__ void forgets_to_wait(const bfloat16* x, float* y) {
  __shared__ __align__(16) uint16_t tile[256];
  cp_async<16>(tile + 8 * threadIdx.x, x + 8 * threadIdx.x);
  cp_async_commit();
  __syncthreads();
  uint32_t block[1];
  ldmatrix_x1(block, tile + 8 * threadIdx.x);
  y[threadIdx.x] = static_cast<float>(block[0]);
}

}  // namespace

std::vector<RungCounts> count_rungs(int size) {
  const auto elements = static_cast<size_t>(size) * static_cast<size_t>(size);
  const DeviceArray<bfloat16> a(std::vector<bfloat16>(elements, bfloat16(1.0f)));
  const DeviceArray<bfloat16> b(std::vector<bfloat16>(elements, bfloat16(1.0f)));
  DeviceArray<float> c(elements);
  std::vector<RungCounts> all;
  for (const TensorCoreRung& rung : tensor_core_rungs<Small>) {
    Profile profile;
    rung.run(a.data(), b.data(), c.data(), size, size, size, nullptr);
    RungCounts counts = as_expected(rung);
    counts.mma = profile.instructions("mma_m16n8k16_bf16()");
    counts.loads =
        profile.instructions("ldmatrix_x4()") + profile.instructions("ldmatrix_x4_trans()");
    const auto mma = static_cast<double>(counts.mma);
    counts.sectors = static_cast<double>(profile.global_reads().sectors) / mma;
    counts.wavefronts = static_cast<double>(profile.shared_reads().wavefronts +
                                            profile.shared_writes().wavefronts) /
                        mma;
    all.push_back(counts);
  }
  return all;
}

std::vector<RungCounts> expect_large_rungs() {
  std::vector<RungCounts> all;
  for (const TensorCoreCost& rung : tensor_core_costs<Large>) all.push_back(as_expected(rung));
  return all;
}

std::string read_too_early() {
  const DeviceArray<bfloat16> x(std::vector<bfloat16>(256, bfloat16(1.0f)));
  DeviceArray<float> y(32);
  try {
    launch(forgets_to_wait, 1, 32, 0, nullptr, x.data(), y.data());
  } catch (const KernelError& error) {
    return error.what();
  }
  return "nothing was noticed";
}

}  // namespace yotta
