// The whole transformer on a tensor-parallel group, against the same transformer on one rank:
// logits, losses, every gradient, and the weights after three steps of AdamW.
#include <doctest/doctest.h>

#include "parallel/tensor_parallel_runs.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr RunText text = {2, 5, 24};
constexpr int64_t B = text.B, T = text.T;

}  // namespace

TEST_CASE("losses, norms, gradients, and weights after 3 steps of AdamW with clipping, tp 1 to 8") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {true, false})
      for (const int ranks : {1, 2, 3, 4, 8}) {
        if (tied == (ranks == 4)) continue;  // each of tied and untied on some
        CAPTURE(std::string(name(dialect)));
        CAPTURE(tied);
        CAPTURE(ranks);
        const TransformerConfig config = config_for(text, dialect, ranks, tied);
        const RunOutcome whole = train(text, config);
        CHECK(whole.norms[0] > 0.1);  // it is clipped
        run_ranks(ranks,
                  [&](Communicator& tp) { check_outcome(train(text, config, tp), whole, ranks); });
      }
}

TEST_CASE("messages: 2 L + 1 all_reduces forward, 2 L + 1 backward, and three numbers per token") {
  const int ranks = 4;
  const TransformerConfig config = config_for(text, Dialect::gpt2, ranks, true);
  const auto reports = run_ranks(ranks, [&](Communicator& tp) {
    Transformer model(config);
    tensor_parallel(model, tp);
    const Microbatch batch = batch_of(text, 0);
    Saved saved;
    Tensor dlogits;
    vocab_parallel_loss(config.vocabulary, tp)(forward(model.stack(), batch.inputs, saved),
                                               batch.targets, 0.1, &dlogits);
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
    const TransformerConfig config = config_for(text, Dialect::llama, ranks, false);
    run_ranks(ranks, [&](Communicator& tp) {
      Transformer model(config);
      tensor_parallel(model, tp);
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
  const TransformerConfig config = config_for(text, Dialect::gpt2, 2, true);
  const Transformer whole(config);
  run_ranks(2, [&](Communicator& tp) {
    const int64_t entries = Transformer::entries(config);
    Transformer last(config, entries - 1, entries);
    tensor_parallel(last, tp);
    check_parts(parameters(last.stack()), parameters(whole.stack()), &Parameter::value, 2);
    CHECK(parameters(last.stack()).back()->uses == 1);
  });
}

TEST_CASE("what does not divide is refused at the caller's line, with the nearest that works") {
  TransformerConfig config = config_for(text, Dialect::gpt2, 2, true);
  const auto error = [&](int ranks) {
    return error_of<RankFailed>(ranks, [&](Communicator& tp) {
      Transformer model(config);
      tensor_parallel(model, tp);
    });
  };
  check_says(error(3),
             {"tensor_parallel_transformer_test.cpp", "over 3 ranks",
              "8 heads are not divisible by 3", "The nearest that works for this model: tp 2"});
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
