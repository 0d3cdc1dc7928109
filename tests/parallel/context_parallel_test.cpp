#include "yotta/parallel/context_parallel.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"
#include "support/largest.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("shards are the batch: every column once, where context_positions says") {
  const int64_t T = 48;
  std::vector<int32_t> column(2 * T);
  for (size_t i = 0; i < column.size(); ++i) column[i] = static_cast<int32_t>(i % T);
  const Tensor ids = Tensor::from<int32_t>(column, {2, T});
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const ChunkOrder order : {ChunkOrder::zigzag, ChunkOrder::contiguous}) {
      std::vector<Tensor> shards;
      for (int rank = 0; rank < ranks; ++rank) {
        shards.push_back(context_shard(ids, ranks, rank, order));
        const Positions at = context_positions(T, ranks, rank, order);
        REQUIRE(shards.back().shape() == Shape{2, T / ranks});
        for (int64_t t = 0; t < T / ranks; ++t)
          CHECK(shards.back().item({1, t}) == static_cast<double>(at.of(t, T / ranks)));
      }
      CHECK(context_unshard(shards, order).values() == ids.values());
    }
  CHECK(context_positions(8, 2, 1) == Positions(2, 4));
  CHECK(context_positions(7, 1, 0) == Positions(0));
}

TEST_CASE("all ranks gather what each one holds, of any shape") {
  const Tensor x = random_tensor({2, 12, 3}, "x");
  run_ranks(
      3, [&](Communicator& cp) { CHECK(same_bits(context_gather(context_shard(x, cp), cp), x)); });
  CHECK(same_bits(context_gather(x, {}), x));
}

TEST_CASE("a length that does not cut is refused, with the nearest that do") {
  const auto said = [](int64_t T, int ranks) {
    return message_of([&] { context_positions(T, ranks, 0); });
  };
  CHECK(contains(said(42, 4), "42 tokens does not cut into 8 equal chunks, 2 for each of 4 ranks"));
  CHECK(contains(said(42, 4), "40 or 48 tokens would"));
  CHECK(contains(said(5, 4), "ranks; 8 tokens would"));
  CHECK(contains(said(42, 4), "context_parallel_test.cpp:"));
  CHECK(contains(message_of([&] { context_shard(Tensor::zeros({1, 6}), 2, 0); }), "4 or 8 tokens"));
}

namespace {

constexpr int64_t B = 2, T = 48, vocabulary = 11;

TransformerConfig tiny(Dialect dialect) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(2, 12, 2, T, vocabulary)
                                                 : llama_config(2, 16, 24, 4, 2, T, vocabulary);
  c.dtype = DType::f64;
  c.deviation = 0.3;  // large enough that attention matters
  c.dropout = 0.2;    // drawn by the place in the whole sequence
  return c;
}

Tensor tokens(int64_t first) {
  std::vector<int32_t> ids(B * T);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((static_cast<size_t>(first) + i * i + i / 7) % vocabulary);
  return Tensor::from<int32_t>(ids, {B, T});
}

struct Outcome {
  Tensor logits;                           // of the first step, without dropout
  std::vector<double> gradients, weights;  // of the first step, after three
  std::vector<double> losses;
};

Outcome train(const TransformerConfig& config, Communicator cp) {
  Transformer model(config);
  ring_attention(model, cp);
  const std::vector<ParameterPtr> all = parameters(model.stack());
  Outcome out;
  Saved saved(BatchPosition{.positions = context_positions(T, cp)});
  out.logits = context_gather(forward(model.stack(), context_shard(tokens(0), cp), saved), cp);
  Sgd optimizer(all);
  TrainHooks hooks;
  hooks.after_backward = [&] {
    reduce_gradients(all, cp, ReduceOp::sum);
    for (const ParameterPtr& each : all)
      for (const double g : each->grad.values())
        if (out.losses.empty()) out.gradients.push_back(g);
  };
  hooks.sum_over_ranks = [&](double loss) { return sum_over(cp, loss, "loss"); };
  Trainer trainer(model.stack(), optimizer, {.schedule = {0.1, 0.1, 0, 3}}, hooks);
  for (int64_t step = 0; step < 3; ++step) {
    const auto batches =
        microbatches(context_shard(tokens(step), cp), context_shard(tokens(step + 1), cp), 2, 0,
                     context_positions(T, cp));
    out.losses.push_back(trainer.step(step, batches, B * T).loss);
  }
  for (const ParameterPtr& each : all)
    for (const double w : each->value.values()) out.weights.push_back(w);
  return out;
}

}  // namespace

TEST_CASE("a transformer on sequence shards: logits, losses, gradients, weights after 3 steps") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    Outcome serial;
    for (const int ranks : {1, 2, 3, 4, 8})
      run_ranks(ranks, [&](Communicator& cp) {
        const Outcome mine = train(tiny(dialect), cp);
        if (ranks == 1) serial = mine;
        CHECK(largest_difference(mine.logits, serial.logits) <= 1e-11);
        CHECK(largest(mine.losses, serial.losses) <= 1e-12);
        CHECK(largest(mine.gradients, serial.gradients) <= 1e-11);
        CHECK(largest(mine.weights, serial.weights) <= 1e-11);
      });
  }
}

TEST_CASE("attention on shards refuses positions that are not its rank's, and plain attention") {
  const auto said = [](TransformerConfig config, const BatchPosition& place) {
    return message_of([&] {
      run_ranks(2, [&](Communicator& cp) {
        Transformer model(config);
        ring_attention(model, cp);
        Saved saved(place);
        forward(model.stack(), context_shard(tokens(0), cp), saved);
      });
    });
  };
  TransformerConfig config = tiny(Dialect::llama);
  CHECK(contains(said(config, {}), "the microbatch's columns stand at 0 and on"));
  config.attention = AttentionKind::plain;
  CHECK(contains(said(config, {}), "needs blockwise attention"));
}
