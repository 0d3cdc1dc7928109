// Lesson 21: what tensor parallelism leaves whole, cut by tokens: bytes kept, bytes sent,
// gradients, masks, times.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/sequence_parallel_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/activation_memory.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, tokens = 64, sequences = 2, width = 128, heads = 8;
};

std::string text_of(double bytes) { return console::bytes(bytes); }
std::string text_of(int64_t bytes) { return text_of(static_cast<double>(bytes)); }

TransformerConfig config_of(int64_t layers, int64_t width, int64_t heads, int64_t tokens) {
  TransformerConfig config = gpt2_config(layers, width, heads, tokens, 256);
  config.attention = AttentionKind::plain;
  config.dropout = config.attention_dropout = 0.1;
  return config;
}

// A model, or a slice, on the ranks of tp. T > 0: they share the tokens of sequences of T.
void cut(Transformer& model, const Communicator& tp, int64_t T, bool keeps_gathered = false) {
  tensor_parallel(model, tp);
  if (T > 0) sequence_parallel(model, tp, T, keeps_gathered);
}

// ---- g and its conjugate, by hand ----

std::string list(const Tensor& x) {
  std::string text;
  for (const double each : x.values()) text += fmt::format("{:>4}", each);
  return text;
}

// One number per token: 5 tokens on 2 ranks.
void conjugates(Lesson& lesson) {
  lesson.section("g and its conjugate on 2 ranks: 5 tokens, one number each");
  std::vector<std::string> lines(2);
  run_ranks(2, [&](Communicator& tp) {
    const SequenceBorder border(tp, 5);
    const int64_t n = tokens_held(5, tp), first = chunk_begin(5, 2, tp.rank());
    Tensor x = Tensor::empty({n, 1}), part = Tensor::empty({1, 5, 1});
    for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(first + i + 1);
    for (int64_t i = 0; i < 5; ++i) part.data<float>()[i] = tp.rank() == 0 ? 1.0F : 10.0F;
    lines[static_cast<size_t>(tp.rank())] =
        fmt::format("{:>4} {:<14} {:<22} {:<22} {}", tp.rank(), list(x), list(border.enter(x)),
                    list(part), list(border.leave(part)));
  });
  lesson.say("{:>4} {:<14} {:<22} {:<22} {}", "rank", "  x", "  g(x)", "  a part y", "  its sums");
  for (const std::string& line : lines) lesson.say("{}", line);
}

// ---- bytes kept and sent ----

struct Way {
  const char* name;
  bool shares, keeps;
  TokensKept tokens;
};
constexpr Way ways[] = {{"tensor parallelism alone", false, false, TokensKept::all},
                        {"tokens shared, gathered kept", true, true, TokensKept::gathered},
                        {"tokens shared, gathered dropped", true, false, TokensKept::own}};

// A block in bf16, forward and backward, on meta: what rank 0 keeps after forward, and sends.
struct Counted {
  int64_t kept = 0;
  std::vector<int64_t> sent;  // forward, backward, once more
};
Counted count(const Sizes& s, int ranks, const Way& way) {
  TransformerConfig config = config_of(1, s.width, s.heads, s.tokens);
  config.dtype = DType::bf16;
  Counted counted;
  const auto reports = run_ranks(ranks, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    const bool shares = way.shares && ranks > 1;
    Transformer model(config, 1, 2);
    cut(model, tp, shares ? s.tokens : 0, way.keeps);
    const int64_t N = s.sequences * s.tokens;
    const Tensor x = shares ? Tensor::empty({tokens_held(N, tp), s.width}, DType::bf16)
                            : Tensor::empty({s.sequences, s.tokens, s.width}, DType::bf16);
    Saved saved({0, 0, 0, 0, true});
    const Tensor y = forward(model.stack(), x, saved);
    if (tp.rank() == 0) counted.kept = saved.bytes();
    backward(model.stack(), y, saved);
  });
  const auto sent = [&](const char* with, const char* without) {
    return reports[0].ledger().traffic(way.shares ? with : without).bytes_sent;
  };
  counted.sent = {sent("sp.forward", "tp.forward"), sent("sp.backward", "tp.backward"),
                  sent("sp.again", "nothing")};
  return counted;
}

ActivationSizes sizes_of(const Sizes& s, int ranks) {
  return {static_cast<double>(s.tokens), static_cast<double>(s.sequences),
          static_cast<double>(s.width), static_cast<double>(s.heads), static_cast<double>(ranks)};
}

void kept(Lesson& lesson, const Sizes& s) {
  const double sbh = static_cast<double>(s.tokens * s.sequences * s.width);
  lesson.section(
      fmt::format("What a rank keeps of a block in bf16, sbh {:.0f}: in units of sbh", sbh));
  std::string header = fmt::format("{:<33}", "");
  for (const int ranks : {1, 2, 4, 8}) header += fmt::format("{:>9}", fmt::format("tp {}", ranks));
  lesson.say("{}", header);
  for (const Way& way : ways) {
    std::string line = fmt::format("{:<33}", way.name),
                formula = fmt::format("{:<33}", "  the formula");
    for (const int ranks : {1, 2, 4, 8}) {
      const double counted = static_cast<double>(count(s, ranks, way).kept);
      line += fmt::format("{:>9.3f}", counted / sbh);
      formula += fmt::format(
          "{:>9.3f}", saved_bytes(sizes_of(s, ranks), Recomputed::none, 2, way.tokens) / sbh);
      lesson.number(fmt::format("kept.{}.{}", static_cast<int>(way.tokens), ranks), counted / sbh);
    }
    lesson.say("{}", line);
    lesson.say("{}", formula);
  }
}

void sent(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format("What rank 0 of {} sends for that block", s.ranks));
  lesson.say("{:<33}{:>12}{:>12}{:>12}{:>12}", "", "forward", "backward", "once more", "together");
  for (const Way& way : ways) {
    const std::vector<int64_t> sent = count(s, static_cast<int>(s.ranks), way).sent;
    const int64_t all = sent[0] + sent[1] + sent[2];
    lesson.say("{:<33}{:>12}{:>12}{:>12}{:>12}", way.name, text_of(sent[0]), text_of(sent[1]),
               text_of(sent[2]), text_of(all));
    lesson.number(fmt::format("sent.{}", static_cast<int>(way.tokens)), static_cast<double>(all));
  }
}

// ---- the published models ----

struct Published {
  const char* name;
  double L, p, m;
  int64_t heads, width, sequences;
};
constexpr Published published[] = {{"22B", 48, 1, 1, 64, 6144, 4},
                                   {"175B", 96, 8, 3, 96, 12288, 1}};

struct Variant {
  const char* name;
  bool shares;
  Recompute what;
};
constexpr Variant variants[] = {{"tensor parallelism alone", false, Recompute::none},
                                {"sequence parallelism", true, Recompute::none},
                                {"selective recomputation", false, Recompute::attention},
                                {"both", true, Recompute::attention},
                                {"all recomputed", false, Recompute::all}};

// Bytes of a layer on rank 0 of 8, run on meta, in the paper's terms: without the norms'
// statistics, and with the dropped probabilities, which our layers make again.
double layer_bytes(const Published& m, const Variant& variant) {
  TransformerConfig config = config_of(1, m.width, m.heads, 2048);
  config.dtype = DType::bf16;
  double bytes = 0;
  run_ranks(8, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(config, 1, 2);
    cut(model, tp, variant.shares ? 2048 : 0);
    const std::vector<LayerPtr> layers = checkpointed(model.stack(), {variant.what});
    Saved saved({0, 0, 0, 0, true});
    forward(layers,
            variant.shares ? Tensor::empty({m.sequences * 256, m.width}, DType::bf16)
                           : Tensor::empty({m.sequences, 2048, m.width}, DType::bf16),
            saved);
    if (tp.rank() == 0) bytes = static_cast<double>(saved.bytes());
  });
  if (variant.what == Recompute::all) return bytes;
  const double rows = 2048.0 * static_cast<double>(m.sequences);
  const double squares = static_cast<double>(m.heads) * 2048 * rows / 8;
  return bytes - 16 * rows / (variant.shares ? 8 : 1) +
         (variant.what == Recompute::none ? 2 * squares : 0);
}

void models(Lesson& lesson) {
  lesson.section("Activations of a GPU, tp 8, from counted bytes of a layer: GiB and share");
  std::string header = fmt::format("{:<28}", "");
  for (const Published& m : published) header += fmt::format("{:>10}{:>8}", m.name, "share");
  lesson.say("{}", header);
  for (const Variant& variant : variants) {
    std::string line = fmt::format("{:<28}", variant.name);
    for (const Published& m : published) {
      const double layers = m.L * (m.m > 1 ? 1 + (m.p - 1) / (m.p * m.m) : 1);
      const double gib = layer_bytes(m, variant) * layers / (1 << 30);
      const double baseline = layer_bytes(m, variants[0]) * layers / (1 << 30);
      line += fmt::format("{:>10.2f}{:>7.1f}%", gib, 100 * gib / baseline);
      lesson.number(fmt::format("gib.{}.{}", m.name, variant.name), gib);
    }
    lesson.say("{}", line);
  }
}

// ---- norms ----

// Some steps of SGD; `sums`: whether the ranks add up their norms' gradients.
struct Trained {
  std::vector<double> losses, norm;  // norm: the first number of the final norm's weight, by rank
};
Trained train(int ranks, bool shares, bool sums, int64_t steps) {
  const TransformerConfig config = gpt2_config(2, 64, 8, 30, 256);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Each rank has its tokens, and one norm for all of them. ";
  Trained trained;
  trained.norm.resize(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& tp) {
    Transformer model(config);
    cut(model, tp, shares ? config.context : 0);
    const std::vector<ParameterPtr> all = parameters(model.stack());
    Sgd optimizer(all);
    TrainHooks hooks;
    hooks.loss = vocab_parallel_loss(config.vocabulary, tp);
    hooks.sum_of_squares = [&](double squares) { return sum_over(tp, squares, "norm"); };
    if (shares && sums) hooks.after_backward = [&] { reduce_own_token_gradients(all, tp); };
    Trainer trainer(model.stack(), optimizer, {.schedule = {1, 1, 0, steps}}, hooks);
    const Batches batches(text, config.context, 1);
    for (int64_t step = 0; step < steps; ++step) {
      const Batch batch = batches.draw(step, 0, 3);
      const StepReport report =
          trainer.step(step, microbatches(batch.inputs, batch.targets, 1), 3 * config.context);
      if (tp.rank() == 0) trained.losses.push_back(report.loss);
    }
    for (const ParameterPtr& each : all)
      if (each->name == "norm.weight")
        trained.norm[static_cast<size_t>(tp.rank())] = each->value.values()[0];
  });
  return trained;
}

std::string numbers_of(const std::vector<double>& values) {
  std::string text;
  for (const double each : values) text += fmt::format("{:>9.4f}", each);
  return text;
}

void norms(Lesson& lesson, const Sizes& s) {
  const int ranks = static_cast<int>(s.ranks);
  lesson.section(fmt::format("The same model on 1 rank and on {}, losses of six steps", ranks));
  const Trained one = train(1, false, true, 6), right = train(ranks, true, true, 6);
  const Trained wrong = train(ranks, true, false, 6);
  lesson.say("{:<34}{}", "1 rank", numbers_of(one.losses));
  lesson.say("{:<34}{}", "tokens shared", numbers_of(right.losses));
  lesson.say("{:<34}{}", "norms' gradients not added up", numbers_of(wrong.losses));
  lesson.numbers("loss.serial", one.losses);
  lesson.numbers("loss.parallel", right.losses);
  lesson.section("The final norm's first weight after them, by rank");
  lesson.say("{:<34}{}", "1 rank", numbers_of(one.norm));
  lesson.say("{:<34}{}", "tokens shared", numbers_of(right.norm));
  lesson.say("{:<34}{}", "norms' gradients not added up", numbers_of(wrong.norm));
}

// ---- dropout ----

void masks(Lesson& lesson) {
  lesson.section("Dropout of 8 tokens, 12 numbers each, on 2 ranks: . is dropped");
  const auto rows = [](const Tensor& y) {
    std::vector<std::string> lines(static_cast<size_t>(y.numel() / 12));
    for (int64_t i = 0; i < y.numel(); ++i)
      lines[static_cast<size_t>(i / 12)] += y.data<float>()[i] == 0 ? '.' : '#';
    return lines;
  };
  const BatchPosition place{21, 0, 0, 0, true};
  const Tensor x = Tensor::full({1, 8, 12}, 1);
  Saved whole(place);
  const std::vector<std::string> one = rows(Dropout("d", 0.5).forward(x, whole));
  std::vector<std::vector<std::string>> right(2), wrong(2);
  run_ranks(2, [&](Communicator& tp) {
    const auto at = static_cast<size_t>(tp.rank());
    Saved own(place), same(place);
    const Tensor mine = Tensor::full({4, 12}, 1);
    const Dropout whole_batch("d", 0.5);
    const auto border = std::make_shared<SequenceBorder>(tp, 8);
    right[at] = rows(SequenceDropout(whole_batch, border).forward(mine, own));
    wrong[at] = rows(Dropout("d", 0.5).forward(mine.reshape({1, 4, 12}), same));
  });
  lesson.say("{:>5}  {:<14}{:<16}{}", "token", "1 rank", "place in batch", "place on rank");
  for (size_t token = 0; token < 8; ++token)
    lesson.say("{:>5}  {:<14}{:<16}{}", token, one[token], right[token / 4][token % 4],
               wrong[token / 4][token % 4]);
}

// ---- time ----

// Forward, or forward and backward, of a layer of 22B on 8 A100, on their virtual clock.
double layer_seconds(const Variant& variant, bool keeps, bool with_backward) {
  TransformerConfig config = config_of(1, 6144, 64, 2048);
  config.dtype = DType::bf16;
  const Timed run = run_on(cluster_named("a100x8"), 8, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(config, 1, 2);
    cut(model, tp, variant.shares ? 2048 : 0, keeps);
    const std::vector<LayerPtr> layers = checkpointed(model.stack(), {variant.what});
    Saved saved({0, 0, 0, 0, true});
    const Tensor x = variant.shares ? Tensor::empty({1024, 6144}, DType::bf16)
                                    : Tensor::empty({4, 2048, 6144}, DType::bf16);
    const Tensor y = forward(layers, x, saved);
    if (with_backward) backward(layers, y, saved);
  });
  return run.seconds();
}

void times(Lesson& lesson) {
  lesson.section("A layer of 22B on 8 A100, virtual clock: forward, backward, and the paper's");
  struct Row {
    const char* name;
    Variant variant;
    bool keeps;
    const char* printed;
  };
  const Row rows[] = {{"tensor parallelism alone", variants[0], false, "7.7    11.9"},
                      {"sequence parallelism", variants[1], false, "7.2    11.8"},
                      {"the same, gathered kept", variants[1], true, "-      -"},
                      {"selective recomputation", variants[2], false, "7.7    13.2"},
                      {"both", variants[3], false, "7.2    13.1"},
                      {"all recomputed", variants[4], false, "7.7    19.5"}};
  lesson.say("{:<28}{:>10}{:>10}{:>18}", "", "forward", "backward", "printed");
  for (const Row& row : rows) {
    const double forward = 1e3 * layer_seconds(row.variant, row.keeps, false);
    const double backward = 1e3 * layer_seconds(row.variant, row.keeps, true) - forward;
    lesson.say("{:<28}{:>7.2f} ms{:>7.2f} ms{:>18}", row.name, forward, backward, row.printed);
    lesson.number(fmt::format("forward.{}", row.name), forward);
    lesson.number(fmt::format("backward.{}", row.name), backward);
  }
}

// ---- mistakes and pictures ----

void mistakes(Lesson& lesson) {
  lesson.section("A mistake: a sequence of another length");
  const TransformerConfig config = config_of(1, 32, 4, 64);
  try {
    run_ranks(2, [&](Communicator& tp) {
      Transformer model(config);
      cut(model, tp, 64);
      Saved saved;
      forward(model.stack(), Tensor::zeros({1, 48}, DType::i32), saved);
    });
  } catch (const std::exception& error) {
    lesson.say("{}", error.what());
  }
}

void draw(Lesson& lesson) {
  std::ofstream("sequence_parallel.svg") << sequence_parallel_svg();
  std::ofstream("sequence_parallel_memory.svg") << sequence_parallel_memory_svg();
  lesson.say("drawn in sequence_parallel.svg and sequence_parallel_memory.svg");
}

void expect_sizes(const Sizes& s) {
  if (8 % s.ranks != 0 || s.ranks < 2 || s.heads % 8 != 0 || s.width % s.heads != 0 || s.tokens < 8)
    fail(Where::current(),
         "{} ranks, {} heads, width {}, {} tokens: take 2, 4 or 8 ranks, a multiple of 8 heads, a "
         "width that they divide, and 8 tokens or more",
         s.ranks, s.heads, s.width, s.tokens);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(argc, argv,
                    {"21", "Sequence parallelism", "what stands between tensor-parallel layers"},
                    [&](Lesson& lesson) {
                      expect_sizes(sizes);
                      if (drawn != 0) draw(lesson);
                      conjugates(lesson);
                      kept(lesson, sizes);
                      sent(lesson, sizes);
                      masks(lesson);
                      norms(lesson, sizes);
                      models(lesson);
                      times(lesson);
                      mistakes(lesson);
                      lesson.say("\nNext: write it yourself, ./yotta check 21");
                    },
                    {{"ranks", "of the tensor-parallel group: 2, 4 or 8", &sizes.ranks, 2, 8},
                     {"tokens", "of a sequence", &sizes.tokens, 8, 4096},
                     {"sequences", "in the batch", &sizes.sequences, 1, 64},
                     {"width", "of the block", &sizes.width, 8, 16384},
                     {"heads", "of attention, a multiple of 8", &sizes.heads, 8, 128},
                     {"draw", "1: write the page's pictures into this folder", &drawn, 0, 1}});
}
