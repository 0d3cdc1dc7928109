// TokenEmbedding: the first entry of a transformer's stack. Token ids in, vectors out.
//
//    ids (B, T) i32 ──> row of the table per id ──> + row of its position ──> dropout ──> (B, T, C)
//                           (V, C)                      (T max, C), GPT-2
//
//    F   keeps the ids        I   nothing below needs a gradient: returns an undefined tensor
//    W   adds each dy to its token's row and its position's row
//
// With tensor parallelism the table is cut by tokens (parallel/vocab_parallel.hpp); positions are
// held by all ranks. The table may also serve as the model's output matrix (tied): then it has a
// second use, see table().
#pragma once

#include "yotta/nn/dropout_layer.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

namespace yotta {

struct EmbeddingOptions {
  int64_t vocabulary = 1, width = 1;
  int64_t positions = 0;  // the longest sequence; 0: no learned positions
  double dropout = 0;
  Initial initial = normal(0.02);
};

class TokenEmbedding : public Layer {
 public:
  TokenEmbedding(std::string name, const EmbeddingOptions& options,
                 const ParameterOptions& made = {}, const LayerAxes& axes = {});

  // ids (B, T) -> (B, T, C); with sequence parallelism this rank's tokens, (n, C)
  Tensor forward(const Tensor& ids, Saved& saved) override;

  Tensor backward_input(const Tensor& dy, Saved& saved) override;

  void backward_weight(Saved& saved) override;

  void add_parameters(std::vector<ParameterPtr>& to) override;

  const ParameterPtr& table() const { return tokens_.table(); }

 private:
  VocabParallelEmbedding tokens_;
  bool cuts() const { return cuts_tokens(tp_, cut_); }

  Communicator tp_;
  SequenceCut cut_;
  Use positions_;  // (T max, C)
  SequenceDropout dropout_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/embedding_layer.ipp"
#endif
