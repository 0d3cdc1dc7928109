// The whole transformer with the tokens cut over tp, against one rank: losses, every gradient, and
// the weights after three steps of AdamW with clipping. 27 tokens a batch, 9 a sequence: 2, 4 and 8
// ranks divide neither.
#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/sequence_parallel.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t B = 3, T = 9, steps = 3;

TransformerConfig config_for(Dialect dialect, int ranks, bool tied) {
  const int64_t heads = ranks == 3 ? 3 : 8, width = 2 * heads;
  TransformerConfig c = dialect == Dialect::gpt2
                            ? gpt2_config(2, width, heads, T, 23)  // the vocabulary is padded
                            : llama_config(2, width, 24, heads, ranks == 2 ? 4 : heads, T, 23);
  c.tied = tied;
  c.deviation = 0.3;
  c.dtype = DType::f64;
  c.dropout = 0.1;
  return c;
}

Microbatch batch_of(int64_t step, int64_t sequence = T) {
  Microbatch batch{Tensor::empty({B, sequence}, DType::i32),
                   Tensor::empty({B, sequence}, DType::i32)};
  const Random random(static_cast<uint64_t>(step), "text");
  for (int64_t i = 0; i < B * sequence; ++i) {
    const auto token = [&](int64_t at) {
      return static_cast<int32_t>(random.below(static_cast<uint64_t>(at), 23));
    };
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

Outcome train(const TransformerConfig& config, const LayerAxes& axes = {}, bool reduces = true) {
  const Transformer model(config, axes);
  ParameterPtrs trained;
  for (const ParameterPtr& each : parameters(model.stack()))
    if (is_trained(each)) trained.push_back(each);
  AdamW optimizer(trained, {.weight_decay = 0.1});
  TrainHooks hooks;
  hooks.tp = axes.tp;
  if (axis_size(axes.tp) > 1) {
    hooks.sum_of_squares = [&](double squares) { return sum_over(axes.tp, squares, "tp.norm"); };
    if (reduces) hooks.after_backward = [&] { reduce_own_token_gradients(trained, axes.tp); };
  }
  Trainer trainer(model.stack(), optimizer, {.schedule = {0.02, 0.02, 0, steps}, .clip = 0.1},
                  hooks);
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    const Microbatch batch = batch_of(step);
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

TEST_CASE(
    "both dialects, tied and untied, tp 2 to 8, gathered kept and dropped, in pieces: one rank's") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {true, false})
      for (const int ranks : {1, 2, 3, 4, 8}) {
        CAPTURE(name(dialect));
        CAPTURE(tied);
        CAPTURE(ranks);
        const TransformerConfig config = config_for(dialect, ranks, tied);
        const Outcome whole = train(config);
        CHECK(whole.norms[0] > 0.1);              // it is clipped
        const bool keeps = tied == (ranks == 4);  // each on some
        for (const Pieces pieces : {Pieces::none, Pieces::one_way, Pieces::both_ways})
          run_ranks(ranks, [&](Communicator& tp) {
            const Outcome part =
                train(config, {.tp = tp, .cp = {}, .sequence = {T, keeps, pieces}});
            for (size_t step = 0; step < steps; ++step) {
              CHECK(std::abs(part.losses[step] - whole.losses[step]) <= 1e-12);
              CHECK(std::abs(part.norms[step] - whole.norms[step]) <= 1e-11);
            }
            check_parts(part.gradients, whole.gradients, &Parameter::grad, ranks, 1e-11);
            check_parts(part.weights, whole.weights, &Parameter::value, ranks, 1e-10);
          });
      }
}

TEST_CASE("without the sum over tp only norms and positions are wrong, and they differ by rank") {
  const TransformerConfig config = config_for(Dialect::gpt2, 4, true);
  const Outcome whole = train(config);
  run_ranks(4, [&](Communicator& tp) {
    const Outcome part = train(config, {.tp = tp, .cp = {}, .sequence = {T}}, false);
    for (const ParameterPtr& each : part.gradients) {
      const auto same = std::find_if(whole.gradients.begin(), whole.gradients.end(),
                                     [&](const auto& other) { return other->name == each->name; });
      Tensor expected = each->grad.clone();
      take_shard((*same)->grad, each->range, expected);
      CAPTURE(each->name);
      CHECK(compare(each->grad, expected, 1e-11).equal == !sees_own_tokens(*each));
    }
  });
}

TEST_CASE("messages: as many bytes as tensor parallelism alone, and one gather more for each g") {
  TransformerConfig config = config_for(Dialect::gpt2, 4, true);
  config.context = 8;  // the tokens divide
  const int64_t N = B * 8, L = config.layers;
  for (const bool keeps : {false, true}) {
    const auto reports = run_ranks(4, [&](Communicator& tp) {
      const Transformer model(config, {.tp = tp, .cp = {}, .sequence = {8, keeps}});
      const Microbatch batch = batch_of(0, 8);
      Saved saved;
      Tensor dlogits;
      loss_of(forward(model.stack(), batch.inputs, saved), batch, 0.1, &dlogits, tp);
      backward(model.stack(), dlogits, saved);
      CHECK(saved.bytes() == 0);
    });
    const auto sent = [&](const char* label) {
      int64_t sum = 0;
      for (const RankReport& rank : reports) sum += rank.ledger().traffic(label).bytes_sent;
      return sum;
    };
    const int64_t one = sequence_parallel_bytes_sent_by_all(4, N, config.width, 8);
    CHECK(2 * one == tensor_parallel_bytes_sent_by_all(4, N * config.width, 8));
    CHECK(sent("sp.forward") == (4 * L + 2) * one);  // and the embedding, and the head
    CHECK(sent("sp.backward") == (4 * L + 2) * one);
    CHECK(sent("sp.again") == (keeps ? 0 : (2 * L + 1) * one));
    CHECK(sent("tp.forward") + sent("tp.backward") == 0);
  }
}

TEST_CASE("in pieces: the same bytes between two ranks, of all but the embedding one to one") {
  TransformerConfig config = config_for(Dialect::gpt2, 4, true);
  config.context = 8;
  const int64_t N = B * 8, L = config.layers;
  for (const Pieces pieces : {Pieces::one_way, Pieces::both_ways}) {
    const auto reports = run_ranks(4, [&](Communicator& tp) {
      const Transformer model(config, {.tp = tp, .cp = {}, .sequence = {8, false, pieces}});
      const Microbatch batch = batch_of(0, 8);
      Saved saved;
      Tensor dlogits;
      loss_of(forward(model.stack(), batch.inputs, saved), batch, 0.1, &dlogits, tp);
      backward(model.stack(), dlogits, saved);
      CHECK(saved.bytes() == 0);
    });
    const int64_t one = sequence_parallel_bytes_sent_by_all(4, N, config.width, 8);
    Traffic whole, alone;
    for (const RankReport& rank : reports) {
      for (const char* label : {"sp.forward", "sp.backward", "sp.again"})
        whole += rank.ledger().traffic(label);
      alone += rank.ledger().traffic("send");
    }
    CHECK(whole.bytes_sent == 2 * one);  // the embedding has no matmul to hide behind
    CHECK(alone.bytes_sent == (4 * L + 1) * one + (4 * L + 1) * one + (2 * L + 1) * one);
    CHECK(alone.messages_sent == (10 * L + 3) * 4 * 3);
  }
}

TEST_CASE("a sequence of another length is refused, with both lengths") {
  const TransformerConfig config = config_for(Dialect::gpt2, 2, true);
  check_says(
      error_of<RankFailed>(2,
                           [&](Communicator& tp) {
                             const Transformer model(config, {.tp = tp, .cp = {}, .sequence = {T}});
                             Saved saved;
                             forward(model.stack(), batch_of(0, T - 1).inputs, saved);
                           }),
      {"embedding: a sequence of 8 tokens", "sequence parallelism was made for sequences of 9"});
}
