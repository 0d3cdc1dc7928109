// Lesson 12: a transformer's gradients beside difference quotients; and a transformer counted: its
// parameters, its FLOPs, and what its backward pass needs.
#include <chrono>
#include <fstream>
#include <functional>

#include "course/lesson/lesson.hpp"
#include "course/pictures/attention_picture.hpp"
#include "course/pictures/block_picture.hpp"
#include "course/pictures/transformer_picture.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/chunked_loss.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/norm.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;

namespace {

// ---- gradients beside difference quotients ------------------------------------------------------

Tensor numbers(Shape shape, const char* name) {
  Tensor made = Tensor::empty(std::move(shape), DType::f64);
  const Random random(12, name);
  for (uint64_t i = 0; double& value : made.span<double>()) value = random.normal(i++);
  return made;
}
Tensor zeros_of(Shape shape) { return Tensor::zeros(std::move(shape), DType::f64); }

// A forward pass whose loss is the sum of y dy: so the gradient of the loss with respect to y is
// dy.
struct Checked {
  Lesson& lesson;
  std::function<Tensor()> forward;  // y, from tensors that `check` changes
  Tensor dy;

  double loss() const {
    const std::vector<double> y = forward().values(), weights = dy.values();
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  }

  // (loss(x + h) - loss(x - h)) / 2h for one number of x.
  double quotient(double& number) const {
    const double h = 1e-5, kept = number;
    number = kept + h;
    const double above = loss();
    number = kept - h;
    const double below = loss();
    number = kept;
    return (above - below) / (2 * h);
  }

  // One line: the largest gradient, its quotient, and whether all agree.
  void check(const std::string& what, Tensor x, const Tensor& gradient) const {
    const std::vector<double> given = gradient.values();
    const std::span<double> place = x.span<double>();
    size_t largest = 0, apart = 0;
    double shown = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      const double slope = quotient(place[i]);
      if (!(std::abs(given[i] - slope) <= 1e-7 * (1 + std::abs(slope)))) ++apart;
      if (i == 0 || std::abs(given[i]) > std::abs(given[largest])) largest = i, shown = slope;
    }
    lesson.say("{:<32}  {:>7}  {:>11.6f}  {:>11.6f}  {}", what + " " + shape_text(x), given.size(),
               given[largest], shown, apart == 0 ? "all agree" : fmt::format("{} DIFFER", apart));
    lesson.number("differ." + what, static_cast<double>(apart));
  }
  static std::string shape_text(const Tensor& x) {
    return fmt::format("({})", fmt::join(x.shape(), ", "));
  }
};

void check_linear(Lesson& lesson) {
  const Tensor x = numbers({3, 4}, "x"), w = numbers({2, 4}, "w"), b = numbers({2}, "b"),
               dy = numbers({3, 2}, "dy");
  Tensor dw = zeros_of({2, 4}), db = zeros_of({2});
  linear_backward_weight(dy, x, dw);
  bias_backward(dy, db);
  const Checked at{lesson, [&] { return linear(x, w, b); }, dy};
  at.check("linear: dx", x, linear_backward_input(dy, w));
  at.check("linear: dW", w, dw);
  at.check("linear: db", b, db);
}

void check_softmax(Lesson& lesson) {
  const Tensor x = numbers({2, 5}, "scores"), dy = numbers({2, 5}, "dy");
  Checked{lesson, [&] { return softmax(x); }, dy}.check("softmax: dx", x,
                                                        softmax_backward(dy, softmax(x)));
  const Tensor logits = numbers({3, 5}, "logits"), one = Tensor::full({1}, 1, DType::f64);
  Tensor targets = Tensor::zeros({3}, DType::i32);
  for (int64_t n = 0; n < 3; ++n) targets.data<int32_t>()[n] = static_cast<int32_t>(n + 1);
  const auto loss = [&] { return cross_entropy(logits, targets, 1.0 / 3); };
  Checked{lesson, [&] { return Tensor::full({1}, loss().loss, DType::f64); }, one}.check(
      "cross-entropy: dlogits", logits,
      cross_entropy_backward(logits, targets, loss().log_sum_exp, 1.0 / 3));
}

void check_norms(Lesson& lesson) {
  const Tensor x = numbers({3, 5}, "x"), w = numbers({5}, "w"), b = numbers({5}, "b"),
               dy = numbers({3, 5}, "dy");
  const RmsnormOutput rms = rmsnorm(x, w);
  Tensor dw = zeros_of({5});
  rmsnorm_backward_weight(dy, x, rms.rstd, dw);
  const Checked root{lesson, [&] { return rmsnorm(x, w).y; }, dy};
  root.check("rmsnorm: dx", x, rmsnorm_backward_input(dy, x, w, rms.rstd));
  root.check("rmsnorm: dw", w, dw);

  const LayernormOutput layer = layernorm(x, w, b);
  Tensor dweight = zeros_of({5}), dbias = zeros_of({5});
  layernorm_backward_weight(dy, x, layer.mean, layer.rstd, dweight, dbias);
  const Checked at{lesson, [&] { return layernorm(x, w, b).y; }, dy};
  at.check("layernorm: dx", x, layernorm_backward_input(dy, x, w, layer.mean, layer.rstd));
  at.check("layernorm: dw", w, dweight);
  at.check("layernorm: db", b, dbias);
}

// rmsnorm's dx without the term that comes from r.
void wrong_norm(Lesson& lesson) {
  const Tensor x = numbers({3, 5}, "x"), w = numbers({5}, "w"), dy = numbers({3, 5}, "dy");
  const std::vector<double> r = rmsnorm(x, w).rstd.values(), up = dy.values(), weight = w.values();
  Tensor dx = zeros_of({3, 5});
  for (size_t i = 0; double& value : dx.span<double>()) {
    value = r[i / 5] * up[i] * weight[i % 5];
    ++i;
  }
  lesson.section("A mistake: rmsnorm's dx without its second term");
  Checked{lesson, [&] { return rmsnorm(x, w).y; }, dy}.check("rmsnorm, r g alone: dx", x, dx);
}

void check_activations(Lesson& lesson) {
  const Tensor x = numbers({2, 3}, "x"), up = numbers({2, 3}, "up"), dy = numbers({2, 3}, "dy");
  Checked{lesson, [&] { return gelu(x); }, dy}.check("gelu: dx", x, gelu_backward(dy, x));
  const SwigluGradients d = swiglu_backward(dy, x, up);
  const Checked at{lesson, [&] { return swiglu(x, up); }, dy};
  at.check("swiglu: dgate", x, d.dgate);
  at.check("swiglu: dup", up, d.dup);
}

void check_rope(Lesson& lesson) {
  const Tensor q = numbers({1, 4, 2, 6}, "q"), dout = numbers({1, 4, 2, 6}, "dout");
  Checked{lesson, [&] { return rope(q); }, dout}.check("rope: dx", q, rope_backward(dout));
}

void check_attention(Lesson& lesson) {
  const Tensor q = numbers({1, 4, 2, 6}, "q"), k = numbers({1, 4, 1, 6}, "k"),
               v = numbers({1, 4, 1, 6}, "v"), dout = numbers({1, 4, 2, 6}, "dout");
  const AttentionGradients plain =
      attention_plain_backward(dout, q, k, v, attention_plain(q, k, v));
  const AttentionGradients tiles =
      flash_attention_backward(dout, q, k, v, flash_attention(q, k, v));
  const Checked at{lesson, [&] { return attention_plain(q, k, v).o; }, dout};
  at.check("attention: dQ", q, plain.dq);
  at.check("attention: dK", k, plain.dk);
  at.check("attention: dV", v, plain.dv);
  const Checked blocks{lesson, [&] { return flash_attention(q, k, v).o; }, dout};
  blocks.check("blockwise: dQ", q, tiles.dq);
  blocks.check("blockwise: dK", k, tiles.dk);
  blocks.check("blockwise: dV", v, tiles.dv);
}

void check_embedding(Lesson& lesson) {
  Tensor ids = Tensor::zeros({4}, DType::i32);
  for (int64_t n = 0; const int32_t id : {2, 0, 2, 1}) ids.data<int32_t>()[n++] = id;
  const Tensor table = numbers({3, 4}, "table"), dy = numbers({4, 4}, "dy");
  Tensor dtable = zeros_of({3, 4});
  embedding_backward(dy, ids, dtable);
  const Checked at{lesson, [&] { return embedding(ids, table); }, dy};
  at.check("embedding: dtable", table, dtable);
}

// One block of each dialect, with its residual stream: attention and feed-forward, both norms.
void check_block(Lesson& lesson) {
  for (TransformerConfig config :
       {gpt2_config(1, 8, 2, 4, 16), llama_config(1, 8, 12, 2, 1, 4, 16)}) {
    config.dtype = DType::f64;
    const Transformer block(config, 1, 2);  // entry 0 is the embedding
    for (const ParameterPtr& each : parameters(block.stack()))
      for (uint64_t i = 0; double& value : each->value.span<double>())
        value = Random(3, each->name).normal(i++) / 2;
    const Tensor x = numbers({2, 4, 8}, "x"), dy = numbers({2, 4, 8}, "dy");
    const auto y = [&](Saved&& saved) { return forward(block.stack(), x, saved); };
    Saved saved;
    forward(block.stack(), x, saved);
    const Tensor dx = backward(block.stack(), dy.clone(), saved);
    Checked{lesson, [&] { return y(Saved()); }, dy}.check(
        fmt::format("block, {}: dx", config.dialect == Dialect::gpt2 ? "GPT-2" : "Llama"), x, dx);
  }
}

void gradients(Lesson& lesson) {
  lesson.section("Gradients beside difference quotients of the loss, in f64");
  for (const auto& check : {check_linear, check_softmax, check_norms, check_activations, check_rope,
                            check_attention, check_embedding, check_block}) {
    lesson.say("{:<32}  {:>7}  {:>11}  {:>11}", "", "numbers", "largest", "quotient");
    check(lesson);
  }
}

// What a query knows after some of its keys: m, l and o, each from its definition, so that the
// steps from line to line can be done by hand.
void online_softmax(Lesson& lesson) {
  const std::vector<double> scores = {2, 1, 4, 0, 3}, values = {1, 2, 3, 4, 5};
  lesson.section("Online softmax: scores 2 1, then 4 0, then 3; values 1 2, then 3 4, then 5");
  lesson.say("{:<10}  {:>4}  {:>15}  {:>8}  {:>8}  {:>8}", "keys", "m", "e^(m_old - m)", "l", "o",
             "o / l");
  double before = -std::numeric_limits<double>::infinity();
  for (const size_t seen : {2u, 4u, 5u}) {
    double m = scores[0], l = 0, o = 0;
    for (size_t j = 0; j < seen; ++j) m = std::max(m, scores[j]);
    for (size_t j = 0; j < seen; ++j) {
      l += std::exp(scores[j] - m);
      o += std::exp(scores[j] - m) * values[j];
    }
    lesson.say("first {:<4}  {:>4}  {:>15.4f}  {:>8.4f}  {:>8.4f}  {:>8.4f}", seen, m,
               std::exp(before - m), l, o, o / l);
    before = m;
  }
}

// ---- the linear net -----------------------------------------------------------------------------

// A forward and a backward pass: bytes of weights and of what is kept, FLOPs, and seconds on this
// computer.
struct NetStep {
  double weights = 0, kept = 0, flops = 0, seconds = 0;
};
NetStep run_net(const LinearNetConfig& net, int64_t rows) {
  RankContext rank;
  const ContextScope scope(rank);
  const std::vector<LayerPtr> layers = make_linear_net(net);
  const Tensor x = Tensor::zeros({rows, net.width});
  NetStep step;
  step.weights = 4.0 * static_cast<double>(parameter_count(Layers(layers)));
  for (int run = 0; run < 3; ++run) {  // the fastest counts
    rank.ledger.reset();
    const auto start = std::chrono::steady_clock::now();
    Saved saved;
    const Tensor y = forward(Layers(layers), x, saved);
    step.kept = static_cast<double>(saved.bytes());
    backward(Layers(layers), y.clone(), saved);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    step.seconds = run == 0 ? took.count() : std::min(step.seconds, took.count());
    step.flops = rank.ledger.total_flops();
  }
  return step;
}

void linear_net(Lesson& lesson) {
  lesson.section("The linear net: what doubles when one size doubles");
  lesson.say("{:<18} {:>3} {:>5} {:>5}  {:>14}  {:>16} {:>14}  {:>10}", "", "L", "C", "rows",
             "weights", "kept", "GFLOP per step", "time");
  NetStep base;
  const auto row = [&](const char* what, int64_t layers, int64_t width, int64_t rows) {
    const NetStep step = run_net({layers, width}, rows);
    if (base.flops == 0) base = step;
    const auto bytes = [](double some, double of_base) {
      return fmt::format("{} ({:.0f}x)", console::bytes(some), some / of_base);
    };
    lesson.say("{:<18} {:>3} {:>5} {:>5}  {:>14}  {:>16}  {:>8.2f} ({:.0f}x)  {:>7.1f} ms", what,
               layers, width, rows, bytes(step.weights, base.weights), bytes(step.kept, base.kept),
               step.flops / 1e9, step.flops / base.flops, 1e3 * step.seconds);
  };
  row("", 4, 384, 384);
  row("twice the layers", 8, 384, 384);
  row("twice the width", 4, 768, 384);
  row("twice the rows", 4, 384, 768);
}

// ---- counting -----------------------------------------------------------------------------------

// Builds a model without data and counts what it holds.
int64_t counted_parameters(const TransformerConfig& config) {
  const DeviceScope meta(Device::meta);
  return parameter_count(Transformer(config).stack());
}

// Brown et al. 2020, table 2.1; GPT-2's vocabulary.
constexpr TransformerConfig gpt3_175b_config() { return gpt2_config(96, 12288, 96, 2048, 50257); }

// What the matrices of a block hold, in matrices of (C, C).
double matrices_of_block(const TransformerConfig& c) {
  const int64_t attention = 2 * c.width + 2 * c.kv_width();  // outputs of q and o, of k and v
  const int64_t feed_forward = (c.dialect == Dialect::llama ? 3 : 2) * c.feed_forward;
  return static_cast<double>(attention + feed_forward) / static_cast<double>(c.width);
}

void parameters_of_known_models(Lesson& lesson) {
  lesson.section("Parameters, counted on models without data (device meta), and by the formula");
  lesson.say("{:<14} {:>4} {:>6} {:>6} {:>6} {:>8} {:>7} {:>13} {:>11}", "", "L", "C", "F", "heads",
             "kv heads", "vocab", "parameters", "block / C^2");
  struct Known {
    const char* name;
    TransformerConfig config;
  };
  for (const Known& known :
       {Known{"GPT-2 124M", gpt2_124m()}, Known{"GPT-3 175B", gpt3_175b_config()},
        Known{"Llama 3 8B", llama3_8b()}, Known{"Llama 3 70B", llama3_70b()},
        Known{"Llama 3 405B", llama3_405b()}}) {
    const TransformerConfig& c = known.config;
    const int64_t counted = counted_parameters(c);
    lesson.say("{:<14} {:>4} {:>6} {:>6} {:>6} {:>8} {:>7} {:>13} {:>11.3f}", known.name, c.layers,
               c.width, c.feed_forward, c.heads, c.kv_heads, c.vocabulary, counted,
               matrices_of_block(c));
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
    OpCount& kind = name.starts_with("linear")            ? step.linear
                    : name.find("attention") != name.npos ? step.attention
                                                          : step.other;
    kind.flops += count.flops;
    kind.bytes_read += count.bytes_read;
    kind.bytes_written += count.bytes_written;
  }
  return step;
}

// Weights of the matrices that multiply every token: all but tables of positions, norms and biases.
// A tied token table counts once, as the output matrix.
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

// A step of Llama 3 405B on 2048 sequences of 8192 tokens, by the formula.
void step_of_405b(Lesson& lesson) {
  const TransformerConfig config = llama3_405b();
  const double T = 8192, tokens = 2048 * T;
  const double linear = 6.0 * static_cast<double>(matrix_parameters(config)) * tokens;
  const double attention = 12.0 * static_cast<double>(config.layers * config.width) * T * tokens;
  lesson.section("A step of Llama 3 405B on 2048 sequences of 8192 tokens");
  lesson.say("{:.2g} FLOPs in matrices and {:.2g} in attention: {:.0f} s at 1e18 FLOP/s", linear,
             attention, 1e-18 * (linear + attention));
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

// The most bytes of activations in a step of GPT-2 124M on 4 sequences, without data. `tokens`: of
// a chunk of the loss; 0: all at once.
struct LossMemory {
  double activations = 0, flops = 0;
};
LossMemory run_loss(int64_t tokens) {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const TransformerConfig config = gpt2_124m();
  const Transformer model(config);
  const LossOf loss = tokens == 0 ? LossOf(loss_of) : chunked_loss(*model.head(), tokens);
  const Tensor ids = Tensor::empty({4, config.context}, DType::i32);
  zero_gradients(model.stack());
  rank.ledger.reset();
  Saved saved;
  Tensor d;
  loss(forward(model.stack(), ids, saved), ids, 1, &d);
  backward(model.stack(), d, saved);
  return {static_cast<double>(rank.ledger.memory()->peak(MemoryKind::activations)),
          rank.ledger.total_flops()};
}

void loss_in_chunks(Lesson& lesson) {
  lesson.section("GPT-2 124M, 4096 tokens: logits of some tokens at a time");
  lesson.say("{:>14}  {:>12}  {:>12}  {:>14}", "tokens at once", "logits", "activations", "FLOPs");
  for (const int64_t tokens : {0, 2048, 1024, 512}) {
    const LossMemory step = run_loss(tokens);
    const int64_t held = tokens == 0 ? 4096 : tokens;
    lesson.say("{:>14}  {:>12}  {:>12}  {:>14.4e}", tokens == 0 ? "all" : std::to_string(tokens),
               console::bytes(static_cast<double>(
                   logits_bytes(DType::f32, 4096, held, gpt2_124m().vocabulary))),
               console::bytes(step.activations), step.flops);
    lesson.number(fmt::format("loss.activations.{}", held), step.activations);
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

void draw_pictures(Lesson& lesson) {
  for (const TransformerPicture& picture : transformer_pictures()) {
    std::ofstream(picture.file) << transformer_svg(picture);
    lesson.say("drawn in {}", picture.file);
  }
  for (const auto& [file, svg] : {std::pair{"block.svg", block_svg()},
                                  {"online_softmax.svg", online_softmax_svg()},
                                  {"rope.svg", rope_svg()}}) {
    std::ofstream(file) << svg;
    lesson.say("drawn in {}", file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t layers = 4, width = 128, heads = 4, context = 512, batch = 4, draw = 0, wrong = 0;
  return run_lesson(
      argc, argv,
      {"12", "A transformer with its backward written out",
       "its gradients, parameters, FLOPs and memory"},
      [&](Lesson& lesson) {
        const TransformerConfig config = gpt2_config(layers, width, heads, context, 256);
        config.check();
        if (draw != 0) draw_pictures(lesson);
        gradients(lesson);
        if (wrong != 0) wrong_norm(lesson);
        online_softmax(lesson);
        linear_net(lesson);
        parameters_of_known_models(lesson);
        flops_and_bytes(lesson, config, batch);
        step_of_405b(lesson);
        saved_memory(lesson, config, batch);
        loss_in_chunks(lesson);
        plain_equals_blockwise(lesson, config);
        lesson.say("\nNext: write it yourself, ./yotta check 12");
      },
      {{"layers", "L", &layers, 1, 200},
       {"width", "C", &width, 1, 32768},
       {"heads", "H", &heads, 1, 256},
       {"context", "T", &context, 4, 1 << 20},
       {"batch", "B", &batch, 1, 1 << 20},
       {"wrong", "1: also check an rmsnorm without its second term", &wrong, 0, 1},
       {"draw",
        "1: write transformer*.svg, block.svg, online_softmax.svg and rope.svg into this folder",
        &draw, 0, 1}});
}
