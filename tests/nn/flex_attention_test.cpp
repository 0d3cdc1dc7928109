#include "yotta/nn/flex_attention.hpp"

#include <doctest/doctest.h>

#include "nn/attention_inputs.hpp"
#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

MaskSizes sizes(const Inputs& x, int BQ, int BK, int B = 1, int H = 1) {
  return {B, H, static_cast<int>(x.q.dim(1)), static_cast<int>(x.k.dim(1)), BQ, BK};
}

// Forward against the dense reference, and every gradient against finite differences. captured:
// the numbers (f64) that score_mod reads.
template <class ScoreMod, class Mask>
void check_variant(const ScoreMod& score_mod, const Mask& mask, Tensor captured = {}) {
  Inputs x = inputs(2, 8, 2, 1, 2);
  const auto tiles = create_block_mask(mask, sizes(x, 3, 2, 2, 2));
  const auto out = flex_attention(x.q, x.k, x.v, score_mod, tiles);
  const auto dense = flex_attention_dense(x.q, x.k, x.v, score_mod, mask);
  CHECK(largest_difference(out.o, dense.o) <= 1e-13);
  CHECK(largest_difference(out.log_sum_exp, dense.log_sum_exp) <= 1e-13);

  const FlexGradients d = flex_attention_backward(x.dout, x.q, x.k, x.v, out, score_mod, tiles,
                                                  captured.defined() ? captured.numel() : 0);
  const auto loss = [&] { return dot(flex_attention(x.q, x.k, x.v, score_mod, tiles).o, x.dout); };
  CHECK(gradient_mismatch(x.q, d.dq, loss) == "");
  CHECK(gradient_mismatch(x.k, d.dk, loss) == "");
  CHECK(gradient_mismatch(x.v, d.dv, loss) == "");
  if (captured.defined())
    CHECK(gradient_mismatch(captured, d.dcaptured.reshape(captured.shape()), loss) == "");
}

constexpr int documents[] = {0, 0, 0, 1, 1, 2, 2, 2, /* b = 1 */ 0, 1, 1, 1, 1, 1, 2, 3};

// Reads two captured numbers for a score, and speaks of one.
struct Greedy : ScoreModsInTurn<Alibi<double>, Alibi<double>> {
  static constexpr int reads = 1;
};

}  // namespace

TEST_CASE("masks: o, L, dq, dk and dv") {
  SUBCASE("none") { check_variant(NoScoreMod{}, NoMask{}); }
  SUBCASE("causal") { check_variant(NoScoreMod{}, Causal{}); }
  SUBCASE("window") { check_variant(NoScoreMod{}, SlidingWindow{3}); }
  SUBCASE("documents") {
    check_variant(NoScoreMod{}, and_masks(Causal{}, SameDocument{documents, 8}));
  }
  SUBCASE("prefix") { check_variant(NoScoreMod{}, PrefixLm{3}); }
  SUBCASE("neighbourhood") { check_variant(NoScoreMod{}, Neighbourhood{4, 1}); }
  SUBCASE("tree") {
    const int last[] = {7, 3, 2, 3, 7, 6, 6, 7};
    check_variant(NoScoreMod{}, TreePath{last});
  }
}

TEST_CASE("score modifiers: also the gradients of what they capture") {
  SUBCASE("ALiBi") {
    const Tensor slopes = Tensor::from<double>({0.3, 0.1}, {2});
    check_variant(Alibi<double>{{slopes.data<double>()}}, Causal{}, slopes);
  }
  SUBCASE("soft cap") {
    const Tensor cap = Tensor::from<double>({0.8}, {1});
    check_variant(SoftCap<double>{{cap.data<double>()}}, Causal{}, cap);
  }
  SUBCASE("relative positions, of which not all occur") {
    const Tensor table = random_tensor({2, 7}, "table");
    check_variant(RelativePositions<double>{{table.data<double>()}, 3}, SlidingWindow{4}, table);
  }
  SUBCASE("two in turn, under a mask of documents") {
    const Tensor both = Tensor::from<double>({0.3, 0.1, 0.8}, {3});
    const double* at = both.data<double>();
    check_variant(in_turn(Alibi<double>{{at}}, SoftCap<double>{{at + 2, 2}}),
                  SameDocument{documents, 8}, both);
  }
  SUBCASE("a lambda, without captured numbers") {
    check_variant([](auto s, int b, int h, int q,
                     int kv) { return s * s / decltype(s)(1 + b + h) - decltype(s)(q - kv); },
                  Causal{});
  }
}

TEST_CASE(
    "causal is plain attention's: lengths that no tile divides, widths, types, large scores") {
  for (const int64_t T : {1, 63, 64, 65, 300})
    for (const int64_t d : {8, 33}) {
      const Inputs x = inputs(1, T, 2, 1, d);
      const auto tiles = create_block_mask(Causal{}, sizes(x, 64, 64));
      const auto out = flex_attention(x.q, x.k, x.v, NoScoreMod{}, tiles);
      const PlainAttention plain = attention_plain(x.q, x.k, x.v);
      CHECK_MESSAGE(largest_difference(out.o, plain.o) <= 1e-12, T);
      const auto expected = attention_plain_backward(x.dout, x.q, x.k, x.v, plain);
      const auto d_ = flex_attention_backward(x.dout, x.q, x.k, x.v, out, NoScoreMod{}, tiles);
      CHECK(largest_difference(d_.dq, expected.dq) <= 1e-12);
      CHECK(largest_difference(d_.dk, expected.dk) <= 1e-12);
      CHECK(largest_difference(d_.dv, expected.dv) <= 1e-12);
    }
  for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 3e-5}, {DType::bf16, 4e-2}}) {
    const Inputs x = inputs(2, 130, 4, 2, 16, dtype);
    const auto tiles = create_block_mask(Causal{}, sizes(x, 64, 32));
    const auto out = flex_attention(x.q, x.k, x.v, NoScoreMod{}, tiles);
    const auto plain = attention_plain(x.q, x.k, x.v);
    CHECK(out.o.dtype() == dtype);
    CHECK(largest_difference(out.o, plain.o) <= tolerance);
    CHECK(largest_difference(
              flex_attention_backward(x.dout, x.q, x.k, x.v, out, NoScoreMod{}, tiles).dk,
              attention_plain_backward(x.dout, x.q, x.k, x.v, plain).dk) <= tolerance);
  }
  Inputs x = inputs(1, 200, 1, 1, 8, DType::f32);
  for (float& each : x.q.span<float>()) each *= 1e4f;
  const auto tiles = create_block_mask(Causal{}, sizes(x, 64, 64));
  CHECK(largest_difference(flex_attention(x.q, x.k, x.v, NoScoreMod{}, tiles).o,
                           attention_plain(x.q, x.k, x.v).o) <= 1e-4);
}

TEST_CASE("queries that see no key have o = 0, L = -infinity, and no gradient") {
  const Inputs x = inputs(1, 9, 1, 1, 4);
  const auto mask = [](int, int, int q, int kv) { return q >= 5 && kv >= 2; };
  const auto tiles =
      create_block_mask(mask, sizes(x, 4, 4));  // row 1 is partial: query 4 is hidden
  const auto out = flex_attention(x.q, x.k, x.v, NoScoreMod{}, tiles);
  const auto d = flex_attention_backward(x.dout, x.q, x.k, x.v, out, NoScoreMod{}, tiles);
  for (const int64_t t : {0, 4}) {
    CHECK(out.o.item({0, t, 0, 1}) == 0);
    CHECK(out.log_sum_exp.item({0, 0, t}) == -INFINITY);
    CHECK(d.dq.item({0, t, 0, 1}) == 0);
  }
  CHECK(d.dk.item({0, 1, 0, 0}) == 0);
  CHECK(std::isfinite(d.dv.item({0, 2, 0, 0})));
  CHECK(largest_difference(out.o, flex_attention_dense(x.q, x.k, x.v, NoScoreMod{}, mask).o) <=
        1e-13);
}

TEST_CASE("work is that of tiles that are not empty, and partial ones alone ask the mask") {
  const Inputs x = inputs(1, 100, 2, 1, 4, DType::f32);
  int64_t asked = 0, scored = 0;
  const auto mask = [&](int b, int h, int q, int kv) {
    ++asked;
    return SlidingWindow{20}(b, h, q, kv);
  };
  const auto score_mod = [&](auto score, int, int, int, int) {
    ++scored;
    return score;
  };
  const auto tiles = create_block_mask(mask, sizes(x, 16, 16));
  CHECK(asked == 100 * 100);
  asked = 0;
  RankContext self;
  self.threads = 1;
  const ContextScope scope(self);
  const auto out = flex_attention(x.q, x.k, x.v, score_mod, tiles);
  const int64_t scores = 2 * computed_scores(tiles);
  CHECK(scored == scores);
  int64_t partial = 0;  // scores in partial tiles, of which the last ones are 4 wide
  for (size_t i = 0, row = 0; i < tiles.by_row.at.size(); ++i) {
    while (tiles.by_row.first[row + 1] <= static_cast<int>(i)) ++row;
    if (tiles.by_row.kind[i] == TileKind::partial)
      partial += std::min<int64_t>(16, 100 - 16 * static_cast<int64_t>(row)) *
                 std::min(16, 100 - 16 * tiles.by_row.at[i]);
  }
  CHECK(asked == 2 * partial);
  CHECK(partial < computed_scores(tiles));
  asked = scored = 0;
  flex_attention_backward(x.dout, x.q, x.k, x.v, out, score_mod, tiles);
  CHECK(asked == 2 * partial);
  CHECK(scored == 2 * scores);  // the score itself, and its derivative

  CHECK(self.ledger.op("flex_attention").flops == static_cast<double>(4 * 4 * scores));
  CHECK(self.ledger.op("flex_attention_backward").flops == static_cast<double>(10 * 4 * scores));
  int64_t keys = 0;
  for (const int column : tiles.by_row.at) keys += column == 6 ? 4 : 16;
  CHECK(self.ledger.op("flex_attention").bytes_read ==
        static_cast<double>(4 * 4 * (2 * 100 + 2 * 2 * keys)));
}

TEST_CASE("a NaN among the keys reaches those queries that see it, and no others") {
  Inputs x = inputs(1, 12, 1, 1, 4);
  x.k.span<double>()[6 * 4] = NAN;
  const auto tiles = create_block_mask(SlidingWindow{3}, sizes(x, 4, 4));
  const Tensor o = flex_attention(x.q, x.k, x.v, NoScoreMod{}, tiles).o;
  for (int64_t t = 0; t < 12; ++t)
    CHECK_MESSAGE(std::isnan(o.item({0, t, 0, 0})) == (t >= 6 && t < 9), t);
}

TEST_CASE("flex attention: errors, meta and threads") {
  const Inputs x = inputs(2, 40, 4, 2, 8, DType::f32);
  const auto tiles = create_block_mask(Causal{}, sizes(x, 16, 16));
  const auto wrong = create_block_mask(Causal{}, {.queries = 40, .keys = 41});
  const auto run = [&](const auto& score_mod, const auto& mask) {
    return flex_attention(x.q, x.k, x.v, score_mod, mask);
  };
  CHECK(contains(message_of([&] { run(NoScoreMod{}, wrong); }),
                 "the block mask is for B 1, H 1, 40 queries and 41 keys, but q is (2, 40, 4, 8)"));
  CHECK(contains(message_of([&] { flex_attention(x.q, x.k, x.q, NoScoreMod{}, tiles); }),
                 "flex_attention: k is (2, 40, 2, 8) f32 and v is (2, 40, 4, 8) f32"));

  const std::vector<double> slopes = {1, 2, 3, 4};
  const Greedy greedy{{{{slopes.data()}}, {{slopes.data(), 4}}}};
  const auto out = run(greedy, tiles);
  CHECK(contains(
      message_of([&] { flex_attention_backward(x.dout, x.q, x.k, x.v, out, greedy, tiles, 8); }),
      "depends on more captured numbers than score_mod says, which are 1"));

  const Alibi<double> alibi{{slopes.data()}};
  const auto gradients = [&] {
    return flex_attention_backward(x.dout, x.q, x.k, x.v, run(alibi, tiles), alibi, tiles, 4);
  };
  CHECK(same_for_all_threads([&] { return run(alibi, tiles).o; }));
  CHECK(same_for_all_threads([&] { return gradients().dk; }));
  CHECK(same_for_all_threads([&] { return gradients().dcaptured; }));

  const DeviceScope meta(Device::meta);
  const Tensor m = Tensor::empty({2, 40, 4, 8}), n = Tensor::empty({2, 40, 2, 8});
  const auto shapes = flex_attention(m, n, n, NoScoreMod{}, tiles);
  CHECK(shapes.log_sum_exp.shape() == Shape{2, 4, 40});
  CHECK(flex_attention_backward(m, m, n, n, shapes, NoScoreMod{}, tiles).dv.shape() ==
        Shape{2, 40, 2, 8});
}
