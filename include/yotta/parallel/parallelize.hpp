// parallelize: one transformer on one mesh, every axis with its technique.
//
//     ddp or zero     over cp x ep x dp_replicate; beside fsdp: ddp over ep x dp_replicate
//      └ pipeline     over pp                a stage is a slice of the stack
//         └ fsdp      over cp x dp_shard     a unit is a slice of a stage
//            └ activation checkpointing      runs forward again in backward
//               └ layers   over tp (heads, widths, tokens), cp (the sequence), ep (experts)
//
// Axes of the mesh: dp data (replicate: whole copies; shard: FSDP), pp pipeline stages, cp context
// (parts of a sequence), ep experts, tp tensor (parts of a matrix); each has its communicator.
//
// Inside the layers parts are replaced: parallelize(Transformer&, ...). Around them slices of the
// stack are wrapped, and gradients are summed: ParallelTransformer. Each technique is the code of
// its own file, unchanged. It knows what it wraps or replaces, and nothing of the others. Who must
// sum what: gradient_groups.hpp.
//
// A step:   gradients to zero
//           pipeline->run(...); without one, for each microbatch:
//               forward of stack(), sync_if(is it the last?), backward
//           finish(): gradients are complete
//           clip, before_step(), the optimizer's step on held(), after_step()
//
// Cost: the sum of the techniques', each on its own axis (see its file): nothing else is sent.
// Backward: each technique's own, in the reverse order of the picture.
// Contract: all ranks of the mesh make it and train with it; model/layout_rules.hpp says beforehand
// what cannot work. A mesh of one rank is the serial model. Letters: T tokens of a sequence on this
// rank.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/nn/chunked_loss.hpp"
#include "yotta/nn/load_balance.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/expert_parallel.hpp"
#include "yotta/parallel/flex_ring.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/nd_groups.hpp"
#include "yotta/parallel/nd_options.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/sequence_parallel.hpp"
#include "yotta/parallel/stage_entries.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/tied_parameters.hpp"
#include "yotta/parallel/ulysses.hpp"
#include "yotta/parallel/vocab_parallel_loss.hpp"
#include "yotta/parallel/zero.hpp"

namespace yotta {

// ---- inside the layers -------------------------------------------------------------------------

// Replaces the layers of a serial model, or of a slice of one, by this rank's part. `routed`: the
// ranks over which experts' loads are counted, those with other tokens of the same microbatch;
// empty: ep. If as_shapes() made the model, materialise() gives it values afterwards, so that
// nobody ever holds the whole.
inline void parallelize(Transformer& model, Mesh& mesh, const NdOptions& o,
                        const Communicator& routed = {}) {
  const Communicator &tp = mesh[Axis::tp], &cp = mesh[Axis::cp];
  const int64_t T = o.tokens(model.config()) / cp.size();
  BorderPtr border;  // f and g of tp (tensor_parallel.hpp); none: tp is one rank
  if (tp.size() > 1) {
    tensor_parallel(model, tp);
    border = std::make_shared<Border>(tp);
  }
  if (tp.size() > 1 && o.shares_tokens()) {
    sequence_parallel(model, tp, T, o.keep_gathered);
    border = std::make_shared<SequenceBorder>(tp, T, o.keep_gathered);
    if (o.pieces != Pieces::none) async_tensor_parallel(model, tp, T, o.keep_gathered, o.pieces);
  }
  if (model.config().mixture.experts > 0)
    mix_experts(model, {.ep = mesh[Axis::ep], .routed = routed, .border = border});
  const bool flex = model.config().attention == AttentionKind::flex;
  if (cp.size() > 1 && o.context == ContextParallel::ring)
    flex ? flex_ring(model, cp) : ring_attention(model, cp);
  if (cp.size() > 1 && o.context == ContextParallel::ulysses)
    flex ? flex_ulysses(model, cp) : ulysses(model, cp);
}

// The loss of a model whose logits lie as parallelize left them: (B, T, V), or (B, T, V/tp).
inline LossOf loss_on(Mesh& mesh, const TransformerConfig& config) {
  if (mesh.size(Axis::tp) == 1) return loss_of;
  return vocab_parallel_loss(config.vocabulary, mesh[Axis::tp]);
}
// The same of `loss_tokens` at a time, if the head is in this slice.
inline LossOf loss_on(Mesh& mesh, const TransformerConfig& config, Head* head,
                      int64_t loss_tokens) {
  LossOf whole = loss_on(mesh, config);
  if (head == nullptr || loss_tokens == 0) return whole;
  return chunked_loss(*head, loss_tokens, std::move(whole));
}

// ---- around the layers -------------------------------------------------------------------------

class ParallelTransformer {
 public:
  // `load`: gives a stage's whole layers other than their initial values, before they are wrapped.
  using Load = std::function<void(Layers)>;
  ParallelTransformer(const TransformerConfig& config, Mesh& mesh, const NdOptions& options,
                      const Load& load = {}, Where where = Where::current())
      : groups(mesh,
               {mesh.shape(),
                options.shares_tokens(),
                {},
                mesh.size(Axis::dp_shard) > 1,
                options.zero.stage > 0},
               config.mixture.experts > 0, where),
        config_(config),
        mesh_(mesh),
        options_(options),
        biases_(config.mixture.bias_rate) {
    check_options(options, where);
    for (int chunk = 0; chunk < options.pipeline().chunks_of_rank(); ++chunk) {
      stages_.push_back(make_stage(chunk, load));
      chunks_.push_back(std::make_unique<Sequential>(stages_.back().layers));
    }
    connect_stages();
    share_gradients();
  }

  // This rank's layers: if it has several stages, each as one layer.
  Layers stack() const { return stages_.size() == 1 ? stages_[0].layers : Layers(chunks_); }

  // What this rank's optimizer steps: whole parameters, or with FSDP or ZeRO this rank's pieces.
  std::vector<ParameterShard> held() const {
    std::vector<ParameterShard> all;
    const auto hold = [&](const std::vector<ParameterShard>& shards) {
      all.insert(all.end(), shards.begin(), shards.end());
    };
    for (const Stage& stage : stages_) {
      if (stage.fsdp)
        for (const FsdpUnit& unit : stage.fsdp->units()) hold(unit.shards());
      for (const auto& zero : stage.zero)
        for (const ZeroBucket& bucket : zero->buckets()) hold(bucket.shards);
      if (!stage.fsdp && !has_zero())
        for (const ParameterPtr& each : parameters(stage.layers))
          all.push_back({each, each->value.shape(), 0});
    }
    return all;
  }

  // Before each microbatch's backward pass; a pipeline calls it before each B, I and W. DDP sums in
  // the last one of a step, and is quiet in the others. A sum of FSDP's that is still under way
  // ends before the change (hsdp.hpp): it belongs to the microbatch before. ZeRO-2 reduces in each.
  void sync_if(bool last) {
    const bool changes = !ddp_.empty() && last != quiet_.empty();
    for (Stage& stage : stages_) {
      for (const auto& zero : stage.zero) zero->flush();
      if (stage.fsdp && changes) stage.fsdp->finish();
    }
    if (changes && last) quiet_.clear();
    if (changes && !last)
      for (Ddp& each : ddp_) quiet_.emplace_back(each);
  }

  // After the last: every gradient is summed over the ranks that have another part of it. What is
  // under way ends; or, naive, one all_reduce for each parameter; then tied tables, over pp; what
  // each rank of tp holds whole but has used on its own tokens (norms); and experts' loads.
  void finish() {
    for (Stage& stage : stages_) {
      if (stage.fsdp) stage.fsdp->finish();
      for (const auto& zero : stage.zero) zero->finish();
    }
    for (Ddp& each : ddp_) each.finish();
    const std::vector<ParameterPtr> all = stepped();
    const auto sets = groups.sets(all);  // sets[i]: what groups.data[i] sums
    if (options_.naive_gradients)
      for (size_t i = 0; i < sets.size(); ++i)
        reduce_gradients(sets[i], groups.data[i], ReduceOp::sum);
    if (tied_) tied_->reduce();
    if (shares_tokens()) reduce_own_token_gradients(all, mesh_[Axis::tp]);
    biases_.take(all);
  }

  // Around the optimizer's step: moves the routers' biases; ZeRO gathers the new weights.
  void before_step() { biases_.step(); }
  void after_step() {
    for (Stage& stage : stages_)
      for (const auto& zero : stage.zero) zero->gather();
  }

  // The loss of what the stack gives; if another rank has the head, never called.
  LossOf loss() const {
    Head* head = nullptr;
    for (const Stage& stage : stages_)
      if (Head* const own = stage.model->head()) head = own;
    return loss_on(mesh_, config_, head, options_.loss_tokens);
  }

  bool has_zero() const { return options_.zero.stage > 0; }
  bool is_sharded() const { return mesh_.size(Axis::dp_shard) > 1; }
  bool shares_tokens() const { return options_.shares_tokens() && mesh_.size(Axis::tp) > 1; }

  NdGroups groups;                   // who sums what
  std::optional<Pipeline> pipeline;  // none: one stage, one chunk

 private:
  // A chunk of this rank: a stage of the model, with what is wrapped around its layers.
  struct Stage {
    std::unique_ptr<Transformer> model;
    std::vector<LayerPtr> checkpointed;
    std::unique_ptr<Fsdp> fsdp;
    std::vector<std::unique_ptr<Zero>> zero;  // of each set of parameters
    Layers layers;
  };

  Stage make_stage(int chunk, const Load& load) {
    const PipelinePlan plan = options_.pipeline();
    const int pp = mesh_.size(Axis::pp), stages = plan.stages(pp);
    const int stage = stage_on(plan.placement(), mesh_.coordinate(Axis::pp), chunk, pp);
    const StageLayers entries = stage_entries(config_, stages, stage, options_.ends_count);
    if (config_.tied && stages > 1) options_.zero.apart = {tied_table};
    Stage made;
    made.model = as_shapes([&] {
      auto model = std::make_unique<Transformer>(config_, entries.first, entries.last);
      parallelize(*model, mesh_, options_, groups.routed);
      return model;
    });
    made.layers = made.model->stack();
    // With FSDP nobody ever holds the whole stage, unless weights are to be loaded into it: Fsdp
    // fills in its own parts.
    if (!is_sharded() || load) materialise(parameters(made.layers));
    groups.count_copies(parameters(made.layers));
    if (load) load(made.layers);
    wrap(made, stages, stage);
    return made;
  }

  // Checkpoints inside; around them FSDP's units or ZeRO, never both (model/layout_rules.hpp).
  void wrap(Stage& made, int stages, int stage) {
    if (options_.checkpoint.what != Recompute::none) {
      made.checkpointed = checkpointed_stage(made.layers, options_.checkpoint, stages, stage,
                                             options_.checkpoint_blocks);
      made.layers = made.checkpointed;
    }
    if (is_sharded()) {
      const FsdpPlan units = plan_fsdp(made.layers, options_.fsdp.layers_per_unit);
      made.fsdp = std::make_unique<Fsdp>(with_own_units(units, options_.zero.apart), groups.shards,
                                         options_.fsdp);
      made.layers = made.fsdp->stack();
    }
    if (!has_zero()) return;
    const auto sets = groups.sets(parameters(made.layers));
    for (size_t i = 0; i < sets.size(); ++i)
      made.zero.push_back(std::make_unique<Zero>(sets[i], groups.data[i], options_.zero));
  }

  void connect_stages() {
    if (mesh_.size(Axis::pp) == 1 && stages_.size() == 1) return;
    tied_.emplace(stepped(), mesh_[Axis::pp]);
    std::vector<Layers> chunks;
    for (const Stage& stage : stages_) chunks.push_back(stage.layers);
    pipeline.emplace(mesh_[Axis::pp], chunks, [this](bool last) { sync_if(last); });
  }

  void share_gradients() {
    if (has_zero()) return;
    const auto sets = groups.sets(stepped());
    for (size_t i = 0; i < sets.size(); ++i) {
      if (options_.naive_gradients)
        broadcast_parameters(sets[i], groups.data[i]);
      else if (groups.data[i].size() > 1)
        ddp_.emplace_back(sets[i], groups.data[i], options_.ddp);
    }
  }

  std::vector<ParameterPtr> stepped() const {
    std::vector<ParameterPtr> all;
    for (const ParameterShard& each : held()) all.push_back(each.parameter);
    return all;
  }

  TransformerConfig config_;
  Mesh& mesh_;
  NdOptions options_;
  std::deque<Stage> stages_;
  std::vector<LayerPtr> chunks_;  // stages as layers
  std::optional<TiedParameters> tied_;
  std::deque<Ddp> ddp_;            // of each set of parameters that several ranks sum
  std::deque<Ddp::NoSync> quiet_;  // one for each Ddp while it is quiet; empty: they sum
  RouterBiases biases_;
};

}  // namespace yotta
