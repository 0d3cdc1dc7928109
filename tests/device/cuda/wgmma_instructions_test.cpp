// nvcc compiles this file too: on a GPU it tests the instructions themselves, elsewhere what the
// emulator makes of them.
#include "yotta/device/cuda/wgmma_instructions.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/wgmma_input.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/wgmma.hpp"

using namespace yotta;

namespace {

constexpr int widest = 256, widths = widest / 8;

// d = a b + a b of n columns: A first in registers, then in shared memory. Both tiles lie as core
// matrices, those of B below each other along n. out: (n, 64).
template <int n, class Input, class Sum>
__device__ void multiply(const uint32_t (&a)[4], const Input* a_tile, const Input* b_tile,
                         float* out) {
  constexpr bool packs = std::is_same_v<Sum, uint32_t>;
  Sum d[packs ? n / 4 : n / 2];
  const uint64_t b = wgmma_descriptor(b_tile, widest * 16, 128, Swizzle::none);
  wgmma_fence();
  wgmma<n, Input>(d, a, b, false);
  wgmma<n, Input>(d, wgmma_descriptor(a_tile, 64 * 16, 128, Swizzle::none), b);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < n / 2; ++i) {
    const MatrixCell at = wgmma_cell(static_cast<int>(threadIdx.x), i);
    float& sum = out[at.column * 64 + at.row];
    if constexpr (packs)
      sum = static_cast<float>(
          std::bit_cast<float16>(static_cast<uint16_t>(d[i / 2] >> (16 * (i % 2)))));
    else
      sum = static_cast<float>(d[i]);
  }
}

// Every width that there is of these types, one after the other.
template <class Input, class Sum, int... i>
__device__ void multiply_each(const uint32_t (&a)[4], const Input* a_tile, const Input* b_tile,
                              float* out, std::integer_sequence<int, i...>) {
  const auto one = [&]<int n>(std::integral_constant<int, n>) {
    if constexpr (is_wgmma_width<n, Input>)
      multiply<n, Input, Sum>(a, a_tile, b_tile, out + 64 * (n / 8 - 1) * widest);
  };
  (one(std::integral_constant<int, 8 * (i + 1)>{}), ...);
}
template <class Input, class Sum>
__global__ void multiplies(const Input* a, const Input* b, float* out) {
  constexpr int k = wgmma_k<Input>, chunk = 16 / static_cast<int>(sizeof(Input));
  __shared__ __align__(128) Input a_tile[64 * k], b_tile[widest * k];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 64 * k; i += 128)
    a_tile[(i % k / chunk * 64 + i / k) * chunk + i % chunk] = a[i];
  for (int i = thread; i < widest * k; i += 128)
    b_tile[(i % k / chunk * widest + i / k) * chunk + i % chunk] = b[i];
  fence_proxy_async();
  __syncthreads();
  uint32_t registers[4];
  load_registers(a, thread, registers);
  multiply_each<Input, Sum>(registers, a_tile, b_tile, out,
                            std::make_integer_sequence<int, widths>{});
}

// Whole numbers, which every type has.
template <class Input>
std::vector<Input> small_numbers(int count, int step) {
  std::vector<Input> all;
  for (int i = 0; i < count; ++i) {
    const int number = i * step % 7 - (std::is_same_v<Input, uint8_t> ? 0 : 3);
    if constexpr (std::is_integral_v<Input>)
      all.push_back(static_cast<Input>(number));
    else
      all.push_back(Input(static_cast<float>(number)));
  }
  return all;
}

// Returns the widths that there are.
template <class Input, class Sum = WgmmaSum<Input>>
int check_widths() {
  constexpr int k = wgmma_k<Input>;
  const auto a = small_numbers<Input>(64 * k, 5), b = small_numbers<Input>(widest * k, 3);
  const DeviceArray<Input> on_a(a), on_b(b);
  constexpr float nothing = -1e9f;
  DeviceArray<float> out(std::vector<float>(widths * 64 * widest, nothing));
  launch(multiplies<Input, Sum>, 1, 128, 0, nullptr, on_a.data(), on_b.data(), out.data());
  const std::vector<float> got = out.to_host();
  int there = 0;
  for (int n = 8; n <= widest; n += 8) {
    const float* const sums = got.data() + 64 * (n / 8 - 1) * widest;
    if (sums[0] == nothing) continue;
    ++there;
    int wrong = 0;
    for (int column = 0; column < widest; ++column)
      for (int row = 0; row < 64; ++row) {
        float sum = 0;
        for (int l = 0; l < k; ++l)
          sum += 2 * static_cast<float>(a[static_cast<size_t>(row * k + l)]) *
                 static_cast<float>(b[static_cast<size_t>(column * k + l)]);
        wrong += !(sums[column * 64 + row] == (column < n ? sum : nothing));
      }
    CAPTURE(n);
    CHECK(wrong == 0);
  }
  return there;
}

}  // namespace

TEST_CASE("every width of every type, A in registers and in shared memory" *
          doctest::skip(!hopper_is_here())) {
  CHECK(check_widths<bfloat16>() == 32);
  CHECK(check_widths<float16>() == 32);
  CHECK(check_widths<float>() == 32);
  CHECK(check_widths<float8_e4m3>() == 32);
  CHECK(check_widths<float8_e5m2>() == 32);
  CHECK(check_widths<int8_t>() == 18);
  CHECK(check_widths<uint8_t>() == 18);
}

TEST_CASE("sums in f16, two in a register" * doctest::skip(!hopper_is_here())) {
  CHECK(check_widths<float16, uint32_t>() == 32);
  CHECK(check_widths<float8_e4m3, uint32_t>() == 32);
  CHECK(check_widths<float8_e5m2, uint32_t>() == 32);
}
