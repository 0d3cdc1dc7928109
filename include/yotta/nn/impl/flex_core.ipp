// The bodies of nn/flex_core.hpp.
#pragma once

#include "yotta/nn/flex_core.hpp"

#include <numeric>

#include "yotta/nn/flex_attention.hpp"

namespace yotta {

namespace detail {

// ALiBi with slopes that are not trained, of columns at any places.
struct PlacedAlibi {
  const TextTiles& tiles;
  const float* slopes;  // (H)
  template <class Score>
  Score operator()(Score score, int b, int h, int q, int kv) const {
    return score - Score(slopes[h]) * Score(tiles.query(b, q) - tiles.key(b, kv));
  }
};

// Calls run(score_mod).
template <class Run>
void with_score_mod(const TextTiles& tiles, const std::vector<float>& slopes, Run run) {
  if (slopes.empty())
    run(NoScoreMod{});
  else
    run(PlacedAlibi{tiles, slopes.data()});
}

inline std::vector<int32_t> counted_up(int64_t n) {
  std::vector<int32_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace detail

YOTTA_INLINE TextTiles::TextTiles(const MaskOptions& options, std::vector<int32_t> documents,
                                  int64_t T, std::vector<int32_t> queries,
                                  std::vector<int32_t> keys, Where where)
    : options_(checked(options, where)),
      documents_(seen_documents(options, std::move(documents))),
      positions_(positions_in(documents_, T)),
      queries_(std::move(queries)),
      keys_(std::move(keys)) {
  const int64_t B = std::ssize(documents_) / T;
  const int tile = static_cast<int>(options.tile);
  const int Tq = static_cast<int>(std::ssize(queries_) / B),
            Tk = static_cast<int>(std::ssize(keys_) / B);
  const AtPlaces<TextMask> mask{
      text_mask(options, documents_, positions_, T), queries_.data(), keys_.data(), Tq, Tk, B == 1};
  tiles_ = create_block_mask(
      mask, {.B = static_cast<int>(B), .H = 1, .queries = Tq, .keys = Tk, .BQ = tile, .BK = tile},
      where);
}

YOTTA_INLINE std::shared_ptr<const TextTiles> whole_tiles(const MaskOptions& options,
                                                          const std::vector<int32_t>& documents,
                                                          int64_t T, Where where) {
  const int64_t B = std::max<int64_t>(1, std::ssize(documents) / T);
  std::vector<int32_t> places;
  for (int64_t b = 0; b < B; ++b) {
    const std::vector<int32_t> row = detail::counted_up(T);
    places.insert(places.end(), row.begin(), row.end());
  }
  return std::make_shared<TextTiles>(
      options, documents.empty() ? std::vector<int32_t>(static_cast<size_t>(T)) : documents, T,
      places, places, where);
}

YOTTA_INLINE std::vector<float> alibi_slopes(const MaskOptions& options, int64_t first,
                                             int64_t count, int64_t heads) {
  std::vector<float> slopes;
  for (int64_t h = first; options.alibi && h < first + count; ++h)
    slopes.push_back(static_cast<float>(alibi_slope(static_cast<int>(h), static_cast<int>(heads))));
  return slopes;
}

YOTTA_INLINE FlashAttention text_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const TextTiles& tiles, const std::vector<float>& slopes,
                                           Where where) {
  FlashAttention out;
  detail::with_score_mod(tiles, slopes, [&](const auto& score_mod) {
    out = flex_attention_part(q, k, v, score_mod, tiles.tiles(), where);
  });
  return out;
}

YOTTA_INLINE void text_attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                          const Tensor& v, const FlashAttention& saved,
                                          const TextTiles& tiles, const std::vector<float>& slopes,
                                          AttentionGradients& d, Where where) {
  Tensor none = Tensor::zeros({0}, DType::f64, where);
  detail::with_score_mod(tiles, slopes, [&](const auto& score_mod) {
    flex_attention_part_backward(dout, q, k, v, saved, score_mod, tiles.tiles(), d, none, where);
  });
}

YOTTA_INLINE std::shared_ptr<const TextTiles> FlexCore::tiles_of(const Tensor& q,
                                                                 const Saved& saved) {
  const int64_t B = q.dim(0), T = q.dim(1);
  const Packing* const packing = saved.position().positions.packing;
  if (packing == nullptr || !options_.document) {
    if (usual_ == nullptr || usual_->tiles().queries != T) usual_ = whole_tiles(options_, {}, T);
    return usual_;
  }
  if (packing->T != T || packing->sequences() != B)
    fail(Where::current(),
         "attention: q is {}, but the packing is of {} sequences of {} tokens; give each "
         "microbatch its own",
         q.describe(), packing->sequences(), packing->T);
  auto made = std::dynamic_pointer_cast<const TextTiles>(packing->made);
  if (made == nullptr || made->options() != options_) {
    made = whole_tiles(options_, packing->documents, T);
    packing->made = made;
  }
  return made;
}

YOTTA_INLINE Tensor FlexCore::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                      Saved& saved) {
  FlashAttention out = text_attention(q, k, v, *tiles_of(q, saved), slopes_of(q));
  out.o = as_type(out.o, q.dtype());
  return keep(q, k, v, out, saved);
}

YOTTA_INLINE AttentionGradients FlexCore::backward(const Tensor& dout, Saved& saved) {
  const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
  AttentionGradients d{zero_sums(q), zero_sums(k), zero_sums(v)};
  text_attention_backward(dout, q, k, v, take(saved), *tiles_of(q, saved), slopes_of(q), d);
  return rounded(std::move(d), q.dtype());
}

}  // namespace yotta
