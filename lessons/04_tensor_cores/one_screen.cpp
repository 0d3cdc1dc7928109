// Tensor cores: one instruction of a warp multiplies 16 x 16 by 16 x 8 numbers of 16 bits.
// It adds up in f32: a sum of 512 products is exact, where one in bf16 would stop at 256.
#include <fmt/format.h>

#include <vector>

#include "yotta/core/numbers.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/tensor_cores.hpp"

using namespace yotta;

int main() {
  const int m = 16, n = 8, k = 512;
  const DeviceArray<bfloat16> a(std::vector<bfloat16>(m * k, bfloat16(1.0f)));
  const DeviceArray<bfloat16> b(std::vector<bfloat16>(k * n, bfloat16(1.0f)));
  DeviceArray<float> c(m * n);
  launch(matmul_mma<1>, {1, 1}, 32, 0, nullptr, a.data(), b.data(), c.data(), m, n, k);

  const std::vector<double> ones(k, 1.0);
  const double in_bf16 = dot_product(ones, ones, formats::bf16, formats::bf16);
  fmt::print("{} instructions of 4096 FLOPs: each sum is {}; summed in bf16 it would be {}\n",
             mma_count(m, n, k), c.to_host()[0], in_bf16);
  for (const float sum : c.to_host())
    if (!(sum == k) || !(in_bf16 == 256) || mma_count(m, n, k) != 32) {
      fmt::print("32 instructions, {} in f32 and 256 in bf16 are right; a sum is {}\n", k, sum);
      return 1;
    }
}
