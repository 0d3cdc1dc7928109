// Async-TP's layers: what stands around the gathers and sums of async_tp.hpp in a transformer.
//
//     F   x (n, C) ──gather──> pieces ──> q, k, v or gate, up: one gather for all that read x
//         o or down: a piece of the sums at a time ──scatter──> y (n, C)
//     I   dy (n, C) ──gather──> pieces ──> dgrad of o or down
//         dgrad of q, k, v or gate, up, added up, a piece at a time ──scatter──> dx (n, C)
//     W   x ──gather──> pieces ──> wgrad of q, k, v or gate, up: each piece adds to dW
//
// It stands on sequence_parallel(model, ...), and replaces once more:
//
//     SequenceColumns      AsyncColumns
//     RowParallelLinear    AsyncRowLinear
//
// A layer is asked for a piece's rows by its own forward and backward_input. What it keeps for the
// way back is kept here, whole. A parameter's gradient must be reported once, when the last piece
// has been added: so that piece is left to the layer's own backward_weight.
// Cost: FLOPs, messages and bytes as with whole collectives; a copy of each product to its place.
// Contract: as async_tp.hpp; tp has at least two ranks.
// Letters: N = B T tokens of all, n of this rank, C width, I inputs, O outputs on this rank.
// Reference: async_tp.hpp.
#pragma once

#include <memory>
#include <vector>

#include "yotta/parallel/async_tp.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace yotta {

// Keeps rows for the way back as the layer would, in its weight's type.
inline void keep_rows(const Linear& layer, Saved& own, const char* slot, const Tensor& rows) {
  own.keep(slot, as_type(rows, layer.weight_parameter().value.dtype()));
}

// What `multiply` makes of all tokens' rows, (B, T, O) each, from x (n, C). x becomes (N, C).
template <class Multiply>
std::vector<Tensor> multiply_gathered(Tensor& x, const SequenceBorder& border, Pieces pieces,
                                      Multiply multiply) {
  const Communicator& tp = border.tp();
  const int64_t N = all_tokens(x.dim(0), tp.size(), tp.rank(), border.T());
  std::vector<Tensor> whole;
  x = all_gather_in_pieces(x, N, tp, pieces, [&](int64_t first, const Tensor& rows) {
    const std::vector<Tensor> made = multiply(rows);
    for (size_t i = 0; i < made.size(); ++i) {
      const Tensor& y = made[i];
      if (i == whole.size())
        whole.push_back(empty_beside(y, {N, y.dim(1)}, y.dtype(), Where::current()));
      whole[i].rows(first, first + rows.dim(0)).copy_from(y);
    }
  });
  for (Tensor& y : whole) y = y.reshape({-1, border.T(), y.dim(1)});
  return whole;
}

// Readers of one x, cut by columns.
class AsyncColumns : public SequenceColumns {
 public:
  AsyncColumns(Readers&& cut, SequenceBorderPtr border, Pieces pieces)
      : SequenceColumns(std::move(cut), std::move(border)), pieces_(pieces) {}

  // x (n, C) -> each reader's y (B, T, O)
  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    Tensor all = x;
    std::vector<Tensor> ys = multiply_gathered(all, *tokens_, pieces_, [&](const Tensor& rows) {
      std::vector<Tensor> made;
      Saved piece;
      for (const auto& each : linears_) made.push_back(each->forward(rows, piece));
      return made;
    });
    for (const auto& each : linears_) keep_rows(*each, saved.child(each->name()), "x", all);
    all = {};
    if (!tokens_->keeps_gathered()) drop_gathered(x, saved);
    return ys;
  }

  // each reader's dy (B, T, O) -> dx (n, C), summed over readers and ranks
  Tensor backward_input(const std::vector<Tensor>& dys, Saved& saved) override {
    std::vector<Tensor> rows;
    for (const Tensor& dy : dys) rows.push_back(as_rows(dy));
    for (size_t i = 0; i < size(); ++i)
      keep_rows(*linears_[i], saved.child(linears_[i]->name()), "dy", rows[i]);
    const int64_t N = rows[0].dim(0);
    return reduce_scatter_in_pieces(N, tokens_->tp(), pieces_, [&](int64_t first, int64_t n) {
      Saved piece;
      Tensor dx = linears_[0]->backward_input(rows[0].rows(first, first + n), piece);
      for (size_t i = 1; i < size(); ++i)
        linears_[i]->add_backward_input(dx, rows[i].rows(first, first + n), piece);
      return dx;
    });
  }

  void backward_weight(Saved& saved) override {
    if (!tokens_->keeps_gathered()) add_pieces(saved);
    Readers::backward_weight(saved);
  }

 private:
  // Gathers the shard again and adds all pieces but the last to the readers' gradients. The last is
  // left in `saved` as x and dy.
  void add_pieces(Saved& saved) const {
    const Communicator& tp = tokens_->tp();
    const Tensor shard = saved.take("x");
    const int64_t N = all_tokens(shard.dim(0), tp.size(), tp.rank(), tokens_->T());
    int to_come = tp.size();
    all_gather_in_pieces(shard, N, tp, pieces_, [&](int64_t first, const Tensor& x) {
      --to_come;
      for (const auto& each : linears_) {
        Saved& own = saved.child(each->name());
        const Tensor dy = own.get("dy").rows(first, first + x.dim(0));
        if (to_come == 0) {
          own.keep("x", x);
          own.keep("dy", dy);
          continue;
        }
        linear_backward_weight(dy, x, each->weight_parameter().gradient());
        if (Parameter* const bias = each->bias_parameter()) bias_backward(dy, bias->gradient());
      }
    });
  }

  Pieces pieces_;
};

// Cut by rows, as o and down are.
class AsyncRowLinear : public RowParallelLinear {
 public:
  AsyncRowLinear(Linear&& cut, SequenceBorderPtr border, Pieces pieces)
      : RowParallelLinear(std::move(cut), border), tokens_(std::move(border)), pieces_(pieces) {}

  // x (B, T, I) -> y (n, O)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const Tensor rows = as_rows(x);
    keep_rows(*this, saved, "x", rows);
    const auto part = [&](int64_t first, int64_t n) {
      Saved piece;
      return sums(rows.rows(first, first + n), piece);
    };
    return rounded(reduce_scatter_in_pieces(rows.dim(0), tokens_->tp(), pieces_, part));
  }
  // dy (n, O) -> dx (B, T, I)
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor all = dy;
    const auto dx = multiply_gathered(all, *tokens_, pieces_, [&](const Tensor& rows) {
      Saved piece;
      return std::vector<Tensor>{Linear::backward_input(rows, piece)};
    });
    keep_rows(*this, saved, "dy", all);
    return dx[0];
  }

 private:
  SequenceBorderPtr tokens_;
  Pieces pieces_;
};

inline void async_tensor_parallel(Mlp& mlp, const SequenceBorderPtr& border, Pieces pieces) {
  mlp.in = std::make_unique<AsyncColumns>(std::move(*mlp.in), border, pieces);
  mlp.down = std::make_unique<AsyncRowLinear>(std::move(*mlp.down), border, pieces);
}
inline void async_tensor_parallel(Attention& attention, const SequenceBorderPtr& border,
                                  Pieces pieces) {
  for (std::unique_ptr<Readers>* const readers : head_readers(attention))
    *readers = std::make_unique<AsyncColumns>(std::move(**readers), border, pieces);
  attention.o = std::make_unique<AsyncRowLinear>(std::move(*attention.o), border, pieces);
}

// A whole model, or a slice, after sequence_parallel(model, tp, T, keeps_gathered).
inline void async_tensor_parallel(Transformer& model, const Communicator& tp, int64_t T,
                                  bool keeps_gathered, Pieces pieces) {
  const auto border = std::make_shared<SequenceBorder>(tp, T, keeps_gathered);
  for (Block* block : model.blocks()) {
    async_tensor_parallel(block->attention, border, pieces);
    if (auto* const mlp = dynamic_cast<Mlp*>(block->mlp.get()))
      async_tensor_parallel(*mlp, border, pieces);
  }
  if (Head* const head = model.head())
    head->out = std::make_unique<AsyncColumns>(std::move(*head->out), border, pieces);
}

}  // namespace yotta
