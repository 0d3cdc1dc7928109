// Sequence parallelism: the ranks of tensor parallelism share the tokens between its layers.
//
// Tensor parallelism cuts attention and the MLP. What stands between them, norms, dropout and the
// residual stream, it leaves whole on every rank: tp times the same work, tp times the same memory.
// These layers look at one token at a time, so each rank can do them for some of the tokens.
//
//                  tensor parallelism alone            with sequence parallelism
//     stream       rank 0 [ 0 1 2 3 4 5 ]              rank 0 [ 0 1 2 . . . ]      (n, C)
//                  rank 1 [ 0 1 2 3 4 5 ]              rank 1 [ . . . 3 4 5 ]
//     into a layer     f   nothing  | all_reduce       g   all_gather     | reduce_scatter
//     out of it        g   all_reduce | nothing        ḡ   reduce_scatter | all_gather
//                          forward  | backward             forward        | backward
//
//     x (n, C) ─> norm ─> g ─> (B, T, C) ─> MLP's parts ─> (B, T, C) ─> ḡ ─> dropout ─> y (n, C)
//
// An all_reduce is a reduce_scatter and an all_gather, so the ring sends the same bytes as before.
// ḡ is g's conjugate: each is the other's backward. (The paper of 2022 calls them so. Its g is not
// the g of tensor parallelism alone, which is ReduceFromTensorParallel.)
//
// Three things follow:
//     memory     norms' inputs, masks and the gathered inputs' shards are a tp-th on each rank
//     gathered   what g returns is dropped after the forward pass; the backward pass gathers it
//                again from the shard: one more all_gather for each g
//     gradients  a norm's weights are whole on each rank, but its gradient comes from the rank's
//                own tokens: the ranks must add theirs up before the optimizer steps
//
// The N = B T tokens are one list, cut into tp runs, the longer ones first: any N works. Megatron
// stores (T, B, C), so a run of its rows is a part of every sequence; here it is some sequences or
// parts of them. No layer outside attention sees the difference.
// Contract: every microbatch has sequences of T tokens, T >= tp; all ranks of tp make the same
// calls.
// Letters: B sequences, T tokens of each, N = B T, C width, n tokens of this rank, tp ranks.
// Reference: Korthikanti et al. (2022), Reducing Activation Recomputation in Large Transformer
// Models, section 4.2; Megatron-LM: core/tensor_parallel/mappings.py.
#pragma once

#include <span>
#include <string>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/async_tp_layers.hpp"

namespace yotta {

// Whether the tokens are cut at all.
inline bool cuts_tokens(const Communicator& tp, const SequenceCut& cut) {
  return cut.T > 0 && axis_size(tp) > 1;
}

// The tokens of this rank, of all N.
inline int64_t tokens_held(int64_t N, const Communicator& tp) {
  return chunk_count(N, axis_size(tp), axis_rank(tp));
}

namespace detail {

// Rows (n, C), filled up with rows of zeros to k of them: the collectives take chunks of one size.
inline Tensor padded_to(int64_t k, const Tensor& rows) {
  if (rows.dim(0) == k) return rows;
  Tensor zeros = empty_beside(rows, {k - rows.dim(0), rows.dim(1)}, rows.dtype(), Where::current());
  zeros.zero();
  const Tensor both[] = {rows, zeros};
  return cat(both, 0);
}

// What `piece` makes of each rank's run, put together.
template <class Piece>
Tensor each_run(int p, Piece piece) {
  std::vector<Tensor> pieces;
  for (int r = 0; r < p; ++r) pieces.push_back(piece(r));
  return cat(pieces, 0);
}

inline Tensor all_gather_tokens(const Tensor& shard, int64_t N, const Communicator& tp,
                                const char* label) {
  const int p = tp.size();
  const int64_t k = chunk_count(N, p, 0), C = shard.dim(1);
  Tensor all = empty_beside(shard, {p * k, C}, shard.dtype(), Where::current());
  tp.all_gather(all, padded_to(k, shard), {.label = label});
  const auto run = [&](int r) { return all.rows(r * k, r * k + chunk_count(N, p, r)); };
  if (N != p * k) all = each_run(p, run);
  return all;
}

inline Tensor reduce_scatter_tokens(const Tensor& parts, const Communicator& tp,
                                    const char* label) {
  const int p = tp.size();
  const int64_t N = parts.dim(0), k = chunk_count(N, p, 0), C = parts.dim(1);
  Tensor sums = empty_beside(parts, {k, C}, parts.dtype(), Where::current());
  const auto run = [&](int r) {
    const int64_t first = chunk_begin(N, p, r);
    return padded_to(k, parts.rows(first, first + chunk_count(N, p, r)));
  };
  tp.reduce_scatter(sums, N == p * k ? parts : each_run(p, run), ReduceOp::sum, {.label = label});
  return sums.rows(0, chunk_count(N, p, tp.rank()));
}

}  // namespace detail

// g: the tokens of all ranks for layers that need them all. Each rank then has a part of the sum
// that is their gradient.
class GatherFromSequenceParallel {
 public:
  GatherFromSequenceParallel(const Communicator& tp = {}, const SequenceCut& cut = {})
      : tp_(tp), cut_(cut) {}
  bool cuts() const { return cuts_tokens(tp_, cut_); }
  // x (n, C), this rank's tokens -> (B, T, C), all of them.
  Tensor forward(const Tensor& x, const char* label = "sp.forward") const {
    const int64_t N = all_tokens(x.dim(0), tp_.size(), tp_.rank(), cut_.T);
    return detail::all_gather_tokens(x, N, tp_, label).reshape({N / cut_.T, cut_.T, x.dim(1)});
  }

  // dx (B, T, C), this rank's part of every sum -> (n, C), the sums of its tokens.
  Tensor backward(const Tensor& dx) const {
    return detail::reduce_scatter_tokens(as_rows(dx), tp_, "sp.backward");
  }

  // After the forward pass of layers that share a gathered input: drops what they keep of it, and
  // keeps its shard x (n, C) instead.
  void drop_gathered(std::span<Layer* const> readers, const Tensor& x, Saved& saved) const {
    if (!cuts() || cut_.keeps_gathered) return;
    for (Layer* reader : readers) {
      const Tensor gathered = saved.child(reader->name()).take("x");
      saved.keep("shard", as_type(x, gathered.dtype()));
    }
  }

  // Before their weight gradients: gathers it again, for each of them.
  void gather_again(std::span<Layer* const> readers, Saved& saved) const {
    if (!cuts() || cut_.keeps_gathered) return;
    if (in_pieces(tp_, cut_)) return async_weights(readers, saved.take("shard"), tp_, cut_, saved);
    const Tensor gathered = forward(saved.take("shard"), "sp.again");
    for (Layer* reader : readers) saved.child(reader->name()).keep("x", as_rows(gathered));
  }

 private:
  Communicator tp_;
  SequenceCut cut_;
};

// ḡ: adds up the ranks' parts; each rank gets the sums of its own tokens.
class ReduceScatterToSequenceParallel {
 public:
  ReduceScatterToSequenceParallel(const Communicator& tp = {}, const SequenceCut& cut = {})
      : tp_(tp), cut_(cut) {}
  bool cuts() const { return cuts_tokens(tp_, cut_); }
  // y (..., C), this rank's part of every sum of N tokens -> (n, C), the sums of its tokens.
  Tensor forward(const Tensor& y) const {
    return detail::reduce_scatter_tokens(as_rows(y), tp_, "sp.forward");
  }

  // dy (n, C) -> (B, T, C), all tokens'.
  Tensor backward(const Tensor& dy) const {
    return GatherFromSequenceParallel(tp_, cut_).forward(dy, "sp.backward");
  }

 private:
  Communicator tp_;
  SequenceCut cut_;
};

// Of the n rows that this rank has, each of C numbers.
inline int64_t first_of_row(int64_t row, int64_t n, int64_t C, int64_t T, const Communicator& tp,
                            const BatchPosition& position) {
  const int p = tp.size(), rank = tp.rank();
  const int64_t token = chunk_begin(all_tokens(n, p, rank, T), p, rank) + row;
  const int64_t sequence = position.first_sequence + token / T;
  return (sequence * most_positions + position.positions.of(token % T, T)) * C;
}

// Dropout on a rank's tokens. It draws the numbers that they have in the whole batch: the ranks
// together drop what one rank would, and no two ranks draw the same numbers.
class SequenceDropout : public Dropout {
 public:
  SequenceDropout(std::string name, double probability, const Communicator& tp = {},
                  const SequenceCut& cut = {})
      : Dropout(std::move(name), probability), probability_(probability), tp_(tp), cut_(cut) {}

  // (n, C) -> (n, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    if (!cuts_tokens(tp_, cut_)) return Dropout::forward(x, saved);
    const BatchPosition& position = saved.position();
    if (probability_ == 0 || !position.training) return x;
    const int64_t n = x.dim(0), C = x.dim(1);
    const auto first = [&](int64_t row) { return first_of_row(row, n, C, cut_.T, tp_, position); };
    Tensor mask;
    Tensor y = dropout_rows(x, n, probability_, mask_random(position, name()), first, mask);
    saved.keep("mask", std::move(mask));
    return y;
  }

 private:
  double probability_;
  Communicator tp_;
  SequenceCut cut_;
};

// The positions of this rank's tokens in their sequences: i32 (n), beside `like`.
inline Tensor token_positions(const Tensor& like, int64_t N, const Positions& columns,
                              const Communicator& tp, const SequenceCut& cut) {
  const int64_t n = tokens_held(N, tp), first = chunk_begin(N, axis_size(tp), axis_rank(tp));
  Tensor beside = empty_beside(like, {n}, DType::i32, Where::current());
  if (like.device() == Device::meta) return beside;
  const DeviceScope scope(Device::cpu);
  Tensor drawn = Tensor::empty({n}, DType::i32);
  for (int64_t i = 0; i < n; ++i)
    drawn.data<int32_t>()[i] = static_cast<int32_t>(columns.of((first + i) % cut.T, cut.T));
  beside.copy_from(drawn);
  return beside;
}

// Whether every rank holds this parameter whole, and finds its gradient from its own tokens alone:
// norms, and learned positions. (A bias after ḡ's matrix is whole, too, but its layer has seen the
// gradients of all tokens.)
inline bool sees_own_tokens(const Parameter& parameter) {
  const std::string layer = parameter.name.substr(0, parameter.name.rfind('.'));
  bool own = false;
  for (const char* kind : {"norm", "norm1", "norm2", "embedding.position"})
    own = own || layer == kind || layer.ends_with(std::string(".") + kind);
  return own;
}

// Once a step, before the optimizer: makes those gradients the sums over tp, in one all_reduce.
inline void reduce_own_token_gradients(const std::vector<ParameterPtr>& parameters,
                                       const Communicator& tp) {
  if (axis_size(tp) == 1) return;
  std::vector<Tensor> parts;
  for (const ParameterPtr& each : parameters)
    if (sees_own_tokens(*each)) parts.push_back(each->gradient().reshape({-1}));
  if (parts.empty()) return;
  Tensor all = cat(parts, 0);
  tp.all_reduce(all, ReduceOp::sum, {.label = "sp.gradients"});
  int64_t first = 0;
  for (Tensor& each : parts) {
    each.copy_from(all.rows(first, first + each.numel()));
    first += each.numel();
  }
}

// Bytes that all ranks together send for one g or ḡ in one direction, an all_gather or a
// reduce_scatter of N tokens: where p does not divide N, every run travels as long as the longest.
constexpr int64_t sequence_parallel_bytes_sent_by_all(int64_t p, int64_t N, int64_t C,
                                                      int64_t bytes_each) {
  return (p - 1) * p * ((N + p - 1) / p) * C * bytes_each;
}

// all_gathers and reduce_scatters of a block, forward and backward: g and ḡ of attention and of the
// MLP are 8, four times what an all_reduce is made of. Dropping what was gathered adds 2.
constexpr int64_t sequence_parallel_collectives(bool keeps_gathered) {
  return keeps_gathered ? 8 : 10;
}

}  // namespace yotta
