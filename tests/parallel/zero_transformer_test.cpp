// ZeRO stages 1 and 2 and FSDP under the trainer: a transformer in both dialects, with clipping,
// dropout, weight decay, several microbatches, and a tied table.
#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "yotta/core/random.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/zero.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr int64_t batch = 9, context_length = 6, steps = 3;  // 9 sequences: no even shares

TransformerConfig small(Dialect dialect) {
  TransformerConfig c = dialect == Dialect::gpt2
                            ? gpt2_config(3, 12, 2, context_length, 31)
                            : llama_config(3, 12, 20, 2, 1, context_length, 31);
  c.dtype = DType::f64;
  c.dropout = 0.1;
  c.seed = 5;
  return c;
}

// Sequences [begin, end) of a step's batch.
Microbatch sequences(int64_t step, int64_t begin, int64_t end) {
  Microbatch made{Tensor::empty({end - begin, context_length}, DType::i32),
                  Tensor::empty({end - begin, context_length}, DType::i32), begin};
  const Random random(static_cast<uint64_t>(step), "tokens");
  for (int64_t i = 0; i < made.inputs.numel(); ++i) {
    const auto at = static_cast<uint64_t>(begin * context_length + i);
    made.inputs.data<int32_t>()[i] = static_cast<int32_t>(random.bits(at) % 31);
    made.targets.data<int32_t>()[i] = static_cast<int32_t>(random.bits(at + 1) % 31);
  }
  return made;
}

// Some steps of whatever stack of layers, by the trainer. The optimizer steps the shards.
void train(Layers stack, const std::vector<ParameterShard>& shards, TrainHooks hooks,
           BatchShard mine, int64_t microbatch_count, bool reports, Trained& out) {
  const std::function<void()> end_of_backward = hooks.after_backward;
  int64_t step = 0;
  hooks.after_backward = [&] {
    if (end_of_backward) end_of_backward();
    for (const ParameterShard& shard : shards)
      if (step == 0) add_gradients(out.gradients, shard);
  };
  std::vector<ParameterPtr> stepped;
  for (const ParameterShard& shard : shards) stepped.push_back(shard.parameter);
  AdamW optimizer(stepped);
  const Schedule schedule{0.01, 0.01, 0, steps};
  Trainer trainer(stack, optimizer, {.schedule = schedule, .clip = 0.5, .seed = 3}, hooks);
  for (; step < steps; ++step) {
    const Microbatch all = sequences(step, mine.begin, mine.end);
    const auto parts = microbatches(all.inputs, all.targets, microbatch_count, mine.begin);
    const StepReport report = trainer.step(step, parts, batch * context_length);
    if (!reports) continue;
    out.losses.push_back(report.loss);
    out.losses.push_back(report.gradient_norm);
  }
  for (const ParameterShard& shard : shards) add_values(out.weights, shard);
}

void train_serial(const TransformerConfig& config, Trained& out) {
  const Transformer model(config);
  std::vector<ParameterShard> whole;
  for (const ParameterPtr& each : parameters(model.stack()))
    whole.push_back({each, each->value.shape(), 0});
  train(model.stack(), whole, {}, {0, batch}, 1, true, out);
}

// The hooks that all stages need.
TrainHooks loss_over(Communicator& world) {
  TrainHooks hooks;
  hooks.world = world;
  hooks.sum_over_ranks = [&](double loss) { return sum_over(world, loss, "loss"); };
  return hooks;
}

// What the trainer says of a loss that jumps, or is not a number, in the 11th step: one weight has
// become `value`.
std::string said_of(int stage, const char* weight, double value) {
  return message_of([&] {
    run_ranks(2, [&](Communicator& world) {
      TransformerConfig config = small(Dialect::gpt2);
      config.dropout = 0;
      const Transformer model(config);
      TrainHooks hooks = loss_over(world);
      std::optional<Zero> zero;
      std::optional<Fsdp> fsdp;
      if (stage == 3) {
        fsdp.emplace(model.stack(), world);
        hooks.after_backward = [&] { fsdp->finish(); };
        hooks.sum_of_squares = [&](double mine) { return fsdp->sum_of_squares(mine); };
      } else {
        zero.emplace(parameters(model.stack()), world, ZeroOptions{.stage = stage});
        hooks.before_microbatch = [&](bool) { zero->flush(); };
        hooks.after_backward = [&] { zero->finish(); };
        hooks.sum_of_squares = [&](double) { return zero->sum_of_squares(); };
        hooks.after_step = [&] { zero->gather(); };
      }
      const Layers stack = fsdp ? fsdp->stack() : model.stack();
      AdamW optimizer(zero ? zero->shards() : parameters(stack), {.weight_decay = 0});
      Trainer trainer(stack, optimizer, {.schedule = {0, 0, 0, 1}}, hooks);
      const std::vector<Microbatch> some = {sequences(0, world.rank(), world.rank() + 1)};
      for (int64_t step = 0; step < 11; ++step) {
        if (step == 10)
          for (const ParameterPtr& each : parameters(stack))
            if (each->name == weight) each->value.fill(value);
        trainer.step(step, some, 2 * context_length);
      }
    });
  });
}

void train_zero(const TransformerConfig& config, int stage, int64_t microbatch_count,
                Communicator& world, Trained& out) {
  const Transformer model(config);
  Zero zero(parameters(model.stack()), world, {stage, 2000});
  std::vector<ParameterShard> shards;
  for (const ZeroBucket& bucket : zero.buckets())
    shards.insert(shards.end(), bucket.shards.begin(), bucket.shards.end());
  TrainHooks hooks = loss_over(world);
  hooks.before_microbatch = [&](bool) { zero.flush(); };
  hooks.after_backward = [&] { zero.finish(); };
  hooks.sum_of_squares = [&](double) { return zero.sum_of_squares(); };
  hooks.after_step = [&] { zero.gather(); };
  const BatchShard mine = batch_shard(batch, world.size(), world.rank());
  train(model.stack(), shards, hooks, mine, microbatch_count, world.rank() == 0, out);
}

void train_fsdp(const TransformerConfig& config, const FsdpOptions& options,
                int64_t microbatch_count, Communicator& world, Trained& out) {
  const Transformer model(config);
  Fsdp fsdp(model.stack(), world, options);
  std::vector<ParameterShard> shards;
  for (const FsdpUnit& unit : fsdp.units())
    shards.insert(shards.end(), unit.shards().begin(), unit.shards().end());
  TrainHooks hooks = loss_over(world);
  hooks.after_backward = [&] { fsdp.finish(); };
  hooks.sum_of_squares = [&](double mine) { return fsdp.sum_of_squares(mine); };
  const BatchShard mine = batch_shard(batch, world.size(), world.rank());
  train(fsdp.stack(), shards, hooks, mine, microbatch_count, world.rank() == 0, out);
}

}  // namespace

TEST_CASE("every stage equals the single rank: losses, norms, gradients, weights; both dialects") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama}) {
    const TransformerConfig config = small(dialect);
    Trained serial;
    train_serial(config, serial);
    CHECK(serial.losses[1] > 0.5);  // the norm: gradients are clipped
    for (const int ranks : {1, 2, 3, 4, 8}) {
      CAPTURE(ranks);
      const int64_t parts = ranks % 2 + 1;  // every rank has sequences for each
      const auto check = [&](auto&& train_one) {
        Trained trained;
        run_ranks(ranks, [&](Communicator& world) { train_one(world, trained); });
        check_same(trained, serial, ranks, 1e-9);
      };
      for (const int stage : {1, 2})
        check([&](Communicator& world, Trained& trained) {
          train_zero(config, stage, parts, world, trained);
        });
      for (const FsdpOptions& options :
           {FsdpOptions{}, FsdpOptions{.layers_per_unit = 2, .keep_last = true}})
        check([&](Communicator& world, Trained& trained) {
          train_fsdp(config, options, parts, world, trained);
        });
    }
  }
}

TEST_CASE("a loss that jumps, and one that is not a number, name a parameter in every stage") {
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    const std::string jump = said_of(stage, "norm.weight", 1e4);
    CHECK(contains(jump, "step 10: the loss jumped"));
    CHECK(contains(jump, "on this rank the largest gradient is that of "));
    CHECK_FALSE(contains(jump, "that of none"));
    const std::string broken = said_of(stage, "norm.weight", NAN);
    CHECK(contains(broken, "step 10: a number is not finite"));
    CHECK(contains(broken, "the weight norm.weight was not finite before this step"));
  }
}

TEST_CASE("a tied table is the root's, gathered once a step and reduced once") {
  run_ranks(4, [](Communicator& world) {
    const Transformer model(small(Dialect::gpt2));
    Fsdp fsdp(model.stack(), world);
    const FsdpUnit& root = fsdp.units().front();
    const Microbatch some = sequences(0, 2 * world.rank(), 2 * world.rank() + 2);
    Saved saved({0, 0, 0, 0, true});
    int64_t N = 0;
    for (const FsdpUnit& unit : fsdp.units()) N += unit.layout().size();
    const Ledger& ledger = context().ledger;
    const Tensor logits = forward(fsdp.stack(), some.inputs, saved);
    for (const FsdpUnit& unit : fsdp.units()) CHECK(unit.is_gathered() == (&unit == &root));
    CHECK(root.layout().ranges().front().parameter->name == "embedding.token.weight");
    CHECK(ledger.traffic("fsdp.all_gather").bytes_sent == 8 * N / 4 * 3);
    backward(fsdp.stack(), logits, saved);
    fsdp.finish();
    for (const FsdpUnit& unit : fsdp.units()) CHECK_FALSE(unit.is_gathered());
    CHECK(ledger.traffic("fsdp.all_gather").bytes_sent ==
          8 * (2 * N - root.layout().size()) / 4 * 3);
    CHECK(ledger.traffic("fsdp.reduce").bytes_sent == 8 * N / 4 * 3);
  });
}

TEST_CASE("weights decay in matrices alone, wherever a shard cuts") {
  run_ranks(3, [](Communicator& world) {
    const Transformer model(small(Dialect::gpt2));
    Fsdp fsdp(model.stack(), world, {.layers_per_unit = 100});
    AdamW optimizer(parameters(fsdp.stack()), {.weight_decay = 0.5});
    bool has_vector = false;
    for (const ParameterPtr& each : parameters(fsdp.stack())) {
      each->value.fill(1);
      each->gradient();
      has_vector = has_vector || !each->is_matrix;
    }
    CHECK(has_vector);
    optimizer.step(0.1);  // zero gradients: only decay acts
    for (const ParameterPtr& each : parameters(fsdp.stack())) {
      const bool is_weight = each->name.ends_with(".weight");
      const bool is_norm = each->name.find("norm") != std::string::npos;
      for (const double value : each->value.values())
        CHECK(value == (is_weight && !is_norm ? 0.95 : 1.0));
    }
  });
}

namespace {

// The most activations that a rank of two holds in two microbatches, as the ledger counts them.
// Stage 3 keeps its shards in f32 and gathers in `dtype`; in the others weights and gradients are
// `dtype`.
int64_t peak_of_activations(int stage, DType dtype) {
  std::array<int64_t, 2> peak{};
  run_ranks(2, [&](Communicator& world) {
    TransformerConfig config = gpt2_config(4, 32, 2, context_length, 31);
    if (stage < 3) config.dtype = dtype;
    const auto narrow = dtype == DType::bf16 ? std::optional(dtype) : std::nullopt;
    const Transformer model(config);
    std::optional<Zero> zero;
    std::optional<Fsdp> fsdp;
    if (stage == 3)
      fsdp.emplace(model.stack(), world, FsdpOptions{.gathered = narrow});
    else
      zero.emplace(parameters(model.stack()), world,
                   ZeroOptions{.stage = stage, .bucket_bytes = 2000, .gradients = narrow});
    const Layers stack = fsdp ? fsdp->stack() : model.stack();
    const MemoryCount& memory = *context().ledger.memory();
    const int64_t before = memory.live(MemoryKind::activations);
    context().ledger.reset();
    for (int i = 0; i < 2; ++i) {
      if (zero) zero->flush();
      const Microbatch mine = sequences(i, 0, 8);
      Saved saved({0, 0, 0, 0, true});
      Tensor dlogits;
      loss_of(forward(stack, mine.inputs, saved), mine.targets, 1, &dlogits);
      backward(stack, std::move(dlogits), saved);
    }
    if (zero) zero->finish();
    if (fsdp) fsdp->finish();
    peak[static_cast<size_t>(world.rank())] = memory.peak(MemoryKind::activations) - before;
  });
  return std::max(peak[0], peak[1]);
}

}  // namespace

TEST_CASE(
    "in bf16 each stage's peak of activations is half of f32's, but for f32 statistics and sums") {
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    const double part = static_cast<double>(peak_of_activations(stage, DType::bf16)) /
                        static_cast<double>(peak_of_activations(stage, DType::f32));
    CHECK(part >= 0.5);
    CHECK(part <= 0.56);
  }
}
