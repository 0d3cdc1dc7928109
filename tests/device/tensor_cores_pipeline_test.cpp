// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_pipeline.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/bf16_matmul.hpp"

using namespace yotta;

namespace {

using Small = Tiles<64, 64, 32, 32, 32>;
using Narrow = Tiles<32, 128, 16, 16, 64>;

template <class T, int stages>
std::vector<float> product(const Bf16Problem& p) {
  return p.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    const auto across = static_cast<unsigned>((p.n + T::BN - 1) / T::BN);
    const auto down = static_cast<unsigned>((p.m + T::BM - 1) / T::BM);
    launch(matmul_pipeline<T, stages>, {across, down}, T::threads, pipeline_bytes<T, stages>(),
           nullptr, a, b, c, p.m, p.n, p.k);
  });
}

}  // namespace

TEST_CASE("C = A B with 2, 3 and 4 tiles in flight, more of them than steps or fewer") {
  for (const auto& [m, n, k] : matmul_sizes) {
    const Bf16Problem p(m, n, k);
    check_product(p, product<Small, 2>(p));
    check_product(p, product<Small, 3>(p));
    check_product(p, product<Narrow, 4>(p));
  }
  const Bf16Problem long_sum(64, 64, 320);  // ten steps: the ring comes round
  check_product(long_sum, product<Small, 3>(long_sum));
}

TEST_CASE("strips: every tile of C is made once, neighbours in time share rows and columns") {
  for (const auto& [across, down] : {std::pair{1, 1}, {5, 3}, {4, 8}, {7, 19}, {1, 9}}) {
    std::set<std::pair<int, int>> made;
    for (int block = 0; block < across * down; ++block) {
      const TilePosition at = grouped_tile(block, across, down, 8);
      CHECK(at.row >= 0);
      CHECK(at.row < down);
      CHECK(at.column < across);
      made.insert({at.row, at.column});
    }
    CHECK(static_cast<int>(made.size()) == across * down);
  }
  // 64 blocks at once out of 32 x 32: 8 rows and 8 columns of tiles; row by row it takes 2 + 32.
  std::set<int> rows, columns;
  for (int block = 0; block < 64; ++block) {
    rows.insert(grouped_tile(block, 32, 32, 8).row);
    columns.insert(grouped_tile(block, 32, 32, 8).column);
  }
  CHECK(rows.size() == 8);
  CHECK(columns.size() == 8);
}

TEST_CASE("shared memory of the ring") {
  CHECK(pipeline_bytes<Small, 3>() == 3 * (64 + 64) * 32 * 2);
  CHECK(pipeline_bytes<Tiles<128, 256, 64, 64, 64>, 4>() == 196608);  // fits an H100's 227 KiB
}
