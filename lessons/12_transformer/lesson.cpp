// Lesson 12: a transformer counted: its parameters, its FLOPs, and what its backward pass needs.
#include "course/shared/lesson.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/nn/cross_entropy.hpp"

using namespace yotta;

namespace {

// Builds a model without data and counts what it holds.
int64_t counted_parameters(const TransformerConfig& config) {
  const DeviceScope meta(Device::meta);
  return parameter_count(Transformer(config).stack());
}

void parameters_of_known_models(Lesson& lesson) {
  lesson.section("Parameters, counted on models without data (device meta), and by the formula");
  struct Known {
    const char* name;
    TransformerConfig config;
  };
  for (const Known& known :
       {Known{"GPT-2 124M", gpt2_124m()}, Known{"Llama 3 8B", llama3_8b()},
        Known{"Llama 3 70B", llama3_70b()}, Known{"Llama 3 405B", llama3_405b()}}) {
    const int64_t counted = counted_parameters(known.config);
    lesson.say("{:<14}  {:>13}", known.name, counted);
    if (counted != parameters(known.config))
      lesson.say("  but the formula says {}", parameters(known.config));
    lesson.number(fmt::format("parameters.{}", known.name), static_cast<double>(counted));
  }
}

struct Step {
  OpCount linear, attention, other;  // what the ledger counted, by kind of op
  int64_t saved = 0;                 // bytes that the forward pass left for the backward pass
};

// One forward and backward pass of a batch without data; what it cost.
Step run_step(const TransformerConfig& config, int64_t batch) {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const Transformer model(config);
  rank.ledger.reset();
  Step step;
  Saved saved;
  const Tensor ids = Tensor::empty({batch, config.context}, DType::i32);
  const Tensor logits = forward(model.stack(), ids, saved);
  step.saved = saved.bytes();
  backward(model.stack(), logits.clone(), saved);
  for (const auto& [name, count] : rank.ledger.ops()) {
    OpCount& kind = name.starts_with("linear")      ? step.linear
                    : name.starts_with("attention") ? step.attention
                                                    : step.other;
    kind.flops += count.flops;
    kind.bytes_read += count.bytes_read;
    kind.bytes_written += count.bytes_written;
  }
  return step;
}

// Weights of the matrices that multiply every token: all but tables of positions, norms and biases. A
// tied token table counts once, as the output matrix.
int64_t matrix_parameters(const TransformerConfig& config) {
  const int64_t vectors =
      config.has_bias() ? 4 * config.width + config.feed_forward + config.width : 0;
  return config.vocabulary * config.width +
         config.layers * (block_parameters(config) - 2 * norm_parameters(config) - vectors);
}

void flops_and_bytes(Lesson& lesson, TransformerConfig config, int64_t batch) {
  const auto tokens = static_cast<double>(batch * config.context);
  const double linear = 6.0 * static_cast<double>(matrix_parameters(config)) * tokens;
  const double attention =
      12.0 * static_cast<double>(config.layers * config.width * config.context) * tokens;
  lesson.section("FLOPs of a step: 6 N tokens in matrices, 12 L C T^2 B in attention");
  lesson.say("{:<22}  {:>16}  {:>16}  {:>7}", "", "formula", "counted", "share");
  const auto row = [&](const char* what, double formula, double counted) {
    lesson.say("{:<22}  {:>16.0f}  {:>16.0f}  {:>7.4f}", what, formula, counted, counted / formula);
    lesson.number(fmt::format("flops.{}", what), counted);
  };
  config.attention = AttentionKind::plain;
  const Step plain = run_step(config, batch);
  config.attention = AttentionKind::blockwise;
  const Step blockwise = run_step(config, batch);
  row("linear layers", linear, blockwise.linear.flops);
  row("attention, plain", attention, plain.attention.flops);
  row("attention, blockwise", attention, blockwise.attention.flops);
  const auto bytes = [](const OpCount& count) { return count.bytes_read + count.bytes_written; };
  const double all_flops =
      blockwise.linear.flops + blockwise.attention.flops + blockwise.other.flops;
  const double all_bytes =
      bytes(blockwise.linear) + bytes(blockwise.attention) + bytes(blockwise.other);
  lesson.say("everything else: {:.1f}% of the FLOPs, {:.0f}% of the bytes",
             100 * blockwise.other.flops / all_flops, 100 * bytes(blockwise.other) / all_bytes);
}

void saved_memory(Lesson& lesson, TransformerConfig config, int64_t batch) {
  lesson.section("What one microbatch keeps between forward and backward");
  lesson.say("{:>8}  {:>14}  {:>14}  {:>6}", "context", "plain", "blockwise", "ratio");
  for (const int64_t context :
       {config.context / 4, config.context / 2, config.context, 2 * config.context}) {
    config.context = context;
    config.attention = AttentionKind::plain;
    const int64_t plain = run_step(config, batch).saved;
    config.attention = AttentionKind::blockwise;
    const int64_t blockwise = run_step(config, batch).saved;
    lesson.say("{:>8}  {:>14}  {:>14}  {:>6.2f}", context,
               console::bytes(static_cast<double>(plain)),
               console::bytes(static_cast<double>(blockwise)),
               static_cast<double>(plain) / static_cast<double>(blockwise));
    lesson.number(fmt::format("saved.plain.{}", context), static_cast<double>(plain));
    lesson.number(fmt::format("saved.blockwise.{}", context), static_cast<double>(blockwise));
  }
}

// The same weights and tokens through both kinds of attention.
void plain_equals_blockwise(Lesson& lesson, TransformerConfig config) {
  config.context = 64;
  double losses[2];
  for (const AttentionKind kind : {AttentionKind::plain, AttentionKind::blockwise}) {
    config.attention = kind;
    config.dtype = DType::f64;
    const Transformer model(config);
    Tensor ids = Tensor::empty({1, config.context}, DType::i32);
    const Random random(1, "ids");
    for (int64_t i = 0; i < ids.numel(); ++i)
      ids.data<int32_t>()[i] = static_cast<int32_t>(random.below(static_cast<uint64_t>(i), 256));
    Saved saved;
    const Tensor logits = forward(model.stack(), ids, saved).reshape({config.context, -1});
    losses[static_cast<int>(kind)] =
        cross_entropy(logits, ids.reshape({-1}), 1.0 / static_cast<double>(config.context)).loss;
  }
  lesson.section("Plain and blockwise attention give the same loss");
  lesson.say("plain {:.6f}, blockwise {:.6f}", losses[0], losses[1]);
  lesson.number("loss.plain", losses[0]);
  lesson.number("loss.blockwise", losses[1]);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t layers = 4, width = 128, heads = 4, context = 512, batch = 4;
  return run_lesson(
      argc, argv,
      {"12", "A transformer with its backward written out", "its parameters, FLOPs and memory"},
      [&](Lesson& lesson) {
        const TransformerConfig config = gpt2_config(layers, width, heads, context, 256);
        config.check();
        parameters_of_known_models(lesson);
        flops_and_bytes(lesson, config, batch);
        saved_memory(lesson, config, batch);
        plain_equals_blockwise(lesson, config);
        lesson.say("\nNext: ./yotta lesson 13");
      },
      {{"layers", "L", &layers, 1, 200},
       {"width", "C", &width, 1, 32768},
       {"heads", "H", &heads, 1, 256},
       {"context", "T", &context, 4, 1 << 20},
       {"batch", "B", &batch, 1, 1 << 20}});
}
