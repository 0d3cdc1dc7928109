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
// the g of tensor parallelism alone.)
//
// Three things follow:
//     memory     norms' inputs, masks and the gathered inputs' shards are a tp-th on each rank
//     gathered   what g returns is dropped after the forward pass; the backward pass gathers it
//                again from the shard: one more all_gather for each g
//     gradients  a norm's weights are whole on each rank, but its gradient comes from the rank's
//                own tokens: the ranks must add theirs up before the optimizer steps
//
// It stands on tensor_parallel(model, tp), and replaces once more:
//
//     Border            SequenceBorder       g and ḡ in the places of f and g
//     ColumnParallel    SequenceColumns      drops what was gathered, and gathers it again for W
//     Dropout           SequenceDropout      of a rank's tokens, wherever they are in the batch
//     PositionTable     SequencePositions    of a rank's tokens
//
// The N = B T tokens are one list, cut into tp runs, the longer ones first: any N works. Megatron
// stores (T, B, C), so a run of its rows is a part of every sequence; here it is some sequences or
// parts of them. No layer outside attention sees the difference.
// Contract: every microbatch has sequences of T tokens, T >= tp; all ranks of tp make the same
// calls.
// Letters: B sequences, T tokens of each, N = B T, C width, n tokens of this rank, tp or p ranks.
// Reference: Korthikanti et al. (2022), Reducing Activation Recomputation in Large Transformer
// Models, section 4.2; Megatron-LM: core/tensor_parallel/mappings.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "yotta/core/chunks.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

namespace yotta {

// N, the tokens of all p ranks, from the n that this rank holds. p successive numbers N would give
// this rank n tokens, and since T >= p, at most one of them is a multiple of T: that is N.
constexpr int64_t all_tokens(int64_t n, int64_t p, int64_t rank, int64_t T) {
  return (p * n + rank) / T * T;
}
// The tokens of this rank, of all N.
inline int64_t tokens_held(int64_t N, const Communicator& tp) {
  return chunk_count(N, tp.size(), tp.rank());
}

// ---- the collectives ---------------------------------------------------------------------------

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

// shard (n, C), this rank's tokens -> (N, C), all of them.
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

// parts (N, C), this rank's part of every sum -> (n, C), the sums of its tokens.
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

// ---- the border --------------------------------------------------------------------------------

class SequenceBorder : public Border {
 public:
  // keeps_gathered: what the forward pass gathers stays until the backward pass.
  SequenceBorder(Communicator tp, int64_t T, bool keeps_gathered = false)
      : Border(std::move(tp)), T_(T), keeps_gathered_(keeps_gathered) {}
  int64_t T() const { return T_; }
  bool keeps_gathered() const { return keeps_gathered_; }

  // g: x (n, C) -> (B, T, C); and the way back, dx (B, T, C) -> (n, C)
  Tensor enter(const Tensor& x) const override { return gather(x, "sp.forward"); }
  Tensor enter_back(Tensor dx) const override {
    return reduce_scatter_tokens(as_rows(dx), tp(), "sp.backward");
  }
  // ḡ: y (..., C), this rank's part of every sum -> (n, C); and back, dy (n, C) -> (B, T, C)
  Tensor leave(Tensor y) const override {
    return reduce_scatter_tokens(as_rows(y), tp(), "sp.forward");
  }
  Tensor leave_back(const Tensor& dy) const override { return gather(dy, "sp.backward"); }

  Tensor gather(const Tensor& x, const char* label) const {
    const int64_t N = all_tokens(x.dim(0), tp().size(), tp().rank(), T_);
    return all_gather_tokens(x, N, tp(), label).reshape({N / T_, T_, x.dim(1)});
  }

 private:
  int64_t T_;  // tokens of a sequence, on this rank of cp
  bool keeps_gathered_;
};
using SequenceBorderPtr = std::shared_ptr<const SequenceBorder>;

// ---- the parts that are replaced ---------------------------------------------------------------

class SequenceColumns : public ColumnParallel {
 public:
  SequenceColumns(Readers&& cut, SequenceBorderPtr border)
      : ColumnParallel(std::move(cut), border), tokens_(std::move(border)) {}

  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    std::vector<Tensor> ys = ColumnParallel::forward(x, saved);
    if (!tokens_->keeps_gathered()) drop_gathered(x, saved);
    return ys;
  }
  void backward_weight(Saved& saved) override {
    if (!tokens_->keeps_gathered()) gather_again(saved);
    Readers::backward_weight(saved);
  }
  // What was gathered is not x: messages would have to make it again.
  std::vector<Saved*> keeping_x(Saved& saved) const override {
    return tokens_->keeps_gathered() ? std::vector<Saved*>{} : std::vector<Saved*>{&saved};
  }

  // After the forward pass: the shard x (n, C) takes the place of what was gathered.
  void drop_gathered(const Tensor& x, Saved& saved) const {
    for (const auto& each : linears_) {
      const Tensor gathered = saved.child(each->name()).take("x");
      saved.keep("x", as_type(x, gathered.dtype()));
    }
  }
  // Before the weight gradients. FSDP may have freed the weights by now: not even their type is
  // read.
  void gather_again(Saved& saved) const {
    const Tensor gathered = tokens_->gather(saved.take("x"), "sp.again");
    for (const auto& each : linears_) saved.child(each->name()).keep("x", as_rows(gathered));
  }

 protected:
  SequenceBorderPtr tokens_;
};

// Sequences of T tokens only: which tokens are whose follows from it. ids (B, T) -> (n, C).
class SequenceEmbedding : public VocabParallelEmbedding {
 public:
  SequenceEmbedding(Embedding&& cut, const SequenceBorderPtr& border)
      : VocabParallelEmbedding(std::move(cut), border), T_(border->T()) {}
  Tensor forward(const Tensor& ids, Saved& saved) override {
    if (ids.dim(1) != T_)
      fail(Where::current(),
           "{}: a sequence of {} tokens, but sequence parallelism was made for sequences of {}",
           name().substr(0, name().rfind('.')), ids.dim(1), T_);
    return VocabParallelEmbedding::forward(ids, saved);
  }

 private:
  int64_t T_;
};

// Where row `row` of this rank's n begins in the whole batch: (sequence * 2^20 + position) * C.
inline int64_t first_of_row(int64_t row, int64_t n, int64_t C, int64_t T, const Communicator& tp,
                            const BatchPosition& position) {
  const int p = tp.size(), rank = tp.rank();
  const int64_t token = chunk_begin(all_tokens(n, p, rank, T), p, rank) + row;
  const int64_t sequence = position.first_sequence + token / T;
  return (sequence * most_positions + position.positions.place(token, T)) * C;
}

// Dropout on a rank's tokens. It draws the numbers that they have in the whole batch: the ranks
// together drop what one rank would, and no two ranks draw the same numbers.
class SequenceDropout : public Dropout {
 public:
  SequenceDropout(const Dropout& whole, SequenceBorderPtr border)
      : Dropout(whole.name(), whole.probability()), border_(std::move(border)) {}

  // (n, C) -> (n, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const BatchPosition& position = saved.position();
    if (probability() == 0 || !position.training) return x;
    const int64_t n = x.dim(0), C = x.dim(1);
    const Communicator& tp = border_->tp();
    const auto first = [&](int64_t row) {
      return first_of_row(row, n, C, border_->T(), tp, position);
    };
    Tensor mask;
    Tensor y = dropout_rows(x, n, probability(), mask_random(position, name()), first, mask);
    saved.keep("mask", std::move(mask));
    return y;
  }

 private:
  SequenceBorderPtr border_;
};

// The positions of this rank's tokens, of all N, in their sequences of T: i32 (n), beside `like`.
inline Tensor token_positions(const Tensor& like, int64_t N, const Positions& columns,
                              const Communicator& tp, int64_t T) {
  const int64_t n = tokens_held(N, tp), first = chunk_begin(N, tp.size(), tp.rank());
  Tensor beside = empty_beside(like, {n}, DType::i32, Where::current());
  if (like.device() == Device::meta) return beside;
  const DeviceScope scope(Device::cpu);
  Tensor drawn = Tensor::empty({n}, DType::i32);
  for (int64_t i = 0; i < n; ++i)
    drawn.data<int32_t>()[i] = static_cast<int32_t>(
        columns.each() != nullptr ? columns.each()[first + i] : columns.of((first + i) % T, T));
  beside.copy_from(drawn);
  return beside;
}

class SequencePositions : public PositionTable {
 public:
  SequencePositions(PositionTable&& whole, SequenceBorderPtr border)
      : PositionTable(std::move(whole)), border_(std::move(border)) {}
  // x (n, C)
  void add_to(Tensor& x, Saved& saved) override {
    const Communicator& tp = border_->tp();
    const int64_t N = all_tokens(x.dim(0), tp.size(), tp.rank(), border_->T());
    const Tensor own = token_positions(x, N, saved.position().positions, tp, border_->T());
    add_into(x, as_type(embedding(own, table()->value), x.dtype()));
    saved.keep("positions", own);
  }
  void backward_weight(const Tensor& dy, Saved& saved) override {
    embedding_backward(dy, saved.take("positions"), table_.grad());
    table_.mark_grad_ready();
  }

 private:
  SequenceBorderPtr border_;
};

// ---- layers that tensor_parallel has cut -------------------------------------------------------

inline void sequence_parallel(Mlp& mlp, const SequenceBorderPtr& border) {
  mlp.in = std::make_unique<SequenceColumns>(std::move(*mlp.in), border);
  mlp.down = std::make_unique<RowParallelLinear>(std::move(*mlp.down), border);
  mlp.dropout = std::make_unique<SequenceDropout>(*mlp.dropout, border);
}
inline void sequence_parallel(Attention& attention, const SequenceBorderPtr& border) {
  for (std::unique_ptr<Readers>* const readers : head_readers(attention))
    *readers = std::make_unique<SequenceColumns>(std::move(**readers), border);
  if (LatentReaders* const latent = latent_readers(attention))
    latent->shared_key = std::make_unique<SharedKeyBorder>(border);
  attention.o = std::make_unique<RowParallelLinear>(std::move(*attention.o), border);
  attention.dropout = std::make_unique<SequenceDropout>(*attention.dropout, border);
}
inline void sequence_parallel(TokenEmbedding& embedding, const SequenceBorderPtr& border) {
  embedding.tokens = std::make_unique<SequenceEmbedding>(std::move(*embedding.tokens), border);
  embedding.dropout = std::make_unique<SequenceDropout>(*embedding.dropout, border);
  if (embedding.positions != nullptr)
    embedding.positions =
        std::make_unique<SequencePositions>(std::move(*embedding.positions), border);
}

// A whole model, or a slice, after tensor_parallel(model, tp). T: tokens of a sequence, as here.
inline void sequence_parallel(Transformer& model, const Communicator& tp, int64_t T,
                              bool keeps_gathered = false) {
  const auto border = std::make_shared<SequenceBorder>(tp, T, keeps_gathered);
  if (TokenEmbedding* const embedding = model.embedding()) sequence_parallel(*embedding, border);
  for (Block* block : model.blocks()) {
    sequence_parallel(block->attention, border);
    if (auto* const mlp = dynamic_cast<Mlp*>(block->mlp.get())) sequence_parallel(*mlp, border);
  }
  if (Head* const head = model.head())
    head->out = std::make_unique<SequenceColumns>(std::move(*head->out), border);
}

// ---- gradients ---------------------------------------------------------------------------------

// Whether every rank holds this parameter whole, and finds its gradient from its own tokens alone:
// norms, learned positions, and the matrices in front of latents (latent_parallel.hpp). (A bias
// after ḡ's matrix is whole, too, but its layer has seen the gradients of all tokens.)
inline bool sees_own_tokens(const Parameter& parameter) {
  const std::string layer = parameter.name.substr(0, parameter.name.rfind('.'));
  bool own = false;
  for (const char* kind :
       {"norm", "norm1", "norm2", "embedding.position", "q.down", "kv.down", "k.turned"})
    own = own || layer == kind || layer.ends_with(std::string(".") + kind);
  return own;
}

// Once a step, before the optimizer: makes those gradients the sums over tp, in one all_reduce.
inline void reduce_own_token_gradients(const std::vector<ParameterPtr>& parameters,
                                       const Communicator& tp) {
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

// ---- cost --------------------------------------------------------------------------------------

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
