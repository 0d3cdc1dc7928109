#include "yotta/core/cpu/bf16_tiles.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/not_run.hpp"
#include "yotta/core/matmul.hpp"

using namespace yotta;

TEST_CASE("numbers that are not pairs are packed one by one") {
  CHECK((PackedSteps<float>::of(33) == 33 && PackedSteps<float>::k == 1));
}

#if defined(YOTTA_BF16_PAIRS)

namespace {

std::vector<bfloat16> numbers(int64_t count, uint32_t seed) {
  std::vector<bfloat16> all(static_cast<size_t>(count));
  for (bfloat16& x : all) {
    seed = seed * 1664525u + 1013904223u;
    x = bfloat16(static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
  return all;
}

// Where step l of member i of a panel lies: in pair l / 2.
int64_t place(bf16_tile::Order order, int64_t tiles, int64_t i, int64_t l) {
  const int64_t tile = i / 16, step = l / 32, pair = l % 32 / 2;
  return step * tiles * 256 + (order == bf16_tile::Order::by_pair
                                   ? pair * tiles * 16 + i
                                   : tile * 256 + i % 16 * 16 + pair);
}

template <bf16_tile::Order order, int64_t Tiles>
void check_pack(int64_t across, int64_t along, int64_t step, int64_t count, int64_t k) {
  CAPTURE(across);
  CAPTURE(along);
  CAPTURE(count);
  CAPTURE(k);
  const auto from = numbers((count - 1) * across + (k - 1) * along + 1, 1);
  const int64_t panels = ceil_div(count, step), size = ceil_div(k, 32) * Tiles * 256;
  std::vector<Bf16Pair> out(static_cast<size_t>(panels * size), Bf16Pair{7});
  bf16_tile::pack<order, Tiles>(from.data(), across, along, step, panels, count, k, out.data());
  int wrong = 0;
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t i = 0; i < 16 * Tiles; ++i)
      for (int64_t l = 0; l < ceil_div(k, 32) * 32; ++l) {
        const int64_t member = p * step + i;
        const bool is_there = member < count && l < k;
        const uint32_t pair = out[static_cast<size_t>(p * size + place(order, Tiles, i, l))].bits;
        const uint32_t expected =
            is_there ? from[static_cast<size_t>(member * across + l * along)].bits : 0u;
        wrong += (l % 2 == 0 ? pair & 0xffffu : pair >> 16) != expected;
      }
  CHECK(wrong == 0);
}

template <bf16_tile::Order order, int64_t Tiles>
void check_orders(int64_t step) {
  for (const int64_t k : {1, 31, 32, 70})
    for (const int64_t count : {1, 15, 16, 33, 70}) {
      check_pack<order, Tiles>(1, count + 3, step, count, k);
      check_pack<order, Tiles>(k + 1, 1, step, count, k);
      check_pack<order, Tiles>(2 * k + 1, 2, step, count, k);
    }
}

// Against f32 products of the widened numbers; c begins as ones.
template <class Kernel>
void check_kernel() {
  for (const int64_t k : {7, 64, 1000, 1700}) {
    CAPTURE(k);
    const int64_t m = 45, n = 70;
    const auto a = numbers(m * k, 1), b = numbers(k * n, 2);
    const auto left = row_major(a.data(), m, k);
    const auto right = transposed(row_major(b.data(), n, k));
    std::vector<float> c(static_cast<size_t>(m * n), 1.0f), widened = c;
    matmul_packed<Kernel>(left, right, row_major(c.data(), m, n), Into::accumulate, 2);
    matmul_packed<RegisterKernel<float, float>>(left, right, row_major(widened.data(), m, n),
                                                Into::accumulate, 1);
    for (size_t i = 0; i < c.size(); ++i) CHECK_UNARY(std::fabs(c[i] - widened[i]) <= 2e-5f);
  }
}

}  // namespace

TEST_CASE("every pair in its place, zeros beyond the ends") {
  check_orders<bf16_tile::Order::by_pair, 1>(13);
  check_orders<bf16_tile::Order::by_pair, 2>(32);
  check_orders<bf16_tile::Order::by_member, 2>(32);
}
TEST_CASE("vdpbf16ps: blocks of k, ends of tiles") {
  check_kernel<RegisterKernel<Bf16Pair, float>>();
}

#endif
#if defined(YOTTA_BF16_TILES)

TEST_CASE("AMX: blocks of k, ends of tiles") {
  if (!bf16_tiles_are_granted()) YOTTA_NOT_RUN("the system does not grant AMX's registers");
  check_kernel<Bf16Tiles>();
}

#endif
