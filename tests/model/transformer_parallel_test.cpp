// The whole transformer on a tensor-parallel group, against the same transformer on one rank:
// logits, losses, every gradient, and the weights after three steps of AdamW.
#include <doctest/doctest.h>

#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 2, T = 5, steps = 3;

// Sizes that divide by `ranks`: heads, key/value heads, feed-forward width and vocabulary.
TransformerConfig config_for(Dialect dialect, int ranks, bool tied) {
  const int64_t heads = ranks == 3 ? 3 : 8, width = 2 * heads;
  TransformerConfig c = dialect == Dialect::gpt2
                            ? gpt2_config(2, width, heads, T, 24)
                            : llama_config(2, width, 24, heads, ranks == 2 ? 4 : heads, T, 24);
  c.tied = tied;
  c.deviation = 0.3;
  c.dtype = DType::f64;
  c.dropout = 0.1;
  return c;
}

Microbatch batch_of(int64_t step, int64_t vocabulary) {
  Microbatch batch{Tensor::empty({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32)};
  const Random random(static_cast<uint64_t>(step), "text");
  const auto token = [&](int64_t i) {
    return static_cast<int32_t>(
        random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(vocabulary)));
  };
  for (int64_t i = 0; i < B * T; ++i) {
    batch.inputs.data<int32_t>()[i] = token(i);
    batch.targets.data<int32_t>()[i] = token(i + 1);
  }
  return batch;
}

struct Outcome {
  ParameterPtrs gradients, weights;  // of the first step; after all
  std::vector<double> losses, norms;
};

// Key biases have zero gradients but for rounding, which Adam would turn into whole steps.
bool is_trained(const ParameterPtr& each) { return !each->name.ends_with("attention.k.bias"); }

Outcome train(const TransformerConfig& config, LayerAxes axes = {}) {
  const Transformer model(config, axes);
  ParameterPtrs trained;
  for (const ParameterPtr& each : parameters(model.stack()))
    if (is_trained(each)) trained.push_back(each);
  AdamW optimizer(trained, {.weight_decay = 0.1});
  TrainHooks hooks;
  hooks.tp = axes.tp;
  if (axis_size(axes.tp) > 1)
    hooks.sum_of_squares = [&](double squares) { return sum_over(axes.tp, squares, "tp.norm"); };
  Trainer trainer(model.stack(), optimizer, {.schedule = {0.02, 0.02, 0, steps}, .clip = 0.1},
                  hooks);
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    const Microbatch batch = batch_of(step, config.vocabulary);
    const StepReport report = trainer.step(step, {&batch, 1}, B * T);
    outcome.losses.push_back(report.loss);
    outcome.norms.push_back(report.gradient_norm);
    if (step > 0) continue;
    for (const ParameterPtr& each : trained) {
      outcome.gradients.push_back(std::make_shared<Parameter>(*each));
      outcome.gradients.back()->grad = each->grad.clone();
    }
  }
  outcome.weights = trained;
  return outcome;
}

}  // namespace

TEST_CASE("losses, norms, gradients, and weights after 3 steps of AdamW with clipping, tp 1 to 8") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {true, false})
      for (const int ranks : {1, 2, 3, 4, 8}) {
        if (tied == (ranks == 4)) continue;  // each of tied and untied on some
        CAPTURE(name(dialect));
        CAPTURE(tied);
        CAPTURE(ranks);
        const TransformerConfig config = config_for(dialect, ranks, tied);
        const Outcome whole = train(config);
        CHECK(whole.norms[0] > 0.1);  // it is clipped
        run_ranks(ranks, [&](Communicator& tp) {
          const Outcome part = train(config, {.tp = tp, .cp = {}});
          for (size_t step = 0; step < steps; ++step) {
            CHECK(std::abs(part.losses[step] - whole.losses[step]) <= 1e-12);
            CHECK(std::abs(part.norms[step] - whole.norms[step]) <= 1e-11);
          }
          check_parts(part.gradients, whole.gradients, &Parameter::grad, ranks, 1e-11);
          check_parts(part.weights, whole.weights, &Parameter::value, ranks, 1e-10);
        });
      }
}

TEST_CASE("messages: 2 L + 1 all_reduces forward, 2 L + 1 backward, and three numbers per token") {
  const int ranks = 4;
  const TransformerConfig config = config_for(Dialect::gpt2, ranks, true);
  const auto reports = run_ranks(ranks, [&](Communicator& tp) {
    const Transformer model(config, {.tp = tp, .cp = {}});
    const Microbatch batch = batch_of(0, config.vocabulary);
    Saved saved;
    Tensor dlogits;
    loss_of(forward(model.stack(), batch.inputs, saved), batch, 0.1, &dlogits, tp);
    CHECK(dlogits.shape() == Shape{B, T, config.vocabulary / ranks});
    backward(model.stack(), dlogits, saved);
  });
  const auto sent = [&](const char* label) {
    int64_t sum = 0;
    for (const RankReport& rank : reports) sum += rank.ledger().traffic(label).bytes_sent;
    return sum;
  };
  const int64_t one = tensor_parallel_bytes_sent_by_all(ranks, B * T * config.width, 8);
  CHECK(sent("tp.forward") == (2 * config.layers + 1) * one);   // and the embedding
  CHECK(sent("tp.backward") == (2 * config.layers + 1) * one);  // and the head
  CHECK(sent("tp.loss") ==
        tensor_parallel_bytes_sent_by_all(ranks, vocab_parallel_loss_numbers(B * T), 8));
}

TEST_CASE("parameters: a tp-th of what is cut, all of what is not; counted once together") {
  for (const int ranks : {1, 2, 8}) {
    const TransformerConfig config = config_for(Dialect::llama, ranks, false);
    run_ranks(ranks, [&](Communicator& tp) {
      const Transformer model(config, {.tp = tp, .cp = {}});
      std::vector<double> once = {0};
      for (const ParameterPtr& each : parameters(model.stack())) {
        CHECK(each->copies == (each->range.is_whole() ? ranks : 1));
        once[0] += static_cast<double>(each->value.numel()) / each->copies;
      }
      tp.all_reduce(once);
      CHECK(once[0] == static_cast<double>(parameters(config)));
    });
  }
}

TEST_CASE("a slice with a tied head alone has its part of the table, and its one use") {
  const TransformerConfig config = config_for(Dialect::gpt2, 2, true);
  const Transformer whole(config);
  run_ranks(2, [&](Communicator& tp) {
    const int64_t entries = Transformer::entries(config);
    const Transformer last(config, entries - 1, entries, {.tp = tp, .cp = {}});
    check_parts(parameters(last.stack()), parameters(whole.stack()), &Parameter::value, 2);
    CHECK(parameters(last.stack()).back()->uses == 1);
  });
}

TEST_CASE("what does not divide is refused at the caller's line, with the nearest that works") {
  TransformerConfig config = config_for(Dialect::gpt2, 2, true);
  const auto error = [&](int ranks) {
    return error_of<RankFailed>(
        ranks, [&](Communicator& tp) { Transformer(config, {.tp = tp, .cp = {}}); });
  };
  check_says(error(3),
             {"transformer_parallel_test.cpp", "over 3 ranks", "8 heads are not divisible by 3",
              "The nearest that works for this model: tp 2"});
  config.vocabulary = 25;
  expect_divides(config, 2);  // padded
  config.vocabulary = 3;
  check_says(error(4), {"3 tokens of the vocabulary leave some of 4 ranks without any; take tp 2"});
  const auto said = [&](int tp) { return message_of([&] { expect_divides(llama3_70b(), tp); }); };
  CHECK(contains(said(16), "8 key/value heads are not divisible by 16"));
  CHECK(contains(said(7), "model: tp 8"));
  expect_divides(llama3_405b(), 8);
  expect_divides(gpt2_124m(), 2);  // 50257 tokens
}
