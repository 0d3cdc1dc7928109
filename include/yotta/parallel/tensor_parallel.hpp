// Tensor parallelism: one layer on several ranks, each with a part of its matrices.
//
// A feed-forward layer y = act(x A) B has two matrices. Cut the first by columns and the second by
// rows, and every rank can go from x to its part of y alone, since act works number by number:
//
//              rank 0      rank 1
//     A (C, F) [ A0     |  A1 ]      h_r = x A_r      (N, F/tp)   whole numbers of h, so
//                                    a_r = act(h_r)               act(h) = [act(h_0) act(h_1)]
//     B (F, C) [ B0 ]                y_r = a_r B_r    (N, C)      a part of every sum
//              [ B1 ]                y   = y_0 + y_1              one all_reduce
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
// act(b) is not act(a + b).
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
// Megatron-LM's names (megatron/core/tensor_parallel: mappings.py, layers.py): f is
// copy_to_tensor_model_parallel_region, in ColumnParallelLinear; g is
// reduce_from_tensor_model_parallel_region, in RowParallelLinear.
//
// Cost per layer, n = N C numbers, ring: one all_reduce forward and one backward of 2(tp-1)/tp n
// each. Weights, FLOPs and what is kept inside are a tp-th on each rank; x and y are whole.
// Contract: all ranks of tp make the same calls with the same x and the same dy; tp divides F, the
// heads and the key/value heads. On one rank nothing changes.
// Letters: N tokens, C width, F feed-forward width, tp ranks; I inputs and O outputs of a layer.
// Reference: Shoeybi et al. (2019), Megatron-LM, section 3 (f, g, figure 3).
#pragma once

#include <memory>
#include <string>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta {

// f and g: how the stream enters layers that are cut, and how their sums leave them.
class Border {
 public:
  explicit Border(Communicator tp) : tp_(std::move(tp)) {}
  virtual ~Border() = default;
  const Communicator& tp() const { return tp_; }

  // f: one x that all ranks read. Its gradient is the sum of what they find.
  virtual Tensor enter(const Tensor& x) const { return x; }
  // dx (..., C), this rank's, in place -> the sum over the ranks.
  virtual Tensor enter_back(Tensor dx) const {
    tp_.all_reduce(dx, ReduceOp::sum, {.label = "tp.backward"});
    return dx;
  }

  // g: y (..., C), this rank's part, in place -> the sum over the ranks.
  virtual Tensor leave(Tensor y) const {
    tp_.all_reduce(y, ReduceOp::sum, {.label = "tp.forward"});
    return y;
  }
  // The gradient of every part is that of the sum.
  virtual Tensor leave_back(const Tensor& dy) const { return dy; }

 private:
  Communicator tp_;
};
using BorderPtr = std::shared_ptr<const Border>;

// ---- the cut -----------------------------------------------------------------------------------

// Keeps of a parameter what is in `range` of the whole. It must be whole so far, and in the host's
// memory or a shape alone.
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

// What each rank holds of `size` things; throws if they do not divide. `what` is as in "heads".
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

// By rows: of the weight (O, I) some columns, which are inputs. Every rank has the whole bias, and
// trains it, since it has the whole dy; but the bias enters the sum once, on rank 0.
inline void cut_by_rows(Linear& layer, const Communicator& tp) {
  const ShardRange whole = layer.weight_parameter().range;  // (O, I)
  const int64_t O = whole.rows, I = whole.columns;
  const int64_t held = part_of(I, tp, layer.name(), "inputs");
  keep_part(layer.weight_parameter(), {O, held, 0, tp.rank() * held, O, I});
  layer.set_adds_bias(tp.rank() == 0);
}

// ---- the parts that are replaced ---------------------------------------------------------------

// Readers of one x, cut by columns: x (..., I), the same on all ranks -> y (..., O/tp) of each.
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

// Cut by rows: x (..., I/tp) -> y (..., O), the same on all ranks. Linear's forward is
// rounded(sums(x)); between the two g adds up the ranks' sums. They travel in x's type: in a bf16
// model in 2 bytes per number, each rounded before it is added, as in Megatron; with f32 x in f32,
// and their sum is rounded once, as the serial layer's is.
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
  part_of(c.kv_heads, tp, attention.name(), "key/value heads");
  for (size_t i = 0; i < attention.qkv->size(); ++i) cut_by_columns((*attention.qkv)[i], tp);
  cut_by_rows(*attention.o, tp);
  attention.qkv = std::make_unique<ColumnParallel>(std::move(*attention.qkv), border);
  attention.o = std::make_unique<RowParallelLinear>(std::move(*attention.o), border);
  if (auto* const plain = dynamic_cast<PlainCore*>(attention.core.get()))  // its dropout
    plain->first_head = tp.rank() * heads, plain->all_heads = c.heads;
}

// Bytes that all ranks together send in one all_reduce of `numbers` numbers.
constexpr int64_t tensor_parallel_bytes_sent_by_all(int64_t ranks, int64_t numbers,
                                                    int64_t bytes_each) {
  return 2 * (ranks - 1) * numbers * bytes_each;
}

}  // namespace yotta
