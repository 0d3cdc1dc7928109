#include "yotta/machine/tile_waves.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("tiles at the edge count whole, waves are rounded up") {
  static_assert(tiles_of(256, 256) == 4);
  static_assert(tiles_of(257, 1) == 3);
  static_assert(waves_of(128 * 132, 128) == 1);
  static_assert(waves_of(128 * 133, 128) == 2);
  static_assert(waves_of(0, 128) == 0);
  CHECK(matmul_use(128 * 132, 128) == 1);
  CHECK(matmul_use(128 * 133, 128) == 133.0 / 264);
  CHECK(matmul_use(1, 1) == 1.0 / (132 * 128 * 128));
  CHECK(matmul_use(0, 5) == 0);
  CHECK(matmul_use(9, 3, {3, 3, 2}) == 0.75);  // three tiles, two at a time
}

TEST_CASE("pieces take at least as many waves as the whole") {
  for (const int64_t m : {512, 1000, 4096, 8192})
    for (const int64_t n : {768, 4096, 14336})
      for (const int64_t pieces : {2, 4, 8})
        CHECK(pieces * waves_of((m + pieces - 1) / pieces, n) >= waves_of(m, n));
}
