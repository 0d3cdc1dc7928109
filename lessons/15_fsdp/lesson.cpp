// Lesson 15: a model that no rank holds whole. What each rank holds, borrows and sends, and how
// long a step takes when the trips are hidden and when they are not.
#include <cmath>
#include <fstream>
#include <set>

#include "course/lesson/lesson.hpp"
#include "course/lesson/worked_chips.hpp"
#include "course/pictures/memory_pictures.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/fsdp_cost.hpp"
#include "yotta/parallel/naive_fsdp.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, layers = 6, width = 32, steps = 5, faster = 1, draw = 0;
  int p() const { return static_cast<int>(ranks); }
  LinearNetConfig net() const { return {layers, width}; }
};

// A text that never changes, so that the numbers in the lesson do not either.
const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all +=
        "A rank holds a part of every layer, borrows the rest when it computes, and gives it "
        "back. ";
  return all;
}();

// ---- a transformer, with and without FSDP ------------------------------------------------------

std::vector<double> losses(int ranks, bool sharded, std::optional<DType> gathered, int64_t steps) {
  const TransformerConfig config = gpt2_config(2, 64, 4, 32, 256);
  std::vector<double> all;
  run_ranks(ranks, [&](Communicator& world) {
    const Transformer model(config);
    std::optional<Fsdp> fsdp;
    TrainHooks hooks;
    if (sharded) {
      fsdp.emplace(model.stack(), world, FsdpOptions{.gathered = gathered});
      hooks.after_backward = [&] { fsdp->finish(); };
      hooks.sum_of_squares = [&](double mine) { return fsdp->sum_of_squares(mine); };
      hooks.sum_over_ranks = [&](double mine) { return sum_over(world, mine, "loss"); };
      hooks.world = world;
    }
    const Layers stack = sharded ? fsdp->stack() : model.stack();
    Sgd optimizer(parameters(stack));
    Trainer trainer(stack, optimizer, {.schedule = {0.5, 0.5, 0, steps}}, hooks);
    const Batches batches(text, config.context, 1);
    const BatchShard mine = batch_shard(8, world.size(), world.rank());
    for (int64_t step = 0; step < steps; ++step) {
      const Batch batch = batches.draw(step, mine.begin, mine.end - mine.begin);
      const auto parts = microbatches(batch.inputs, batch.targets, 1, mine.begin);
      const double loss = trainer.step(step, parts, 8 * config.context).loss;
      if (world.rank() == 0) all.push_back(loss);
    }
  });
  return all;
}

void same_losses(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("The same losses whole on 1 rank and sharded over {}", sizes.ranks));
  const std::vector<double> one = losses(1, false, {}, sizes.steps);
  const std::vector<double> many = losses(sizes.p(), true, {}, sizes.steps);
  const std::vector<double> narrow = losses(sizes.p(), true, DType::bf16, sizes.steps);
  for (size_t step = 0; step < one.size(); ++step)
    lesson.say("step {}: loss {:.3f} on 1 rank, {:.3f} on {} ranks, {:.3f} with bf16 gathered",
               step, one[step], many[step], sizes.ranks, narrow[step]);
  lesson.numbers("loss.whole", one);
  lesson.numbers("loss.sharded", many);
}

// ---- the linear net: what is held, borrowed and sent -------------------------------------------

// Forward and backward of two rows on this rank.
void one_pass(Layers stack, int64_t width) {
  Saved saved({0, 0, 0, 0, true});
  const Tensor y = forward(stack, Tensor::full({2, width}, 1), saved);
  backward(stack, y, saved);
}

struct Memory {
  int64_t held = 0, borrowed = 0, sent = 0;  // by the rank that does most of it
};
enum class How { ddp, naive, fsdp };

Memory measure(How how, const Sizes& sizes) {
  std::vector<Memory> by_rank(static_cast<size_t>(sizes.ranks));
  run_ranks(sizes.p(), [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(sizes.net());
    std::vector<LayerPtr> lent;
    std::optional<Fsdp> fsdp;
    if (how == How::naive) lent = make_naive_fsdp(model, world);
    if (how == How::fsdp) fsdp.emplace(model, world);
    const Layers stack = how == How::ddp     ? Layers(model)
                         : how == How::naive ? Layers(lent)
                                             : fsdp->stack();
    AdamW optimizer(parameters(stack));
    context().ledger.memory()->reset_peaks();
    one_pass(stack, sizes.width);
    if (how == How::ddp) reduce_gradients(parameters(stack), world, ReduceOp::sum);
    if (fsdp) fsdp->finish();
    optimizer.step(0.01);
    const MemoryCount& memory = *context().ledger.memory();
    by_rank[static_cast<size_t>(world.rank())] = {
        memory.live(MemoryKind::parameters) + memory.live(MemoryKind::gradients) +
            memory.live(MemoryKind::optimizer),
        memory.peak(MemoryKind::buffers), context().ledger.total_traffic().bytes_sent};
  });
  Memory most;
  for (const Memory& rank : by_rank)
    most = {std::max(most.held, rank.held), std::max(most.borrowed, rank.borrowed),
            std::max(most.sent, rank.sent)};
  return most;
}

void memory(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("{} layers on {} ranks: by the busiest rank, for N parameters",
                             sizes.layers, sizes.ranks));
  const auto N = static_cast<double>(parameters(sizes.net()));
  lesson.say("{:<12}{:>14}{:>20}{:>17}", "", "bytes held", "bytes borrowed", "elements sent");
  const std::pair<How, const char*> rows[] = {
      {How::ddp, "DDP"}, {How::naive, "naive FSDP"}, {How::fsdp, "FSDP"}};
  for (const auto& [how, name] : rows) {
    const Memory most = measure(how, sizes);
    lesson.say("{:<12}{:>12.2f} N{:>18.2f} N{:>15.2f} N", name, static_cast<double>(most.held) / N,
               static_cast<double>(most.borrowed) / N, static_cast<double>(most.sent) / 4 / N);
    lesson.number(fmt::format("{}.held", name), static_cast<double>(most.held));
    lesson.number(fmt::format("{}.borrowed", name), static_cast<double>(most.borrowed));
    lesson.number(fmt::format("{}.sent", name), static_cast<double>(most.sent));
  }
}

// ---- which unit is whole when ------------------------------------------------------------------

// Does nothing but show which units are whole or on their way when it is called.
class Window : public Layer {
 public:
  Window(int64_t number, std::function<void(char, int64_t)> see)
      : Layer("window " + std::to_string(number)), number_(number), see_(std::move(see)) {}
  Tensor forward(const Tensor& x, Saved&) override { return see_('F', number_), x; }
  Tensor backward_input(const Tensor& dy, Saved&) override { return see_('B', number_), dy; }
  void backward_weight(Saved&) override {}
  void add_parameters(std::vector<ParameterPtr>&) override {}

 private:
  int64_t number_;
  std::function<void(char, int64_t)> see_;
};

void units(Lesson& lesson, const Sizes& sizes) {
  lesson.section("While a unit computes: W whole, > on its way");
  run_ranks(sizes.p(), [&](Communicator& world) {
    std::optional<Fsdp> fsdp;
    const auto see = [&](char pass, int64_t number) {
      if (world.rank() != 0) return;
      std::string line;
      for (size_t u = 0; u < fsdp->units().size(); ++u) {
        const bool computes = static_cast<int64_t>(u) == number;
        line += computes ? " #" : fsdp->units()[u].is_gathered() ? " >" : " .";
      }
      lesson.say("{}{}  {}", pass, number, line);
    };
    std::vector<LayerPtr> model;
    for (LayerPtr& layer : make_linear_net(sizes.net())) {
      model.push_back(std::move(layer));
      model.push_back(std::make_unique<Window>(std::ssize(model) / 2, see));
    }
    fsdp.emplace(model, world, FsdpOptions{.layers_per_unit = 2});
    one_pass(fsdp->stack(), sizes.width);
    fsdp->finish();
  });
}

// ---- time, on a described machine --------------------------------------------------------------

constexpr int64_t batch_rows = 64;

double forward_flops(const Sizes& sizes) {
  return 2 * static_cast<double>(sizes.width * sizes.width * batch_rows);
}

// A pass on chips that take 1 s for a layer's forward, linked so that a gather takes g s.
Timed timed_pass(const Sizes& sizes, double g, const FsdpOptions& options) {
  const auto p = static_cast<double>(sizes.ranks);
  const double bytes = 4 * static_cast<double>(sizes.width * sizes.width) * (1 - 1 / p);
  const Cluster machine = ideal(sizes.p(), forward_flops(sizes), bytes / g);
  return run_on(machine, sizes.p(), [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(sizes.net());
    Fsdp fsdp(model, world, options);
    Saved saved({0, 0, 0, 0, true});
    const Tensor y = forward(fsdp.stack(), Tensor::full({batch_rows, sizes.width}, 1), saved);
    backward(fsdp.stack(), y, saved);
    fsdp.finish();
  });
}

void time(Lesson& lesson, const Sizes& sizes) {
  const double adds = static_cast<double>(sizes.width * sizes.width / sizes.ranks);
  lesson.section(
      "Seconds of a pass; g: of one gather. A layer's forward takes 1 s, its backward 2");
  lesson.say("{:<6}{:>20}{:>20}{:>20}", "g", "nothing hidden", "prefetch", "and the last kept");
  for (const double g : {0.25, 0.5, 1.0, 2.0}) {
    std::string line = fmt::format("{:<6}", g);
    for (const FsdpOptions& options :
         {FsdpOptions{.prefetch = false}, FsdpOptions{}, FsdpOptions{.keep_last = true}}) {
      const double seconds = timed_pass(sizes, g, options).seconds();
      const FsdpTimes times{1, 2, g, g, adds / forward_flops(sizes)};
      const double formula = fsdp_seconds(sizes.layers, times, options.prefetch, options.keep_last);
      line += fmt::format("{:>11.2f} ({:>6.2f})", seconds, formula);
    }
    lesson.say("{}", line);
  }
  lesson.say("(in brackets: the closed form of fsdp_cost.hpp)");
  for (const bool prefetch : {false, true}) {
    lesson.section(fmt::format("{} prefetch, g = 0.5", prefetch ? "With" : "Without"));
    const Timed run = timed_pass(sizes, 0.5, {.prefetch = prefetch});
    lesson.show(timeline_text(make_timeline(run.trace, 1), 72, false));
    lesson.number(prefetch ? "seconds.prefetch" : "seconds.no_prefetch", run.seconds());
  }
}

// ---- who breaks first --------------------------------------------------------------------------

constexpr double large = 70e9;        // parameters
constexpr double sequence = 8192;     // tokens
constexpr double batch_tokens = 8e6;  // of all ranks

// 3 trips of 2 bytes per parameter against 6 FLOPs per parameter and token.
void round_figures(Lesson& lesson) {
  lesson.section("Round figures: 70e9 parameters on 4000 GPUs of 200 TFLOP/s");
  lesson.say("{:>16}{:>13}{:>11}{:>15}{:>16}", "network, GB/s", "tokens, 1e6", "trips, s",
             "computing, s", "equal at GPUs");
  for (const auto& [network, tokens] : {std::pair{200e9, 4e6}, {100e9, 8e6}}) {
    constexpr double gpus = 4000, flops = 200e12;
    lesson.say("{:>16.0f}{:>13.0f}{:>11.1f}{:>15.1f}{:>16.0f}", network / 1e9, tokens / 1e6,
               3 * 2 * large / network, 6 * large * tokens / flops / gpus,
               tokens * network / flops);
  }
}

// A step on p ranks, in 80 units, with prefetch: computing at the chip's peak, and all trips.
void breaks_row(Lesson& lesson, const WorkedChip& chip, double p) {
  constexpr int64_t units = 80;
  const double n = batch_tokens / p, forward = 2 * large * n / chip.flops / units;
  const double trip = 2 * large * (p - 1) / p / chip.sends / units;
  const double step = fsdp_seconds(units, {forward, 2 * forward, trip, trip, 0}, true, false);
  const double cut = std::ceil(p / std::floor(batch_tokens / sequence));  // a rank's part of one
  lesson.say("{:<9}{:>8.0f}{:>17.0f}{:>20.2f}{:>5.0f}{:>15.0f}{:>11.0f}{:>10.0f}{:>8.1f}",
             chip.name, p, n, n / sequence, cut, 3e3 * units * forward, 3e3 * units * trip,
             1e3 * step, 100 * 3 * units * forward / step);
}

void breaks(Lesson& lesson, const Sizes& sizes) {
  lesson.section(
      fmt::format("Who breaks first: 70e9 parameters, 8e6 tokens per step, sequences of 8192{}",
                  sizes.faster > 1 ? fmt::format(", chips {} times faster", sizes.faster) : ""));
  const double sequences = std::floor(batch_tokens / sequence);
  const std::vector<WorkedChip> chips = worked_chips(static_cast<double>(sizes.faster));
  for (const WorkedChip& chip : {chips[0], chips[1], on_one_axis(chips[1])})
    lesson.say(
        "{}: sequences for {:.0f} ranks; trips hidden up to {:.0f} ranks, {:.0f} tokens each",
        chip.name, sequences, std::floor(batch_tokens / chip.tokens_to_hide()),
        chip.tokens_to_hide());
  lesson.say("{:<9}{:>8}{:>17}{:>20}{:>5}{:>15}{:>11}{:>10}{:>8}", "", "ranks", "tokens per rank",
             "sequences per rank", "cp", "computing, ms", "trips, ms", "step, ms", "MFU, %");
  for (const WorkedChip& chip : chips)
    for (const double p :
         std::set{256.0, sequences, std::floor(batch_tokens / chip.tokens_to_hide()), 16384.0})
      breaks_row(lesson, chip, p);
}

// One unit's all_gather, a ring's and one whose messages double: latency is what differs.
void beyond(Lesson& lesson) {
  constexpr double alpha = 5e-6, sends = 400e9, bytes = 2 * large / 80;
  lesson.section("Beyond 10,000 ranks: an all_gather of one unit of 80, 5 us a message");
  lesson.say("{:>7}{:>16}{:>20}{:>24}{:>16}", "ranks", "bytes alone, ms", "ring's latency, ms",
             "log-time's latency, ms", "ring / bytes");
  for (const double p : {256.0, 1024.0, 4096.0, 16384.0, 32768.0}) {
    const double ring = (p - 1) * alpha, doubling = std::ceil(std::log2(p)) * alpha;
    const double travel = bytes * (p - 1) / p / sends;
    lesson.say("{:>7.0f}{:>16.2f}{:>20.2f}{:>24.2f}{:>16.1f}", p, 1e3 * travel, 1e3 * ring,
               1e3 * doubling, ring / travel);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv, {"15", "FSDP", "what each rank holds, borrows and sends, and how long it takes"},
      [&](Lesson& lesson) {
        if (sizes.faster > 1) return breaks(lesson, sizes);
        same_losses(lesson, sizes);
        memory(lesson, sizes);
        units(lesson, sizes);
        time(lesson, sizes);
        round_figures(lesson);
        breaks(lesson, sizes);
        beyond(lesson);
        if (sizes.draw == 1) std::ofstream("fsdp_life.svg") << fsdp_life_svg(fsdp_life());
        lesson.say("\nNext: write it yourself, ./yotta check 15");
      },
      {{"ranks", "ranks that share the model", &sizes.ranks, 2, 16},
       {"layers", "layers of the linear net, each a unit", &sizes.layers, 2, 26},
       {"width", "its width", &sizes.width, 1, 512},
       {"steps", "optimizer steps of the transformer", &sizes.steps, 1, 1000},
       {"faster", "only the last table, for chips that compute so many times as fast",
        &sizes.faster, 1, 64},
       {"draw", "1: write fsdp_life.svg into this folder", &sizes.draw, 0, 1}});
}
