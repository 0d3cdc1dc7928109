// Tensor parallelism: one layer on several ranks, each with a part of its matrices.
//
// A feed-forward layer y = act(x A) B has two matrices. Cut the first by columns and the second by
// rows, and every rank can go from x to its part of y alone, since act works number by number:
//
//                rank 0   rank 1
//     A (C, F)   [ A0   |  A1 ]      h_r = x A_r      (N, F/tp)   finished entries of h, so
//                                    a_r = act(h_r)               act(h) = [act(h_0) act(h_1)]
//     B (F, C)   [ B0 ] rank 0       y_r = a_r B_r    (N, C)      one term of each sum
//                [ B1 ] rank 1       y   = y_0 + y_1              one all_reduce
//
// This is Megatron's MLP. In Mlp A is `in` (up, and gate), and B is `down`.
//
//     x ──> f ──> A_r ──> act ──> B_r ──> g ──> y
//     forward     f: nothing              g: all_reduce, the sum of the y_r
//     backward    f: all_reduce of dx     g: nothing, every rank has dy already
//
// Why f: x reached the loss through every rank's A_r, so dx = sum over r of dh_r A_r' (A_r' is A_r
// transposed). f and g are conjugate: each is the other's backward. The other way round (A by rows,
// then B by columns) each rank would have a *part of the sum* before the activation, and act(a) +
// act(b) is not act(a + b). The naive way, both by columns, needs all of h before B: an all_gather
// of h, N F numbers, and one of y. By rows, B takes h where it lies.
//
// Attention is the same with heads for columns, since heads do not see each other: q, k and v by
// columns (whole heads, and the keys that they share with them), o by rows.
//     tp 2, H 4, K 2:    rank 0: q0 q1 with k0      rank 1: q2 q3 with k1
// The weights here have a row for each output, as in PyTorch: "A by columns" is a cut of the
// weight's rows.
//
// The serial layers stay as they are: their forward and backward have no word of ranks. Their
// weights are cut in place, and two parts are replaced:
//
//     Readers  in, qkv     ColumnParallel       f in front of all that read the same x: their dx
//                                               are added up before the one all_reduce
//     Linear   down, o     RowParallelLinear    g behind
//
// Every rank builds the same whole model and cuts it before the optimizer is made:
//
//     const auto border = std::make_shared<const Border>(tp);
//     for (Block* block : model.blocks()) {
//       tensor_parallel(block->attention, border);
//       tensor_parallel(dynamic_cast<Mlp&>(*block->mlp), border);
//     }
//
// (vocab_parallel.hpp does so for a whole model, and cuts its tables, too.) The model computes what
// the serial one does, up to rounding. Norms and the biases of o and down stay whole: their
// gradients are the same on all ranks, without a message.
//
// Megatron-LM's names (megatron/core/tensor_parallel: mappings.py, layers.py): f is
// copy_to_tensor_model_parallel_region, in ColumnParallelLinear; g is
// reduce_from_tensor_model_parallel_region, in RowParallelLinear.
//
// Cost of an Mlp and of an Attention each (a block: twice that), n = N C numbers, ring:
//     forward one all_reduce, backward one: in each a rank sends 2(tp-1)/tp n numbers in 2(tp-1)
//     messages, and waits for it; nothing is computed meanwhile
//     weights, FLOPs, and what is kept inside (h; q, k, v, o): a tp-th on each rank
//     x, y, and what is kept of them: whole on each rank (lesson 21 cuts them, too)
// Contract: all ranks of tp make the same calls in the same order, with the same x, dy and
// BatchPosition (so the same dropout masks); tp divides F, the heads and the key/value heads. On
// one rank nothing changes.
// Letters: N tokens, C width, F feed-forward width, tp ranks; I inputs and O outputs of a layer.
// Reference: Shoeybi et al. (2019), Megatron-LM, section 3 (f, g, figure 3).
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta {

// f and g: how the stream enters layers that are cut, and how their sums leave them. One Border
// serves all layers of a model. Virtual, since lesson 21 replaces it by one that cuts x and y, too.
class Border {
 public:
  explicit Border(Communicator tp) : tp_(std::move(tp)) {}
  virtual ~Border() = default;
  const Communicator& tp() const { return tp_; }

  // f: one x that all ranks read: its dx is the sum of every rank's dx.
  virtual Tensor enter(const Tensor& x) const { return x; }
  // This rank's dx (..., C) -> the sum over the ranks, in the same storage.
  virtual Tensor enter_back(Tensor dx) const {
    tp_.all_reduce(dx, ReduceOp::sum, {.label = "tp.backward"});
    return dx;
  }

  // g: this rank's y (..., C) -> the sum over the ranks, in the same storage.
  virtual Tensor leave(Tensor y) const {
    tp_.all_reduce(y, ReduceOp::sum, {.label = "tp.forward"});
    return y;
  }
  // y is the sum of the y_r, so dy_r = dy.
  virtual Tensor leave_back(const Tensor& dy) const { return dy; }

 private:
  Communicator tp_;
};
using BorderPtr = std::shared_ptr<const Border>;

// ---- the cut -----------------------------------------------------------------------------------

// Keeps of a whole parameter what is in `range`: rows and columns of a matrix; of a vector columns
// (it counts as one row). On the CPU the numbers are copied, and the whole is freed; of a shape
// alone (Device::meta) only the shape is cut. Before the first backward: no gradient is cut.
inline void keep_part(Parameter& parameter, const ShardRange& range) {
  const MemoryScope memory(MemoryKind::parameters);
  const DeviceScope device(parameter.value.device());
  const Shape shape = parameter.is_matrix ? Shape{range.rows, range.columns} : Shape{range.columns};
  Tensor part = Tensor::empty(shape, parameter.value.dtype());
  if (part.device() == Device::cuda)
    fail(Where::current(), "{}: a weight on a GPU is not cut; cut its shape: as_shapes()",
         parameter.name);
  if (part.device() == Device::cpu) take_shard(parameter.value, range, part);
  parameter.value = part;
  parameter.range = range;
}

// What each rank holds of `size` things; throws if they do not divide. `what` names them: "heads".
inline int64_t part_of(int64_t size, const Communicator& tp, const std::string& layer,
                       const char* what, Where where = Where::current()) {
  const int64_t ranks = tp.size();
  if (size % ranks != 0)
    fail(where,
         "{}: {} {} cannot be divided among the {} ranks of tensor parallelism; the nearest number "
         "that can is {}",
         layer, size, what, ranks, std::max<int64_t>(1, (size + ranks / 2) / ranks) * ranks);
  return size / ranks;
}

// By columns: of the weight (O, I) some rows, which are outputs, and their numbers of the bias.
inline void cut_by_columns(Linear& layer, const Communicator& tp) {
  const ShardRange whole = layer.weight_parameter().range;  // (O, I)
  const int64_t O = whole.rows, I = whole.columns;
  const int64_t held = part_of(O, tp, layer.name(), "outputs"), first = tp.rank() * held;
  keep_part(layer.weight_parameter(), {held, I, first, 0, O, I});
  if (layer.bias_parameter() != nullptr)
    keep_part(*layer.bias_parameter(), {1, held, 0, first, 1, O});
}

// By rows: of the weight (O, I) some columns, which are inputs. The bias is not cut: rank 0 alone
// adds it, or the sum would have it tp times. Its gradient, the sum of dy, is the same on every
// rank, so the copies stay equal without a message.
inline void cut_by_rows(Linear& layer, const Communicator& tp) {
  const ShardRange whole = layer.weight_parameter().range;  // (O, I)
  const int64_t O = whole.rows, I = whole.columns;
  const int64_t held = part_of(I, tp, layer.name(), "inputs");
  keep_part(layer.weight_parameter(), {O, held, 0, tp.rank() * held, O, I});
  layer.set_adds_bias(tp.rank() == 0);
}

// ---- the parts that are replaced ---------------------------------------------------------------

// Readers of one x, cut by columns.
//     F  x (..., I), the same on all ranks -> y (..., O/tp) of each Linear        f: nothing
//     I  dy (..., O/tp) of each -> dx (..., I), the same on all ranks             f: one all_reduce
//     W  local: each rank has all of x and its part of dy
class ColumnParallel : public Readers {
 public:
  ColumnParallel(Readers&& cut, BorderPtr border)
      : Readers(std::move(cut)), border_(std::move(border)) {}

  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    return Readers::forward(border_->enter(x), saved);
  }
  Tensor backward_input(const std::vector<Tensor>& dys, Saved& saved) override {
    return border_->enter_back(Readers::backward_input(dys, saved));
  }

 protected:
  BorderPtr border_;
};

// Cut by rows.
//     F  x (..., I/tp) -> y (..., O), the same on all ranks                       g: one all_reduce
//     I  dy (..., O), the same on all ranks -> dx (..., I/tp), this rank's        g: nothing
//
// Linear's forward is rounded(sums(x)): sums is x W' + b before it is rounded to the weights' type.
// g stands between the two, and sums travel in x's type. In a bf16 model that is 2 bytes a number,
// and each rank's sum is rounded before it is added, as in Megatron. With f32 x and bf16 weights
// they travel in f32, and the total is rounded once, as in the serial layer.
class RowParallelLinear : public Linear {
 public:
  RowParallelLinear(Linear&& cut, BorderPtr border)
      : Linear(std::move(cut)), border_(std::move(border)) {}

  Tensor forward(const Tensor& x, Saved& saved) override {
    return rounded(border_->leave(sums(x, saved)));
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return Linear::backward_input(border_->leave_back(dy), saved);
  }

 protected:
  BorderPtr border_;
};

// ---- whole layers ------------------------------------------------------------------------------

// config() of what is cut stays the whole model's.
inline void tensor_parallel(Mlp& mlp, const BorderPtr& border) {
  for (size_t i = 0; i < mlp.in->size(); ++i) cut_by_columns((*mlp.in)[i], border->tp());
  cut_by_rows(*mlp.down, border->tp());
  mlp.in = std::make_unique<ColumnParallel>(std::move(*mlp.in), border);
  mlp.down = std::make_unique<RowParallelLinear>(std::move(*mlp.down), border);
}

inline void tensor_parallel(Attention& attention, const BorderPtr& border) {
  const Communicator& tp = border->tp();
  const TransformerConfig& c = attention.config();
  const int64_t heads = part_of(c.heads, tp, attention.name(), "heads");
  part_of(c.kv_heads, tp, attention.name(), "key/value heads");  // only the check
  for (size_t i = 0; i < attention.qkv->size(); ++i) cut_by_columns((*attention.qkv)[i], tp);
  cut_by_rows(*attention.o, tp);
  attention.qkv = std::make_unique<ColumnParallel>(std::move(*attention.qkv), border);
  attention.o = std::make_unique<RowParallelLinear>(std::move(*attention.o), border);
  // A core takes the heads that it is given, each with its key. Only PlainCore's dropout has to
  // know which they are, to draw the masks of the serial model; and FlexCore, for ALiBi's slopes.
  if (auto* const plain = dynamic_cast<PlainCore*>(attention.core.get())) {
    plain->first_head = tp.rank() * heads;
    plain->all_heads = c.heads;
  }
  if (auto* const flex = dynamic_cast<FlexCore*>(attention.core.get()))
    flex->first_head = tp.rank() * heads;
}

// ---- cost --------------------------------------------------------------------------------------

// Bytes that all ranks together send in one enter_back or leave: a ring all_reduce of `numbers`.
constexpr int64_t tensor_parallel_bytes_sent_by_all(int64_t ranks, int64_t numbers,
                                                    int64_t bytes_each) {
  return 2 * (ranks - 1) * numbers * bytes_each;
}

}  // namespace yotta
