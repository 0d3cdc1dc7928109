#include "yotta/device/pictures/wgmma_tile_check.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/kernel_error.hpp"
#include "support/wgmma_input.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/wgmma.hpp"

using namespace yotta;

namespace {

constexpr int n = 16;

// Threads write B with one layout, and the descriptor names another.
__global__ void shows_b(const bfloat16* a, const bfloat16* b, WgmmaTile written, WgmmaTile named,
                        float* out) {
  __shared__ __align__(1024) char tile[2048];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 16 * n; i += 128) {
    const auto k = static_cast<uint32_t>(i / n), column = static_cast<uint32_t>(i % n);
    const uint32_t byte = swizzled_byte(wgmma_byte(written, column, k), written.swizzle);
    *reinterpret_cast<bfloat16*>(tile + byte) = b[i];
  }
  fence_proxy_async();
  __syncthreads();
  uint32_t registers[4];
  load_registers(a, thread, registers);
  float d[n / 2] = {};
  const uint64_t of_b = wgmma_descriptor(tile, named.leading, named.stride, named.swizzle);
  wgmma_fence();
  wgmma<n, bfloat16>(d, registers, of_b);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < n / 2; ++i) {
    const MatrixCell at = wgmma_cell(thread, i);
    out[at.row * n + at.column] = d[i];
  }
}

std::vector<float> shown(FragmentAxis axis, const WgmmaTile& written, const WgmmaTile& named) {
  const DeviceArray<bfloat16> a(unit_rows()), b(tile_probe(n, axis));
  DeviceArray<float> out(64 * n);
  launch(shows_b, 1, 128, 0, nullptr, a.data(), b.data(), written, named, out.data());
  return out.to_host();
}

std::string mistake(const WgmmaTile& written, const WgmmaTile& named) {
  return tile_mistake(n, shown(FragmentAxis::row, written, named),
                      shown(FragmentAxis::column, written, named));
}

}  // namespace

TEST_CASE("a descriptor of another layout than the tile's is found by its values") {
  const WgmmaTile by_32{Major::k, 0, 256, Swizzle::b32}, by_64{Major::k, 0, 512, Swizzle::b64};
  const WgmmaTile plain{Major::k, 256, 128, Swizzle::none};
  for (const WgmmaTile& each : {by_32, by_64, plain}) CHECK(mistake(each, each) == "");
  check_says(mistake(by_32, by_64), {"wgmma takes ", " of 256 numbers are in the wrong place"});
  check_says(mistake(by_64, by_32), {"the swizzle with which the tile was written"});
  WgmmaTile exchanged = plain;
  std::swap(exchanged.leading, exchanged.stride);
  check_says(mistake(plain, exchanged), {"wgmma takes B(8, 0) for B(0, 8). 128 of 256"});
}
