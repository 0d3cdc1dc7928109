#include "yotta/nn/cuda/block_mask_on_device.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/device/flash_attention_backward.hpp"

// The kernels' numbers with these lists: device/flex_attention_kernel_test.cpp.

using namespace yotta;
using yotta_test::contains, yotta_test::message_of;

namespace {

using Forward = FlashWarps<32, 32, 16, 16>;
using Backward = FlashSquare<32, 32>;

constexpr AttentionShape shape = {.B = 2, .Tq = 70, .Tk = 90, .H = 2, .Hkv = 1, .d = 32};

// Differs by sequence and by head.
struct WindowOfEach {
  YOTTA_HOST_DEVICE bool operator()(int b, int h, int q, int kv) const {
    return SlidingWindow{10 + 20 * b + 40 * h}(b, h, q, kv);
  }
};

template <class Mask>
BlockMask<Mask> masked(const Mask& mask, int B, int H, int BQ, int BK) {
  return create_block_mask(
      mask, {.B = B, .H = H, .queries = shape.Tq, .keys = shape.Tk, .BQ = BQ, .BK = BK});
}

// Line `line` of the list is what a kernel is told of its tile.
template <class At, class Asked>
void check_line(const Asked& asked, const At& at, const TileList& list, int line) {
  const int first = list.first[line];
  REQUIRE(asked.count(at) == list.first[line + 1] - first);
  for (int i = 0; i < asked.count(at); ++i) {
    CHECK(asked.tile(at, i) == list.at[first + i]);
    CHECK(asked.partial(at, i) == (list.kind[first + i] == TileKind::partial));
  }
}

template <class T, class Mask>
void check_lists(const BlockMask<Mask>& tiles) {
  const BlockMaskOnDevice<T> there(tiles, shape);
  const auto by_row = there.by_row(tiles.mask);
  const auto by_column = there.by_column(tiles.mask);
  for (int b = 0; b < shape.B; ++b)
    for (int h = 0; h < shape.H; ++h) {
      const int mask = tiles.mask_of(b, h);
      for (int row = 0; row < tiles.rows(); ++row)
        check_line(by_row, QueryTile{b, h, row, 0, 0}, tiles.by_row, mask * tiles.rows() + row);
      for (int column = 0; column < tiles.columns(); ++column)
        check_line(by_column, KeyTile{b, h, column, 0, 0}, tiles.by_column,
                   mask * tiles.columns() + column);
      CHECK(by_row.sees(b, h, 40, 25) == tiles.mask(b, h, 40, 25));
    }
}

}  // namespace

TEST_CASE("a kernel is told the tiles that create_block_mask has found") {
  check_lists<Forward>(masked(WindowOfEach{}, 2, 2, 32, 16));
  check_lists<Backward>(masked(WindowOfEach{}, 2, 2, 32, 32));
  check_lists<Forward>(masked(PrefixLm{40}, 1, 1, 32, 16));
  check_lists<Backward>(masked(NoMask{}, 2, 1, 32, 32));
}

TEST_CASE("tiles or sizes that are not the kernel's are refused") {
  const auto message = [](const auto& tiles) {
    return message_of([&] { BlockMaskOnDevice<Forward>(tiles, shape); });
  };
  CHECK(message(masked(Causal{}, 1, 1, 32, 16)) == "nothing was thrown");
  CHECK(
      contains(message(masked(Causal{}, 1, 1, 32, 32)),
               "70 queries and 90 keys in tiles of 32 x 32, but the kernel has tiles of 32 x 16"));
  CHECK(contains(message(masked(Causal{}, 1, 1, 16, 16)), "in tiles of 16 x 16"));
  CHECK(contains(message(masked(Causal{}, 3, 1, 32, 16)), "a block mask for B 3, H 1"));
  CHECK(contains(message(masked(Causal{}, 1, 4, 32, 16)), "and attention B 2, H 2"));
  CHECK(contains(
      message(create_block_mask(Causal{}, {.queries = 70, .keys = 70, .BQ = 32, .BK = 16})),
      "for B 1, H 1, 70 queries and 70 keys"));
  CHECK(contains(
      message(create_block_mask(Causal{}, {.queries = 90, .keys = 90, .BQ = 32, .BK = 16})),
      "90 queries"));
}
