// The roofline: a matmul kernel, and which tile lets an H100 multiply as fast as it can.
// A tile that is twice as large reads each number half as often.
#include <fmt/format.h>

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/roofline_matmul.hpp"

using namespace yotta;

int main() {
  const int n = 40;  // C (n, n) = A (n, n) B (n, n), in tiles of 16 x 16
  const DeviceArray<float> a(std::vector<float>(n * n, 2)), b(std::vector<float>(n * n, 3));
  DeviceArray<float> c(n * n);
  // 3 x 3 blocks of 16 x 16 threads each; no bytes of further shared memory; no stream
  launch(matmul_shared_tile<16>, {3, 3}, {16, 16}, 0, nullptr, a.data(), b.data(), c.data(), n, n,
         n);
  for (const float sum : c.to_host())
    if (!(sum == 2 * 3 * n)) {
      fmt::print("the kernel's sum is {}, and {} is right\n", sum, 2 * 3 * n);
      return 1;
    }

  const Roofline h100 = dense_roofline(h100_sheet);
  const int64_t large = 1 << 16, tile = smallest_tile(large, large, large, 2, h100, 1024);
  fmt::print(
      "matmuls of 65536 in bf16 on an H100: a tile of 16 x 16 reaches {:.1f}% of the peak,\n",
      100 * h100.attainable(8) / h100.peak);
  fmt::print("the smallest with which memory is not the limit is {0} x {0}\n", tile);
  const double intensity = static_cast<double>(tile) / 2;  // FLOPs per byte
  if (!(intensity >= h100.ridge()) || !(intensity < 1.02 * h100.ridge())) {
    fmt::print("{} FLOPs per byte are right\n", h100.ridge());
    return 1;
  }
}
