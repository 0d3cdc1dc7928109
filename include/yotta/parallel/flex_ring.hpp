// Ring attention under any mask: packed documents, windows. Who computes what is no longer a
// triangle, so zig-zag is no longer equal work; the tiles are counted, and dealt out.
//
//     documents of 5, 9 and 2 chunks    tiles of a row    dealt to two ranks
//     p . . . . . . . . . . . . .       1                 a rank takes as many rows as another,
//     f p . . . . . . . . . . . .       2                 so as many tokens: all other layers
//     f f p . . . . . . . . . . .       3                 are equal, too
//     f f f p . . . . . . . . . .       4                 sorted: 9 8 7 6 5 5 4 4 3 3 2 2 2 1 1 1
//     f f f f p . . . . . . . . .       5                 two at a time, the longer one to the
//     . . . . . p . . . . . . . .       1                 rank that has less so far
//     . . . . . f p . . . . . . .       2 ...
//
// A sequence is cut into chunks of a tile: 64 tokens, or fewer where a rank would have less than
// four. Rows of tiles are sorted by their number of tiles that are not empty, and taken cp at a
// time: the longest to the rank that has least so far. After each round the ranks differ by one row
// at most: who had more gets less, so that a difference shrinks or turns round, and a round's own
// differences are less than a row. A rank's chunks stand anywhere in the sequence; its Packing says
// where (nn/positions.hpp), token by token.
//
// The ring is that of ring_attention.hpp. In each step a rank's queries meet another's keys, with
// the tiles of those two (nn/flex_core.hpp). Pairs of ranks that share no document compute nothing.
// So sums are equal, but single steps may not be: where that matters keys and values are gathered
// at once instead (Llama team 2024), or heads are exchanged (ulysses.hpp), which is always equal.
//
// Cost per rank: messages as in ring_attention.hpp; FLOPs by its tiles; the mask is called B T^2
// times to deal, and B T^2 / cp times for the tiles, a microbatch.
// Contract: cp divides T; all ranks of cp have the documents of the whole sequences.
// Letters: B batch, T whole sequence, cp ranks.
// References: Liu et al. (2023), Ring Attention; Brandon et al. (2023), Striped Attention.
#pragma once

#include <algorithm>
#include <numeric>

#include "yotta/nn/flex_core.hpp"
#include "yotta/parallel/context_parallel.hpp"

namespace yotta {

// ---- who has which columns ---------------------------------------------------------------------

// The mask with tiles of which each rank has four or more: a deal of few large ones is not even.
inline MaskOptions in_ring_tiles(MaskOptions options, int64_t T, int ranks) {
  while (options.tile > 1 && options.tile * 4 * ranks > T) options.tile /= 2;
  return options;
}

// The first columns of the chunks of T, and T: for each of `ranks` as many of `tile` columns, and
// at the end a shorter one, if tiles do not divide its share.
inline std::vector<int> chunk_starts(int64_t T, int ranks, int64_t tile) {
  const int64_t each = T / ranks, rest = each % tile, whole = each / tile * ranks;
  std::vector<int> starts;
  for (int64_t i = 0; i <= whole; ++i) starts.push_back(static_cast<int>(i * tile));
  for (int64_t i = 1; rest > 0 && i <= ranks; ++i)
    starts.push_back(static_cast<int>(whole * tile + i * rest));
  return starts;
}

// Tiles that are not empty in each row of chunks of sequence b.
inline std::vector<int64_t> tiles_of_rows(const TextMask& mask, int b,
                                          const std::vector<int>& starts) {
  std::vector<int64_t> work(starts.size() - 1);
  for (size_t i = 0; i < work.size(); ++i)
    for (size_t j = 0; j < work.size(); ++j)
      work[i] += kind_of_tile(mask, b, 0, starts[i], starts[i + 1], starts[j], starts[j + 1]) !=
                 TileKind::empty;
  return work;
}

struct ContextDeal {
  std::vector<std::vector<int32_t>> places;  // of each rank: (B, T/cp), columns of the sequences
  std::vector<int64_t> tiles;                // that each rank computes
};

// Deals the chunks [begin, end) of one sequence, all of a length: owner[i] is chunk i's rank.
inline void deal_chunks(const std::vector<int64_t>& work, size_t begin, size_t end,
                        std::vector<int64_t>& tiles, std::vector<size_t>& owner) {
  std::vector<size_t> chunks(end - begin), ranks(tiles.size());
  std::iota(chunks.begin(), chunks.end(), begin);
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  std::sort(chunks.begin(), chunks.end(),
            [&](size_t a, size_t b) { return std::pair(work[b], a) < std::pair(work[a], b); });
  for (size_t i = 0; i < chunks.size(); ++i) {
    const size_t turn = i % ranks.size();
    if (turn == 0)
      std::sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
        return std::pair(tiles[a], a) < std::pair(tiles[b], b);
      });
    owner[chunks[i]] = ranks[turn];
    tiles[ranks[turn]] += work[chunks[i]];
  }
}

// documents (B, T).
inline ContextDeal deal_context(const MaskOptions& mask_options,
                                const std::vector<int32_t>& documents, int64_t T, int ranks,
                                Where where = Where::current()) {
  const MaskOptions options = in_ring_tiles(mask_options, T, ranks);
  if (T % ranks != 0)
    fail(where, "a sequence of {} tokens cannot be dealt out to {} ranks evenly", T, ranks);
  const std::vector<int32_t> seen = seen_documents(options, documents),
                             positions = positions_in(seen, T);
  const TextMask mask = text_mask(options, seen, positions, T);
  const std::vector<int> starts = chunk_starts(T, ranks, options.tile);
  const size_t chunks = starts.size() - 1,
               whole = static_cast<size_t>(T / ranks / options.tile * ranks);
  const auto all = static_cast<size_t>(ranks);
  ContextDeal deal{std::vector<std::vector<int32_t>>(all), std::vector<int64_t>(all)};
  for (int b = 0; b < std::ssize(documents) / T; ++b) {
    const std::vector<int64_t> work = tiles_of_rows(mask, b, starts);
    std::vector<size_t> owner(chunks);
    deal_chunks(work, 0, whole, deal.tiles, owner);
    deal_chunks(work, whole, chunks, deal.tiles, owner);
    for (size_t i = 0; i < chunks; ++i)
      for (int place = starts[i]; place < starts[i + 1]; ++place)
        deal.places[owner[i]].push_back(place);
  }
  return deal;
}

// What this rank of cp must be told of a microbatch: which columns it has, and where they stand.
inline Packing dealt_packing(const MaskOptions& options, const std::vector<int32_t>& documents,
                             int64_t T, const Communicator& cp, Where where = Where::current()) {
  ContextDeal deal = deal_context(options, documents, T, axis_size(cp), where);
  return packing_of(documents, T, std::move(deal.places[static_cast<size_t>(axis_rank(cp))]));
}

// Columns `places` (B, n) of x (B, T) i32, token ids or targets: (B, n).
inline Tensor columns_at(const Tensor& x, const std::vector<int32_t>& places,
                         Where where = Where::current()) {
  const int64_t B = x.dim(0, where), T = x.dim(1), n = std::ssize(places) / B;
  Tensor columns = Tensor::empty({B, n}, DType::i32, where);
  if (columns.device() == Device::meta) return columns;
  const int32_t* const from = x.data<int32_t>(where);
  for (int64_t i = 0; i < B * n; ++i)
    columns.data<int32_t>()[i] = from[i / n * T + places[static_cast<size_t>(i)]];
  return columns;
}

// ---- attention ---------------------------------------------------------------------------------

// This rank's queries against each rank's keys.
struct RingTiles : MadeOnce {
  MaskOptions options;
  std::vector<std::shared_ptr<const TextTiles>> of_keys;  // by the rank whose keys they are
};

class FlexRingCore : public FlexCore {
 public:
  FlexRingCore(std::string layer, const FlexCore& serial, Communicator cp)
      : FlexCore(serial), layer_(std::move(layer)), cp_(std::move(cp)) {}

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    const Ring ring = this->ring();
    const auto tiles = tiles_of(saved);
    FlashAttention sum;  // step 0 comes first: every query has seen itself
    Pair here = {k, v};
    for (int step = 0; step < ring.ranks; ++step) {
      const bool last = step + 1 == ring.ranks;
      Hop hop;
      if (!last) hop = start_hop(here, ring, keys_tag, Where::current());
      const TextTiles& part = *tiles->of_keys[static_cast<size_t>(ring.source(step))];
      if (count_tiles(part.tiles()) > 0)
        merge(sum, text_attention(q, here[0], here[1], part, slopes_of(q)));
      if (!last) here = hop.arrive();
    }
    sum.o = as_type(sum.o, q.dtype());
    return keep(q, k, v, sum, saved);
  }

  // As ring_attention_backward: k and v go round again, dk and dv follow one step behind.
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const Where where = Where::current();
    const Ring ring = this->ring();
    const auto tiles = tiles_of(saved);
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    const FlashAttention whole = take(saved);
    AttentionGradients own{zero_sums(q), zero_sums(k), zero_sums(v)};
    Pair here = {k, v};
    Hop gradients;
    for (int step = 0; step < ring.ranks; ++step) {
      const bool last = step + 1 == ring.ranks;
      Hop hop;
      if (!last) hop = start_hop(here, ring, keys_tag, where);
      Pair part = {own.dk, own.dv};
      if (step > 0) part = {zero_sums(k), zero_sums(v)};
      AttentionGradients found{own.dq, part[0], part[1]};
      const TextTiles& seen = *tiles->of_keys[static_cast<size_t>(ring.source(step))];
      if (count_tiles(seen.tiles()) > 0)
        text_attention_backward(dout, q, here[0], here[1], whole, seen, slopes_of(q), found);
      if (!last) here = hop.arrive(where);
      if (step > 1) add_pair(part, gradients.arrive(where));
      if (step > 0) gradients = start_hop(as_type(part, k.dtype()), ring, gradients_tag, where);
    }
    Pair home = {own.dk, own.dv};
    if (ring.ranks > 1) add_pair(home, gradients.arrive(where));
    return rounded(std::move(own), q.dtype());
  }

 private:
  Ring ring() const {
    return {cp_, axis_size(cp_), axis_rank(cp_), 0,
            ChunkOrder::contiguous};  // no chunks of its own
  }

  // Made by the first layer of a microbatch.
  std::shared_ptr<const RingTiles> tiles_of(const Saved& saved) const {
    const Packing* const packing = saved.position().positions.packing;
    if (packing == nullptr)
      fail(Where::current(),
           "{}: ring attention under a mask needs to know each token's place: give its "
           "BatchPosition the Packing that dealt_packing makes",
           layer_);
    auto made = std::dynamic_pointer_cast<const RingTiles>(packing->made);
    if (made != nullptr && made->options == options()) return made;
    const auto fresh = std::make_shared<RingTiles>();
    fresh->options = options();
    const ContextDeal deal =
        deal_context(options(), packing->documents, packing->T, axis_size(cp_));
    if (deal.places[static_cast<size_t>(axis_rank(cp_))] != packing->places)
      fail(Where::current(),
           "{}: the microbatch has other columns than those that are dealt to "
           "rank {} of {}: cut it by dealt_packing and columns_at",
           layer_, axis_rank(cp_), axis_size(cp_));
    const MaskOptions mask = in_ring_tiles(options(), packing->T, axis_size(cp_));
    for (const std::vector<int32_t>& keys : deal.places)
      fresh->of_keys.push_back(std::make_shared<TextTiles>(
          mask, packing->documents, packing->T, packing->places, keys, Where::current()));
    packing->made = fresh;
    return fresh;
  }

  std::string layer_;
  Communicator cp_;
};

// In every block of a model, or a slice, with flex attention.
inline void flex_ring(Transformer& model, const Communicator& cp) {
  for (Block* block : model.blocks()) {
    Attention& attention = block->attention;
    attention.core = std::make_unique<FlexRingCore>(attention.name(), flex_core(attention), cp);
  }
}

}  // namespace yotta
