// A transformer, or a slice of one, on the ranks of tp.
#pragma once

#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace yotta_test {

// How the ranks share the tokens. T 0: they do not.
struct TokenCut {
  int64_t T = 0;  // tokens of a sequence
  bool keeps_gathered = false;
  yotta::Pieces pieces = yotta::Pieces::none;
};

inline void cut_model(yotta::Transformer& model, const yotta::Communicator& tp,
                      const TokenCut& cut = {}) {
  tensor_parallel(model, tp);
  if (cut.T == 0 || tp.size() == 1) return;
  sequence_parallel(model, tp, cut.T, cut.keeps_gathered);
  if (cut.pieces != yotta::Pieces::none)
    async_tensor_parallel(model, tp, cut.T, cut.keeps_gathered, cut.pieces);
}

// Attention, or an MLP, in the same way.
template <class Half>
void cut_half(Half& half, const yotta::Communicator& tp, const TokenCut& cut = {}) {
  using namespace yotta;
  tensor_parallel(half, std::make_shared<Border>(tp));
  if (cut.T == 0 || tp.size() == 1) return;
  const auto border = std::make_shared<SequenceBorder>(tp, cut.T, cut.keeps_gathered);
  sequence_parallel(half, border);
  if (cut.pieces != Pieces::none) async_tensor_parallel(half, border, cut.pieces);
}

}  // namespace yotta_test
