// Flex core: lesson 08's attention in a transformer. Its mask is put together from options
// (mask_options.hpp) out of the functions of attention_mods.hpp:
//
//     and_masks(or_masks(SlidingWindow, FirstKeys), SameDocument)
//
// With a window as long as the sequence that is causal, with a prefix of 0 there are no first keys,
// and with one document all are in it: so one mask, compiled once, stands for every combination.
//
//     columns of this rank   0   1   2   3          the mask is asked for places in the sequence:
//     places                 0   1   6   7          AtPlaces looks them up, as a page table would
//
// The tiles of a mask are made once. Without documents they are those of every batch. Packed
// sequences have tiles of their own, which the first layer makes and all layers and heads use: they
// are kept with the microbatch (Packing, nn/positions.hpp).
//
// Cost: that of the tiles that are not empty (flex_attention.hpp); and to make the tiles of packed
// sequences, B T^2 calls of the mask a microbatch: a layer has 4 H d times as many FLOPs.
// Contract: CPU; Packing is that of q's B sequences. No dropout of probabilities.
// Letters: B batch, T sequence, H query heads, d numbers per head, L log-sum-exp.
#pragma once

#include "yotta/nn/attention_core.hpp"
#include "yotta/nn/block_mask.hpp"
#include "yotta/nn/mask_options.hpp"

namespace yotta {

// The first `prefix` keys of each document are seen by all of it.
struct FirstKeys {
  const int* position = nullptr;  // (B, T): of each key in its document
  int T = 0, prefix = 0;
  bool operator()(int b, int, int, int kv) const { return position[b * T + kv] < prefix; }
};

// A mask of places in the sequence, asked by columns that may be any of them.
template <class Mask>
struct AtPlaces {
  Mask mask;
  const int *queries, *keys;  // (B, Tq), (B, Tk): places
  int Tq, Tk;
  bool one_for_all;  // sequences share them: B = 1
  bool operator()(int b, int h, int q, int kv) const {
    const int s = one_for_all ? 0 : b;
    return mask(s, h, queries[s * Tq + q], keys[s * Tk + kv]);
  }
};

// The mask of whole sequences; documents (B, T), as seen_documents says, and positions in them.
using TextMask = BothMasks<EitherMask<SlidingWindow, FirstKeys>, SameDocument>;
inline TextMask text_mask(const MaskOptions& options, const std::vector<int32_t>& documents,
                          const std::vector<int32_t>& positions, int64_t T) {
  const int length = static_cast<int>(T);
  const SlidingWindow window{options.window > 0 ? static_cast<int>(options.window) : length};
  const FirstKeys first{positions.data(), length, static_cast<int>(options.prefix)};
  return and_masks(or_masks(window, first), SameDocument{documents.data(), length});
}
// Documents (B, T) as the mask tells them apart: all one, if it does not.
inline std::vector<int32_t> seen_documents(const MaskOptions& options,
                                           std::vector<int32_t> documents) {
  if (!options.document) std::fill(documents.begin(), documents.end(), 0);
  return documents;
}

// The tiles of queries at some places against keys at others, with the numbers that they refer to.
class TextTiles : public MadeOnce {
 public:
  // documents (B, T), queries (B, Tq) and keys (B, Tk): places of columns. B is 1 if all sequences
  // are alike.
  TextTiles(const MaskOptions& options, std::vector<int32_t> documents, int64_t T,
            std::vector<int32_t> queries, std::vector<int32_t> keys, Where where);
  TextTiles(const TextTiles&) = delete;
  TextTiles& operator=(const TextTiles&) = delete;

  const MaskOptions& options() const { return options_; }
  const BlockMask<AtPlaces<TextMask>>& tiles() const { return tiles_; }
  // Places of a query and of a key of sequence b.
  int query(int b, int q) const { return tiles_.mask.queries[row(b) * tiles_.queries + q]; }
  int key(int b, int kv) const { return tiles_.mask.keys[row(b) * tiles_.keys + kv]; }

 private:
  int row(int b) const { return tiles_.mask.one_for_all ? 0 : b; }

  MaskOptions options_;
  std::vector<int32_t> documents_, positions_, queries_, keys_;
  BlockMask<AtPlaces<TextMask>> tiles_;
};

// A whole sequence's tiles. documents (B, T); none: one for all.
std::shared_ptr<const TextTiles> whole_tiles(const MaskOptions& options,
                                             const std::vector<int32_t>& documents, int64_t T,
                                             Where where = Where::current());

// ALiBi's slopes of heads [first, first + count) of `heads`; none if the mask has no ALiBi.
std::vector<float> alibi_slopes(const MaskOptions& options, int64_t first, int64_t count,
                                int64_t heads);

// o and L of the tiles' queries over their keys alone; o is f32 for bf16: it may be a part of a
// sum. slopes (H), or none.
FlashAttention text_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const TextTiles& tiles, const std::vector<float>& slopes,
                              Where where = Where::current());
// Adds the tiles' part of dq, dk and dv to `d`, made by zero_sums(). saved: o and L of all parts.
void text_attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                             const FlashAttention& saved, const TextTiles& tiles,
                             const std::vector<float>& slopes, AttentionGradients& d,
                             Where where = Where::current());

class FlexCore : public BlockwiseCore {
 public:
  FlexCore(const MaskOptions& options, int64_t heads, Where where = Where::current())
      : options_(checked(options, where)), heads_(heads) {}
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override;
  AttentionGradients backward(const Tensor& dout, Saved& saved) override;

  const MaskOptions& options() const { return options_; }
  int64_t heads() const { return heads_; }  // of the layer
  int64_t first_head = 0;                   // of those that are here

 protected:
  std::vector<float> slopes_of(const Tensor& q) const {
    return alibi_slopes(options_, first_head, q.dim(2), heads_);
  }

 private:
  std::shared_ptr<const TextTiles> tiles_of(const Tensor& q, const Saved& saved);

  MaskOptions options_;
  int64_t heads_;
  std::shared_ptr<const TextTiles> usual_;  // without documents, of the last length
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/flex_core.ipp"
#endif
