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
// This is Megatron's MLP. In Mlp below A is up_, and B is down_ with g inside.
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
// Attention is the same with heads for columns: q, k, v by columns (whole heads), o by rows
// (attention_layer.hpp). The weights here have a row for each output, as in PyTorch: "A by columns"
// is a cut of the weight's rows.
//
// The names are Megatron-LM's (megatron/core/tensor_parallel: mappings.py, layers.py):
//    f   CopyToTensorParallel      copy_to_tensor_model_parallel_region     in ColumnParallelLinear
//    g   ReduceFromTensorParallel  reduce_from_tensor_model_parallel_region in RowParallelLinear
// Here f stands in front of the column cuts, not inside: one f serves all that read the same x (q,
// k and v; gate and up), so their dx are added up before the one all_reduce.
//
// Cost per layer, n = N C numbers, ring: one all_reduce forward and one backward of 2(tp-1)/tp n
// each. Weights, FLOPs and what is kept inside are a tp-th on each rank; x and y are whole.
// Contract: all ranks of tp make the same calls with the same x and the same dy; tp divides F and
// the heads. tp may be an empty Communicator: one rank, which has everything and sends nothing.
// Letters: N tokens, C width, F feed-forward width, tp ranks; I inputs and O outputs of a layer.
// With a SequenceCut x and y are this rank's tokens: see sequence_parallel.hpp, async_mlp.hpp.
// Reference: Shoeybi et al. (2019), Megatron-LM, section 3 (f, g, figure 3).
#pragma once

#include <memory>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

namespace yotta {

// f: one x that all ranks of tp read. Its gradient is the sum of what they find.
class CopyToTensorParallel {
 public:
  explicit CopyToTensorParallel(const Communicator& tp = {}, const SequenceCut& cut = {})
      : tp_(tp), tokens_(tp, cut) {}
  Tensor forward(const Tensor& x) const { return tokens_.cuts() ? tokens_.forward(x) : x; }
  // dx (..., C), this rank's, in place -> the sum over the ranks.
  Tensor backward(Tensor dx) const {
    if (tokens_.cuts()) return tokens_.backward(dx);
    if (axis_size(tp_) > 1) tp_.all_reduce(dx, ReduceOp::sum, {.label = "tp.backward"});
    return dx;
  }
  const GatherFromSequenceParallel& tokens() const { return tokens_; }  // in f's place, if cut

 private:
  Communicator tp_;
  GatherFromSequenceParallel tokens_;
};

// g: the sum of the ranks' parts. The gradient of every part is that of the sum.
class ReduceFromTensorParallel {
 public:
  explicit ReduceFromTensorParallel(const Communicator& tp = {}, const SequenceCut& cut = {})
      : tp_(tp), tokens_(tp, cut) {}

  // y (..., C), this rank's part, in place -> the sum over the ranks.
  Tensor forward(Tensor y) const {
    if (tokens_.cuts()) return tokens_.forward(y);
    if (axis_size(tp_) > 1) tp_.all_reduce(y, ReduceOp::sum, {.label = "tp.forward"});
    return y;
  }
  Tensor backward(const Tensor& dy) const { return tokens_.cuts() ? tokens_.backward(dy) : dy; }

 private:
  Communicator tp_;
  ReduceScatterToSequenceParallel tokens_;  // in g's place
};

// What this rank holds of `size` things; throws if they do not divide. `what` is as in "heads".
inline int64_t part_of(int64_t size, const Communicator& tp, const std::string& layer,
                       const char* what, Where where = Where::current()) {
  const int64_t ranks = axis_size(tp);
  if (size % ranks != 0)
    fail(where,
         "{}: {} {} cannot be divided among the {} ranks of tensor parallelism; the nearest number "
         "that can is {}",
         layer, size, what, ranks, std::max<int64_t>(1, (size + ranks / 2) / ranks) * ranks);
  return size / ranks;
}

// The part of a whole linear layer that this rank holds, cut by columns: some of its outputs. It
// says where they stand in the whole (first_output, whole_outputs), whose initial values they get.
inline LinearOptions cut_by_columns(const LinearOptions& whole, const Communicator& tp,
                                    const std::string& layer) {
  LinearOptions part = whole;
  part.outputs = part_of(whole.outputs, tp, layer, "outputs");
  part.first_output = axis_rank(tp) * part.outputs;
  part.whole_outputs = whole.outputs;
  return part;
}

// Cut by rows: all outputs, from some of its inputs. The bias enters the sum once, on rank 0; every
// rank holds and trains it all the same, since each has the whole dy.
inline LinearOptions cut_by_rows(const LinearOptions& whole, const Communicator& tp,
                                 const std::string& layer) {
  LinearOptions part = whole;
  part.inputs = part_of(whole.inputs, tp, layer, "inputs");
  part.first_input = axis_rank(tp) * part.inputs;
  part.whole_inputs = whole.inputs;
  part.adds_bias = axis_rank(tp) == 0;
  return part;
}

// x (..., I), the same on all ranks -> y (..., O/tp). Whoever uses it puts f in front.
class ColumnParallelLinear : public Linear {
 public:
  ColumnParallelLinear(const std::string& name, const LinearOptions& whole,
                       const ParameterOptions& init = {}, const Communicator& tp = {})
      : Linear(name, cut_by_columns(whole, tp, name), init) {}
};

// x (..., I/tp) -> y (..., O), the same on all ranks: g is inside. The parts travel in x's type: in
// a bf16 model in 2 bytes per number, each rounded before it is added, as in Megatron; with f32 x
// in f32, and their sum is rounded once, as the serial layer's is.
class RowParallelLinear : public Linear {
 public:
  RowParallelLinear(const std::string& name, const LinearOptions& whole,
                    const ParameterOptions& init = {}, const Communicator& tp = {},
                    const SequenceCut& cut = {})
      : Linear(name, cut_by_rows(whole, tp, name), init), g_(tp, cut), tp_(tp), cut_(cut) {}
  // Linear's forward is rounded(sums(x)). Between the two g adds up the ranks' sums.
  Tensor forward(const Tensor& x, Saved& saved) override {
    if (!in_pieces(tp_, cut_)) return rounded(g_.forward(sums(x, saved)));
    const auto own = [this](const Tensor& rows, Saved& kept) { return sums(rows, kept); };
    return rounded(async_row_forward(*this, own, x, tp_, cut_, saved));
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    if (in_pieces(tp_, cut_)) return async_row_backward(*this, dy, tp_, cut_, saved);
    return Linear::backward_input(g_.backward(dy), saved);
  }

 private:
  ReduceFromTensorParallel g_;
  Communicator tp_;
  SequenceCut cut_;
};

// ---- the feed-forward half of a transformer's block --------------------------------------------
//     gelu (GPT-2)     x ──> f ──> up ──> h ──> gelu ──> down ──> dropout ──> y      2 C F weights
//     swiglu (Llama)   x ──> f ─┬> gate ─> silu ─┐
//                               └> up ───> h ────*──> down ──> dropout ──> y         3 C F weights
//
// Saved keeps x, h (gate's output), down's input. FLOPs: 2 per weight and token, backward 4.
enum class MlpKind : uint8_t { gelu, swiglu };

struct MlpOptions {
  MlpKind kind = MlpKind::gelu;
  int64_t width = 1, hidden = 4;  // C, F
  bool bias = true;
  double dropout = 0;
  Initial initial = normal(0.02);
  Initial initial_down = normal(0.02);  // of what is added to the residual stream
};

class Mlp : public Composite {
 public:
  Mlp(std::string name, const MlpOptions& o, const ParameterOptions& init = {},
      const Communicator& tp = {}, const SequenceCut& cut = {})
      : Composite(std::move(name)),
        f_(tp, cut),
        up_(this->name() + ".up", {o.width, o.hidden, o.bias, o.initial}, init, tp),
        down_(this->name() + ".down", {o.hidden, o.width, o.bias, o.initial_down}, init, tp, cut),
        dropout_(this->name() + ".dropout", o.dropout, tp, cut) {
    if (o.kind == MlpKind::swiglu)
      gate_ = std::make_unique<ColumnParallelLinear>(
          this->name() + ".gate", LinearOptions{o.width, o.hidden, o.bias, o.initial}, init, tp);
  }

  // Both (..., C) -> (..., C).
  // run(part, ...) is the part's forward, run_back its dgrad, each with the part's branch of Saved.
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor y;
    const Tensor shared = f_.forward(x);
    const Tensor h = run(up_, shared, saved);  // (..., F/tp)
    saved.keep("h", h);
    if (gate_ != nullptr) {
      const Tensor gate = run(*gate_, shared, saved);
      saved.keep("gate", gate);
      y = run(down_, swiglu(gate, h), saved);
    } else {
      y = run(down_, gelu(h), saved);
    }
    f_.tokens().drop_gathered(readers(), x, saved);
    return run(dropout_, y, saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dx;
    const Tensor dsum = run_back(dropout_, dy, saved);
    const Tensor dactive = run_back(down_, dsum, saved);  // (..., F/tp)
    const Tensor h = saved.take("h");
    if (gate_ != nullptr) {
      const SwigluGradients d = swiglu_backward(dactive, saved.take("gate"), h);
      dx = run_back(up_, d.dup, saved);
      gate_->add_backward_input(dx, d.dgate, saved.child(gate_->name()));  // dx += gate's
    } else {
      dx = run_back(up_, gelu_backward(dactive, h), saved);
    }
    dx = f_.backward(dx);
    return dx;
  }
  void backward_weight(Saved& saved) override {
    f_.tokens().gather_again(readers(), saved);
    Composite::backward_weight(saved);
  }

 protected:
  std::vector<Layer*> parts() override {
    std::vector<Layer*> all = readers();
    all.insert(all.end(), {&down_, &dropout_});
    return all;
  }

  // of f's x
  std::vector<Layer*> readers() {
    return gate_ != nullptr ? std::vector<Layer*>{gate_.get(), &up_} : std::vector<Layer*>{&up_};
  }

  CopyToTensorParallel f_;
  ColumnParallelLinear up_;  // A_r': (F/tp, C)
  RowParallelLinear down_;   // B_r': (C, F/tp)
  SequenceDropout dropout_;
  std::unique_ptr<ColumnParallelLinear> gate_;  // (F/tp, C), swiglu only
};

// Bytes that all ranks together send in one all_reduce of `numbers` numbers.
constexpr int64_t tensor_parallel_bytes_sent_by_all(int64_t ranks, int64_t numbers,
                                                    int64_t bytes_each) {
  return 2 * (ranks - 1) * numbers * bytes_each;
}

}  // namespace yotta
