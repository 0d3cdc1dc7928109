#include "hopper_counts.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/tensor_cores_hopper_rungs.hpp"

namespace yotta {
namespace {

// One block, one consumer; it arrives for the next tile before its wgmma is done.
__global__ void __launch_bounds__(256, 1)
    arrives_too_early(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                      float* c) {
  using Ring = HopperRing<64, 1, 1>;
  __shared__ uint64_t full[1], empty[1];
  const Ring ring = make_ring<Ring>(full, empty);
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0)
      for (int step = 0; step < 2; ++step) fill_place(ring, step, &a, &b, 0, 0, 64 * step);
    return;
  }
  float d[32] = {};
  for (uint32_t step = 0; step < 2; ++step) {
    while (!mbarrier_try_wait_parity(full, step)) continue;
    const uint64_t of_a = wgmma_descriptor(ring.a_at(0), 0, 1024, Swizzle::b128);
    const uint64_t of_b = wgmma_descriptor(ring.b_at(0), 8192, 1024, Swizzle::b128);
    wgmma_fence();
    wgmma<64, bfloat16, Major::k, Major::mn>(d, of_a, of_b);
    wgmma_commit_group();
    mbarrier_arrive(empty);  // the wait for the wgmma comes first
    wgmma_wait_group<0>();
  }
  store_group<64>(d, c, 64, 64, 0, 0);
}

DeviceArray<bfloat16> ones(int rows, int columns) {
  return DeviceArray<bfloat16>(
      std::vector<bfloat16>(static_cast<size_t>(rows * columns), bfloat16(1.0f)));
}

}  // namespace

std::vector<HopperCounts> count_hopper_rungs(int m, int n, int k) {
  const DeviceArray<bfloat16> a = ones(m, k), b = ones(k, n);
  DeviceArray<float> c(static_cast<size_t>(m * n));
  std::vector<HopperCounts> all;
  for (const TensorCoreRung& rung : hopper_rungs<HopperTiles<256, 2, 2>>) {
    Profile profile;
    rung.run(a.data(), b.data(), c.data(), m, n, k, nullptr);
    const double fours = static_cast<double>(profile.flops()) / 4096;
    const auto wavefronts =
        static_cast<double>(profile.shared_reads().wavefronts + profile.shared_writes().wavefronts);
    all.push_back({rung.name, profile.instructions("wgmma()") / 4,
                   profile.instructions("cp_async_bulk_tensor()") +
                       profile.instructions("cp_async_bulk_tensor_multicast()"),
                   static_cast<double>(profile.global_reads().sectors) / fours, wavefronts / fours,
                   wavefronts / fours - rung.wavefronts, rung.attainable()});
  }
  return all;
}

std::string freed_too_early() {
  const DeviceArray<bfloat16> a = ones(64, 128), b = ones(128, 64);
  DeviceArray<float> c(64 * 64);
  try {
    launch(arrives_too_early, 1, 256, HopperRing<64, 1, 1>::bytes, nullptr,
           map_of_a(a.data(), 64, 128, 64), map_of_b(b.data(), 128, 64), c.data());
  } catch (const KernelError& error) {
    return error.what();
  }
  return "nothing was noticed";
}

}  // namespace yotta
