// Trains a model on one rank and on a mesh, and compares: losses, gradient norms, all gradients of
// the first step, and all weights after three steps of AdamW with clipping, in double.
#pragma once

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/expert_parallel.hpp"

namespace yotta_test {

using namespace yotta;

// Those that a model without experts can be spread over.
inline constexpr std::array<Axis, 5> dense_axes = {Axis::tp, Axis::cp, Axis::pp, Axis::dp_shard,
                                                   Axis::dp_replicate};
inline constexpr int64_t T = 8, V = 24, steps = 3;

inline TransformerConfig config_of(Dialect dialect, bool tied, int64_t layers = 4,
                                   uint64_t seed = 5) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(layers, 16, 8, T, V)
                                                 : llama_config(layers, 32, 24, 8, 8, T, V);
  c.tied = tied;
  c.deviation = 0.2;
  c.dropout = 0.1;
  c.dtype = DType::f64;
  c.seed = seed;
  return c;
}

struct Text {
  Tensor inputs, targets;          // (B, T) each
  std::vector<int32_t> documents;  // (B, T), if the mask tells documents apart
};
inline Text text_of(int64_t step, const TransformerConfig& config, int64_t B) {
  Text text{Tensor::empty({B, config.context}, DType::i32),
            Tensor::empty({B, config.context}, DType::i32),
            {}};
  const Random random(config.seed + static_cast<uint64_t>(step), "text");
  const auto all = static_cast<uint32_t>(config.vocabulary);
  for (int64_t i = 0; i < text.inputs.numel(); ++i) {
    const auto at = static_cast<uint64_t>(2 * i);
    text.inputs.data<int32_t>()[i] = static_cast<int32_t>(random.below(at, all));
    text.targets.data<int32_t>()[i] = static_cast<int32_t>(random.below(at + 1, all));
    if (!config.mask.document) continue;
    const bool begins = i % config.context == 0, ends = text.inputs.data<int32_t>()[i] % 4 == 0;
    text.documents.push_back(begins ? 0 : text.documents.back() + (ends ? 1 : 0));
  }
  return text;
}

// GPT-2's key biases have zero gradients but for rounding, which Adam would turn into whole steps.
inline ParameterPtrs trained(ParameterPtrs all) {
  std::erase_if(all, [](const auto& each) { return each->name.ends_with("attention.k.bias"); });
  return all;
}

inline TrainOptions options_of(const TransformerConfig& config) {
  return {.schedule = {0.01, 0.01, 0, steps},
          .clip = 0.5,
          .seed = config.seed + 100};  // of dropout alone
}

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, Tensor> gradients, weights;  // of the first step; after all
};

inline void take(Outcome& outcome, const StepReport& report) {
  outcome.losses.push_back(report.loss);
  outcome.norms.push_back(report.gradient_norm);
}

inline Outcome serial(const TransformerConfig& config, int64_t B = 8) {
  const Transformer model = serial_model(config);
  AdamW optimizer(trained(parameters(model.stack())), {.weight_decay = 0.1});
  TrainHooks hooks;
  RouterBiases biases(config.mixture.bias_rate);
  hooks.after_backward = [&] { biases.take(parameters(model.stack())); };
  hooks.before_step = [&] { biases.step(); };
  Outcome outcome;
  hooks.sum_of_squares = [&](double squares) {  // between backward and the step
    for (const ParameterPtr& each : parameters(model.stack()))
      outcome.gradients.try_emplace(each->name, each->gradient().clone());
    return squares;
  };
  Trainer trainer(model.stack(), optimizer, options_of(config), hooks);
  for (int64_t step = 0; step < steps; ++step) {
    const Text text = text_of(step, config, B);
    std::vector<Microbatch> batches = microbatches(text.inputs, text.targets, 1);
    if (!text.documents.empty())
      batches[0] = packed(batches[0], packing_of(text.documents, config.context));
    take(outcome, trainer.step(step, batches, text.inputs.numel()));
  }
  for (const ParameterPtr& each : parameters(model.stack()))
    outcome.weights[each->name] = each->value;
  return outcome;
}

// Has one step refused twice: for a weight that is not a number, and for a loss that is none.
inline void refuse_steps(NdParallel& model, double& added_to_loss,
                         const std::function<void()>& step) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor broken = parameters(model.stack()).back()->value;
  double& number = broken.data<double>()[0];
  const double before = std::exchange(number, nan);
  CHECK(contains(message_of(step), "was not finite before this step"));
  number = before;
  added_to_loss = nan;
  CHECK(contains(message_of(step), "every layer is finite on its own"));
  added_to_loss = 0;
}

inline std::vector<NamedTensor> gather_gradients(RankModel& model) {
  std::vector<Tensor> values;
  for (const Held& each : model.held()) values.push_back(each.parameter->gradient());
  return model.gather(values, DType::f64);
}

inline void check_layout(const TransformerConfig& config, const MeshShape& shape,
                         const NdOptions& options, const Outcome& whole, int64_t B = 8,
                         bool with_refused_steps = false) {
  const std::string layout = fmt::format(
      "seed {}: {} {}, {} layers, width {}, {} heads, {} sequences of {}, {}, {} microbatches, {} "
      "chunks, recompute {}, ZeRO-{}, {}, context {}, sequence parallel {}, gathered "
      "kept {}, pieces {}",
      config.seed, name(config.dialect), config.tied ? "tied" : "untied", config.layers,
      config.width, config.heads, B, config.context, describe(shape), options.microbatches,
      options.chunks, static_cast<int>(options.checkpoint.what), options.zero.stage,
      name(options.schedule), static_cast<int>(options.context), options.sequence_parallel,
      options.keep_gathered, static_cast<int>(options.pieces));
  CAPTURE(layout);
  RunOptions run;
  run.threads = 1;
  run_ranks(
      static_cast<int>(shape.ranks()),
      [&](Communicator& world) {
        Mesh mesh(world, shape);
        NdParallel model(config, mesh, options);
        AdamW optimizer(trained(model.parameters()), {.weight_decay = 0.1});
        TrainHooks hooks = model.hooks();
        double added_to_loss = 0;
        const auto sum = hooks.sum_over_ranks;
        hooks.sum_over_ranks = [&](double loss) { return sum(loss) + added_to_loss; };
        std::vector<NamedTensor> gradients;  // of the first step, on rank 0
        const auto squares = hooks.sum_of_squares;
        int backwards = 0;
        hooks.sum_of_squares = [&](double mine) {
          if (backwards++ == 0) gradients = gather_gradients(model);
          return squares(mine);
        };
        Trainer trainer(model.stack(), optimizer, options_of(config), hooks);
        Outcome outcome;
        for (int64_t step = 0; step < steps; ++step) {
          const Text text = text_of(step, config, B);
          const BatchShard share = model.share(B);
          std::vector<int32_t> documents;  // of this rank's share
          if (!text.documents.empty())
            documents.assign(text.documents.begin() + share.begin * config.context,
                             text.documents.begin() + share.end * config.context);
          const std::vector<Microbatch> batches =
              model.microbatches(text.inputs.rows(share.begin, share.end),
                                 text.targets.rows(share.begin, share.end), share.begin, documents);
          const auto take_step = [&] { return trainer.step(step, batches, text.inputs.numel()); };
          if (with_refused_steps) refuse_steps(model, added_to_loss, take_step);
          take(outcome, take_step());
        }
        for (size_t step = 0; step < steps; ++step) {
          CHECK(std::abs(outcome.losses[step] - whole.losses[step]) <= 1e-11);
          CHECK(std::abs(outcome.norms[step] - whole.norms[step]) <= 1e-10);
        }
        if (!with_refused_steps)  // whose first gradients are not numbers
          for (const NamedTensor& each : gradients)
            check_equal(each.value, whole.gradients.at(each.name), layout + ": d " + each.name,
                        1e-10);
        for (const NamedTensor& each : model.gather_weights())  // on rank 0
          check_equal(each.value, whole.weights.at(each.name), layout + ": " + each.name, 1e-10);
      },
      run);
}

}  // namespace yotta_test
