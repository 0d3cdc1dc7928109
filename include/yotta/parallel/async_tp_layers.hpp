// Async-TP's layers: what stands around the gathers and sums of async_tp.hpp in a transformer.
//
//     F   x (n, C) ──gather──> pieces ──> q, k, v or gate, up: one gather for all that read x
//         o or down: a piece of the sums at a time ──scatter──> y (n, C)
//     I   dy (n, C) ──gather──> pieces ──> dgrad of o or down
//         dgrad of q, k, v or gate, up, added up, a piece at a time ──scatter──> dx (n, C)
//     W   x ──gather──> pieces ──> wgrad of q, k, v or gate, up: each piece adds to dW
//
// A layer is asked for a piece's rows by its own forward and backward_input. What it keeps for the
// way back is kept here, whole. A parameter's gradient must be reported once, when the last piece
// has been added: so that piece is left to the layer's own backward_weight.
// Cost: FLOPs, messages and bytes as with whole collectives; a copy of each product to its place.
// Contract: as async_tp.hpp; cut.T > 0 and tp has at least two ranks.
// Letters: N = B T tokens of all, n of this rank, C width, O outputs on this rank.
// Reference: async_tp.hpp.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "yotta/nn/linear.hpp"
#include "yotta/parallel/async_tp.hpp"

namespace yotta {

// Whether the tokens are cut, and travel in pieces.
inline bool in_pieces(const Communicator& tp, const SequenceCut& cut) {
  return cut.pieces != Pieces::none && cut.T > 0 && axis_size(tp) > 1;
}

using Readers = std::vector<Linear*>;  // layers that read one x: q, k and v; gate and up

namespace detail {

// What `multiply` makes of all tokens' rows, (B, T, O) each, from x (n, C). x becomes (N, C).
template <class Multiply>
std::vector<Tensor> multiply_gathered(Tensor& x, const Communicator& tp, const SequenceCut& cut,
                                      Multiply multiply) {
  const int64_t N = all_tokens(x.dim(0), tp.size(), tp.rank(), cut.T);
  std::vector<Tensor> whole;
  x = all_gather_in_pieces(x, N, tp, cut.pieces, [&](int64_t first, const Tensor& rows) {
    const std::vector<Tensor> made = multiply(rows);
    for (size_t i = 0; i < made.size(); ++i) {
      const Tensor& y = made[i];
      if (i == whole.size())
        whole.push_back(empty_beside(y, {N, y.dim(1)}, y.dtype(), Where::current()));
      whole[i].rows(first, first + rows.dim(0)).copy_from(y);
    }
  });
  for (Tensor& y : whole) y = y.reshape({-1, cut.T, y.dim(1)});
  return whole;
}

// The weight of a layer, and its bias if it has one.
inline std::vector<ParameterPtr> parameters_of(Layer& layer) {
  std::vector<ParameterPtr> all;
  layer.add_parameters(all);
  return all;
}

// Keeps rows for the way back as the layer would, in its weight's type.
inline void keep_rows(Layer& layer, Saved& own, const char* slot, const Tensor& rows) {
  own.keep(slot, as_type(rows, parameters_of(layer)[0]->value.dtype()));
}

}  // namespace detail

// F: x (n, C) -> each reader's y (B, T, O).
inline std::vector<Tensor> async_forward(const Readers& readers, Tensor x, const Communicator& tp,
                                         const SequenceCut& cut, Saved& saved) {
  std::vector<Tensor> ys = detail::multiply_gathered(x, tp, cut, [&](const Tensor& rows) {
    std::vector<Tensor> made;
    Saved piece;
    for (Linear* reader : readers) made.push_back(reader->forward(rows, piece));
    return made;
  });
  for (Linear* reader : readers) detail::keep_rows(*reader, saved.child(reader->name()), "x", x);
  return ys;
}

// I: each reader's dy (B, T, O) -> dx (n, C), summed over readers and ranks.
inline Tensor async_backward(const Readers& readers, const std::vector<Tensor>& dys,
                             const Communicator& tp, const SequenceCut& cut, Saved& saved) {
  std::vector<Tensor> rows;
  for (const Tensor& dy : dys) rows.push_back(as_rows(dy));
  for (size_t i = 0; i < readers.size(); ++i)
    detail::keep_rows(*readers[i], saved.child(readers[i]->name()), "dy", rows[i]);
  return reduce_scatter_in_pieces(rows[0].dim(0), tp, cut.pieces, [&](int64_t first, int64_t n) {
    Saved piece;
    Tensor dx = readers[0]->backward_input(rows[0].rows(first, first + n), piece);
    for (size_t i = 1; i < readers.size(); ++i)
      readers[i]->add_backward_input(dx, rows[i].rows(first, first + n), piece);
    return dx;
  });
}

// W: gathers shard (n, C) again and adds all pieces but the last to the readers' gradients. The
// last is left in `saved` as x and dy.
inline void async_weights(std::span<Layer* const> readers, const Tensor& shard,
                          const Communicator& tp, const SequenceCut& cut, Saved& saved) {
  const int64_t N = all_tokens(shard.dim(0), tp.size(), tp.rank(), cut.T);
  int to_come = tp.size();
  all_gather_in_pieces(shard, N, tp, cut.pieces, [&](int64_t first, const Tensor& x) {
    --to_come;
    for (Layer* reader : readers) {
      Saved& own = saved.child(reader->name());
      const Tensor dy = own.get("dy").rows(first, first + x.dim(0));
      const std::vector<ParameterPtr> weights = detail::parameters_of(*reader);
      if (to_come > 0) {
        linear_backward_weight(dy, x, weights[0]->gradient());
        if (weights.size() > 1) bias_backward(dy, weights[1]->gradient());
      } else {
        own.keep("x", x);
        own.keep("dy", dy);
      }
    }
  });
}

// A layer that is cut by rows, as o and down are. F: x (B, T, I) -> y (n, O), where `sums` is the
// layer's forward without what follows the sum over the ranks.
using SumsOf = std::function<Tensor(const Tensor& rows, Saved& saved)>;
inline Tensor async_row_forward(Linear& layer, const SumsOf& sums, const Tensor& x,
                                const Communicator& tp, const SequenceCut& cut, Saved& saved) {
  const Tensor rows = as_rows(x);
  detail::keep_rows(layer, saved, "x", rows);
  return reduce_scatter_in_pieces(rows.dim(0), tp, cut.pieces, [&](int64_t first, int64_t n) {
    Saved piece;
    return sums(rows.rows(first, first + n), piece);
  });
}

// I: dy (n, O) -> dx (B, T, I).
inline Tensor async_row_backward(Linear& layer, Tensor dy, const Communicator& tp,
                                 const SequenceCut& cut, Saved& saved) {
  const std::vector<Tensor> dx = detail::multiply_gathered(dy, tp, cut, [&](const Tensor& rows) {
    Saved piece;
    return std::vector<Tensor>{layer.Linear::backward_input(rows, piece)};
  });
  detail::keep_rows(layer, saved, "dy", dy);
  return dx[0];
}

}  // namespace yotta
