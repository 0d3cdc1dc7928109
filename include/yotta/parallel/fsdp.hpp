// FSDP: fully sharded data parallelism. Every rank trains on its own shard of the batch, as with
// DDP, but holds only 1/p of the weights, gradients and optimizer state. A unit's weights are whole
// only while it computes.
//
//                        rank 0     rank 1     rank 2     rank 3
//     at rest            w . . .    . w . .    . . w .    . . . w     a quarter each
//     unshard            w w w w    w w w w    w w w w    w w w w     all_gather
//     forward            y of x0    y of x1    y of x2    y of x3
//     reshard            w . . .    . w . .    . . w .    . . . w     drop the rest
//     unshard            w w w w    w w w w    w w w w    w w w w     all_gather
//     dgrad              dx of x0   dx of x1   dx of x2   dx of x3    backward_input: reads w
//     reshard            w . . .    . w . .    . . w .    . . . w     drop the rest
//     wgrad              dw of x0   dw of x1   dw of x2   dw of x3    backward_weight: dw is whole
//     reduce             s . . .    . s . .    . . s .    . . . s     reduce_scatter: s, their sum
//
// dgrad and wgrad are the halves of backward. wgrad reads x and dy from Saved, where a microbatch
// keeps what its backward pass will need (nn/saved.hpp). It reads no weights, so the unit is
// dropped before it.
//
// A slice is some neighbouring layers of the stack. A unit is what is gathered together: a slice's
// weights as one flat array (flat_shard.hpp). While a unit computes, the next one travels:
//
//     compute   │    │ F0 │ F1 │ F2 │    │ B2 │ B1    │ B0 │    │    F forward, B backward
//     network   │ g0 │ g1 │ g2 │    │ g2 │ g1 │ r2 g0 │ r1 │ r0 │    g all_gather, r reduce_scatter
//
// Waited for: the first gather, the last unit's second one (keep_last saves it), the last
// reduction. At most two units' weights are whole at a time, and two units' gradients: one being
// made, one being summed. Slices that share a table (tied) are one unit, the root: it is whole from
// its first slice's forward to that slice's backward. fsdp_plan.hpp cuts the slices.
//
// The same without slices, prefetch or a reduction under way: naive_fsdp.hpp.
//
// Cost, for N parameters on p ranks in f32 with AdamW: 16 N/p bytes held. For every microbatch a
// rank sends 3 N (p-1)/p elements: two gathers and one reduction. A unit that stays whole from
// forward to backward is gathered once. DDP sends 2 N (p-1)/p, once a step. Borrowed memory and
// time: fsdp_cost.hpp. While Fsdp is built every rank holds the whole model; one that as_shapes()
// made has no values yet, and only this rank's parts are ever filled in (flat_shard.hpp).
// Contract: all ranks of `comm` build Fsdp over the same model with the same weights (each keeps
// its part of its own copy; nothing is broadcast) and run the same passes, including evaluation.
// Gradients are summed: loss = local sum / tokens of the whole batch (ddp.hpp). The model outlives
// Fsdp, and is run only through stack(); the optimizer is made afterwards, from
// parameters(fsdp.stack()); finish() comes before its step. wgrad must not read weights: they are
// gone by then.
// References: Rajbhandari et al. (2020), ZeRO (stage 3); Zhao et al. (2023), PyTorch FSDP.
#pragma once

#include <deque>
#include <optional>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/parallel/flat_shard.hpp"
#include "yotta/parallel/fsdp_plan.hpp"

namespace yotta {

struct FsdpOptions {
  int64_t layers_per_unit = 1;         // the embedding and the head count as layers
  bool prefetch = true;                // gather the next unit while this one computes
  bool reshard_after_forward = true;   // false: units stay whole until backward, 2 N elements sent
  bool keep_last = false;              // the last unit stays whole: backward begins with it
  std::optional<DType> gathered = {};  // bf16: weights are sent and used in it; shards keep theirs
  CommOptions comm = {};               // of all_gather and reduce_scatter: the algorithm, the nodes
};

// The weights of a slice of the model as one flat array, of which every rank holds an equal part.
class FsdpUnit {
 public:
  FsdpUnit(const std::vector<ParameterPtr>& parameters, const Communicator& comm,
           std::optional<DType> gathered, CommOptions options = {})
      : layout_(parameters, comm.size()),
        comm_(comm),
        options_(options),
        dtype_(gathered.value_or(layout_.dtype())) {
    const int64_t begin = comm_.rank() * layout_.shard_size();
    part_ = layout_.copy_part(begin, begin + layout_.shard_size());
    shards_ = layout_.cut_shards(part_, begin);
    layout_.drop_values();
  }
  FsdpUnit(const FsdpUnit&) = delete;

  const FlatLayout& layout() const { return layout_; }
  const std::vector<ParameterShard>& shards() const { return shards_; }
  bool is_gathered() const { return whole_.defined(); }  // or on its way

  // Starts to gather the whole unit, unless it is there or on its way.
  void prefetch() {
    if (is_gathered()) return;
    const MemoryScope memory(MemoryKind::buffers);
    sent_ = part_.dtype() == dtype_ ? part_ : part_.to(dtype_);
    whole_ = Tensor::empty({layout_.size()}, dtype_);
    gathering_ = comm_.all_gather_async(whole_, sent_, options_.labelled("fsdp.all_gather"));
  }

  // The layers' weights are whole from here on.
  void unshard() {
    prefetch();
    gathering_.wait();
    sent_ = {};
    layout_.set_values(whole_);
  }
  void reshard() {
    layout_.drop_values();
    whole_ = {};
  }

  // Before wgrad: the layers' gradients become views of one flat array, zero at first.
  void open_gradients() {
    finish_reduce();                   // of the microbatch before, if it still travels
    if (gradients_.defined()) return;  // the root's second slice adds to what the first has left
    const MemoryScope memory(MemoryKind::buffers);
    const bool is_narrow = bytes_of(layout_.dtype()) < 4;
    gradients_ = Tensor::zeros({layout_.size()}, is_narrow ? DType::f32 : layout_.dtype());
    layout_.set_gradients(gradients_);
  }

  // Starts to sum the gradients over the ranks; each gets its part of the sum.
  void reduce() {
    layout_.drop_gradients();
    const MemoryScope memory(MemoryKind::buffers);
    reduced_ = Tensor::empty({layout_.shard_size()}, gradients_.dtype());
    reducing_ = comm_.reduce_scatter_async(reduced_, gradients_, ReduceOp::sum,
                                           options_.labelled("fsdp.reduce"));
  }

  // Adds the sum to the shards' gradients, once it is there. Microbatches add up here.
  void finish_reduce() {
    if (!reduced_.defined()) return;
    reducing_.wait();
    int64_t begin = 0;
    for (const ParameterShard& shard : shards_) {
      const int64_t end = begin + shard.parameter->value.numel();
      add_into(shard.parameter->gradient(), reduced_.rows(begin, end));
      shard.parameter->mark_grad_ready(0);  // its one use: Hsdp hears of it
      begin = end;
    }
    gradients_ = {};
    reduced_ = {};
  }

 private:
  FlatLayout layout_;
  Communicator comm_;
  CommOptions options_;
  DType dtype_;                         // of gathered weights
  Tensor part_;                         // (n/p), n the padded size: this rank's weights
  std::vector<ParameterShard> shards_;  // the same memory, parameter by parameter
  Tensor sent_, whole_;                 // (n/p), (n): while gathered
  Tensor gradients_, reduced_;          // (n), (n/p): from wgrad to finish_reduce()
  Work gathering_, reducing_;
};

// What a slice of the stack needs to know of the others.
struct FsdpNeighbours {
  FsdpUnit *before = nullptr, *after = nullptr;  // units of the slices beside it, to prefetch
  bool stays = false;                            // its unit stays whole from forward to backward
  FsdpUnit** reducing = nullptr;  // Fsdp::reducing_: the unit whose sum is under way, if one is
};

// A slice's layers, with its unit gathered before and dropped after them. The training loop runs it
// in place of the slice. x, y, dy, dx: what the slice's layers take and make, (B, T, C) between
// blocks.
class FsdpLayer : public Sequential {
 public:
  FsdpLayer(const FsdpPlan::Slice& slice, FsdpUnit& unit, const FsdpNeighbours& neighbours)
      : Sequential(slice.layers), slice_(slice), unit_(unit), neighbours_(neighbours) {}

  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor y;
    unit_.unshard();
    if (neighbours_.after != nullptr) neighbours_.after->prefetch();
    y = Sequential::forward(x, saved);
    const bool stays =
        neighbours_.stays && saved.position().training;  // evaluation has no backward
    if (slice_.is_last && !stays) unit_.reshard();
    return y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dx;
    unit_.unshard();
    if (neighbours_.before != nullptr) neighbours_.before->prefetch();
    dx = Sequential::backward_input(dy, saved);
    if (slice_.is_first) unit_.reshard();
    return dx;
  }
  void backward_weight(Saved& saved) override {
    unit_.open_gradients();
    Sequential::backward_weight(saved);
    if (!slice_.is_first) return;
    FsdpUnit*& reducing = *neighbours_.reducing;
    if (reducing != nullptr) reducing->finish_reduce();
    unit_.reduce();
    reducing = &unit_;
  }

  // The shards of this rank.
  void add_parameters(std::vector<ParameterPtr>& to) override {
    for (const ParameterShard& shard : unit_.shards()) to.push_back(shard.parameter);
    if (slice_.outer) Sequential::add_parameters(to);  // of the unit inside this one
  }

 private:
  FsdpPlan::Slice slice_;  // is it the first, the last of its unit's? outer: a unit around it
  FsdpUnit& unit_;
  FsdpNeighbours neighbours_;
};

class Fsdp {
 public:
  Fsdp(Layers model, const Communicator& comm, FsdpOptions options = {})
      : Fsdp(plan_fsdp(model, options.layers_per_unit), comm, options) {}
  // In units of your own plan; options.layers_per_unit is not read.
  Fsdp(const FsdpPlan& plan, const Communicator& comm, FsdpOptions options = {}) : comm_(comm) {
    for (const std::vector<ParameterPtr>& parameters : plan.parameters)
      units_.emplace_back(parameters, comm, options.gathered, options.comm);
    const std::vector<FsdpPlan::Slice>& slices = plan.slices;
    // The unit that slice i needs first; none for -1 and for the end.
    const auto to_prefetch = [&](size_t i) {
      const bool exists = options.prefetch && i < slices.size();
      return exists ? &units_[slices[i].outer.value_or(slices[i].unit)] : nullptr;
    };
    size_t end = slices.size();  // of the slices before the root at the end
    while (end > 0 && slices[end - 1].is_root()) --end;
    for (size_t i = 0; i < slices.size(); ++i) {
      const bool stays = slices[i].is_root() || !options.reshard_after_forward ||
                         (options.keep_last && i + 1 == end);
      add_layer(slices[i], {to_prefetch(i - 1), to_prefetch(i + 1), stays, &reducing_},
                options.prefetch);
    }
  }
  Fsdp(const Fsdp&) = delete;
  Fsdp& operator=(const Fsdp&) = delete;

  // The model in units: what the training loop runs. Its parameters() are the shards of this rank.
  Layers stack() const { return layers_; }
  std::deque<FsdpUnit>& units() { return units_; }

  // After backward: waits for the last reduction.
  void finish() {
    const PhaseScope phase(Phase::backward_weight);
    if (reducing_ != nullptr) reducing_->finish_reduce();
    reducing_ = nullptr;
  }

  // What the ranks' sums of squares over their shards add up to: for clipping.
  double sum_of_squares(double mine) const { return sum_over(comm_, mine, "fsdp.norm"); }

 private:
  // A slice's own weights are one unit. If it also has weights that other slices share (a tied
  // table, in the root), that outer unit goes around it: gather outer, gather own, compute.
  void add_layer(FsdpPlan::Slice slice, FsdpNeighbours to, bool prefetch) {
    FsdpUnit& own = units_[slice.unit];
    const std::optional<size_t> outer = std::exchange(slice.outer, std::nullopt);
    auto layer = std::make_unique<FsdpLayer>(slice, own, to);
    if (!outer) return layers_.push_back(std::move(layer));
    inner_.push_back(std::move(layer));
    if (prefetch) to.before = to.after = &own;
    const FsdpPlan::Slice around{Layers(&inner_.back(), 1), *outer, true, true, outer};
    layers_.push_back(std::make_unique<FsdpLayer>(around, units_[*outer], to));
  }

  Communicator comm_;
  std::deque<FsdpUnit> units_;  // layers hold addresses of its elements
  FsdpUnit* reducing_ = nullptr;
  std::deque<LayerPtr> inner_;  // what layers_ wraps where a slice needs two units
  std::vector<LayerPtr> layers_;
};

}  // namespace yotta
