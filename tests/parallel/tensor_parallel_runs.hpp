// A small transformer that is trained for three steps, whole or on the ranks of tp: for tests that
// compare the two.
#pragma once

#include "support/cut_model.hpp"
#include "support/parts_check.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"

namespace yotta_test {

constexpr int64_t run_steps = 3;

// The text of a run: B sequences of T tokens per step.
struct RunText {
  int64_t B, T, vocabulary;
};

// Heads, key/value heads and the feed-forward width divide by `ranks`.
inline yotta::TransformerConfig config_for(const RunText& text, yotta::Dialect dialect, int ranks,
                                           bool tied) {
  const int64_t heads = ranks == 3 ? 3 : 8, width = 2 * heads;
  yotta::TransformerConfig c =
      dialect == yotta::Dialect::gpt2
          ? yotta::gpt2_config(2, width, heads, text.T, text.vocabulary)
          : yotta::llama_config(2, width, 24, heads, ranks == 2 ? 4 : heads, text.T,
                                text.vocabulary);
  c.tied = tied;
  c.deviation = 0.3;
  c.dtype = yotta::DType::f64;
  c.dropout = 0.1;
  return c;
}

inline yotta::Microbatch batch_of(const RunText& text, int64_t step) {
  const yotta::Shape shape = {text.B, text.T};
  yotta::Microbatch batch{yotta::Tensor::empty(shape, yotta::DType::i32),
                          yotta::Tensor::empty(shape, yotta::DType::i32)};
  const yotta::Random random(static_cast<uint64_t>(step), "text");
  const auto token = [&](int64_t i) {
    return static_cast<int32_t>(
        random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(text.vocabulary)));
  };
  for (int64_t i = 0; i < text.B * text.T; ++i) {
    batch.inputs.data<int32_t>()[i] = token(i);
    batch.targets.data<int32_t>()[i] = token(i + 1);
  }
  return batch;
}

struct RunOutcome {
  ParameterPtrs gradients, weights;  // of the first step; after all
  std::vector<double> losses, norms;
};

// Key biases have zero gradients but for rounding, which Adam would turn into whole steps.
inline bool is_trained(const yotta::ParameterPtr& each) {
  return !each->name.ends_with("attention.k.bias");
}

// Three steps of AdamW with clipping. sums_own_tokens: whether the gradients of what sees a rank's
// own tokens alone are summed over tp, as sequence parallelism wants it.
inline RunOutcome train(const RunText& text, const yotta::TransformerConfig& config,
                        const yotta::Communicator& tp = {}, const TokenCut& cut = {},
                        bool sums_own_tokens = false) {
  yotta::Transformer model(config);
  if (tp.is_member()) cut_model(model, tp, cut);
  ParameterPtrs trained;
  for (const yotta::ParameterPtr& each : parameters(model.stack()))
    if (is_trained(each)) trained.push_back(each);
  yotta::AdamW optimizer(trained, {.weight_decay = 0.1});
  yotta::TrainHooks hooks;
  if (tp.is_member()) {
    hooks.loss = vocab_parallel_loss(config.vocabulary, tp);
    hooks.sum_of_squares = [&](double squares) { return sum_over(tp, squares, "tp.norm"); };
  }
  if (sums_own_tokens) hooks.after_backward = [&] { reduce_own_token_gradients(trained, tp); };
  yotta::Trainer trainer(model.stack(), optimizer,
                         {.schedule = {0.02, 0.02, 0, run_steps}, .clip = 0.1}, hooks);
  RunOutcome outcome;
  for (int64_t step = 0; step < run_steps; ++step) {
    const yotta::Microbatch batch = batch_of(text, step);
    const yotta::StepReport report = trainer.step(step, {&batch, 1}, text.B * text.T);
    outcome.losses.push_back(report.loss);
    outcome.norms.push_back(report.gradient_norm);
    if (step > 0) continue;
    for (const yotta::ParameterPtr& each : trained) {
      outcome.gradients.push_back(std::make_shared<yotta::Parameter>(*each));
      outcome.gradients.back()->grad = each->grad.clone();
    }
  }
  outcome.weights = trained;
  return outcome;
}

// What a rank of tp has made, against the whole.
inline void check_outcome(const RunOutcome& part, const RunOutcome& whole, int ranks) {
  for (size_t step = 0; step < run_steps; ++step) {
    CHECK(std::abs(part.losses[step] - whole.losses[step]) <= 1e-12);
    CHECK(std::abs(part.norms[step] - whole.norms[step]) <= 1e-11);
  }
  check_parts(part.gradients, whole.gradients, &yotta::Parameter::grad, ranks, 1e-11);
  check_parts(part.weights, whole.weights, &yotta::Parameter::value, ranks, 1e-10);
}

}  // namespace yotta_test
