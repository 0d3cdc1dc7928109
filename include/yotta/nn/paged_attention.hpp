// Paged attention: keys and values of many sequences in one store, in pages, as an operating system
// keeps memory. A server does not know how long an answer will be. With a row of the longest length
// for each sequence most of the memory stays empty; with pages each sequence wastes less than one.
//
//     store    page  0     1     2     3     4     5         page table, by position
//                  [a0 ] [b0 ] [a1 ] [c0 ] [   ] [a2 ]       a: 0 2 5     b: 1     c: 3
//
//     a decode step, one query each     a  [ x     x        x ]   tiles of one query by one page;
//                                       b  [    x           ]     what is not one's own is empty
//                                       c  [          x     ]
//
// Attention needs no kernel of its own for this. A key's index is a place in the store; mask and
// score_mod want a position in the sequence. PagedMask and PagedScoreMod look it up, and call the
// ones that are given. Tiles of others' pages are empty, so they are never read.
//
// Cost of a step: for sequence b ceil(length_b / page) tiles, of 4 d page FLOPs and 2 d page
// numbers for each head; not B times the longest.
// Contract: queries are the last Tq positions of each sequence, keys and values those positions'
// too, appended before. Forward only.
// Letters: B sequences, Tq queries of each, Hkv key heads, d numbers per head.
// References: Kwon et al. (2023), PagedAttention (vLLM); PyTorch's flex_attention, PagedAttention.
#pragma once

#include <numeric>

#include "yotta/nn/flex_attention.hpp"

namespace yotta {

// The way back from a page of the store to a position; also for kernels. Pointers are not owned.
struct PageLookup {
  const int* logical;  // (B, pages): which of sequence b's own pages this one is; -1: none
  const int* length;   // (B)
  int pages, page, queries;

  // Of slot `kv` of the store in sequence b; -1: not its own, or not written yet.
  YOTTA_HOST_DEVICE int position(int b, int kv) const {
    const int own = logical[b * pages + kv / page];
    const int at = own * page + kv % page;
    return own < 0 || at >= length[b] ? -1 : at;
  }
  YOTTA_HOST_DEVICE int query(int b, int q) const { return length[b] - queries + q; }
};

template <class Mask>
struct PagedMask {
  PageLookup at;
  Mask mask;
  YOTTA_HOST_DEVICE bool operator()(int b, int h, int q, int kv) const {
    const int position = at.position(b, kv);
    return position >= 0 && mask(b, h, at.query(b, q), position);
  }
};
template <class ScoreMod>
struct PagedScoreMod {
  static constexpr int reads = captured_reads<ScoreMod>();
  PageLookup at;
  ScoreMod score_mod;
  template <class Score>
  YOTTA_HOST_DEVICE Score operator()(Score score, int b, int h, int q, int kv) const {
    return score_mod(score, b, h, at.query(b, q), at.position(b, kv));
  }
};

// The store, and who holds which page.
class PagedCache {
 public:
  Tensor k, v;  // (1, pages page, Hkv, d)

  PagedCache(int sequences, int pages, int page, int64_t heads, int64_t d, DType dtype = DType::f32)
      : k(Tensor::zeros({1, int64_t{pages} * page, heads, d}, dtype)),
        v(Tensor::zeros(k.shape(), dtype)),
        page_(page),
        held_(sequences),
        logical_(sequences * pages, -1),
        length_(sequences, 0),
        free_(pages) {
    std::iota(free_.rbegin(), free_.rend(), 0);  // page 0 is given out first
  }

  int sequences() const { return static_cast<int>(held_.size()); }
  int pages() const { return static_cast<int>(logical_.size() / held_.size()); }
  int page() const { return page_; }
  int length(int b) const { return length_[b]; }
  int free_pages() const { return static_cast<int>(free_.size()); }
  const std::vector<int>& held(int b) const { return held_[b]; }

  // The next keys and values of sequence b: each (n, Hkv, d).
  void append(int b, const Tensor& keys, const Tensor& values, Where where = Where::current()) {
    expect_same("append", "keys", keys, "values", values, where);
    if (keys.dtype() != k.dtype() || keys.ndim() != 3 || keys.dim(1) != k.dim(2) ||
        keys.dim(2) != k.dim(3))
      fail(where, "append: keys are {}; the store is {}, so (n, {}, {}) are expected",
           keys.describe(), k.describe(), k.dim(2), k.dim(3));
    for (int64_t i = 0; i < keys.dim(0); ++i) {
      if (length_[b] % page_ == 0) take_page(b, where);
      const int slot = held_[b].back() * page_ + length_[b] % page_;
      in_slot(k, slot).copy_from(keys.rows(i, i + 1));
      in_slot(v, slot).copy_from(values.rows(i, i + 1));
      ++length_[b];
    }
  }
  // Sequence b has ended: its pages are free again.
  void release(int b) {
    for (const int each : held_[b]) {
      logical_[b * pages() + each] = -1;
      free_.push_back(each);
    }
    held_[b].clear();
    length_[b] = 0;
  }

  // Valid until the next append or release.
  PageLookup lookup(int queries) const {
    return {logical_.data(), length_.data(), pages(), page_, queries};
  }

 private:
  static Tensor in_slot(const Tensor& store, int slot) {  // (1, Hkv, d), a view
    return store.reshape({store.dim(1), store.dim(2), store.dim(3)}).rows(slot, slot + 1);
  }
  void take_page(int b, Where where) {
    if (free_.empty())
      fail(where,
           "append: sequence {} needs a page and all {} are held; release a sequence, or make the "
           "store larger",
           b, pages());
    logical_[b * pages() + free_.back()] = static_cast<int>(held_[b].size());
    held_[b].push_back(free_.back());
    free_.pop_back();
  }
  int page_;
  std::vector<std::vector<int>> held_;  // the pages of each sequence, in order
  std::vector<int> logical_, length_;   // as in PageLookup
  std::vector<int> free_;
};

// Tiles of all Tq queries by one page. Only pages that a sequence holds are looked at, so this
// costs as much as the step's masks do, not as much as the store.
template <class Mask>
BlockMask<PagedMask<Mask>> paged_block_mask(const PagedCache& cache, const Mask& mask, int queries,
                                            Where where = Where::current()) {
  if (queries < 1 || std::max(queries, cache.page()) > largest_tile)
    fail(where, "paged_block_mask: {} queries, pages of {}; 1 to {} are possible", queries,
         cache.page(), largest_tile);
  const PagedMask<Mask> paged{cache.lookup(queries), mask};
  const int B = cache.sequences(), keys = cache.pages() * cache.page();
  BlockMask<PagedMask<Mask>> tiles{{B, 1, queries, keys, queries, cache.page(), {{0}, {}, {}}, {}},
                                   paged};
  for (int b = 0; b < B; ++b) {
    std::vector<int> own = cache.held(b);
    std::sort(own.begin(), own.end());
    for (const int page : own) {
      const TileKind kind =
          kind_of_tile(paged, b, 0, 0, queries, page * cache.page(), (page + 1) * cache.page());
      if (kind == TileKind::empty) continue;
      tiles.by_row.at.push_back(page);
      tiles.by_row.kind.push_back(kind);
    }
    tiles.by_row.first.push_back(static_cast<int>(tiles.by_row.at.size()));
  }
  tiles.by_column = tiles_by_column(tiles.by_row, B, 1, cache.pages());
  return tiles;
}

// o (B, Tq, H, d) and L (B, H, Tq) of the last Tq positions of every sequence, q (B, Tq, H, d).
template <class ScoreMod, class Mask>
FlashAttention paged_attention(const Tensor& q, const PagedCache& cache, const ScoreMod& score_mod,
                               const Mask& mask, Where where = Where::current()) {
  const int queries = static_cast<int>(q.dim(1, where));
  const auto tiles = paged_block_mask(cache, mask, queries, where);
  if constexpr (std::is_same_v<ScoreMod, NoScoreMod>)
    return flex_attention(q, cache.k, cache.v, score_mod, tiles, where);
  else
    return flex_attention(q, cache.k, cache.v,
                          PagedScoreMod<ScoreMod>{cache.lookup(queries), score_mod}, tiles, where);
}

// ---- cost ----
// Pages of sequences of these lengths; and slots, used or not, if each had a row of the longest.
inline int64_t pages_held(std::span<const int> lengths, int page) {
  int64_t pages = 0;
  for (const int each : lengths) pages += (each + page - 1) / page;
  return pages;
}
inline int64_t padded_slots(std::span<const int> lengths) {
  int longest = 0;
  for (const int each : lengths) longest = std::max(longest, each);
  return static_cast<int64_t>(lengths.size()) * longest;
}

}  // namespace yotta
