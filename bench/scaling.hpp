// The small models of ./yotta bench scaling: which are trained, and how.
#pragma once

#include <cmath>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "bench.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/width_scaling.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/plan/mfu.hpp"

namespace yotta::bench {

constexpr int64_t context_length = 64, vocabulary = 256, base_width = 32, usual_batch = 4;
constexpr double base_deviation = 0.15;

// Sizes from small to large: layers and width.
constexpr std::pair<int64_t, int64_t> ladder[] = {{1, 8},  {1, 16}, {1, 24}, {2, 24}, {2, 32},
                                                  {2, 40}, {3, 40}, {3, 48}, {3, 56}, {3, 64},
                                                  {4, 64}, {4, 72}, {4, 80}, {4, 96}};

// ---- data ---------------------------------------------------------------------------------------

struct ScalingText {
  std::string train, validation;
};

// Every tenth 4 KiB of the text are for validation.
inline ScalingText split_pieces(const std::string& text) {
  constexpr size_t piece = 4096;
  ScalingText data;
  for (size_t at = 0; at < text.size(); at += piece)
    (at / piece % 10 == 9 ? data.validation : data.train) += text.substr(at, piece);
  return data;
}

// ---- a model in training ------------------------------------------------------------------------

inline TransformerConfig config_of(int64_t layers, int64_t width, uint64_t seed = 0) {
  TransformerConfig config = llama_config(layers, width, 8 * width / 3 / 8 * 8, width / 8,
                                          width / 8, context_length, vocabulary);
  config.deviation = base_deviation;
  config.seed = seed;
  return config;
}

struct Job {
  std::string part;
  int64_t layers = 1, width = 32, steps = 0, batch = usual_batch;
  double budget = 0, rate = 0;
  uint64_t seed = 1;  // of initial values, and of what is drawn from the text
  WidthRule rule = WidthRule::mup;
  bool constant = false;  // the learning rate, after a warm-up
  double target = 0;      // stop at this loss

  double wider() const { return static_cast<double>(width) / base_width; }
  CountedModel counted() const { return counted_model(config_of(layers, width)); }
  double flops_a_token() const { return model_flops(counted(), context_length, Scores::causal); }
  int64_t step_tokens() const { return batch * context_length; }
  Schedule schedule() const {
    const int64_t warmup = constant ? 20 : std::max<int64_t>(steps / 20, 1);
    return {rate, constant ? rate : rate / 10, warmup, steps};
  }
};

struct Model {
  explicit Model(const Job& job)
      : transformer(config_of(job.layers, job.width, job.seed)),
        parameters(yotta::parameters(transformer.stack())),
        optimizer(parameters, job.wider(), job.rule) {
    scale_initial_values(parameters, job.wider(), job.rule);
  }
  Transformer transformer;
  std::vector<ParameterPtr> parameters;
  WidthScaledAdamW optimizer;
};

inline std::vector<Microbatch> microbatches_of(const Batch& batch) {
  return microbatches(batch.inputs, batch.targets, 1);
}

inline double validation_loss(const Model& model, const Batches& text, int64_t sequences) {
  std::vector<Microbatch> parts;
  const int64_t apart = std::max<int64_t>(text.sequences() / sequences, 1);
  for (int64_t i = 0; i < sequences; ++i) {
    const Batch one = text.in_order(i * apart % text.sequences(), 1);
    parts.push_back({one.inputs, one.targets});
  }
  return evaluate(model.transformer.stack(), parts);
}

inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Trained {
  int64_t steps = 0;
  double loss = 0;  // on 256 sequences that were not trained on; NaN if the run diverged
};

// When a run with a target looks whether it is there: after 8 steps, and then ever less often.
struct Looks {
  int64_t next = 8;
  bool at(int64_t step) {
    if (step != next) return false;
    next += 1 + next / 24;
    return true;
  }
};

inline Trained train(const Job& job, const ScalingText& data) {
  Model model(job);
  Trainer trainer(model.transformer.stack(), model.optimizer,
                  {.schedule = job.schedule(), .spike_factor = 0});
  const Batches text(data.train, context_length, job.seed);
  const Batches unseen(data.validation, context_length, job.seed);
  Trained run;
  Looks looks;
  try {
    for (; run.steps < job.steps; ++run.steps) {
      if (job.target > 0 && looks.at(run.steps) && validation_loss(model, unseen, 64) <= job.target)
        break;
      const Batch batch = text.draw(run.steps, 0, job.batch);
      trainer.step(run.steps, microbatches_of(batch), job.step_tokens());
    }
    run.loss = validation_loss(model, unseen, 256);
  } catch (const TrainingDiverged&) {
    run.loss = NAN;
  }
  return run;
}

inline Json row_of(const Job& job, const Trained& run, double seconds) {
  const int64_t tokens = run.steps * job.step_tokens();
  return {{"part", job.part},
          {"layers", job.layers},
          {"width", job.width},
          {"weights", met_weights(job.counted())},
          {"block_weights", met_weights(job.counted()) - output_weights(job.counted())},
          {"steps", run.steps},
          {"batch", job.batch},
          {"tokens", tokens},
          {"budget", job.budget},
          {"flops", job.flops_a_token() * static_cast<double>(tokens)},
          {"rate", job.rate},
          {"mup", job.rule == WidthRule::mup},
          {"target", job.target},
          {"loss", run.loss},
          {"cpu_seconds", seconds}};
}

// ---- which --------------------------------------------------------------------------------------

// Steps that the budget pays.
inline Job job_of_budget(const char* part, double budget, int64_t layers, int64_t width,
                         double rate) {
  Job job{.part = part, .layers = layers, .width = width, .budget = budget, .rate = rate};
  job.steps = std::llround(budget / job.flops_a_token() / static_cast<double>(job.step_tokens()));
  return job;
}

// So many sizes around the one that has ten tokens for each weight.
inline std::vector<Job> isoflop_jobs(const std::vector<double>& budgets, size_t sizes,
                                     double rate) {
  std::vector<Job> jobs;
  for (const double budget : budgets) {
    size_t middle = 0;
    for (size_t i = 0; i < std::size(ladder); ++i) {
      const Job job{.part = "", .layers = ladder[i].first, .width = ladder[i].second};
      if (met_weights(job.counted()) < std::sqrt(budget / 60)) middle = i;
    }
    const size_t first = std::min(middle - std::min(middle, sizes / 2), std::size(ladder) - sizes);
    for (size_t i = first; i < first + sizes; ++i)
      jobs.push_back(job_of_budget("isoflop", budget, ladder[i].first, ladder[i].second, rate));
  }
  return jobs;
}

inline std::vector<Job> width_jobs(int64_t steps, double rate) {
  std::vector<Job> jobs;
  for (const WidthRule rule : {WidthRule::mup, WidthRule::standard})
    for (const int64_t width : {16, 32, 64, 128})
      for (int i = -3; i <= 3; ++i) {
        Job job{.part = "width", .layers = 2, .width = width, .steps = steps};
        job.rate = rate * std::pow(2.0, i);
        job.rule = rule;
        jobs.push_back(job);
      }
  return jobs;
}

// Each batch with five learning rates around the root of the batch: the best is to lie inside.
inline std::vector<Job> batch_jobs(double target, double rate) {
  std::vector<Job> jobs;
  for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64})
    for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.0}) {
      Job job{.part = "batch", .layers = 2, .width = 32, .steps = 16384 / batch, .batch = batch};
      job.rate = factor * rate * std::sqrt(static_cast<double>(batch) / usual_batch);
      job.constant = true, job.target = target;
      jobs.push_back(job);
    }
  return jobs;
}

}  // namespace yotta::bench
