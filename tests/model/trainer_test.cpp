#include "yotta/model/trainer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
constexpr const char* text = "the quick brown fox jumps over the lazy dog, and the dog sleeps on";

// `count` sequences of T bytes of the text and what follows each byte.
Microbatch sequences(int64_t count, int64_t T, int64_t first = 0) {
  Microbatch made{Tensor::empty({count, T}, DType::i32), Tensor::empty({count, T}, DType::i32),
                  first};
  for (int64_t b = 0; b < count; ++b)
    for (int64_t t = 0; t < T; ++t) {
      made.inputs.data<int32_t>()[b * T + t] = text[7 * (first + b) + t];
      made.targets.data<int32_t>()[b * T + t] = text[7 * (first + b) + t + 1];
    }
  return made;
}
TransformerConfig small(Dialect dialect = Dialect::gpt2, DType dtype = DType::f64) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(2, 16, 2, 12, 128)
                                                 : llama_config(2, 16, 24, 4, 2, 12, 128);
  c.dtype = dtype;
  return c;
}
// Models this small are faster on one thread.
struct OneThread {
  OneThread() : scope(rank) { rank.threads = 1; }
  RankContext rank;
  ContextScope scope;
};
// Gradients and loss of the first step on some microbatches of the same 5 sequences of 8 tokens.
struct Gradients {
  double loss;
  std::vector<Tensor> of;
};
Gradients gradients(const TransformerConfig& c, std::span<const Microbatch> batches) {
  const OneThread scope;
  const Transformer model(c);
  Sgd sgd(parameters(model.stack()));
  Trainer trainer(model.stack(), sgd, {});
  Gradients out{trainer.forward_backward(3, batches, 40), {}};
  for (const ParameterPtr& each : parameters(model.stack())) out.of.push_back(each->grad);
  return out;
}
double last_loss(const TransformerConfig& c, int64_t steps) {
  const OneThread scope;
  const Transformer model(c);
  AdamW adamw(parameters(model.stack()), {.weight_decay = 0});
  Trainer trainer(model.stack(), adamw, {.schedule = {0.02, 0.01, 5, steps}});
  const std::vector<Microbatch> batch = {sequences(4, 8)};
  StepReport report;
  for (int64_t step = 0; step < steps; ++step) report = trainer.step(step, batch, 32);
  return report.loss;
}
}  // namespace

TEST_CASE("any cut of the batch into microbatches gives the same loss and gradients") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    TransformerConfig c = small(dialect);
    c.dropout = 0.3;  // drawn by place, so it does not depend on the cut
    const Microbatch all = sequences(5, 8);
    const Gradients whole = gradients(c, std::vector{all});
    for (const int64_t count : {2, 3, 5, 7}) {
      const std::vector<Microbatch> parts = microbatches(all.inputs, all.targets, count);
      CHECK(std::ssize(parts) == std::min<int64_t>(count, 5));
      const Gradients cut = gradients(c, parts);
      CHECK(std::abs(cut.loss - whole.loss) <= 1e-12);
      for (size_t i = 0; i < whole.of.size(); ++i)
        CHECK(largest_difference(cut.of[i], whole.of[i]) <= 1e-12);
    }
  }
}

TEST_CASE("losses and gradients of ranks with 3 and 2 sequences add up to the whole batch's") {
  const TransformerConfig c = small();
  const Gradients whole = gradients(c, std::vector{sequences(5, 8)});
  const Gradients left = gradients(c, std::vector{sequences(3, 8)});
  const Gradients right = gradients(c, std::vector{sequences(2, 8, 3)});
  CHECK(std::abs(left.loss + right.loss - whole.loss) <= 1e-12);
  for (size_t i = 0; i < whole.of.size(); ++i) {
    Tensor sum = left.of[i].clone();
    add_into(sum, right.of[i]);
    CHECK(largest_difference(sum, whole.of[i]) <= 1e-12);
  }
}

TEST_CASE("a tiny text is learnt by heart, in both dialects and in bf16 with f32 masters") {
  CHECK(last_loss(small(Dialect::gpt2, DType::f32), 60) < 0.1);
  CHECK(last_loss(small(Dialect::llama, DType::f32), 60) < 0.1);
  CHECK(last_loss(small(Dialect::gpt2, DType::bf16), 60) < 0.2);
  CHECK(last_loss(small(Dialect::gpt2, DType::f32), 1) ==
        doctest::Approx(std::log(128)).epsilon(0.02));
}

TEST_CASE("the loss of a step is that of evaluate before it") {
  const Transformer model(small());
  Sgd sgd(parameters(model.stack()));
  Trainer trainer(model.stack(), sgd, {.schedule = {0.1, 0.1, 0, 10}});
  const std::vector<Microbatch> batch = {sequences(2, 8), sequences(1, 5, 2)};
  const double before = evaluate(model.stack(), batch);
  const StepReport report = trainer.step(0, batch, 21);
  CHECK(std::abs(report.loss - before) <= 1e-12);
  CHECK(report.learning_rate == 0.1);
  CHECK(evaluate(model.stack(), batch) < before);
}

TEST_CASE("clipping bounds the step: SGD moves the weights by lr times the limit") {
  const Transformer model(small());
  const std::vector<ParameterPtr> all = parameters(model.stack());
  std::vector<Tensor> before;
  for (const ParameterPtr& each : all) before.push_back(each->value.clone());
  Sgd sgd(all);
  Trainer trainer(model.stack(), sgd, {.schedule = {1, 1, 0, 1}, .clip = 0.01});
  const StepReport report = trainer.step(0, std::vector{sequences(2, 8)}, 16);
  double moved = 0;
  for (size_t i = 0; i < all.size(); ++i)
    for (int64_t k = 0; k < before[i].numel(); ++k)
      moved += std::pow(all[i]->value.data<double>()[k] - before[i].data<double>()[k], 2);
  CHECK(report.gradient_norm > 0.01);
  CHECK(std::sqrt(moved) == doctest::Approx(0.01));
}

TEST_CASE("hooks run around the microbatches, and gradients become final once in each") {
  const Transformer model(small());
  std::string calls;
  for (const ParameterPtr& each : parameters(model.stack()))
    if (each->name == "embedding.token.weight")
      each->on_grad_ready = [&](Parameter& self) { calls += self.uses == 2 ? "f" : "?"; };
  Sgd sgd(parameters(model.stack()));
  TrainHooks hooks;
  hooks.before_microbatch = [&](bool last) { calls += last ? "L" : "m"; };
  hooks.after_backward = [&] { calls += "e"; };
  hooks.sum_over_ranks = [](double loss) { return 3 * loss; };
  Trainer trainer(model.stack(), sgd, {.schedule = {}, .spike_factor = 0}, hooks);
  const Microbatch all = sequences(3, 8);
  const std::vector<Microbatch> parts = microbatches(all.inputs, all.targets, 3);
  const double loss = evaluate(model.stack(), parts);
  CHECK(trainer.step(0, parts, 24).loss == doctest::Approx(3 * loss));
  CHECK(calls == "mfmfLfe");
}

TEST_CASE("a number that is not finite stops before the step, with the step, layer and sequences") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Transformer model(small());
  const std::vector<ParameterPtr> all = parameters(model.stack());
  const auto called = [&](const char* name) -> Parameter& {
    for (const ParameterPtr& each : all)
      if (each->name == name) return *each;
    FAIL("no such parameter");
    return *all[0];
  };
  Sgd sgd(all);
  Trainer trainer(model.stack(), sgd, {});
  const std::vector<Microbatch> batch = {sequences(2, 8, 4)};
  const auto message = [&] { return message_of([&] { trainer.step(12, batch, 16); }); };

  SUBCASE("an output overflows") {
    called("layers.1.mlp.up.weight").value.fill(1e300);
    called("layers.1.mlp.down.weight").value.fill(1e300);
    const Tensor before = called("layers.0.mlp.up.weight").value.clone();
    const std::string said = message();
    CHECK(contains(said, "step 12: a number is not finite"));
    CHECK(contains(said, "the output of layers.1 is the first that is not finite"));
    CHECK(contains(said, "sequences 4 to 5"));
    CHECK(contains(said, "learning rate"));
    CHECK(called("layers.0.mlp.up.weight").value.values() == before.values());
  }
  SUBCASE("a weight was broken before") {
    called("layers.0.attention.k.weight").value.data<double>()[5] = nan;
    CHECK(contains(message(), "the weight layers.0.attention.k.weight was not finite before"));
  }
  SUBCASE("only a gradient overflows") {
    called("layers.1.mlp.up.weight").value.fill(1e200);  // gelu's slope: 0 times infinity
    called("layers.1.mlp.down.weight").value.fill(0);
    CHECK(contains(message(), "the gradient of layers.1's input is the first"));
  }
}

TEST_CASE("of several ranks the one that knows what broke is heard") {
  for (int run = 0; run < 8; ++run) {
    const std::string said = message_of([&] {
      run_ranks(2, [&](Communicator& world) {
        const Transformer model(small());
        if (world.rank() == run % 2)
          for (const ParameterPtr& each : parameters(model.stack()))
            if (each->name == "layers.1.mlp.down.weight") each->value.fill(1e300);
        if (world.rank() == run % 2)
          for (const ParameterPtr& each : parameters(model.stack()))
            if (each->name == "layers.1.mlp.up.weight") each->value.fill(1e300);
        Sgd sgd(parameters(model.stack()));
        TrainHooks hooks;
        hooks.sum_over_ranks = [&](double loss) { return sum_over(world, loss, "loss"); };
        hooks.world = world;
        Trainer trainer(model.stack(), sgd, {}, hooks);
        const std::vector<Microbatch> batch = {sequences(2, 8, 4)};
        trainer.step(12, batch, 16);
      });
    });
    CHECK(contains(said, "the output of layers.1 is the first that is not finite"));
  }
}

TEST_CASE("a jump of the loss stops the run and names the largest gradient") {
  const Transformer model(small());
  const std::vector<ParameterPtr> all = parameters(model.stack());
  Sgd sgd(all);
  Trainer trainer(model.stack(), sgd, {.schedule = {0, 0, 0, 1}});
  const std::vector<Microbatch> batch = {sequences(2, 8)};
  for (int64_t step = 0; step < 10; ++step) trainer.step(step, batch, 16);
  for (const ParameterPtr& each : all)
    if (each->name == "norm.weight") each->value.fill(1e4);
  const std::string said = message_of([&] { trainer.step(10, batch, 16); });
  CHECK(contains(said, "step 10: the loss jumped"));
  CHECK(contains(said, "the largest gradient is that of"));
  CHECK_THROWS_AS(trainer.step(10, batch, 16), TrainingDiverged);
}

TEST_CASE("few tokens may have a far higher loss than those before, before it is a jump") {
  const OneThread scope;
  const Transformer model(small());
  double loss = 1;
  TrainHooks hooks;
  hooks.loss = [&](Tensor logits, const Tensor&, double, Tensor* dlogits) {
    logits.fill(0);
    *dlogits = std::move(logits);
    return loss;
  };
  // Twice the average, 1, and 64 over the root of the tokens.
  const std::pair<int64_t, double> limits[] = {{2, 19}, {4, 3 + 64 / std::sqrt(32)}, {8, 11}};
  for (const auto& [count, limit] : limits) {
    Sgd sgd(parameters(model.stack()));
    Trainer trainer(model.stack(), sgd, {}, hooks);
    const std::vector<Microbatch> batch = {sequences(count, 8)};
    const auto step_with = [&](int64_t step, double with) {
      loss = with;
      trainer.step(step, batch, 8 * count);
    };
    for (int64_t step = 0; step < 10; ++step) step_with(step, 1);
    CHECK_THROWS_AS(step_with(10, limit * 1.01), TrainingDiverged);
    CHECK_NOTHROW(step_with(10, limit * 0.99));
  }
}

namespace {
// One op after the other of step 7 of a model of two blocks, on a clock.
std::vector<TraceEvent> ops_of_step(Recompute what) {
  const Timed run = run_on(ideal(1), 1, [&](Communicator&) {
    TransformerConfig config = small(Dialect::gpt2, DType::f32);
    config.attention = AttentionKind::plain;
    const Transformer model(config);
    const std::vector<LayerPtr> stack = checkpointed(model.stack(), {.what = what}, 1, 3);
    AdamW adamw(parameters(stack));
    Trainer trainer(stack, adamw, {});
    trainer.step(7, std::vector{sequences(4, 8)}, 32);
  });
  return run.trace.ranks[0];
}
// By phase: how many ops of this name.
std::map<Phase, int> phases_of(const std::vector<TraceEvent>& ops, std::string_view name) {
  std::map<Phase, int> count;
  for (const TraceEvent& op : ops)
    if (op.name == name) ++count[op.phase];
  return count;
}
}  // namespace

TEST_CASE("on a clock every op of a step knows the step and its phase") {
  using Phases = std::map<Phase, int>;
  for (const Recompute what : {Recompute::none, Recompute::all, Recompute::revolve,
                               Recompute::attention, Recompute::pointwise}) {
    CAPTURE(static_cast<int>(what));
    const std::vector<TraceEvent> ops = ops_of_step(what);
    for (const TraceEvent& op : ops) {
      CAPTURE(op.name);
      CHECK(op.step == 7);
      CHECK(op.phase != Phase::none);
    }
    const auto only = [&](const char* name, Phase phase) {
      const Phases found = phases_of(ops, name);
      return found.size() == 1 && found.contains(phase);
    };
    CHECK(only("linear_backward_input", Phase::backward_input));
    CHECK(only("linear_backward_weight", Phase::backward_weight));
    CHECK(only("adamw", Phase::optimizer));
  }
}

TEST_CASE("what was dropped is computed again in a phase of its own") {
  using Phases = std::map<Phase, int>;
  const auto phases = [](Recompute what, const char* name) {
    return phases_of(ops_of_step(what), name);
  };
  const int products = phases(Recompute::none, "linear")[Phase::forward];
  CHECK(phases(Recompute::none, "linear") == Phases{{Phase::forward, products}});
  CHECK(phases(Recompute::all, "linear") ==
        Phases{{Phase::forward, products}, {Phase::recompute, products - 1}});  // not the head
  CHECK(phases(Recompute::revolve, "linear")[Phase::recompute] == (products - 1) / 2);  // block 0
  CHECK(phases(Recompute::attention, "attention_plain")[Phase::recompute] == 2);
  CHECK(phases(Recompute::pointwise, "gelu") == Phases{{Phase::forward, 2}, {Phase::recompute, 2}});
  CHECK(phases(Recompute::pointwise, "linear") == Phases{{Phase::forward, products}});
}

TEST_CASE("a whole training step runs on meta, at any size") {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const Transformer model(llama3_8b());
  AdamW adamw(parameters(model.stack()));
  Trainer trainer(model.stack(), adamw, {});
  const std::vector<Microbatch> batch =
      microbatches(Tensor::empty({2, 8192}, DType::i32), Tensor::empty({2, 8192}, DType::i32), 2);
  trainer.step(0, batch, 2 * 8192);
  CHECK(rank.ledger.memory()->live(MemoryKind::optimizer) == 8 * parameters(llama3_8b()));
  CHECK(rank.ledger.total_flops() / step_flops(llama3_8b(), 2, 8192) ==
        doctest::Approx(0.9).epsilon(0.1));
}

namespace {

struct KeptBytes {
  int64_t saved = 0, peak = 0;  // bytes of activations after the forward pass; at most in a step
};
KeptBytes held_in(DType dtype, Dialect dialect, AttentionKind kind) {
  TransformerConfig c = dialect == Dialect::gpt2 ? gpt2_config(6, 64, 4, 48, 128)
                                                 : llama_config(6, 64, 96, 4, 2, 48, 128);
  c.dtype = dtype;
  c.attention = kind;
  const OneThread scope;
  const Transformer model(c);
  for (const ParameterPtr& each : parameters(model.stack())) each->gradient();
  Microbatch batch{Tensor::zeros({4, 48}, DType::i32), Tensor::zeros({4, 48}, DType::i32)};
  const MemoryCount& memory = *context().ledger.memory();
  const int64_t before = memory.live(MemoryKind::activations);
  Saved saved({0, 0, 0, 0, true});
  const Tensor logits = forward(model.stack(), batch.inputs, saved);
  KeptBytes held{saved.bytes(), 0};
  Tensor dlogits;
  loss_of(logits, batch.targets, 1.0 / 192, &dlogits);
  backward(model.stack(), std::move(dlogits), saved);
  held.peak = memory.peak(MemoryKind::activations) - before;
  return held;
}

}  // namespace

TEST_CASE(
    "bf16 halves what is kept for backward: all but ids and f32 statistics, and so the peak") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
      const KeptBytes f32 = held_in(DType::f32, dialect, kind),
                      bf16 = held_in(DType::bf16, dialect, kind);
      const std::string which = fmt::format("{}, {} attention", name(dialect), name(kind));
      CAPTURE(which);
      // 4 bytes in both: a token's id; of each of 13 norms 1/deviation, and layernorm's mean; of
      // each of 6 layers and 4 heads a log-sum-exp.
      const int64_t norms = dialect == Dialect::gpt2 ? 2 * 13 : 13;
      const int64_t sums = kind == AttentionKind::blockwise ? 6 * 4 : 0;
      const int64_t whole = 4 * (4 * 48) * (1 + norms + sums);
      CHECK(2 * (bf16.saved - whole) == f32.saved - whole);
      const double peak = static_cast<double>(bf16.peak) / static_cast<double>(f32.peak);
      CHECK(peak >= 0.5);
      CHECK(peak <= 0.54);
    }
}

TEST_CASE("a bf16 run's losses follow f32's") {
  const OneThread scope;
  const auto losses = [](DType dtype) {
    TransformerConfig c = small(Dialect::llama, dtype);
    const Transformer model(c);
    AdamW adamw(parameters(model.stack()), {.weight_decay = 0});
    Trainer trainer(model.stack(), adamw, {.schedule = {0.01, 0.01, 5, 40}});
    std::vector<double> all;
    for (int64_t step = 0; step < 40; ++step)
      all.push_back(trainer.step(step, std::vector{sequences(4, 12)}, 48).loss);
    return all;
  };
  const std::vector<double> f32 = losses(DType::f32), bf16 = losses(DType::bf16);
  CHECK(f32.back() < 0.3 * f32.front());
  for (size_t i = 0; i < f32.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(bf16[i] - f32[i]) <= 0.05 * f32[i] + 0.01);
  }
}
