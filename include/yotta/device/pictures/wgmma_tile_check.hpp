// Compares a tile of B in shared memory with what a wgmma reads there by its descriptor, and says
// which number it took for which. So a descriptor with another swizzle, order or distance than the
// tile was written with is found by its values.
//
//     A(i, k) = 1 if k = i % 16, else 0     so D(i, j) = B(i % 16, j): wgmma shows its B
//     B(k, j) = k, then j                   so D says where each number comes from
//
// A test runs the kernel's loads and one wgmma twice, with unit_rows() as A and both tile_probe()s
// as B, and copies D (64, n) to the host.
//
//     CHECK(tile_mistake(n, d_of_rows, d_of_columns) == "");
//
// n is 256 at most: bf16 has all whole numbers up to that.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <vector>

#include "yotta/core/dtype.hpp"
#include "yotta/device/mma_fragments.hpp"
#include "yotta/device/pictures/fragment_check.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A (64, 16), by rows.
inline std::vector<bfloat16> unit_rows() {
  std::vector<bfloat16> a;
  for (int i = 0; i < 64 * 16; ++i) a.push_back(bfloat16(i % 16 == i / 16 % 16 ? 1.0f : 0.0f));
  return a;
}

// B (16, n), by rows: at each number its row, or its column.
inline std::vector<bfloat16> tile_probe(int n, FragmentAxis axis) {
  std::vector<bfloat16> b;
  for (int i = 0; i < 16 * n; ++i)
    b.push_back(bfloat16(static_cast<float>(axis == FragmentAxis::row ? i / n : i % n)));
  return b;
}

// Both D (64, n), by rows. Empty if all is in place.
inline std::string tile_mistake(int n, const std::vector<float>& rows,
                                const std::vector<float>& columns) {
  const auto number = [](float x) { return x >= 0 && x <= 256 ? static_cast<int>(x) : -1; };
  std::string first;
  int wrong = 0;
  for (int i = 0; i < 16 * n; ++i) {
    const auto at = static_cast<size_t>(i);
    const MatrixCell got{number(rows.at(at)), number(columns.at(at))}, wanted{i / n, i % n};
    if (got == wanted || ++wrong > 1) continue;
    const std::string what = got.row < 0 || got.column < 0
                                 ? std::string("what is no number of B")
                                 : fmt::format("B({}, {})", got.row, got.column);
    first = fmt::format("wgmma takes {} for B({}, {})", what, wanted.row, wanted.column);
  }
  if (wrong == 0) return {};
  return fmt::format(
      "{}. {} of {} numbers are in the wrong place. Does the descriptor name the order, the "
      "distances "
      "and the swizzle with which the tile was written?",
      first, wrong, 16 * n);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
