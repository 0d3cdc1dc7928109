// Lesson 17: what layers keep, what it costs to compute it again, and three ways to choose.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/memory_pictures.hpp"
#include "yotta/model/diagnose.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/activation_memory.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t layers = 24, snapshots = 5, draw = 0;
};

// What one microbatch costs: layers run forward, and the most that is held at once.
struct Counted {
  int64_t forwards = 0, peak_bytes = 0;
  double flops = 0;
};

// Forward and backward of a linear net of n layers, whose Saved is one tensor x each.
Counted run_net(Layers net, Layers run, int64_t width) {
  RankContext rank;
  const ContextScope scope(rank);
  for (const ParameterPtr& each : parameters(net)) each->gradient();
  Saved saved;
  Tensor y = forward(run, Tensor::full({16, width}, 1), saved);
  backward(run, std::move(y), saved);
  return {rank.ledger.op("linear").calls, rank.ledger.memory()->peak(MemoryKind::activations),
          rank.ledger.total_flops()};
}

void chain(Lesson& lesson, const Sizes& sizes) {
  const int64_t n = sizes.layers, width = 8, x = 16 * width * 4;
  lesson.section(fmt::format("A chain of {} layers: what is computed again, what is held", n));
  const std::vector<LayerPtr> net = make_linear_net({n, width});
  lesson.say("{:<28}{:>14}{:>18}", "", "again (layers)", "held at most (x)");
  const auto row = [&](const std::string& name, const std::vector<LayerPtr>& layers) {
    const Counted counted = run_net(net, layers, width);
    lesson.say("{:<28}{:>14}{:>18}", name, counted.forwards - n, counted.peak_bytes / x);
    lesson.number(name + ".again", static_cast<double>(counted.forwards - n));
    lesson.number(name + ".held", static_cast<double>(counted.peak_bytes / x));
  };
  const auto replay = [&](ReplayActions actions) {
    std::vector<LayerPtr> made;
    made.push_back(std::make_unique<Replay>(net, std::move(actions)));
    return made;
  };
  const int64_t C = square_root_of(n), k = (n + C - 1) / C;
  row("none", checkpointed(net, {Recompute::none}));
  row("every layer (full)", checkpointed(net, {Recompute::all, 1}));
  row(fmt::format("every {} (square root)", C), checkpointed(net, {Recompute::all, 0}));
  row(fmt::format("{} restarts, as in lectures", k), replay(restart_schedule(n, C)));
  row(fmt::format("Revolve, {} checkpoints", sizes.snapshots),
      checkpointed(net, {Recompute::revolve, 1, sizes.snapshots}));
  row("Revolve, 2 checkpoints", checkpointed(net, {Recompute::revolve, 1, 2}));
  row("restart at layer 0", replay(restart_schedule(n, n)));
}

void schedule(Lesson& lesson) {
  lesson.section("Revolve is a list of actions: 6 layers, 2 checkpoints");
  const ReplayActions actions = revolve_schedule(6, 2);
  lesson.say("{}", str(actions));
  lesson.say("{} runs, t(6, 2) = {}", forward_runs(actions), revolve_steps(6, 2));
}

TransformerConfig model_config() {
  TransformerConfig config = gpt2_config(16, 48, 4, 64, 256);
  config.attention = AttentionKind::plain;
  config.dropout = config.attention_dropout = 0.1;
  return config;
}

Microbatch tokens() {
  Microbatch made{Tensor::empty({2, 64}, DType::i32), Tensor::empty({2, 64}, DType::i32)};
  for (int64_t i = 0; i < 128; ++i) {
    made.inputs.data<int32_t>()[i] = static_cast<int32_t>((7 * i + i * i) % 256);
    made.targets.data<int32_t>()[i] = static_cast<int32_t>((7 * (i + 1) + (i + 1) * (i + 1)) % 256);
  }
  return made;
}

struct Step {
  Counted counted;
  double loss = 0;
  std::vector<double> gradients;
};

Step train_step(Layers layers) {
  RankContext rank;
  const ContextScope scope(rank);
  for (const ParameterPtr& each : parameters(layers)) {
    each->gradient();
    each->zero_grad();
  }
  const Microbatch batch = tokens();
  Step step;
  Saved saved({17, 0, 0, 0, true});
  Tensor dlogits;
  step.loss = loss_of(forward(layers, batch.inputs, saved), batch.targets, 1 / 128.0, &dlogits);
  backward(layers, std::move(dlogits), saved);
  step.counted.peak_bytes = rank.ledger.memory()->peak(MemoryKind::activations);
  step.counted.flops = rank.ledger.total_flops();
  for (const ParameterPtr& each : parameters(layers))
    for (const double g : each->grad.values()) step.gradients.push_back(g);
  return step;
}

void transformer(Lesson& lesson) {
  const TransformerConfig config = model_config();
  const Transformer kept(config);
  lesson.section(
      fmt::format("A transformer of {} layers, plain attention, dropout", config.layers));
  const Step plain = train_step(kept.stack());
  lesson.say("{:<22}{:>10}{:>18}{:>9}  {}", "", "loss", "peak activations", "FLOPs", "gradients");
  const auto row = [&](const std::string& name, const CheckpointOptions& options) {
    const Transformer model(config);
    const std::vector<LayerPtr> layers = checkpointed(model.stack(), options, 1, config.layers + 1);
    const Step step = train_step(layers);
    const double memory = static_cast<double>(step.counted.peak_bytes) /
                          static_cast<double>(plain.counted.peak_bytes);
    const double flops = step.counted.flops / plain.counted.flops;
    lesson.say("{:<22}{:>10.3f}{:>17.1f}%{:>8.1f}%  {}", name, step.loss, 100 * memory, 100 * flops,
               step.gradients == plain.gradients ? "the same, bit for bit" : "DIFFERENT");
    lesson.number(name + ".memory", memory);
    lesson.number(name + ".flops", flops);
  };
  row("none", {Recompute::none});
  row("selective", {Recompute::attention});
  row("every layer (full)", {Recompute::all, 1});
  row("square root", {Recompute::all, 0});
  row("Revolve, 3", {Recompute::revolve, 1, 3});
}

void types(Lesson& lesson) {
  lesson.section("The same step in f32 and in bf16, nothing recomputed");
  TransformerConfig config = model_config();
  lesson.say("{:<8}{:>10}{:>23}", "", "loss", "peak activations, KiB");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    config.dtype = dtype;
    const Transformer model(config);
    const Step step = train_step(model.stack());
    const double kib = static_cast<double>(step.counted.peak_bytes) / 1024;
    lesson.say("{:<8}{:>10.3f}{:>23.0f}", name(dtype), step.loss, kib);
    lesson.number(fmt::format("{}.peak_kib", name(dtype)), kib);
  }
}

void one_layer(Lesson& lesson) {
  TransformerConfig config = model_config();
  const ActivationSizes z{64, 2, static_cast<double>(config.width),
                          static_cast<double>(config.heads), 1};
  const double sbh = z.s * z.b * z.h;
  lesson.section("One layer's bytes, in units of sbh, against the published 34 + 5as/h");
  lesson.say("{:<14}{:>20}{:>20}{:>22}", "", "counted, f32", "counted, bf16", "published, 2 bytes");
  const auto row = [&](const char* name, Recompute how, Recomputed what) {
    const auto counted = [&](DType dtype) {
      config.dtype = dtype;
      const Transformer block(config, 1, 2);
      const std::vector<LayerPtr> layers = checkpointed(block.stack(), {how});
      Saved saved({0, 0, 0, 0, true});
      forward(layers, Tensor::full({2, 64, config.width}, 1, dtype), saved);
      return static_cast<double>(saved.bytes()) / sbh;
    };
    lesson.say("{:<14}{:>20.3f}{:>20.3f}{:>22.3f}", name, counted(DType::f32), counted(DType::bf16),
               activation_bytes_per_layer(z, false, what) / sbh);
  };
  row("none", Recompute::none, Recomputed::none);
  row("selective", Recompute::attention, Recomputed::attention);
  row("full", Recompute::all, Recomputed::all);
}

// A checkpoint that forgets where its microbatch is: its second run drops other numbers than the
// first.
class ForgetfulCheckpoint : public Checkpoint {
 public:
  using Checkpoint::Checkpoint;
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Saved elsewhere({18, 0, 0, 0, true});
    elsewhere.keep("x", saved.take("x"));
    return Checkpoint::backward_input(dy, elsewhere);
  }
};

void fresh_mask(Lesson& lesson) {
  lesson.section("Mistake: the second run draws other dropout masks");
  for (const double dropout : {0.0, 0.1}) {
    TransformerConfig config = model_config();
    config.dropout = config.attention_dropout = dropout;
    const Transformer model(config);
    std::vector<LayerPtr> layers = checkpointed(model.stack(), {Recompute::none});
    layers[1] = std::make_unique<ForgetfulCheckpoint>(model.stack().subspan(1, 1));
    const Step right = train_step(model.stack()), wrong = train_step(layers);
    double norm = 0, difference = 0;
    for (size_t i = 0; i < right.gradients.size(); ++i) {
      norm += right.gradients[i] * right.gradients[i];
      difference += std::pow(wrong.gradients[i] - right.gradients[i], 2);
    }
    lesson.say("dropout {}: the loss is {}, the gradients are {}", dropout,
               right.loss == wrong.loss ? "the same" : "different",
               difference == 0 ? "the same"
                               : fmt::format("off by {:.1f}% of their norm",
                                             100 * std::sqrt(difference / norm)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"17", "Activation checkpointing",
       "memory for FLOPs: what is dropped, and what it costs to make it again"},
      [&](Lesson& lesson) {
        chain(lesson, sizes);
        schedule(lesson);
        transformer(lesson);
        types(lesson);
        one_layer(lesson);
        fresh_mask(lesson);
        if (sizes.draw == 1)
          std::ofstream("checkpoint_memory.svg") << checkpoint_memory_svg(checkpoint_runs());
        lesson.say("\nNext: write it yourself, ./yotta check 17");
      },
      {{"layers", "layers of the chain", &sizes.layers, 1, 500},
       {"snapshots", "checkpoints that Revolve has room for", &sizes.snapshots, 1, 500},
       {"draw", "1: write checkpoint_memory.svg into this folder", &sizes.draw, 0, 1}});
}
