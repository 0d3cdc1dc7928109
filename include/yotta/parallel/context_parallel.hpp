// Context parallelism: each rank has a part of every sequence. Attention is the only layer in which
// one token reads another (ring_attention.hpp). All others work on one token at a time, and their
// code does not change.
//
//     ids (B, T)       [ 0 1 | 2 3 | 4 5 | 6 7 ]        T = 8, cp = 2: four chunks of two tokens
//     rank 0           [ 0 1 . . . . 6 7 ]              context_shard: (B, T/cp), chunks 0 and 3
//     rank 1           [ . . 2 3 4 5 . . ]                             chunks 1 and 2
//
//     what a rank must be told       its token ids and targets: context_shard of each
//                                    their positions: context_positions, in its BatchPosition
//     what is summed over cp         the gradients of all weights (a rank saw some of the tokens)
//                                    and the loss: local sum / tokens of the whole batch.
//                                    Ddp over cp x dp does it.
//
// Targets are cut from the targets of the whole sequence: the token after a chunk's last one is on
// another rank.
// In a transformer attention's core is replaced: BlockwiseCore by RingCore. Rope, dropout and
// learned positions read the BatchPosition already.
// Cost: activations of T/cp tokens on each rank; weights whole; messages as in
// ring_attention.hpp and Ddp.
// Contract: T a multiple of 2 cp (any T on one rank). Letters: B batch, T sequence, cp ranks.
// Reference: Llama team (2024), section 3.3.2.
#pragma once

#include <span>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ring_attention.hpp"

namespace yotta {

// Throws unless T tokens cut into the chunks that `ranks` ranks need.
inline void expect_chunks(int64_t T, int ranks, Where where) {
  const int64_t chunks = chunks_each(ranks) * ranks, below = T - T % chunks;
  if (T % chunks != 0)
    fail(where,
         "a sequence of {} tokens does not cut into {} equal chunks, 2 for each of {} ranks; {}{} "
         "tokens would",
         T, chunks, ranks, below > 0 ? std::to_string(below) + " or " : "", below + chunks);
}

// The positions of rank `rank`'s columns in the sequence of T tokens.
inline Positions context_positions(int64_t T, int ranks, int rank,
                                   ChunkOrder order = ChunkOrder::zigzag,
                                   Where where = Where::current()) {
  expect_chunks(T, ranks, where);
  const int64_t n = T / (chunks_each(ranks) * ranks), first = chunk_of(ranks, rank, 0, order) * n;
  if (ranks == 1 || order == ChunkOrder::contiguous) return first;
  return {first, chunk_of(ranks, rank, 1, order) * n};
}
inline Positions context_positions(int64_t T, const Communicator& cp,
                                   ChunkOrder order = ChunkOrder::zigzag,
                                   Where where = Where::current()) {
  return context_positions(T, axis_size(cp), axis_rank(cp), order, where);
}

// The same, token by token, if documents (B, T) are packed in the sequences.
inline Packing context_packing(const std::vector<int32_t>& documents, int64_t T,
                               const Communicator& cp, ChunkOrder order = ChunkOrder::zigzag,
                               Where where = Where::current()) {
  const Positions own = context_positions(T, cp, order, where);
  const int64_t columns = T / axis_size(cp);
  std::vector<int32_t> places;
  for (int64_t i = 0; i < std::ssize(documents) / T * columns; ++i)
    places.push_back(static_cast<int32_t>(own.of(i % columns, columns)));
  return packing_of(documents, T, std::move(places));
}

// Rank `rank`'s columns of x (B, T, ...): (B, T/cp, ...). Of any type: token ids, targets,
// activations.
inline Tensor context_shard(const Tensor& x, int ranks, int rank,
                            ChunkOrder order = ChunkOrder::zigzag, Where where = Where::current()) {
  const int64_t T = x.dim(1, where);
  expect_chunks(T, ranks, where);
  const int64_t n = T / (chunks_each(ranks) * ranks);
  std::vector<Tensor> chunks;
  for (int64_t i = 0; i < chunks_each(ranks); ++i) {
    const int64_t chunk = chunk_of(ranks, rank, i, order);
    chunks.push_back(narrow(x, 1, chunk * n, n, where));
  }
  return cat(chunks, 1, where);
}
inline Tensor context_shard(const Tensor& x, const Communicator& cp,
                            ChunkOrder order = ChunkOrder::zigzag, Where where = Where::current()) {
  return context_shard(x, axis_size(cp), axis_rank(cp), order, where);
}

// The way back: x (B, T, ...) from the shards (B, T/cp, ...) of all ranks, by rank.
inline Tensor context_unshard(std::span<const Tensor> shards, ChunkOrder order = ChunkOrder::zigzag,
                              Where where = Where::current()) {
  const int ranks = static_cast<int>(shards.size());
  std::vector<Tensor> chunks(static_cast<size_t>(chunks_each(ranks) * ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const Tensor& shard = shards[static_cast<size_t>(rank)];
    const int64_t n = shard.dim(1, where) / chunks_each(ranks);
    for (int64_t i = 0; i < chunks_each(ranks); ++i)
      chunks[static_cast<size_t>(chunk_of(ranks, rank, i, order))] =
          narrow(shard, 1, i * n, n, where);
  }
  return cat(chunks, 1, where);
}

// The same by all ranks of cp together, from each one's own shard.
inline Tensor context_gather(const Tensor& shard, const Communicator& cp,
                             ChunkOrder order = ChunkOrder::zigzag,
                             Where where = Where::current()) {
  const int ranks = axis_size(cp);
  if (ranks == 1) return shard;
  Tensor all = empty_beside(shard, {ranks * shard.numel()}, shard.dtype(), where);
  cp.all_gather(all, shard, {.label = "cp.gather"}, where);
  std::vector<Tensor> shards;
  for (int rank = 0; rank < ranks; ++rank)
    shards.push_back(
        all.rows(rank * shard.numel(), (rank + 1) * shard.numel()).reshape(shard.shape()));
  return context_unshard(shards, order, where);
}

// Throws unless these columns are at the positions that this rank of cp holds.
inline void expect_positions(const std::string& layer, int64_t columns, const Positions& positions,
                             const Communicator& cp) {
  Positions own = context_positions(columns * cp.size(), cp);
  own.packing = positions.packing;  // which says more than the two runs, not other than they
  if (cp.size() > 1 && positions != own)
    fail(Where::current(),
         "{}: the microbatch's columns stand at {} and on, but rank {} of {} holds chunks that "
         "begin at {} and {}: give its BatchPosition context_positions(T, cp)",
         layer, positions.first, cp.rank(), cp.size(), own.first, own.second);
}

// Throws unless the layer's attention is blockwise.
inline void expect_blockwise(const Attention& attention) {
  if (attention.config().attention != AttentionKind::blockwise)
    fail(Where::current(), "{}: context parallelism needs blockwise attention{}", attention.name(),
         attention.config().attention == AttentionKind::flex
             ? "; flex attention has flex_ring and flex_ulysses"
             : "");
}
// A layer's flex attention, or an error.
inline const FlexCore& flex_core(const Attention& attention) {
  const auto* const core = dynamic_cast<const FlexCore*>(attention.core.get());
  if (core == nullptr) fail(Where::current(), "{}: this needs flex attention", attention.name());
  return *core;
}

// A core on some columns of every sequence, those that context_positions says: refuses others. o
// and log-sum-exp are of this rank's queries over all keys.
class RingCore : public BlockwiseCore {
 public:
  RingCore(std::string layer, Communicator cp) : layer_(std::move(layer)), cp_(std::move(cp)) {}
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    expect_positions(layer_, q.dim(1), saved.position().positions, cp_);
    return keep(q, k, v, ring_attention(q, k, v, cp_), saved);
  }
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    return ring_attention_backward(dout, q, k, v, take(saved), cp_);
  }

 private:
  std::string layer_;
  Communicator cp_;
};

// In every block of a model, or a slice; blockwise attention only.
inline void ring_attention(Transformer& model, const Communicator& cp) {
  for (Block* block : model.blocks()) {
    expect_blockwise(block->attention);
    block->attention.core = std::make_unique<RingCore>(block->attention.name(), cp);
  }
}

}  // namespace yotta
