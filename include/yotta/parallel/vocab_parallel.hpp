// A vocabulary on several ranks, and with it a whole transformer: the token table, the output
// matrix and the loss.
//
//     table (V, C)    rank 0 [ tokens 0 ... V/tp - 1 ]     rank 1 [ tokens V/tp ... ]
//                     the same cut for the output matrix
//
//     embedding   each rank looks up its tokens, zeros for others   one all_reduce of B T C (g)
//     logits      (B, T, V/tp) on each rank: x W_r'                 backward: one of B T C (f)
//     loss        of each rank's part: vocab_parallel_loss.hpp      two of 3 B T in all
//
// Where tp does not divide V, the table is padded to a multiple of it, as Megatron does: the last
// ranks have rows of zeros that no token has. Their logits are masked, get no gradient, and the
// rows stay zeros. Files hold the V rows alone.
//
//     serial                      replaced by
//     Embedding  tokens           VocabParallelEmbedding    its rows cut, g behind
//     Readers    head.out         ColumnParallel            its rows cut, f in front
//     loss_of                     vocab_parallel_loss       not a layer: the trainer is told
//
// Contract: the same ids and targets on all ranks of tp; both checked against the whole V.
// Letters: V vocabulary, C width, tp ranks.
// References: Shoeybi et al. (2019), section 3; Megatron-LM's VocabParallelEmbedding.
#pragma once

#include "yotta/nn/loss.hpp"
#include "yotta/parallel/latent_parallel.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/tensor_parallel_sizes.hpp"
#include "yotta/parallel/vocab_parallel_loss.hpp"

namespace yotta {

// Rows of a table (V, C) that a rank holds, padding included: V/tp, rounded up.
constexpr int64_t rows_held(int64_t vocabulary, int64_t tp) { return (vocabulary + tp - 1) / tp; }

// This rank's rows of a table (V, C). Of a tied one the first of its layers cuts it for both.
inline void cut_by_tokens(Parameter& table, const Communicator& tp) {
  const ShardRange whole = table.range;
  if (!whole.is_whole()) return;
  const int64_t V = whole.rows, C = whole.columns, held = rows_held(V, tp.size());
  keep_part(table, {held, C, tp.rank() * held, 0, V, C});
}

// ids (B, T) -> (B, T, C), the same on all ranks. An id that is another rank's gives zeros here.
class VocabParallelEmbedding : public Embedding {
 public:
  VocabParallelEmbedding(Embedding&& cut, BorderPtr border)
      : Embedding(std::move(cut)), border_(std::move(border)) {}
  Tensor forward(const Tensor& ids, Saved& saved) override {
    return border_->leave(Embedding::forward(ids, saved));
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return Embedding::backward_input(border_->leave_back(dy), saved);
  }

 private:
  BorderPtr border_;
};

inline void tensor_parallel(TokenEmbedding& embedding, const BorderPtr& border) {
  cut_by_tokens(*embedding.tokens->table(), border->tp());
  embedding.tokens = std::make_unique<VocabParallelEmbedding>(std::move(*embedding.tokens), border);
}
inline void tensor_parallel(Head& head, const BorderPtr& border) {
  cut_by_tokens((*head.out)[0].weight_parameter(), border->tp());
  head.out = std::make_unique<ColumnParallel>(std::move(*head.out), border);
}

// What no rank has cut, all have: a norm of all weights counts it once.
inline void count_copies(Layers layers, const Communicator& tp) {
  for (const ParameterPtr& each : parameters(layers))
    if (each->range.is_whole()) each->copies = tp.size();
}

// All layers of a transformer, or of a slice of one. Experts (lesson 25) cut themselves.
inline void tensor_parallel(Transformer& model, const Communicator& tp,
                            Where where = Where::current()) {
  expect_divides(model.config(), tp.size(), where);
  const auto border = std::make_shared<Border>(tp);
  if (TokenEmbedding* const embedding = model.embedding()) tensor_parallel(*embedding, border);
  for (Block* block : model.blocks()) {
    if (model.config().has_latent())
      latent_parallel(block->attention, border);
    else
      tensor_parallel(block->attention, border);
    if (auto* const mlp = dynamic_cast<Mlp*>(block->mlp.get())) tensor_parallel(*mlp, border);
  }
  if (Head* const head = model.head()) tensor_parallel(*head, border);
  count_copies(model.stack(), tp);
}

// The loss of logits (B, T, V/tp), of a vocabulary of V: the same on all ranks.
inline LossOf vocab_parallel_loss(int64_t V, const Communicator& tp) {
  return [V, tp](Tensor logits, const Tensor& targets, double scale, Tensor* dlogits) {
    mask_padding(logits, V, tp);
    Tensor rows = as_rows(logits);  // (N, V/tp)
    const Tensor wanted = targets.reshape({targets.numel()});
    const CrossEntropy loss = vocab_parallel_cross_entropy(rows, wanted, scale, tp);
    if (dlogits == nullptr) return loss.loss;
    vocab_parallel_cross_entropy_backward_in_place(rows, wanted, loss.log_sum_exp, scale, tp);
    *dlogits = std::move(logits);
    return loss.loss;
  };
}

}  // namespace yotta
