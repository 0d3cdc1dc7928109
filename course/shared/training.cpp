#include "course/shared/training.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/measure.hpp"
#include "yotta/model/checkpoint.hpp"
#include "yotta/model/generate.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/parallel/ddp.hpp"

namespace yotta {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What must stay as it was for a resumed run to be the same run.
Metadata fixed_options(const TrainingPlan& plan, const Text& text) {
  return {{"batch", std::to_string(plan.batch)},
          {"clip", fmt::format("{}", plan.clip)},
          {"dropout", fmt::format("{}", plan.model.dropout)},
          {"learning_rate", fmt::format("{}", plan.learning_rate)},
          {"steps", std::to_string(plan.steps)},
          {"text", fmt::format("{:016x}", hash_name(text.bytes))},
          {"warmup", std::to_string(plan.warmup)},
          {"weight_decay", fmt::format("{}", plan.adamw.weight_decay)}};
}

// How gradients are summed over the ranks.
TrainHooks data_parallel(const TrainingPlan& plan, const std::vector<ParameterPtr>& parameters,
                         Communicator& world, std::unique_ptr<Ddp>& ddp,
                         std::optional<Ddp::NoSync>& quiet) {
  TrainHooks hooks;
  hooks.sum_over_ranks = [&](double loss) {
    std::vector<double> sum = {loss};
    world.all_reduce(sum, ReduceOp::sum, {.label = "loss"});
    return sum[0];
  };
  if (plan.gradients == "naive") {
    broadcast_parameters(parameters, world);
    hooks.after_backward = [&] { reduce_gradients(parameters, world, ReduceOp::sum); };
    return hooks;
  }
  const DdpOptions options{plan.bucket_bytes, ReduceOp::sum, plan.gradients == "overlapped"};
  ddp = std::make_unique<Ddp>(parameters, world, options);
  hooks.before_microbatch = [&](bool last) {
    if (last)
      quiet.reset();
    else if (!quiet)
      quiet.emplace(*ddp);
  };
  hooks.after_backward = [&] { ddp->finish(); };
  return hooks;
}

// The training run on one rank.
class Run {
 public:
  Run(const TrainingPlan& plan, const Text& text, Communicator& world, TrainingFigures& figures)
      : plan_(plan),
        world_(world),
        figures_(figures),
        options_(fixed_options(plan, text)),
        split_(split_text(text.bytes, plan.model.context)),
        batches_(split_.train, plan.model.context, plan.model.seed),
        model_(plan.model),
        parameters_(parameters(model_.stack())),
        optimizer_(parameters_, plan.adamw) {}

  void operator()(const std::function<void(const StepFigures&)>& on_step) {
    const int64_t first = restore();
    std::unique_ptr<Ddp> ddp;
    std::optional<Ddp::NoSync> quiet;
    const TrainHooks hooks = data_parallel(plan_, parameters_, world_, ddp, quiet);
    const Schedule schedule{plan_.learning_rate, plan_.learning_rate / 10, plan_.warmup,
                            plan_.steps};
    const TrainOptions options{.schedule = schedule, .clip = plan_.clip, .seed = plan_.model.seed};
    Trainer trainer(model_.stack(), optimizer_, options, hooks);
    if (is_first()) figures_.first_step = first, figures_.sample_before = sample();
    context().ledger.reset();
    const int64_t last =
        plan_.stop_after > 0 ? std::min(plan_.stop_after, plan_.steps) : plan_.steps;
    for (int64_t step = first; step < last; ++step) {
      take_step(trainer, step, on_step);
      const bool is_due = plan_.save_every > 0 && (step + 1) % plan_.save_every == 0;
      if (is_due || step + 1 == last) save(step + 1);
    }
    finish();
  }

 private:
  bool is_first() const { return world_.rank() == 0; }

  // Sets weights and optimizer from a folder if asked for; returns the first step to take.
  int64_t restore() {
    const std::string& folder = plan_.resume.empty() ? plan_.load : plan_.resume;
    if (folder.empty()) return 0;
    load_weights(folder, plan_.model, named_values(parameters_));
    if (plan_.resume.empty()) return 0;
    const TrainingState state = load_training_state(folder);
    if (state.seed != plan_.model.seed)
      fail(Where::current(), "{} was trained with --seed {}, not {}; resume with the same seed",
           folder, state.seed, plan_.model.seed);
    expect_same_options(state, options_);
    restore_optimizer(state, optimizer_);
    return state.step;
  }

  void take_step(Trainer& trainer, int64_t step,
                 const std::function<void(const StepFigures&)>& on_step) {
    const Share mine = share_of_batch(plan_.batch, world_.size(), world_.rank());
    const int64_t tokens = plan_.batch * plan_.model.context;
    const Batch batch = batches_.draw(step, mine.begin, mine.end - mine.begin);
    const double begin = seconds_now();
    const StepReport report = trainer.step(
        step, microbatches(batch.inputs, batch.targets, plan_.microbatches, mine.begin), tokens);
    const double seconds = seconds_now() - begin;
    if (!is_first()) return;
    figures_.loss.push_back(report.loss);
    figures_.step_seconds.push_back(seconds);
    on_step({step + 1, report.loss, static_cast<double>(tokens) / seconds});
  }

  void finish() {
    RankFigures& mine = figures_.ranks[static_cast<size_t>(world_.rank())];
    const Ledger& ledger = context().ledger;
    mine.bytes_sent = ledger.total_traffic().bytes_sent;
    mine.messages_sent = ledger.total_traffic().messages_sent;
    mine.peak_bytes = ledger.memory()->peak();
    for (int kind = 0; kind < memory_kinds; ++kind)
      mine.peak_by_kind.push_back(ledger.memory()->peak(static_cast<MemoryKind>(kind)));
    if (!is_first()) return;
    figures_.parameters = parameter_count(model_.stack());
    figures_.validation_loss = validate();
    figures_.sample_after = sample();
  }

  // The state after `step` steps, by rank 0: all ranks hold the same.
  void save(int64_t step) {
    if (plan_.save.empty() || !is_first()) return;
    const TrainingState state = training_state(optimizer_, step, plan_.model.seed, options_);
    save_checkpoint(plan_.save, plan_.model, named_values(parameters_), &state);
  }

  // The mean loss on text that was kept apart, 16 sequences at most.
  double validate() const {
    const Batches kept(split_.validation, plan_.model.context, plan_.model.seed);
    const Batch batch = kept.in_order(0, std::min<int64_t>(16, kept.sequences()));
    return evaluate(model_.stack(), microbatches(batch.inputs, batch.targets, 4));
  }

  std::string sample() const {
    if (plan_.sample_bytes == 0) return "";
    const auto next = [&](const Tensor& ids) {
      Saved saved;
      return forward(model_.stack(), ids, saved);
    };
    const SampleOptions options{.temperature = 0.8, .top_k = 40, .seed = plan_.model.seed};
    return generate(next, plan_.prompt, plan_.sample_bytes, plan_.model.context, options);
  }

  const TrainingPlan& plan_;
  Communicator& world_;
  TrainingFigures& figures_;  // rank 0 writes all but ranks[], where each has its own
  Metadata options_;
  TextSplit split_;
  Batches batches_;
  Transformer model_;
  std::vector<ParameterPtr> parameters_;
  AdamW optimizer_;
};

// The tokens of every step, (steps, B, T), for whoever repeats the run elsewhere.
void save_batches(const TrainingPlan& plan, const Text& text) {
  const TextSplit split = split_text(text.bytes, plan.model.context);
  const Batches batches(split.train, plan.model.context, plan.model.seed);
  const Shape shape = {plan.steps, plan.batch, plan.model.context};
  Tensor inputs = Tensor::empty(shape, DType::i32), targets = Tensor::empty(shape, DType::i32);
  for (int64_t step = 0; step < plan.steps; ++step) {
    const Batch batch = batches.draw(step, 0, plan.batch);
    const Shape one = {1, plan.batch, plan.model.context};
    inputs.rows(step, step + 1).copy_from(batch.inputs.reshape(one));
    targets.rows(step, step + 1).copy_from(batch.targets.reshape(one));
  }
  save_safetensors(plan.save_batches, {{"inputs", inputs}, {"targets", targets}});
}

void check(const TrainingPlan& plan) {
  plan.model.check();
  if (plan.batch < plan.ranks)
    fail(Where::current(),
         "a batch of {} sequences does not give each of {} ranks one; raise --batch", plan.batch,
         plan.ranks);
  if (!plan.load.empty() && !plan.resume.empty())
    fail(Where::current(),
         "--load starts a new run and --resume goes on with an old one: give one");
}

}  // namespace

TrainingFigures run_training(const TrainingPlan& plan,
                             const std::function<void(const StepFigures&)>& on_step) {
  check(plan);
  const Text text = plan.text.empty() ? course_text(YOTTA_SOURCE_DIR) : read_text(plan.text);
  if (!plan.save_batches.empty()) save_batches(plan, text);
  TrainingFigures figures;
  figures.ranks.resize(static_cast<size_t>(plan.ranks));
  figures.text_bytes = std::ssize(text.bytes);
  figures.text_files = text.files;
  figures.tokens_per_step = plan.batch * plan.model.context;
  const int cores = context().threads;
  figures.matmul_gflops = measure_matmul_gflops(cores, 0.5);
  run_ranks(plan.ranks, [&](Communicator& world) { Run(plan, text, world, figures)(on_step); });
  figures.model_flops_per_step = step_flops(plan.model, plan.batch, plan.model.context);
  figures.median_step_seconds = median(figures.step_seconds);
  if (figures.median_step_seconds > 0) {
    figures.tokens_per_second =
        static_cast<double>(figures.tokens_per_step) / figures.median_step_seconds;
    figures.mfu =
        figures.model_flops_per_step / figures.median_step_seconds / (1e9 * figures.matmul_gflops);
  }
  return figures;
}

}  // namespace yotta
