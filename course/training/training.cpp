#include "course/training/training.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "course/options/console.hpp"
#include "course/training/diloco_state.hpp"
#include "course/training/mask_text.hpp"
#include "course/training/requeue.hpp"
#include "course/training/same_everywhere.hpp"
#include "course/training/training_text.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/described_step.hpp"
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/files/hugging_face.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/model/files/tokenizer_json.hpp"
#include "yotta/model/loader.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/ema.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/expert_parallel.hpp"
#include "yotta/plan/mfu.hpp"
#include "yotta/resilience/rerouted_model.hpp"

namespace yotta {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What must stay as it was for a resumed run to be the same run.
Metadata fixed_options(const TrainingPlan& plan, const TrainingText& text) {
  Metadata all = {{"batch", std::to_string(plan.batch)},
                  {"clip", fmt::format("{}", plan.clip)},
                  {"dropout", fmt::format("{}", plan.model.dropout)},
                  {"dtype", name(plan.model.dtype)},
                  {"learning_rate", fmt::format("{}", plan.learning_rate)},
                  {"steps", std::to_string(plan.steps)},
                  {"text", text.hash()},
                  {"warmup", std::to_string(plan.warmup)},
                  {"weight_decay", fmt::format("{}", plan.adamw.weight_decay)}};
  if (plan.optimizer != "adamw") {  // runs of AdamW need not say so
    all["optimizer"] = plan.optimizer;
    all["momentum"] = fmt::format("{}", plan.momentum);
  }
  if (const MixtureConfig& m = plan.model.mixture; m.experts > 0)
    for (const auto& [name, value] : {std::pair{"capacity", m.capacity},
                                      {"balance_loss", m.balance_loss},
                                      {"z_loss", m.z_loss},
                                      {"bias_rate", m.bias_rate}})
      all[name] = fmt::format("{}", value);
  if (plan.balance_over != "microbatch") all["balance_over"] = plan.balance_over;
  if (plan.ema > 0) all["ema"] = fmt::format("{}", plan.ema);
  if (plan.workers > 0) {
    all["diloco"] = describe_diloco(plan.workers, plan.diloco);
    all["layout"] = describe(layout_of(plan));  // each rank goes on from what it held itself
  }
  if (const std::string mask = describe_mask(plan.model.mask); mask != "causal") all["mask"] = mask;
  if (plan.pack) all["pack"] = "files";
  if (!plan.separator.empty()) all["separator"] = plan.separator;
  if (plan.sequence > 0) all["context"] = std::to_string(plan.sequence);
  if (text.has_tokenizer()) all["tokenizer"] = text.tokenizer_hash();
  return all;
}

CheckpointOptions checkpoint_options(const TrainingPlan& plan) {
  if (plan.recompute == "attention") return {.what = Recompute::attention};
  if (plan.recompute == "all") return {.what = Recompute::all, .every = 1};
  if (plan.recompute == "sqrt") return {.what = Recompute::all, .every = 0};
  if (plan.recompute == "pointwise") return {.what = Recompute::pointwise};
  if (plan.recompute == "revolve") return {.what = Recompute::revolve, .snapshots = plan.snapshots};
  return {.what = Recompute::none};
}

// With chunks, 1F1B and ZB-H1 are interleaved.
PipelineKind schedule_of(const TrainingPlan& plan) {
  const bool chunks = plan.chunks > 1;
  if (plan.schedule == "naive") return PipelineKind::naive;
  if (plan.schedule == "gpipe") return PipelineKind::gpipe;
  if (plan.schedule == "zb-h1") return chunks ? PipelineKind::interleaved_zb : PipelineKind::zb_h1;
  if (plan.schedule == "zb-h2") return PipelineKind::zb_h2;
  if (plan.schedule == "zb-v") return PipelineKind::zb_v;
  if (plan.schedule == "dualpipe") return PipelineKind::dual_pipe;
  if (plan.schedule == "dualpipev") return PipelineKind::dual_pipe_v;
  if (plan.schedule == "auto") return PipelineKind::automatic;
  return chunks ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
}

NdOptions nd_options(const TrainingPlan& plan) {
  NdOptions options;
  options.microbatches = plan.microbatches;
  options.balance_over_batch = plan.balance_over == "batch";
  options.sequence = plan.sequence;
  options.checkpoint = checkpoint_options(plan);
  options.checkpoint_blocks = plan.recompute_blocks;
  options.loss_tokens = plan.loss_tokens;
  options.chunks = plan.chunks;
  options.hold = plan.hold;
  options.schedule = schedule_of(plan);
  options.ddp = {plan.bucket_bytes, ReduceOp::sum, plan.gradients == "overlapped"};
  options.naive_gradients = plan.gradients == "naive";
  if (plan.context_parallel == "ulysses") options.context = ContextParallel::ulysses;
  options.sequence_parallel = plan.sequence_parallel;
  options.keep_gathered = plan.keep_gathered;
  if (plan.async_tp) options.pieces = plan.both_ways ? Pieces::both_ways : Pieces::one_way;
  options.zero = {.stage = plan.zero == 3 ? 0 : plan.zero, .bucket_bytes = plan.bucket_bytes};
  if (plan.bf16_gradients) options.zero.gradients = DType::bf16;
  options.fsdp.layers_per_unit = plan.layers_per_unit;
  options.fsdp.reshard_after_forward = !plan.no_reshard;
  if (plan.bf16_gathered) options.fsdp.gathered = DType::bf16;
  return options;
}

// What makes a run: all ranks must have been started with the same.
Facts facts_of(const TrainingPlan& plan, const TrainingText& text) {
  const TransformerConfig& m = plan.model;
  const auto text_of = [](const auto& value) { return fmt::format("{}", value); };
  Facts all = {{"the program", epoch_host() != nullptr ? program_stamp() : program_digest()},
               {"--text", text.hash()},
               {"the model's tokenizer.json", text.tokenizer_hash()},
               {"--optimizer", plan.optimizer},
               {"--prompt", hash_of(plan.prompt)}};
  for (const auto& [name, value] : fixed_options(plan, text)) {
    const auto stands_apart = {"text", "tokenizer", "optimizer", "ema", "diloco", "layout"};
    if (std::find(stands_apart.begin(), stands_apart.end(), name) != stands_apart.end()) continue;
    std::string option = name == "learning_rate" ? "--lr" : "--" + name;
    std::replace(option.begin(), option.end(), '_', '-');
    all.push_back({option, value});
  }
  const Facts more = {{"--seed", text_of(m.seed)},
                      {"--dialect", name(m.dialect)},
                      {"--layers", text_of(m.layers)},
                      {"--width", text_of(m.width)},
                      {"--heads", text_of(m.heads)},
                      {"--kv-heads", text_of(m.kv_heads)},
                      {"--feed-forward", text_of(m.feed_forward)},
                      {"the model's context", text_of(m.context)},
                      {"--untied", text_of(!m.tied)},
                      {"--experts", text_of(m.mixture.experts)},
                      {"--top-k", text_of(m.mixture.top_k)},
                      {"--shared-experts", text_of(m.mixture.shared)},
                      {"--router", name(m.mixture.score)},
                      {"--expert-groups", text_of(m.mixture.groups)},
                      {"--top-groups", text_of(m.mixture.top_groups)},
                      {"--dense-layers", text_of(m.mixture.dense_layers)},
                      {"--dense-width", text_of(m.mixture.dense_width)},
                      {"--latent", fmt::format("{},{},{},{},{}", m.latent.q_rank, m.latent.kv_rank,
                                               m.latent.plain, m.latent.turned, m.latent.value)},
                      {"--attention", name(m.attention)},
                      {"--layout", describe(layout_of(plan))},
                      {"--diloco", describe_diloco(plan.workers, plan.diloco)},
                      {"--absent", describe_absence(plan.absent)},
                      {"--device", name(plan.device)},
                      {"--microbatches", text_of(plan.microbatches)},
                      {"--recompute", plan.recompute},
                      {"--loss-tokens", text_of(plan.loss_tokens)},
                      {"--snapshots", text_of(plan.snapshots)},
                      {"--schedule", plan.schedule},
                      {"--chunks", text_of(plan.chunks)},
                      {"--hold", text_of(plan.hold)},
                      {"--context-parallel", plan.context_parallel},
                      {"--sequence-parallel", text_of(plan.sequence_parallel)},
                      {"--keep-gathered", text_of(plan.keep_gathered)},
                      {"--async-tp", text_of(plan.async_tp)},
                      {"--both-ways", text_of(plan.both_ways)},
                      {"--zero", text_of(plan.zero)},
                      {"--gradient-dtype", plan.bf16_gradients ? "bf16" : "f32"},
                      {"--layers-per-unit", text_of(plan.layers_per_unit)},
                      {"--no-reshard", text_of(plan.no_reshard)},
                      {"--gather-dtype", plan.bf16_gathered ? "bf16" : "that of --dtype"},
                      {"--gradients", plan.gradients},
                      {"--bucket-bytes", text_of(plan.bucket_bytes)},
                      {"--stop-after", text_of(plan.stop_after)},
                      {"--save", plan.save.empty() ? "left out" : "given"},
                      {"--save-every", text_of(plan.save_every)},
                      {"--load-ahead", text_of(plan.load_ahead)},
                      {"--ema", text_of(plan.ema)},
                      {"--requeue", text_of(plan.stops_on_signals)},
                      {"--load", plan.load.empty() ? "left out" : "given"},
                      {"--resume", plan.resume.empty() ? "left out" : "given"},
                      {"--sample", text_of(plan.sample_tokens)},
                      {"--recover", plan.tolerance ? name(plan.tolerance->recovery) : "left out"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainingPlan& plan,
                                          const std::vector<ParameterPtr>& parameters) {
  if (plan.optimizer == "sgd")
    return std::make_unique<Sgd>(parameters, SgdOptions{plan.momentum, plan.adamw.weight_decay});
  return std::make_unique<AdamW>(parameters, plan.adamw);
}

// The whole model's weights in the folder that the run starts from, in f32 for the masters of bf16
// ones; empty if there is none. `buffers`: what else the folder holds.
std::vector<NamedTensor> starting_weights(const TrainingPlan& plan,
                                          std::vector<std::string>& buffers) {
  const std::string& folder = source_of(plan);
  if (folder.empty()) return {};
  const DeviceScope host(Device::cpu);
  TransformerConfig model = plan.model;
  if (model.dtype == DType::bf16) model.dtype = DType::f32;
  const Transformer whole = serial_model(model);
  std::vector<NamedTensor> weights = named_values(parameters(whole.stack()));
  buffers = load_weights(folder, model, weights);
  return weights;
}

// A run that goes on when ranks die, as one of its ranks knows it; null: it does not go on.
struct Surviving {
  Survivor* survivor = nullptr;
  const Epoch* epoch = nullptr;
  const TrainingPlan* whole = nullptr;  // with all replicas
  RankFigures* counted = nullptr;       // since this member joined
};

// The training run on one rank; of one epoch, if it goes on when ranks die.
class Run {
 public:
  Run(const TrainingPlan& plan, const TrainingText& text, Communicator& world,
      TrainingFigures& figures, const Surviving& surviving = {})
      : plan_(plan),
        text_(text),
        world_(world),
        figures_(figures),
        survivor_(surviving.survivor),
        surviving_(surviving),
        options_(fixed_options(plan, text)),
        are_processes_(rank_host() != nullptr),
        batches_(text.to_train(sequence_of(plan), plan.model.seed)),
        worker_(worker_of(started_alike(facts_of(plan, text)))),
        mesh_(mesh_of(worker_)),
        loaded_(same_everywhere(starting_weights(plan, buffers_))),
        building_(std::in_place, plan.device),
        model_(model_of(worker_)),
        optimizer_(make_optimizer(plan, model_->parameters())) {
    building_.reset();
    set_masters();
    loaded_.clear();
    if (is_first()) figures_.buffers = std::move(buffers_);
    if (plan.workers > 0) start_diloco();
    if (plan.ema > 0) ema_.emplace(optimizer_->slots(), plan.ema);
    if (is_first() && !plan.save.empty()) saving_ = lock_for_saving(plan.save);
  }

  // False: the epoch has ended, since others are to be let in.
  bool operator()(const std::function<void(const StepFigures&)>& on_step) {
    std::optional<EpochScope> scope;
    if (survivor_ != nullptr) scope.emplace(*survivor_);
    const int64_t first = begin();
    if (first < 0) return false;
    if (survivor_ != nullptr && is_first())
      on_step({first, 0, 0, figures_.first_step, &losses_, &survivor_->log(), true});
    const Schedule schedule{plan_.learning_rate, plan_.learning_rate / 10, plan_.warmup,
                            plan_.steps};
    const TrainOptions options{.schedule = schedule,
                               .clip = plan_.clip,
                               .seed = plan_.model.seed,
                               .spike_factor = plan_.spike_factor,
                               .graph = plan_.graph};
    const std::vector<LayerPtr> watched = survivor_ == nullptr
                                              ? std::vector<LayerPtr>()
                                              : with_fault(model_->stack(), survivor_->point());
    Trainer trainer(survivor_ == nullptr ? model_->stack() : watched, *optimizer_, options,
                    hooks());
    if (plan_.sample_tokens > 0)
      if (const auto whole = whole_model()) figures_.sample_before = sample(*whole);
    const int64_t last =
        plan_.stop_after > 0 ? std::min(plan_.stop_after, plan_.steps) : plan_.steps;
    read_ahead(first, last);
    bool stops = false;
    for (int64_t step = first; step < last && !stops; ++step) {
      context().ledger.reset();
      if (diloco_) come_and_go(step);
      if (!went_well(trainer, step, on_step)) break;
      if (diloco_)
        meet_workers(step);
      else if (ema_)
        ema_->after_step(optimizer_->steps());
      count_step();
      stops = is_told_to_stop();
      const bool is_due = plan_.save_every > 0 && (step + 1) % plan_.save_every == 0;
      if (is_due || stops || step + 1 == last) save(step + 1);
      if (survivor_ != nullptr && step + 1 < last &&
          survivor_->lets_others_in(world_, *surviving_.epoch))
        return false;
    }
    if (first >= last) save(first);  // nothing left to do, and a folder to do it in
    finish();
    return true;
  }

 private:
  bool is_first() const { return world_.rank() == 0; }

  // The ranks of this rank's worker of DiLoCo: neighbours. Without workers: all.
  Communicator worker_of(Communicator& world) const {
    if (plan_.workers == 0) return world;
    const int size = plan_.ranks / plan_.workers;
    return world.split(world.rank() / size, world.rank()).named("worker");
  }
  // Ranks that reroute have none: those that are left are no box.
  bool reroutes() const {
    return survivor_ != nullptr && plan_.tolerance->recovery == Recovery::reroute;
  }
  std::optional<Mesh> mesh_of(Communicator& ranks) const {
    if (reroutes()) return std::nullopt;
    return std::optional<Mesh>(std::in_place, ranks, layout_of(plan_));
  }
  std::unique_ptr<RankModel> model_of(const Communicator& ranks) {
    if (mesh_) return std::make_unique<NdParallel>(plan_.model, *mesh_, nd_options(plan_), loaded_);
    const MeshShape layout = layout_of(plan_);
    const PipelineReplicas job{layout.dp_replicate, layout.pp, plan_.microbatches};
    return std::make_unique<ReroutedModel>(plan_.model, job,
                                           dead_stages(job, surviving_.epoch->places), ranks,
                                           nd_options(plan_), loaded_);
  }
  // Not by a step: ZeRO gathers the new ones.
  void weights_changed() {
    if (const auto& after_step = model_->hooks().after_step) after_step();
  }
  // Joins the ranks with the same part of the model, one of each worker.
  void start_diloco() {
    const int size = plan_.ranks / plan_.workers;
    workers_ = world_.split(world_.rank() % size, world_.rank()).named("diloco");
    diloco_.emplace(*optimizer_, workers_, plan_.diloco);
  }
  // The outer step, if one is due. The average of --ema is that of the outer weights.
  void meet_workers(int64_t step) {
    if (is_away(step)) return;
    const double begin = seconds_now();
    const bool ends = step + 1 == plan_.steps;
    const int64_t means = diloco_->means();
    diloco_->after_step(own_worker().weight);
    if (ends) diloco_->synchronise();
    const bool changed = diloco_->means() != means;
    if (changed && ema_) {
      for (OuterFragment& each : diloco_->fragments()) each.exchange();
      ema_->after_step(diloco_->means());
      for (OuterFragment& each : diloco_->fragments()) each.exchange();
    }
    if (changed || ends) weights_changed();
    if (is_first()) figures_.step_seconds.back() += seconds_now() - begin;
  }
  // Before a step: a worker leaves for a round, or is back. Those who are there agree on it.
  void come_and_go(int64_t step) {
    if (!plan_.absent || step % plan_.diloco.inner != 0) return;
    const int64_t round = step / plan_.diloco.inner + 1;
    if (round == plan_.absent->round) {
      present_ = workers_.split(is_away(step) ? -1 : 0, workers_.rank()).named("diloco");
      if (!is_away(step)) diloco_->meet(present_, 0);
    } else if (round == plan_.absent->round + 1) {
      diloco_->meet(workers_, 0);
      weights_changed();
    }
  }
  bool is_away(int64_t step) const {
    return plan_.absent && workers_.rank() == plan_.absent->worker &&
           plan_.absent->is_at(step, plan_.diloco.inner);
  }
  // The sequences of this rank's worker, or all.
  WorkerShare own_worker() const {
    if (plan_.workers == 0) return {0, plan_.batch};
    return worker_share(plan_.batch, plan_.workers, workers_.rank());
  }

  // Has a signal come to any rank? All ranks stop after the same step.
  bool is_told_to_stop() {
    if (!plan_.stops_on_signals) return false;
    std::vector<int32_t> seen = {stop_signal_seen()};
    world_.all_reduce(seen, ReduceOp::max, {.label = "stop"});
    if (is_first()) figures_.stopped_by = seen[0];
    return seen[0] != 0;
  }

  // The sequences of a step that this rank trains on, of the whole batch.
  BatchShard own_share() {
    const WorkerShare of_worker = own_worker();
    BatchShard mine =
        batch_shard(of_worker.end - of_worker.begin, mesh_->dp().size(), mesh_->dp().rank());
    mine.begin += of_worker.begin, mine.end += of_worker.begin;
    return mine;
  }
  void read_ahead(int64_t first, int64_t last) {
    if (plan_.load_ahead == 0 || first >= last) return;
    const BatchShard mine = own_share();
    loader_.emplace(
        [this, mine](int64_t step) {
          return batches_.draw(step, mine.begin, mine.end - mine.begin);
        },
        first, last, plan_.load_ahead);
  }

  // Processes are started one by one; threads have one plan.
  Communicator& started_alike(const Facts& facts) {
    if (are_processes_) expect_same_everywhere(facts, world_);
    return world_;
  }
  std::vector<NamedTensor> same_everywhere(std::vector<NamedTensor> tensors) {
    if (!tensors.empty())
      static_cast<void>(
          started_alike({{"what the folder of --load or --resume holds", digest(tensors)}}));
    return tensors;
  }

  // The masters of bf16 weights begin as what was loaded, not as what bf16 leaves of it.
  void set_masters() {
    std::vector<Tensor> masters;
    for (Optimizer::Slot& slot : optimizer_->slots())
      if (slot.master.defined()) masters.push_back(slot.master);
    if (!loaded_.empty() && !masters.empty()) take_held(loaded_, model_->held(), masters);
  }

  // Returns the first step to take.
  int64_t begin() {
    int64_t first = restore();
    first_ = first;
    if (is_first()) figures_.first_step = first;
    if (survivor_ == nullptr) return first;
    first = survivor_->regroup(world_, *surviving_.epoch, *optimizer_);
    if (first < 0) return first;  // others are needed
    weights_changed();
    figures_.ranks[static_cast<size_t>(world_.rank())] = *surviving_.counted;
    for (const StepRecord& each : survivor_->history()) losses_.push_back(each.loss);
    return first;
  }
  TrainHooks hooks() {
    return survivor_ == nullptr ? model_->hooks() : survivor_->hooks(model_->hooks(), world_);
  }

  // Sets the optimizer from a folder if asked for; returns the steps done there.
  int64_t restore() {
    if (plan_.resume.empty()) return 0;
    TrainingState state = load_training_state(plan_.resume);
    started_alike({{"the step of --resume", std::to_string(state.step)}});
    state.tensors = same_everywhere(std::move(state.tensors));
    if (state.seed != plan_.model.seed)
      fail(Where::current(), "{} was trained with --seed {}, not {}; resume with the same seed",
           plan_.resume, state.seed, plan_.model.seed);
    const auto rule = state.options.find("optimizer");  // runs of AdamW do not name it
    if (const std::string saved = rule == state.options.end() ? "adamw" : rule->second;
        saved != plan_.optimizer)
      fail(Where::current(),
           "{} was trained with --optimizer {}, not {}; resume with the same, or start a new run "
           "from its weights with --load",
           plan_.resume, saved, plan_.optimizer);
    expect_same_options(state, options_);
    if (state.step > plan_.steps || state.optimizer_steps != state.step)
      fail(Where::current(),
           "{}: {} optimizer steps in step {} of {}: the run was changed after it was saved",
           plan_.resume, state.optimizer_steps, state.step, plan_.steps);
    if (diloco_) {
      restore_diloco(diloco_rank(), world_, state.tensors, plan_.resume);
      weights_changed();
      return state.step;
    }
    std::vector<WholeShape> shapes;
    for_each_state([&](const std::string& prefix, const std::vector<Tensor>&) {
      for (const WholeShape& each : model_->shapes())
        shapes.push_back({prefix + each.name, each.shape});
    });
    if (!shapes.empty())  // of a rank that holds a part
      expect_whole(plan_.resume + "/training_state.safetensors", shapes, state.tensors);
    for_each_state([&](const std::string& prefix, std::vector<Tensor>& values) {
      std::vector<NamedTensor> whole;
      for (const NamedTensor& each : state.tensors)
        if (each.name.starts_with(prefix))
          whole.push_back({each.name.substr(prefix.size()), each.value});
      take_held(whole, model_->held(), values);
    });
    optimizer_->set_steps(state.optimizer_steps);
    return state.step;
  }

  DilocoRank diloco_rank() {
    return {*diloco_, *optimizer_, plan_.diloco, ema_ ? &*ema_ : nullptr};
  }

  // Calls f("exp_avg.", tensors by held()) for each kind of state that the optimizer has.
  template <class F>
  void for_each_state(F f) {
    const auto with = [&](const std::string& prefix, auto pick) {
      std::vector<Tensor> values;
      for (Optimizer::Slot& slot : optimizer_->slots()) values.push_back(pick(slot));
      if (!values.empty() && values[0].defined()) f(prefix, values);
    };
    with("master.", [](Optimizer::Slot& slot) { return slot.master; });
    for (size_t i = 0; i < optimizer_->state_names().size(); ++i)
      with(optimizer_->state_names()[i] + ".",
           [i](Optimizer::Slot& slot) { return slot.state[i]; });
    if (ema_) f("ema.", ema_->averages());
  }

  // What it makes for itself lives where the model does.
  template <class Do>
  StepReport on_device(Do step) const {
    const DeviceScope scope(plan_.device);
    return step();
  }

  // What this rank trains on in a step.
  ShareOfStep share() {
    if (survivor_ != nullptr)
      return share_of_epoch(*surviving_.whole, *surviving_.epoch, mesh_ ? mesh_->dp().rank() : 0);
    const BatchShard mine = own_share();
    const WorkerShare of_worker = own_worker();
    return {mine.begin, mine.end, of_worker.end - of_worker.begin};
  }

  // False if the run has diverged in this step: all ranks know it, and the weights are those of the
  // step before, which are kept. Workers of DiLoCo diverge on their own, and members of a run that
  // goes on when ranks die have snapshots.
  bool went_well(Trainer& trainer, int64_t step,
                 const std::function<void(const StepFigures&)>& on_step) {
    try {
      take_step(trainer, step, on_step);
      return true;
    } catch (const TrainingDiverged& error) {
      if (survivor_ != nullptr || diloco_) throw;
      if (is_first() || are_processes_) figures_.diverged = error.what();
    }
    has_diverged_ = true;
    save(step);
    return false;
  }

  void take_step(Trainer& trainer, int64_t step,
                 const std::function<void(const StepFigures&)>& on_step) {
    const ShareOfStep mine = share();
    const int64_t tokens = tokens_of(step, mine);
    if (survivor_ != nullptr) survivor_->begin_step(step);
    const Batch batch = questions(loader_ ? loader_->next()
                                          : batches_.draw(step, mine.begin, mine.end - mine.begin));
    if (diloco_ && is_away(step)) return losses_.push_back(0);
    std::vector<Microbatch> parts =
        model_->microbatches(batch.inputs, batch.targets, mine.begin, batch.documents);
    if (plan_.device != Device::cpu)
      for (Microbatch& each : parts) {
        each.inputs = each.inputs.to(plan_.device);
        each.targets = each.targets.to(plan_.device);
      }
    const double begin = seconds_now();
    const StepReport report = on_device([&] { return trainer.step(step, parts, tokens); });
    const double seconds = seconds_now() - begin;
    if (survivor_ != nullptr) survivor_->end_step({report.loss, mine.all}, *optimizer_);
    losses_.push_back(report.loss);
    if (!is_first()) return;
    figures_.step_seconds.push_back(seconds);
    const auto all = static_cast<double>(plan_.batch * sequence_of(plan_));
    on_step({step + 1, report.loss, all / seconds, figures_.first_step, &losses_,
             survivor_ == nullptr ? nullptr : &survivor_->log(), false});
  }

  // The same without the targets of a prefix: it sees itself from both sides, and what comes next
  // in it is no question.
  Batch questions(Batch batch) const {
    const int64_t T = batch.inputs.dim(1), prefix = plan_.model.mask.prefix;
    if (prefix == 0) return batch;
    std::vector<int32_t> documents = batch.documents;
    documents.resize(static_cast<size_t>(batch.inputs.numel()));
    const std::vector<int32_t> positions = positions_in(documents, T);
    for (size_t i = 0; i < positions.size(); ++i)
      if (positions[i] < prefix - 1) batch.targets.data<int32_t>()[i] = no_target;
    return batch;
  }
  // Targets of a step, on all ranks of this worker.
  int64_t tokens_of(int64_t step, const ShareOfStep& mine) {
    if (plan_.model.mask.prefix == 0) return mine.all * sequence_of(plan_);
    const Batch all = questions(batches_.draw(step, own_worker().begin, mine.all));
    const int64_t tokens = counted_targets(all.targets);
    if (tokens == 0)
      fail(Where::current(),
           "step {}: every document is shorter than the prefix of {} tokens, so nothing is to be "
           "predicted; give a shorter prefix",
           step, plan_.model.mask.prefix);
    return tokens;
  }

  // Adds what a step has sent and held to this rank's figures. What a checkpoint gathers between
  // steps is not training.
  void count_step() {
    RankFigures& mine = figures_.ranks[static_cast<size_t>(world_.rank())];
    const Ledger& ledger = context().ledger;
    mine.bytes_sent += ledger.total_traffic().bytes_sent;
    mine.messages_sent += ledger.total_traffic().messages_sent;
    for (const char* const op : {"flex_attention", "flex_attention_backward"})
      mine.flex_flops += std::llround(ledger.op(op).flops);
    mine.peak_bytes = std::max(mine.peak_bytes, ledger.memory()->peak());
    for (size_t kind = 0; kind < mine.peak_by_kind.size(); ++kind)
      mine.peak_by_kind[kind] =
          std::max(mine.peak_by_kind[kind], ledger.memory()->peak(static_cast<MemoryKind>(kind)));
    if (survivor_ != nullptr) *surviving_.counted = mine;
  }

  void finish() {
    if (survivor_ != nullptr) survivor_->finish();
    if (diloco_) await_means(*diloco_);  // of a run that stops early
    if (diloco_) average_losses();
    if (is_first()) figures_.loss = losses_;
    gather_figures();
    if (ema_ && !has_diverged_) validate_average();
    const std::unique_ptr<Transformer> whole = whole_model();
    if (!is_first()) return;
    if (survivor_ != nullptr) {
      figures_.epochs = survivor_->log();
      figures_.deaths = surviving_.epoch->deaths();
      figures_.dropped_sequences = 0;
      for (const StepRecord& each : survivor_->history())
        figures_.dropped_sequences += plan_.batch - each.sequences;
    }
    figures_.parameters = parameter_count(whole->stack());
    if (has_diverged_) return;  // what they compute may be no number either
    figures_.validation_loss = validate(*whole);
    figures_.sample_after = sample(*whole);
  }

  // Each worker knows the losses of its own sequences: of all that were trained on, their mean.
  void average_losses() {
    for (size_t i = 0; i < losses_.size(); ++i) {
      const int64_t step = first_ + static_cast<int64_t>(i);
      double weights = plan_.workers;
      if (plan_.absent && plan_.absent->is_at(step, plan_.diloco.inner))
        weights -= worker_share(plan_.batch, plan_.workers, plan_.absent->worker).weight;
      losses_[i] *= own_worker().weight / weights;
    }
    workers_.all_reduce(losses_);
  }

  // Rank 0 gets what the others have counted: they may be processes of their own.
  void gather_figures() {
    RankFigures& mine = figures_.ranks[static_cast<size_t>(world_.rank())];
    std::vector<int64_t> counts = {mine.bytes_sent, mine.messages_sent, mine.peak_bytes,
                                   mine.flex_flops};
    counts.insert(counts.end(), mine.peak_by_kind.begin(), mine.peak_by_kind.end());
    const size_t n = counts.size();
    std::vector<int64_t> all(n * static_cast<size_t>(world_.size()));
    world_.gather(all, counts, 0);
    if (!is_first()) return;
    for (size_t rank = 0; rank < static_cast<size_t>(world_.size()); ++rank) {
      const int64_t* const its = all.data() + n * rank;
      RankFigures& figures = figures_.ranks[rank];
      figures.bytes_sent = its[0], figures.messages_sent = its[1], figures.peak_bytes = its[2];
      figures.flex_flops = its[3];
      std::copy(its + 4, its + n, figures.peak_by_kind.begin());
    }
  }

  // The state after `step` steps, put together from all ranks; rank 0 writes it.
  void save(int64_t step) {
    if (plan_.save.empty()) return;
    const std::vector<NamedTensor> weights = model_->gather_weights();
    TrainingState state{step, plan_.model.seed, optimizer_->steps(), options_, {}};
    if (diloco_) state.tensors = gather_diloco(diloco_rank(), world_);
    if (!diloco_)
      for_each_state([&](const std::string& prefix, const std::vector<Tensor>& values) {
        for (const NamedTensor& each : model_->gather(values, values[0].dtype()))
          state.tensors.push_back({prefix + each.name, each.value});
      });
    if (is_first()) save_checkpoint(plan_.save, plan_.model, weights, &state, text_.kept());
  }

  // The serial model with the weights of all ranks, on rank 0.
  std::unique_ptr<Transformer> whole_model() {
    const std::vector<NamedTensor> weights = model_->gather_weights();
    if (!is_first()) return nullptr;
    auto whole = std::make_unique<Transformer>(serial_model(plan_.model));
    assign_all(named_values(parameters(whole->stack())), weights, "the ranks");
    return whole;
  }

  void validate_average() {
    ema_->exchange();
    weights_changed();
    if (const std::unique_ptr<Transformer> whole = whole_model())
      figures_.ema_validation_loss = validate(*whole);
    ema_->exchange();
    weights_changed();
  }

  // The mean loss on text that was kept apart, 16 sequences at most.
  double validate(const Transformer& whole) const {
    const Batches kept = text_.to_validate(sequence_of(plan_), plan_.model.seed);
    const Batch batch = questions(kept.in_order(0, std::min<int64_t>(16, kept.sequences())));
    std::vector<Microbatch> parts = microbatches(batch.inputs, batch.targets, 4);
    if (plan_.pack)
      for (Microbatch& each : parts)
        each = packed(each, packing_of(documents_of(each, batch.documents, 0), sequence_of(plan_)));
    return evaluate(whole.stack(), parts);
  }

  std::string sample(const Transformer& whole) const {
    if (plan_.sample_tokens == 0) return "";
    const auto next = [&](const Tensor& ids) {
      Saved saved;
      return as_type(forward(whole.stack(), ids, saved), DType::f32);
    };
    const SampleOptions options{.temperature = 0.8, .top_k = 40, .seed = plan_.model.seed};
    return text_.continued(next, sequence_of(plan_), options);
  }

  const TrainingPlan& plan_;
  const TrainingText& text_;
  Communicator& world_;
  TrainingFigures& figures_;  // rank 0 writes all but ranks[], where each has its own
  Survivor* survivor_;
  Surviving surviving_;
  Metadata options_;
  bool are_processes_;  // the ranks, not threads of this one
  Batches batches_;
  Communicator worker_;  // the ranks that train one model: all, or those of a worker of DiLoCo
  std::optional<Mesh> mesh_;
  bool has_diverged_ = false;
  std::vector<std::string> buffers_;     // of the folder that it starts from
  std::vector<NamedTensor> loaded_;      // whole, until the model and its masters have their parts
  std::optional<DeviceScope> building_;  // the model is built on its device
  std::unique_ptr<RankModel> model_;
  // Of this rank's parameters, in the order of model_->held().
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<FolderLock> saving_;
  Communicator workers_;  // of DiLoCo: the ranks with the same part of the model
  Communicator present_;  // those of them that are there, while one is away
  std::optional<Diloco> diloco_;
  std::optional<Ema> ema_;
  std::optional<Loader> loader_;  // refers to batches_
  int64_t first_ = 0;             // step of this run
  std::vector<double> losses_;    // of this run's steps
};

// A member of a run that goes on when ranks die.
class TrainingMember : public EpochMember {
 public:
  TrainingMember(const TrainingPlan& plan, const TrainingText& text, TrainingFigures& figures,
                 const std::function<void(const StepFigures&)>& on_step, const Joiner& self,
                 const SurvivorOptions& options)
      : plan_(plan),
        text_(text),
        figures_(figures),
        on_step_(on_step),
        survivor_(self, options, way_to_die(self.place)) {}

  bool run(Communicator& world, const Epoch& epoch) override {
    const TrainingPlan plan = plan_of_epoch(plan_, epoch);
    return Run(plan, text_, world, figures_, {&survivor_, &epoch, &plan_, &counted_})(on_step_);
  }

 private:
  const TrainingPlan& plan_;
  const TrainingText& text_;
  TrainingFigures& figures_;
  const std::function<void(const StepFigures&)>& on_step_;
  Survivor survivor_;
  RankFigures counted_;
};

// What marks the snapshots of a run: another plan has another.
uint64_t mark_of(const TrainingPlan& plan, const TrainingText& text) {
  std::string all = fmt::format("{} {} {} {}", plan.model.seed, describe(layout_of(plan)),
                                name(plan.model.dialect), parameters(plan.model));
  for (const auto& [name, value] : fixed_options(plan, text)) all += name + value;
  return hash_name(all);
}

void run_members(const TrainingPlan& plan, const TrainingText& text, TrainingFigures& figures,
                 const std::function<void(const StepFigures&)>& on_step) {
  const int64_t first = plan.resume.empty() ? 0 : load_training_state(plan.resume).step;
  const SurvivorOptions options = survivor_options(plan, first, mark_of(plan, text));
  run_epochs(options.places.count(), rule_of(plan), [&](const Joiner& self) {
    return std::make_unique<TrainingMember>(plan, text, figures, on_step, self, options);
  });
  if (!figures.epochs.empty())
    figures.ranks.resize(static_cast<size_t>(figures.epochs.back().ranks));
}

// The tokens of every step, (steps, B, T), for whoever repeats the run elsewhere.
void save_batches(const TrainingPlan& plan, const TrainingText& text) {
  expect_writable(plan.save_batches);
  const Batches batches = text.to_train(sequence_of(plan), plan.model.seed);
  const Shape shape = {plan.steps, plan.batch, sequence_of(plan)};
  Tensor inputs = Tensor::empty(shape, DType::i32), targets = Tensor::empty(shape, DType::i32);
  for (int64_t step = 0; step < plan.steps; ++step) {
    const Batch batch = batches.draw(step, 0, plan.batch);
    const Shape one = {1, plan.batch, sequence_of(plan)};
    inputs.rows(step, step + 1).copy_from(batch.inputs.reshape(one));
    targets.rows(step, step + 1).copy_from(batch.targets.reshape(one));
  }
  save_safetensors(plan.save_batches, {{"inputs", inputs}, {"targets", targets}});
}

// CLI11's ranges let NaN pass, so the numbers that no range can hold are looked at here.
void expect_numbers(const TrainingPlan& plan) {
  const MixtureConfig& mixture = plan.model.mixture;
  if (plan.ema >= 1)
    fail(Where::current(), "--ema is {}; from 1 on the average never moves. Usual: 0.999",
         plan.ema);
  const std::pair<const char*, double> numbers[] = {{"--lr", plan.learning_rate},
                                                    {"--ema", plan.ema},
                                                    {"--clip", plan.clip},
                                                    {"--weight-decay", plan.adamw.weight_decay},
                                                    {"--momentum", plan.momentum},
                                                    {"--capacity", mixture.capacity},
                                                    {"--balance-loss", mixture.balance_loss},
                                                    {"--z-loss", mixture.z_loss},
                                                    {"--bias-rate", mixture.bias_rate}};
  for (const auto& [option, value] : numbers)
    if (!(value >= 0) || std::isinf(value))
      fail(Where::current(), "{} is {}; it must be a number, and not below 0", option, value);
}

void expect_optimizer(const TrainingPlan& plan) {
  if (plan.ema > 0 && plan.device != Device::cpu)
    fail(Where::current(), "the average of --ema is kept on the CPU only; leave out --device cuda");
  if (plan.optimizer != "adamw" && plan.optimizer != "sgd")
    fail(Where::current(), "the optimizer is '{}'; there are adamw and sgd", plan.optimizer);
  if (plan.momentum >= 1)
    fail(Where::current(),
         "--momentum is {}; from 1 on the sum of the gradients only grows. Usual: 0.9",
         plan.momentum);
  if (plan.optimizer == "sgd" && plan.device != Device::cpu)
    fail(Where::current(), "SGD steps on the CPU only; take --optimizer adamw, or --device cpu");
}

// A graph does the same in every step, on one GPU.
void expect_graph(const TrainingPlan& plan) {
  if (!plan.graph) return;
  if (plan.device == Device::cpu)
    fail(Where::current(),
         "--graph records the steps of a GPU; add --device cuda, or leave it out");
  if (plan.loss_tokens > 0)
    fail(Where::current(),
         "--loss-tokens takes a chunk's loss to the host, and --graph records a step without it; "
         "leave one of them out");
  if (plan.ranks > 1 || plan.workers > 0 || plan.tolerance)
    fail(Where::current(),
         "--graph is for one GPU that computes alone; leave it out, or train on one rank");
  if (plan.model.dropout > 0 || plan.model.attention_dropout > 0)
    fail(Where::current(),
         "dropout draws other masks in each step, and --graph repeats one step; take --dropout 0, "
         "or leave out --graph");
  if (plan.pack)
    fail(
        Where::current(),
        "packed documents end elsewhere in each step, and --graph repeats one step; leave one out");
}

// What a mixture cannot do yet.
void expect_mixture(const TrainingPlan& plan) {
  if (plan.model.mixture.experts == 0) return;
  if (plan.device != Device::cpu)
    fail(Where::current(), "a mixture of experts runs on the CPU only; leave out --device cuda");
  if (!plan.save.empty()) expect_hugging_face(plan.model);
}

void expect_mask(const TrainingPlan& plan) {
  const TransformerConfig& model = plan.model;
  if (model.attention == AttentionKind::flex && plan.device != Device::cpu)
    fail(Where::current(),
         "--attention flex trains on the CPU only; leave out --device cuda, or take blockwise");
  if (model.mask.document && !plan.pack)
    fail(Where::current(),
         "--mask document needs documents: add --pack, which makes one of each "
         "file of --text");
  if (!plan.separator.empty() && !plan.pack)
    fail(Where::current(), "--separator says where documents end: add --pack, or leave it out");
  if (plan.pack && !model.mask.document)
    fail(Where::current(),
         "--pack alone would let a document see those before it; add --attention "
         "flex --mask document");
  if (model.mask.prefix > sequence_of(plan))
    fail(Where::current(), "--mask prefix={} in sequences of {} tokens: nothing is left to predict",
         model.mask.prefix, sequence_of(plan));
  if (model.mask.prefix > 0 && plan.tolerance)
    fail(Where::current(),
         "--mask prefix and a run that goes on when ranks die do not go together: its targets are "
         "counted for a whole batch. Leave one of them out");
}

// Rope turns by any position; of learned positions there are as many as the model's table has.
void expect_positions(const TrainingPlan& plan) {
  const int64_t learned = plan.model.context;
  if (plan.model.dialect == Dialect::gpt2 && sequence_of(plan) > learned)
    fail(Where::current(),
         "--context is {}, and the model in {} has learned positions for {} tokens; give "
         "--context from 1 to {}",
         plan.sequence, plan.load, learned, learned);
}

// The largest sizes, so that none of their products is beyond 64 bits.
void expect_sizes(const TrainingPlan& plan) {
  const TransformerConfig& model = plan.model;
  constexpr int64_t most_layers = 1 << 16, most = 1 << 30;
  const std::pair<const char*, int64_t> sizes[] = {
      {"width", model.width},
      {"feed-forward", std::max(model.feed_forward, model.mixture.dense_width)},
      {"vocabulary", model.vocabulary},
      {"context", std::max(model.context, plan.sequence)}};
  if (model.layers > most_layers)
    fail(Where::current(), "a model of {} layers; there are {} at most", model.layers, most_layers);
  for (const auto& [what, size] : sizes)
    if (size > most)
      fail(Where::current(), "the model's {} is {}; it can be {} at most", what, size, most);
  const double experts = static_cast<double>(model.mixture.experts + model.mixture.shared);
  if (experts * static_cast<double>(model.feed_forward) > static_cast<double>(most))
    fail(Where::current(), "{} experts of width {}; their widths can be {} at most together",
         experts, model.feed_forward, most);
}

// An option that would change nothing, and what it is for.
struct Useless {
  const char* option;
  bool given, works;
  const char* needs;
};
std::optional<Useless> find_useless(const TrainingPlan& plan, const MeshShape& layout) {
  const TrainingPlan usual;
  const MixtureConfig &mixture = plan.model.mixture, &none = usual.model.mixture;
  const bool has_experts = mixture.experts > 0;
  const bool has_fsdp = layout.dp_shard > 1, has_stages = layout.pp > 1 || plan.chunks > 1;
  const Useless options[] = {
      {"--no-reshard", plan.no_reshard, has_fsdp, "fsdp, as --layout fsdp=2"},
      {"--layers-per-unit", plan.layers_per_unit != usual.layers_per_unit, has_fsdp,
       "fsdp, as --layout fsdp=2"},
      {"--schedule", plan.schedule != usual.schedule, has_stages, "a pipeline, as --layout pp=2"},
      {"--hold", plan.hold != usual.hold, plan.schedule == "auto", "--schedule auto"},
      {"--context-parallel", plan.context_parallel != usual.context_parallel, layout.cp > 1,
       "the axis cp, as --layout cp=2"},
      {"--sequence-parallel", plan.sequence_parallel, layout.tp > 1,
       "the axis tp, as --layout tp=2"},
      {"--keep-gathered", plan.keep_gathered, plan.sequence_parallel || plan.async_tp,
       "--sequence-parallel"},
      {"--async-tp", plan.async_tp, layout.tp > 1, "the axis tp, as --layout tp=2"},
      {"--both-ways", plan.both_ways, plan.async_tp, "--async-tp"},
      {"--top-k", mixture.top_k != none.top_k, has_experts, "a mixture, as --experts 8"},
      {"--router", mixture.score != none.score, has_experts, "a mixture, as --experts 8"},
      {"--capacity", mixture.capacity > 0, has_experts, "a mixture, as --experts 8"},
      {"--balance-loss", mixture.balance_loss > 0, has_experts, "a mixture, as --experts 8"},
      {"--balance-over", plan.balance_over != usual.balance_over, mixture.balance_loss > 0,
       "a balance loss, as --balance-loss 0.01"},
      {"--z-loss", mixture.z_loss > 0, has_experts, "a mixture, as --experts 8"},
      {"--bias-rate", mixture.bias_rate > 0, has_experts, "a mixture, as --experts 8"},
      {"--momentum", plan.momentum != usual.momentum, plan.optimizer == "sgd", "--optimizer sgd"},
      {"--snapshots", plan.snapshots != usual.snapshots, plan.recompute == "revolve",
       "--recompute revolve"}};
  for (const Useless& each : options)
    if (each.given && !each.works) return each;
  return std::nullopt;
}
// It is refused: whoever gives it expects something of it.
void expect_effects(const TrainingPlan& plan, const MeshShape& layout) {
  if (const auto useless = find_useless(plan, layout))
    fail(Where::current(), "{} changes nothing here: it is for {}. Leave it out, or add that",
         useless->option, useless->needs);
}

// The least that this process surely holds, in bytes: rank 0 the whole model at the end, each rank
// its share of weights, gradients and the optimizer's state, its tokens, and one layer's output. In
// doubles, which do not overflow.
double least_bytes(const TrainingPlan& plan, const MeshShape& layout) {
  const auto real = [](int64_t number) { return static_cast<double>(number); };
  const TransformerConfig& model = plan.model;
  TransformerConfig rest = model;  // but for the blocks
  rest.layers = 0;
  const double numbers =
      real(parameters(rest)) + real(model.layers) * real(block_parameters(model));
  const double weight = real(bytes_of(model.dtype));
  const double own_state = plan.optimizer == "adamw" ? 8 : plan.momentum > 0 ? 4 : 0;
  const double state = 2 * weight + own_state + (model.dtype == DType::f32 ? 0 : 4);
  const double tokens = real(plan.batch) * real(sequence_of(plan));  // of a step
  const double own = tokens / real(layout.data_ranks());
  const double output = own / real(plan.microbatches) / layout.cp * real(model.width) * weight;
  const double on_device = numbers * state / plan.ranks + output;
  const double batches = plan.save_batches.empty() ? 0 : 8 * tokens * real(plan.steps);
  return numbers * weight + 8 * own + batches + (plan.device == Device::cpu ? on_device : 0);
}
void expect_memory(const TrainingPlan& plan, const MeshShape& layout) {
  const double needed = least_bytes(plan, layout);
  const double here =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed > here)
    fail(Where::current(),
         "this run needs {} of memory at least, and this machine has {}: take a smaller model, "
         "batch or context{}",
         console::bytes(needed), console::bytes(here),
         plan.save_batches.empty() ? "" : ", or fewer steps for --save-batches");
}

// What train adds to the rules of layouts (model/layout_rules.hpp), as questions.
bool copies_zero_3(const TrainingPlan& plan, const MeshShape& layout) {
  return plan.zero == 3 && layout.dp_replicate > 1;
}
bool cuts_nothing(const TrainingPlan& plan, const MeshShape& layout) {
  const bool shares =
      layout.dp_shard > 1 || (plan.zero < 3 && layout.dp_replicate * layout.ep * layout.cp > 1);
  return plan.zero > 0 && !shares;
}
bool sums_in_f32(const TrainingPlan& plan) { return plan.zero != 1 && plan.zero != 2; }

// Can the plan's work be spread over a layout? What an error suggests is tried with it first.
bool spreads(const TrainingPlan& plan, const MeshShape& layout) {
  return !copies_zero_3(plan, layout) && !cuts_nothing(plan, layout) &&
         !(plan.bf16_gradients && sums_in_f32(plan)) &&
         !(plan.bf16_gathered && layout.dp_shard == 1) && !find_useless(plan, layout) &&
         layout_works(plan.model, layout, plan.batch, nd_options(plan));
}
// The same with the plan or its layout changed.
template <class Change>
bool spreads_with(TrainingPlan plan, MeshShape layout, Change change) {
  change(plan, layout);
  return spreads(plan, layout);
}

void expect_zero(const TrainingPlan& plan, const MeshShape& layout) {
  const int all = layout.dp_shard * layout.dp_replicate;
  const auto without = [](TrainingPlan& p, MeshShape&) { p.zero = 0; };
  const auto all_fsdp = [all](TrainingPlan&, MeshShape& m) {
    m.dp_shard = all, m.dp_replicate = 1;
  };
  const auto two = [](TrainingPlan& p, MeshShape& m) {
    (p.zero == 3 ? m.dp_shard : m.dp_replicate) = 2;
  };
  const Way same{"the same without --zero", spreads_with(plan, layout, without)};
  if (copies_zero_3(plan, layout))
    fail(
        Where::current(),
        "ZeRO-3 makes the axis dp the axis fsdp, but this layout has both, {}: its weights are cut "
        "over fsdp {} and copied dp {} times{}",
        describe(layout), layout.dp_shard, layout.dp_replicate,
        nearest_of({same, {fmt::format("fsdp={}", all), spreads_with(plan, layout, all_fsdp)}}));
  if (cuts_nothing(plan, layout))
    fail(Where::current(),
         "ZeRO-{} cuts what several ranks of dp{} hold alike, and this layout has one: nothing "
         "would be saved{}",
         plan.zero, plan.zero < 3 ? " and cp" : "",
         nearest_of({same, {"dp=2", spreads_with(plan, layout, two)}}));
}

void expect_bf16_gradients(const TrainingPlan& plan, const MeshShape& layout) {
  if (!plan.bf16_gradients || !sums_in_f32(plan)) return;
  const auto works = [&](int stage) {
    return spreads_with(plan, layout, [stage](TrainingPlan& p, MeshShape&) { p.zero = stage; });
  };
  const auto f32 = [](TrainingPlan& p, MeshShape&) { p.bf16_gradients = false; };
  fail(Where::current(),
       "gradients are kept and summed in bf16 by ZeRO-1 and ZeRO-2; all else sums them in f32{}",
       nearest_of({{"--zero 1 or --zero 2", works(1) && works(2)},
                   {"--zero 1", works(1) && !works(2)},
                   {"f32", spreads_with(plan, layout, f32)}}));
}

void expect_gathered(const TrainingPlan& plan, const MeshShape& layout) {
  if (!plan.bf16_gathered || layout.dp_shard > 1) return;
  const int ranks = std::max(2, layout.dp_replicate);
  const auto fsdp = [ranks](TrainingPlan&, MeshShape& m) {
    m.dp_shard = ranks, m.dp_replicate = 1;
  };
  const auto bf16 = [](TrainingPlan& p, MeshShape&) {
    p.bf16_gathered = false, p.model.dtype = DType::bf16;
  };
  fail(Where::current(),
       "weights are gathered by the axis fsdp, in bf16 if asked for; this layout has none{}",
       nearest_of({{fmt::format("fsdp={} {}", ranks,
                                layout.dp_replicate > 1 ? "in place of dp" : "as well"),
                    spreads_with(plan, layout, fsdp)},
                   {"--dtype bf16 for all weights", spreads_with(plan, layout, bf16)}}));
}

// Throws unless the plan's work can be spread over a layout.
void expect_spread(const TrainingPlan& plan, const MeshShape& layout) {
  expect_zero(plan, layout);
  expect_bf16_gradients(plan, layout);
  expect_gathered(plan, layout);
  expect_effects(plan, layout);
  expect_layout(plan.model, layout, plan.batch, nd_options(plan));
}

// The same, and on as many ranks as there are. An error names a layout of these ranks that works,
// if one does.
void expect_layout_of_ranks(const TrainingPlan& plan, const MeshShape& layout) {
  expect_mesh(layout, static_cast<int>(layout.ranks()));  // each axis has a rank
  const auto works = [&](const MeshShape& shape) { return spreads(plan, shape); };
  const std::optional<MeshShape> nearest = nearest_mesh(layout, plan.ranks, works);
  if (layout.ranks() != plan.ranks && (nearest || works(layout)))
    expect_mesh(layout, plan.ranks, Where::current(), works);
  try {
    expect_spread(plan, layout);
  } catch (const Error& error) {
    if (!nearest) throw;
    throw Error(Error::Verbatim{}, error.where(),
                fmt::format("{}. On {} ranks this works: {}", error.what(), plan.ranks,
                            describe(*nearest)));
  }
}

// What the run saved in a folder says of itself; nothing if no run is saved there.
Metadata saved_options(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / "training_state.json";
  std::error_code error;  // what stands in the way is named when it is read
  const auto kind = std::filesystem::status(saved_path(path), error).type();
  if (folder.empty() || kind == std::filesystem::file_type::not_found) return {};
  return parse_training_state(read_saved(path), path.string()).options;
}

// The run of one worker of DiLoCo, the one with the fewest sequences.
TrainingPlan smallest_worker(TrainingPlan plan) {
  plan.ranks /= plan.workers;
  plan.batch /= plan.workers;
  plan.workers = 0;
  plan.absent.reset();
  return plan;
}

void expect_workers(const TrainingPlan& plan) {
  expect_diloco(plan.workers, plan.diloco);
  if (plan.layout && plan.layout->ranks() * plan.workers != plan.ranks)
    fail(Where::current(),
         "{} workers of {} are {} ranks, not {}; with --layout, leave --ranks out", plan.workers,
         describe(*plan.layout), plan.layout->ranks() * plan.workers, plan.ranks);
  if (plan.ranks % plan.workers != 0)
    fail(Where::current(), "{} workers of DiLoCo do not divide {} ranks", plan.workers, plan.ranks);
  if (plan.batch < plan.workers)
    fail(Where::current(),
         "{} workers of DiLoCo share a batch of {} sequences; each needs one. Nearest: --batch {}",
         plan.workers, plan.batch, plan.workers);
  if (plan.device != Device::cpu)
    fail(Where::current(), "DiLoCo's outer steps run on the CPU only; leave out --device cuda");
  if (plan.tolerance)
    fail(Where::current(),
         "--tolerate and --faults do not go together with --diloco: leave one of them out");
  if (plan.diloco.inner > plan.steps)
    fail(Where::current(),
         "--diloco inner={} in a run of {} steps: its workers would meet at the end alone. Give "
         "inner={} at most",
         plan.diloco.inner, plan.steps, plan.steps);
  if (!plan.absent) return;
  expect_absence(*plan.absent, plan.workers, plan.diloco, plan.steps);
  if (!plan.resume.empty() || plan.stops_on_signals || plan.stop_after > 0)
    fail(Where::current(), "--absent is for a run in one piece: leave out {}",
         plan.stops_on_signals ? "--requeue"
         : plan.stop_after > 0 ? "--stop-after"
                               : "--resume");
}

// What a worker's own plan cannot do is said of the worker: its batch and ranks are not the run's.
void check_worker(const TrainingPlan& plan) {
  const TrainingPlan worker = smallest_worker(plan);
  try {
    check_plan(worker);
  } catch (const Error& error) {
    throw Error(
        Error::Verbatim{}, error.where(),
        fmt::format("{} (of one of {} workers: {} of {} sequences, {} of {} ranks)", error.what(),
                    plan.workers, worker.batch, plan.batch, worker.ranks, plan.ranks));
  }
}

// Names the texts, where the saved options have only a hash.
// The part of causal attention's scores that the mask leaves, on average over `steps` steps.
double seen_share(const TrainingPlan& plan, const TrainingText& text, int64_t first,
                  int64_t steps) {
  const int64_t T = sequence_of(plan), sequences = plan.batch * steps;
  const MaskOptions& mask = plan.model.mask;
  const auto share = [&](int64_t seen) {
    return static_cast<double>(seen) / static_cast<double>(T * (T + 1) / 2);
  };
  if (!mask.document || sequences == 0) return share(seen_scores(mask, T));
  const Batches batches = text.to_train(T, plan.model.seed);
  int64_t seen = 0;
  for (int64_t step = first; step < first + steps; ++step) {
    const std::vector<int32_t> documents = batches.draw(step, 0, plan.batch).documents;
    for (int64_t begin = 0, end = 0; begin < std::ssize(documents); begin = end) {
      while (end < std::ssize(documents) && end / T == begin / T &&
             documents[static_cast<size_t>(end)] == documents[static_cast<size_t>(begin)])
        ++end;
      seen += seen_scores(mask, end - begin);
    }
  }
  return share(seen) / static_cast<double>(sequences);
}

void expect_same_text(const TrainingPlan& plan, const TrainingText& text) {
  Metadata saved = saved_options(plan.resume);
  if (!saved.empty() && saved["text"] != text.hash())
    fail(Where::current(),
         "{} was trained on other text than {}: resume with the --text of that run, unchanged",
         plan.resume, plan.text.empty() ? "the course's own of today" : plan.text);
}

}  // namespace

void check_plan(const TrainingPlan& plan) {
  expect_graph(plan);
  if (plan.workers > 0) {
    expect_workers(plan);
    return check_worker(plan);
  }
  if (plan.absent)
    fail(Where::current(), "--absent is for workers of DiLoCo: add --diloco k=4, or leave it out");
  expect_numbers(plan);
  expect_optimizer(plan);
  plan.model.check();
  expect_sizes(plan);
  expect_mixture(plan);
  expect_mask(plan);
  expect_positions(plan);
  expect_tokens(plan);
  const MeshShape layout = layout_of(plan);
  expect_layout_of_ranks(plan, layout);
  expect_tolerance(plan);
  if (plan.microbatches > plan.batch)
    fail(Where::current(),
         "--microbatches {} of a batch of {}: a microbatch has at least a sequence. Nearest: {}",
         plan.microbatches, plan.batch, plan.batch);
  expect_memory(plan, layout);
  if (!plan.load.empty() && !plan.resume.empty())
    fail(Where::current(),
         "--load starts a new run and --resume goes on with an old one: give one");
}

void settle_documents(TrainingPlan& plan, bool mask_is_given) {
  Metadata saved = saved_options(plan.resume);
  if (!mask_is_given && saved.contains("mask")) {
    plan.model.mask = parse_mask(saved["mask"]);
    plan.model.attention = AttentionKind::flex;
  }
  plan.pack = plan.pack || saved.contains("pack");
  if (plan.separator.empty()) plan.separator = saved["separator"];
}

bool is_saved_run(const std::string& folder) { return !saved_options(folder).empty(); }

int64_t saved_sequence(const std::string& folder) {
  const std::string text = saved_options(folder)["context"];
  int64_t tokens = 0;
  const auto [read, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  if (!text.empty() && (error != std::errc() || *read != '\0' || tokens < 1))
    fail(Where::current(), "{}/training_state.json: the context of the run is '{}', no number",
         folder, text);
  return tokens;
}

TrainingFigures run_training(const TrainingPlan& plan,
                             const std::function<void(const StepFigures&)>& on_step) {
  check_plan(plan);
  const TrainingText text(plan);
  expect_same_text(plan, text);
  if (!plan.save_batches.empty()) save_batches(plan, text);
  TrainingFigures figures;
  figures.ranks.resize(static_cast<size_t>(plan.ranks));
  figures.text_bytes = std::ssize(text.text().bytes);
  figures.text_files = text.text().files;
  figures.text_skipped = text.text().skipped;
  figures.text_skipped_bytes = text.text().skipped_bytes;
  figures.text_tokens = text.tokens();
  if (text.has_tokenizer()) figures.tokenizer = source_of(plan) + "/" + tokenizer_file;
  figures.text_begins_with = text.begins_with();
  figures.tokens_per_step = plan.batch * sequence_of(plan);
  const int cores = context().threads;
  if (plan.tolerance)
    run_members(plan, text, figures, on_step);
  else
    run_ranks(plan.ranks, [&](Communicator& world) { Run(plan, text, world, figures)(on_step); });
  figures.scores_share = seen_share(plan, text, figures.first_step, std::ssize(figures.loss));
  const double all = step_flops(plan.model, plan.batch, sequence_of(plan)),
               scores = 2 * (all - causal_step_flops(plan.model, plan.batch, sequence_of(plan)));
  figures.model_flops_per_step = all - scores * (1 - figures.scores_share);
  figures.median_step_seconds = median(figures.step_seconds);
  if (plan.workers > 0 && !figures.step_seconds.empty())  // few steps wait for the others: the mean
    figures.median_step_seconds =
        std::accumulate(figures.step_seconds.begin(), figures.step_seconds.end(), 0.0) /
        static_cast<double>(figures.step_seconds.size());
  if (figures.median_step_seconds > 0) {
    figures.tokens_per_second =
        static_cast<double>(figures.tokens_per_step) / figures.median_step_seconds;
  }
  const double trained =
      std::accumulate(figures.step_seconds.begin(), figures.step_seconds.end(), 0.0);
  if (plan.measure_seconds > 0)  // a short run is not measured longer than a tenth of it
    figures.matmul_gflops = measure_matmul_gflops(
        cores, std::min(plan.measure_seconds, trained / 10), 1024, plan.model.dtype);
  if (figures.median_step_seconds > 0 && figures.matmul_gflops > 0)
    figures.mfu =
        figures.model_flops_per_step / figures.median_step_seconds / (1e9 * figures.matmul_gflops);
  return figures;
}

TrainedSteps trained_steps(const TrainingPlan& plan, const TrainingFigures& figures) {
  const auto T = static_cast<double>(sequence_of(plan));
  const auto tokens = static_cast<double>(figures.tokens_per_step);
  const auto of = [&](Scores scores) {
    return tokens * model_flops(counted_model(plan.model), T, scores);
  };
  const double rest = of(Scores::none);
  const double needed = rest + figures.scores_share * (of(Scores::causal) - rest);
  return {std::ssize(figures.loss), needed, figures.model_flops_per_step,
          1e9 * figures.matmul_gflops};
}

}  // namespace yotta
