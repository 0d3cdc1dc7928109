// Lesson 22: gathers and sums in pieces: who multiplies what, bytes, the width from which nothing
// waits, tiles and waves.
#include <fstream>
#include <set>

#include "course/lesson/lesson.hpp"
#include "course/pictures/async_tp_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/machine/systolic.hpp"
#include "yotta/machine/tile_waves.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/async_tp_layers.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, tokens = 8192, width = 4096;
};

constexpr const char* ways[] = {"whole", "one way", "both ways"};
constexpr Pieces all_pieces[] = {Pieces::none, Pieces::one_way, Pieces::both_ways};

double real(int64_t n) { return static_cast<double>(n); }

// ---- who multiplies what ----

std::string list(const std::vector<int>& pieces) {
  std::string text;
  for (const int each : pieces) text += fmt::format(" {}", each);
  return text;
}

void order(Lesson& lesson, const Sizes& s) {
  const int p = static_cast<int>(s.ranks);
  lesson.section(fmt::format("Whose piece each of {} ranks multiplies, one after the other", p));
  lesson.say("{:>4}  {:<20}{:<20}{:<20}", "rank", "gather, one way", "gather, both ways",
             "sums, one way");
  const auto one = pieces_multiplied(p, Pieces::one_way, false);
  const auto both = pieces_multiplied(p, Pieces::both_ways, false);
  const auto sums = pieces_multiplied(p, Pieces::one_way, true);
  for (size_t rank = 0; rank < one.size(); ++rank)
    lesson.say("{:>4}  {:<20}{:<20}{:<20}", rank, list(one[rank]), list(both[rank]),
               list(sums[rank]));
}

// ---- bytes ----

// What rank 0 sends for an all_gather of `rows` rows of 64 numbers, in f32.
Traffic sent(int p, int64_t rows, Pieces pieces) {
  const auto reports = run_ranks(p, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    const Tensor own = Tensor::empty({chunk_count(rows, p, tp.rank()), 64});
    if (pieces == Pieces::none)
      SequenceBorder(tp, rows).enter(own);
    else
      all_gather_in_pieces(own, rows, tp, pieces, [](int64_t, const Tensor&) {});
  });
  return reports[0].ledger().total_traffic();
}

void bytes(Lesson& lesson, const Sizes& s) {
  const int p = static_cast<int>(s.ranks);
  lesson.section(fmt::format("What rank 0 of {} sends for one all_gather, rows of 256 bytes", p));
  lesson.say("{:>6}{:>22}{:>22}{:>22}{:>12}", "rows", "whole", "one way", "both ways", "formula");
  for (const int64_t rows : {int64_t{256}, int64_t{250}}) {
    std::string line = fmt::format("{:>6}", rows);
    for (const Pieces pieces : all_pieces) {
      const Traffic counted = sent(p, rows, pieces);
      line +=
          fmt::format("{:>22}", fmt::format("{} in {}", counted.bytes_sent, counted.messages_sent));
    }
    lesson.say("{}{:>12}", line, gather_in_pieces_sent(p, 0, rows, 256, Pieces::one_way).bytes);
  }
}

// ---- time ----

struct GatherSize {
  int p;
  int64_t tokens, C, outputs;  // outputs on a rank
};

// An all_gather of tokens with its matmul, bf16, on the virtual clock.
double gather_seconds(const Cluster& cluster, const GatherSize& s, Pieces pieces) {
  return run_on(cluster, s.p,
                [&](Communicator& tp) {
                  const DeviceScope meta(Device::meta);
                  const Tensor own = Tensor::empty({s.tokens / s.p, s.C}, DType::bf16);
                  const Tensor w = Tensor::empty({s.outputs, s.C}, DType::bf16);
                  Tensor all = Tensor::empty({s.tokens, s.C}, DType::bf16);
                  if (pieces == Pieces::none) {
                    tp.all_gather(all, own, {.algorithm = Algorithm::ring});
                    linear(all, w);
                  } else {
                    all_gather_in_pieces(own, s.tokens, tp, pieces,
                                         [&](int64_t, const Tensor& x) { linear(x, w); });
                  }
                })
      .seconds();
}
double matmul_seconds(const Chip& chip, int64_t m, int64_t n, int64_t k) {
  return op_seconds(chip, linear_cost("linear", DType::bf16, m, n, k));
}

void threshold(Lesson& lesson, const Sizes& s) {
  const Cluster cluster = cluster_named("h100x8");
  const int p = static_cast<int>(s.ranks);
  const int64_t n = s.tokens / p;
  const Link link = cluster.link(0, 1);
  const double late = link.alpha - cluster.chip.launch_overhead;
  const double width =
      async_tp_hidden_width(cluster.chip.bf16, 1 / link.beta, 2, late, real(n * s.width));
  lesson.section(fmt::format("On {} H100, {} tokens, C {}: us, by the outputs of a rank", p,
                             s.tokens, s.width));
  lesson.say("{:>8}{:>10}{:>10}{:>12}{:>12}{:>14}", "outputs", "M", "H", "whole", "pieces",
             "matmul alone");
  const auto least = static_cast<int64_t>(width) + 1;
  for (const int64_t outputs : std::set<int64_t>{512, 1024, least - 1, least, 4096}) {
    const GatherSize shape{p, s.tokens, s.width, outputs};
    const double M = matmul_seconds(cluster.chip, n, outputs, s.width);
    const double pieces = gather_seconds(cluster, shape, Pieces::one_way);
    lesson.say("{:>8}{:>10.3f}{:>10.3f}{:>12.2f}{:>12.3f}{:>14.3f}", outputs, 1e6 * M,
               1e6 * link.seconds(2.0 * real(n * s.width)),
               1e6 * gather_seconds(cluster, shape, Pieces::none), 1e6 * pieces, 1e6 * p * M);
    lesson.number(fmt::format("waits.{}", outputs), pieces - p * M);
  }
  lesson.say("The formula's width: {:.1f} outputs, without latency {:.1f}", width,
             async_tp_hidden_width(cluster.chip.bf16, 1 / link.beta, 2));
}

void chips(Lesson& lesson) {
  lesson.section("The width from which a hop hides, in bf16, from the datasheets");
  lesson.say("{:<8}{:>12}{:>14}{:>12}{:>12}", "chip", "TFLOP/s", "GB/s per link", "one way",
             "both ways");
  for (const char* name : {"a100", "h100", "b200", "v5e", "v5p", "v6e"}) {
    const Chip& chip = chip_named(name);
    const double width = async_tp_hidden_width(chip.bf16, chip.link, 2);
    lesson.say("{:<8}{:>12.0f}{:>14.0f}{:>12.0f}{:>12}", name, chip.bf16 / 1e12, chip.link / 1e9,
               width, chip.links > 1 ? fmt::format("{:.0f}", width / 2) : "the same");
    lesson.number(fmt::format("width.{}", name), width);
  }
}

void directions(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format("A gather and its matmul with 2048 outputs per rank, 4 chips, us"));
  lesson.say("{:<24}{:>10}{:>10}{:>12}{:>14}", "", "whole", "one way", "both ways", "matmul alone");
  for (const auto& [name, machine] :
       {std::pair{"H100, one switch", "h100x8"}, std::pair{"v5p, a ring of a torus", "v5px64"}}) {
    const Cluster cluster = cluster_named(machine);
    std::string line = fmt::format("{:<24}", name);
    for (size_t i = 0; i < 3; ++i) {
      const double seconds = gather_seconds(cluster, {4, s.tokens, s.width, 2048}, all_pieces[i]);
      line += fmt::format("{:>{}.1f}", 1e6 * seconds, i == 2 ? 12 : 10);
      lesson.number(fmt::format("{}.{}", machine, ways[i]), seconds);
    }
    lesson.say("{}{:>14.1f}", line,
               4e6 * matmul_seconds(cluster.chip, s.tokens / 4, 2048, s.width));
  }
}

// ---- tiles and waves ----

void pieces_cost(Lesson& lesson, const Sizes& s) {
  const int64_t n = 3584;
  lesson.section(
      fmt::format("Matmul of {} tokens with {} outputs on an H100, cut by rows", s.tokens, n));
  lesson.say("{:>7}{:>8}{:>8}{:>8}{:>11}{:>12}{:>14}{:>12}", "pieces", "rows", "tiles", "waves",
             "all waves", "share used", "time x whole", "TPU share");
  const double whole = matmul_use(s.tokens, n);
  for (const int64_t pieces : {1, 2, 4, 8, 16, 32}) {
    const int64_t rows = s.tokens / pieces;
    const double use = matmul_use(rows, n);
    lesson.say("{:>7}{:>8}{:>8}{:>8}{:>11}{:>11.0f}%{:>14.2f}{:>11.0f}%", pieces, rows,
               tiles_of(rows, n), waves_of(rows, n), pieces * waves_of(rows, n), 100 * use,
               whole / use, 100 * systolic_use(rows, 128));
    lesson.number(fmt::format("use.{}", pieces), use);
  }
}

void both_effects(Lesson& lesson, const Sizes& s) {
  const Cluster cluster = cluster_named("h100x8");
  const int p = static_cast<int>(s.ranks);
  const int64_t outputs = 3584;
  lesson.section(
      fmt::format("Both effects on {} H100, C {}, {} outputs: us, by tokens", p, s.width, outputs));
  lesson.say("{:>8}{:>8}{:>12}{:>12}{:>14}", "tokens", "rows", "whole", "pieces", "gained");
  for (const int64_t tokens : {512, 1024, 2048, 4096, 8192, 16384, 32768}) {
    const int64_t n = tokens / p;
    const double H = cluster.link(0, 1).seconds(2.0 * real(n * s.width));
    const auto multiply = [&](int64_t m) {
      return 2.0 * real(m * outputs * s.width) / cluster.chip.bf16 / matmul_use(m, outputs) +
             cluster.chip.launch_overhead;
    };
    const double whole = (p - 1) * H + multiply(tokens);
    const double pieces = gather_matmul_seconds(p, Pieces::one_way, multiply(n), H);
    lesson.say("{:>8}{:>8}{:>12.1f}{:>12.1f}{:>13.0f}%", tokens, n, 1e6 * whole, 1e6 * pieces,
               100 * (1 - pieces / whole));
    lesson.number(fmt::format("gained.{}", tokens), 1 - pieces / whole);
  }
}

// ---- a block ----

// A model, or a slice, on the ranks of tp. T > 0: they share the tokens of sequences of T.
void cut(Transformer& model, const Communicator& tp, int64_t T, Pieces pieces) {
  tensor_parallel(model, tp);
  if (T > 0) sequence_parallel(model, tp, T);
  if (pieces != Pieces::none) async_tensor_parallel(model, tp, T, false, pieces);
}

struct Way {
  const char* name;
  bool shares;
  Pieces pieces;
};
constexpr Way blocks[] = {{"tensor parallelism alone", false, Pieces::none},
                          {"sequence parallelism", true, Pieces::none},
                          {"in pieces", true, Pieces::one_way}};

// A block of Llama 3 70B on 8 H100, 8192 tokens: forward, or forward and backward.
Timed block(const Way& way, bool with_backward) {
  TransformerConfig config = llama_config(1, 8192, 28672, 64, 8, 8192, 128256);
  config.dtype = DType::bf16;
  return run_on(cluster_named("h100x8"), 8, [&](Communicator& tp) {
    const DeviceScope meta(Device::meta);
    Transformer model(config, 1, 2);
    cut(model, tp, way.shares ? 8192 : 0, way.pieces);
    Saved saved({0, 0, 0, 0, true});
    const Tensor x = way.shares ? Tensor::empty({1024, 8192}, DType::bf16)
                                : Tensor::empty({1, 8192, 8192}, DType::bf16);
    const Tensor y = forward(model.stack(), x, saved);
    if (with_backward) backward(model.stack(), y, saved);
  });
}

void blocks_of_70B(Lesson& lesson) {
  lesson.section("A block of Llama 3 70B on 8 H100, 8192 tokens, virtual clock: ms");
  lesson.say("{:<28}{:>10}{:>12}{:>16}", "", "forward", "backward", "of it waiting");
  for (const Way& way : blocks) {
    const double forward = block(way, false).seconds();
    const Timed run = block(way, true);
    const double all = run.seconds();
    lesson.say("{:<28}{:>10.3f}{:>12.3f}{:>15.1f}%", way.name, 1e3 * forward, 1e3 * (all - forward),
               100 * run.idle_share(0));
    lesson.number(fmt::format("block.{}", way.name), all);
  }
}

// Which of that block's widths are enough, by the formula.
void widths(Lesson& lesson) {
  const Cluster cluster = cluster_named("h100x8");
  const Link link = cluster.link(0, 1);
  const int64_t n = 1024, C = 8192;  // of a piece
  const double H = link.seconds(2.0 * real(n * C));
  lesson.section("Its matmuls on a rank: width, M and H in us, and who waits");
  lesson.say("{:<12}{:<16}{:>7}{:>9}{:>9}  {}", "", "before or after", "width", "M", "H", "");
  struct Part {
    const char *name, *collective;
    int64_t width;
  };
  for (const Part& part :
       {Part{"q, k, v", "gather", (8192 + 2 * 1024) / 8}, Part{"o", "sums", 8192 / 8},
        Part{"gate, up", "gather", 2 * 28672 / 8}, Part{"down", "sums", 28672 / 8}}) {
    const double M = matmul_seconds(cluster.chip, n, part.width, C);
    lesson.say("{:<12}{:<16}{:>7}{:>9.1f}{:>9.1f}  {}", part.name, part.collective, part.width,
               1e6 * M, 1e6 * H, M < H ? "waits" : "hides its hop");
  }
}

// ---- the same training ----

std::vector<double> train(int ranks, Pieces pieces) {
  const int64_t steps = 4;
  const TransformerConfig config = gpt2_config(2, 64, 8, 30, 256);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "A piece is multiplied while the next one travels. ";
  std::vector<double> losses;
  run_ranks(ranks, [&](Communicator& tp) {
    Transformer model(config);
    cut(model, tp, ranks > 1 ? config.context : 0, pieces);
    const std::vector<ParameterPtr> all = parameters(model.stack());
    Sgd optimizer(all);
    TrainHooks hooks;
    hooks.loss = vocab_parallel_loss(config.vocabulary, tp);
    hooks.sum_of_squares = [&](double squares) { return sum_over(tp, squares, "norm"); };
    hooks.after_backward = [&] { reduce_own_token_gradients(all, tp); };
    Trainer trainer(model.stack(), optimizer, {.schedule = {1, 1, 0, steps}}, hooks);
    const Batches batches(text, config.context, 1);
    for (int64_t step = 0; step < steps; ++step) {
      const Batch batch = batches.draw(step, 0, 3);
      const StepReport report =
          trainer.step(step, microbatches(batch.inputs, batch.targets, 1), 3 * config.context);
      if (tp.rank() == 0) losses.push_back(report.loss);
    }
  });
  return losses;
}

void training(Lesson& lesson, const Sizes& s) {
  const int p = static_cast<int>(s.ranks);
  lesson.section(fmt::format("The same model on 1 rank and on {}, losses of four steps", p));
  const auto row = [&](const std::string& name, const std::vector<double>& losses) {
    std::string line = fmt::format("{:<14}", name);
    for (const double each : losses) line += fmt::format("{:>9.4f}", each);
    lesson.say("{}", line);
    lesson.numbers(name, losses);
  };
  row("1 rank", train(1, Pieces::none));
  for (size_t i = 0; i < 3; ++i) row(ways[i], train(p, all_pieces[i]));
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(argc, argv,
                    {"22", "Async-TP", "gathers and sums that travel while others are multiplied"},
                    [&](Lesson& lesson) {
                      if (8 % sizes.ranks != 0)
                        fail(Where::current(), "{} ranks: take 2, 4 or 8", sizes.ranks);
                      if (sizes.tokens % 32 != 0)  // the tables cut them into as many pieces
                        fail(Where::current(), "{} tokens: take a multiple of 32", sizes.tokens);
                      if (drawn != 0) {
                        std::ofstream("async_tp.svg") << async_tp_svg();
                        std::ofstream("async_tp_ring.svg") << async_tp_ring_svg();
                        lesson.say("drawn in async_tp.svg and async_tp_ring.svg");
                      }
                      order(lesson, sizes);
                      bytes(lesson, sizes);
                      threshold(lesson, sizes);
                      chips(lesson);
                      directions(lesson, sizes);
                      pieces_cost(lesson, sizes);
                      both_effects(lesson, sizes);
                      blocks_of_70B(lesson);
                      widths(lesson);
                      training(lesson, sizes);
                      lesson.say("\nNext: write it yourself, ./yotta check 22");
                    },
                    {{"ranks", "of the tensor-parallel group: 2, 4 or 8", &sizes.ranks, 2, 8},
                     {"tokens", "of all ranks, a multiple of 32", &sizes.tokens, 512, 1 << 20},
                     {"width", "of the model, C", &sizes.width, 64, 16384},
                     {"draw", "1: write the page's pictures into this folder", &drawn, 0, 1}});
}
