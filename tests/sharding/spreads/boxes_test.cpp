#include "yotta/sharding/spreads/boxes.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// 0, 1, 2, ... in a tensor of this shape.
Tensor counting(const Shape& shape) {
  Tensor made = Tensor::empty(shape, DType::f64);
  std::iota(made.data<double>(), made.data<double>() + made.numel(), 0.0);
  return made;
}

}  // namespace

TEST_CASE("where two boxes meet") {
  CHECK(overlap({{0, 4}, {2, 5}}, {{1, 9}, {0, 3}}) == Box{{1, 4}, {2, 3}});
  CHECK(product(shape_of(overlap({{0, 2}}, {{5, 7}}))) == 0);
  CHECK(shape_of({{1, 4}, {2, 2}}) == Shape{3, 0});
}

TEST_CASE("a part of a tensor of one to four dims") {
  const Tensor whole = counting({3, 4, 5, 2});
  const Tensor part =
      part_of_box(whole, {{0, 3}, {0, 4}, {0, 5}, {0, 2}}, {{1, 3}, {2, 4}, {0, 4}, {1, 2}});
  CHECK(part.shape() == Shape{2, 2, 4, 1});
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 2; ++j)
      for (int64_t k = 0; k < 4; ++k)
        CHECK(part.item({i, j, k, 0}) ==
              static_cast<double>(((i + 1) * 4 + j + 2) * 10 + k * 2 + 1));
  CHECK(part_of_box(counting({6}), {{10, 16}}, {{12, 15}}).values() ==
        std::vector<double>{2, 3, 4});
}

TEST_CASE("an overlap is copied, and nothing else is written") {
  const Tensor from = counting({2, 3});              // rows 1 to 2, columns 1 to 3 of the whole
  Tensor to = Tensor::full({3, 2}, -1, DType::f64);  // rows 0 to 2, columns 2 to 3
  copy_overlap(from, {{1, 3}, {1, 4}}, to, {{0, 3}, {2, 4}});
  CHECK(to.values() == std::vector<double>{-1, -1, 1, 2, 4, 5});
}

TEST_CASE("what a box has of others, one piece behind the other") {
  const BoxPieces pieces =
      pieces_of({{0, 2}, {0, 3}}, {{{0, 2}, {0, 1}}, {{0, 2}, {1, 4}}}, DType::f64);
  CHECK(pieces.boxes == std::vector<Box>{{{0, 2}, {0, 1}}, {{0, 2}, {1, 3}}});
  CHECK(pieces.counts == std::vector<int64_t>{2, 4});
  double number = 0;
  each_piece(pieces, [&](Tensor piece, const Box& box) {
    CHECK(piece.shape() == shape_of(box));
    piece.fill(++number);
  });
  CHECK(pieces.numbers.values() == std::vector<double>{1, 1, 2, 2, 2, 2});
}

TEST_CASE("rings of pieces of unequal length, empty ones too") {
  for (const int p : {1, 2, 3, 4, 8}) {
    std::vector<int64_t> counts;
    for (int i = 0; i < p; ++i) counts.push_back(i * 3 % 5);
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const auto reports = run_ranks(p, [&](Communicator& world) {
      const auto r = static_cast<size_t>(world.rank());
      const int64_t begin =
          std::accumulate(counts.begin(), counts.begin() + world.rank(), int64_t{0});
      const Tensor whole = counting({all});
      Tensor out = Tensor::zeros({all}, DType::f64);
      all_gather_uneven(world, whole.rows(begin, begin + counts[r]), out, counts);
      CHECK(out.values() == whole.values());
      Tensor mine = Tensor::zeros({counts[r]}, DType::f64);
      reduce_scatter_uneven(world, whole, mine, counts);
      for (int64_t i = 0; i < counts[r]; ++i) CHECK(mine.item({i}) == p * (begin + i));
    });
    for (int r = 0; r < p; ++r) {  // all but the neighbour's piece; all but its own
      const Ledger& ledger = reports[static_cast<size_t>(r)].ledger();
      CHECK(ledger.traffic("all_gather").bytes_sent ==
            8 * (all - counts[static_cast<size_t>((r + 1) % p)]) * (p > 1));
      CHECK(ledger.traffic("reduce_scatter").bytes_sent ==
            8 * (all - counts[static_cast<size_t>(r)]) * (p > 1));
    }
  }
}

TEST_CASE("pieces of one type are not taken for those of another") {
  CHECK(contains(message_of([] {
                   run_ranks(1, [](Communicator& world) {
                     Tensor out = Tensor::zeros({2}, DType::f64);
                     all_gather_uneven(world, Tensor::zeros({2}, DType::f32), out,
                                       std::vector<int64_t>{2});
                   });
                 }),
                 "a collective from f32 to f64"));
}

TEST_CASE("a rank's product, and what cannot be multiplied") {
  const Tensor c = local_matmul(counting({2, 3}), counting({3, 2}));
  CHECK(c.values() == std::vector<double>{10, 13, 28, 40});
  const Tensor f = local_matmul(counting({2, 3}).to(DType::f32), counting({3, 2}).to(DType::f32));
  CHECK(f.values() == c.values());
  CHECK(contains(message_of([] {
                   local_matmul(counting({2, 3}), counting({2, 3}));
                 }),
                 "cannot multiply (2, 3) f64 by (2, 3) f64"));
}
