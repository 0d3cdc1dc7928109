#include "yotta/nn/paged_attention.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
constexpr int64_t H = 4, Hkv = 2, d = 4;

// Texts of their own, in turn a token of each, so that their pages are mixed.
struct Texts {
  std::vector<Tensor> k, v;  // (length, Hkv, d)
  PagedCache cache;
  Texts(std::vector<int> lengths, int pages, int page)
      : cache(static_cast<int>(lengths.size()), pages, page, Hkv, d, DType::f64) {
    for (size_t b = 0; b < lengths.size(); ++b) {
      k.push_back(random_tensor({lengths[b], Hkv, d}, "k" + std::to_string(b)));
      v.push_back(random_tensor({lengths[b], Hkv, d}, "v" + std::to_string(b)));
    }
    for (int t = 0; t < *std::max_element(lengths.begin(), lengths.end()); ++t)
      for (size_t b = 0; b < lengths.size(); ++b)
        if (t < lengths[b])
          cache.append(static_cast<int>(b), k[b].rows(t, t + 1), v[b].rows(t, t + 1));
  }
};
// Each text's last `queries` positions by themselves, from its own keys in a row.
template <class ScoreMod, class Mask>
void check_alone(const Texts& texts, int queries, const ScoreMod& score_mod, const Mask& mask) {
  const int64_t B = texts.cache.sequences();
  const Tensor q = random_tensor({B, queries, H, d}, "q");
  const auto out = paged_attention(q, texts.cache, score_mod, mask);
  for (int b = 0; b < B; ++b) {
    const int length = texts.cache.length(b), first = length - queries;
    const auto moved_mask = [&](int, int h, int t, int kv) { return mask(b, h, first + t, kv); };
    const auto moved_score = [&](auto s, int, int h, int t, int kv) {
      return score_mod(s, b, h, first + t, kv);
    };
    const auto keys = [&](const Tensor& x) { return x.reshape({1, length, Hkv, d}); };
    const auto alone = flex_attention_dense(q.rows(b, b + 1), keys(texts.k[b]), keys(texts.v[b]),
                                            moved_score, moved_mask);
    CHECK(largest_difference(out.o.rows(b, b + 1), alone.o) <= 1e-13);
    CHECK(largest_difference(out.log_sum_exp.rows(b, b + 1), alone.log_sum_exp) <= 1e-13);
  }
}
}  // namespace

TEST_CASE("decoding with mixed lengths from pages equals each text by itself") {
  const Texts texts({9, 1, 4, 14}, 12, 4);
  CHECK(texts.cache.held(0) == std::vector<int>{0, 4, 6});
  const std::vector<double> slopes = {0.5, 0.25, 0.125, 1};
  check_alone(texts, 1, NoScoreMod{}, Causal{});
  check_alone(texts, 1, NoScoreMod{}, NoMask{});  // the store's unwritten slots stay hidden
  check_alone(texts, 1, Alibi<double>{{slopes.data()}}, SlidingWindow{5});
}

TEST_CASE("several queries at once: a prompt's tail, or tokens to verify") {
  const Texts texts({9, 6, 5}, 8, 4);
  check_alone(texts, 5, NoScoreMod{}, Causal{});
}

TEST_CASE("a step reads its own pages, and a window fewer") {
  const Texts texts({9, 1, 4, 14}, 12, 4);
  const auto tiles = paged_block_mask(texts.cache, Causal{}, 1);
  CHECK(count_tiles(tiles) == pages_held(std::vector{9, 1, 4, 14}, 4));
  CHECK(count_tiles(tiles) == 3 + 1 + 1 + 4);
  CHECK(padded_slots(std::vector{9, 1, 4, 14}) == 4 * 14);
  CHECK(count_tiles(paged_block_mask(texts.cache, SlidingWindow{2}, 1)) == 2 + 1 + 1 + 1);

  RankContext self;
  const ContextScope scope(self);
  const Tensor q = random_tensor({4, 1, H, d}, "q");
  paged_attention(q, texts.cache, NoScoreMod{}, Causal{});
  CHECK(self.ledger.op("flex_attention").flops == 4 * d * H * 9 * 4);
  // The mask made from the store by its definition has the same tiles.
  const auto slow = create_block_mask(PagedMask<Causal>{texts.cache.lookup(1), {}},
                                      {.B = 4, .queries = 1, .keys = 48, .BQ = 1, .BK = 4});
  CHECK(slow.by_row.at == tiles.by_row.at);
  CHECK(slow.by_row.kind == tiles.by_row.kind);
  CHECK(slow.by_column.at == tiles.by_column.at);
}

TEST_CASE("pages are given back, and given out again") {
  Texts texts({9, 4}, 4, 4);
  const Tensor k = random_tensor({5, Hkv, d}, "more");
  CHECK(contains(message_of([&] { texts.cache.append(1, k, k); }),
                 "sequence 1 needs a page and all 4 are held"));
  texts.cache.release(0);
  CHECK(texts.cache.free_pages() == 3);
  CHECK(texts.cache.length(0) == 0);
  texts.cache.append(0, k, k);
  texts.k[0] = texts.v[0] = k;
  check_alone(texts, 2, NoScoreMod{}, Causal{});
}

TEST_CASE("what does not fit the store is refused") {
  PagedCache cache(1, 2, 4, Hkv, d);
  const Tensor wrong = Tensor::zeros({1, Hkv, d + 1});
  CHECK(contains(message_of([&] { cache.append(0, wrong, wrong); }), "so (n, 2, 4) are expected"));
  CHECK(contains(message_of([&] { paged_block_mask(cache, Causal{}, 0); }), "0 queries"));
}
