// Lesson 14: what DDP holds p times over, and what each stage of ZeRO saves of it.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/lesson/worked_chips.hpp"
#include "course/pictures/zero_picture.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/zero.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, steps = 4, batch = 8, microbatches = 1, faster = 1, draw = 0;
  int p() const { return static_cast<int>(ranks); }
};

// A text that never changes, so that the numbers in the lesson do not either.
const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all +=
        "Each weight needs to be stepped once, by one rank, and then everyone needs the result. ";
  return all;
}();

void table(Lesson& lesson) {
  lesson.section("GB a device holds, from the formula: the paper's table 1");
  lesson.say("{:>5}  {:^32}  {:^32}", "", "7.5 billion parameters", "128 billion parameters");
  lesson.say("{:>5}  {:>10}{:>10}{:>10}    {:>10}{:>10}{:>10}", "p", "stage 1", "stage 2",
             "stage 3", "stage 1", "stage 2", "stage 3");
  for (const int64_t ranks : {1, 4, 16, 64, 256, 1024}) {
    std::string line = fmt::format("{:>5}  ", ranks);
    for (const int64_t N : {int64_t{7'500'000'000}, int64_t{128'000'000'000}}) {
      for (const int stage : {1, 2, 3})
        line += fmt::format(
            "{:>10.2f}",
            static_cast<double>(zero_bytes_held(stage, ranks, N, zero_paper_bytes)) / 1e9);
      line += "    ";
    }
    lesson.say("{}", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  int64_t ranks = 1;
  while (zero_bytes_held(3, ranks, 128'000'000'000, zero_paper_bytes) > 80'000'000'000) ++ranks;
  lesson.say("stage 3 holds 128 billion parameters in 80 GB from {} ranks on", ranks);
}

// What training leaves on rank 0.
struct Outcome {
  std::vector<double> losses;
  int64_t parameters = 0, weights = 0, gradients = 0, optimizer = 0, bytes_sent = 0;
  int64_t activations = 0;  // at their peak
};

// How one stage hooks into the trainer; stage 0 is DDP, 3 is FSDP.
struct Sharding {
  std::optional<Ddp> ddp;
  std::optional<Ddp::NoSync> quiet;
  std::optional<Zero> zero;
  std::optional<Fsdp> fsdp;

  Layers stack;                       // what the trainer runs
  std::vector<ParameterPtr> stepped;  // by this rank's optimizer
  TrainHooks hooks;

  Sharding(const Transformer& model, Communicator& world, int stage,
           std::optional<DType> gradients = {})
      : stack(model.stack()) {
    const std::vector<ParameterPtr> all = parameters(model.stack());
    if (stage == 0) {
      ddp.emplace(all, world);
      hooks.before_microbatch = [this](bool last) {
        if (last)
          quiet.reset();
        else if (!quiet)
          quiet.emplace(*ddp);
      };
      hooks.after_backward = [this] { ddp->finish(); };
    } else if (stage == 3) {
      fsdp.emplace(model.stack(), world);
      stack = fsdp->stack();
      hooks.after_backward = [this] { fsdp->finish(); };
      hooks.sum_of_squares = [this](double mine) { return fsdp->sum_of_squares(mine); };
    } else {
      zero.emplace(all, world,
                   ZeroOptions{.stage = stage, .bucket_bytes = 50'000, .gradients = gradients});
      hooks.before_microbatch = [this](bool) { zero->flush(); };
      hooks.after_backward = [this] { zero->finish(); };
      hooks.sum_of_squares = [this](double) { return zero->sum_of_squares(); };
      hooks.after_step = [this] { zero->gather(); };
    }
    hooks.world = world;
    hooks.sum_over_ranks = [&world](double loss) {
      std::vector<double> sum = {loss};
      world.all_reduce(sum, ReduceOp::sum, {.label = "loss"});
      return sum[0];
    };
    stepped = zero ? zero->shards() : parameters(stack);
  }
  Sharding(const Sharding&) = delete;
  Sharding& operator=(const Sharding&) = delete;
};

// In bf16 gradients are kept and summed in it too, by stages 1 and 2.
Outcome train(int stage, int ranks, const Sizes& sizes, DType dtype = DType::f32) {
  TransformerConfig config = gpt2_config(2, 64, 4, 32, 256);
  config.dtype = dtype;
  const auto gradients = dtype == DType::bf16 ? std::optional(dtype) : std::nullopt;
  Outcome outcome;
  run_ranks(ranks, [&](Communicator& world) {
    const Transformer model(config);
    const int64_t N = parameter_count(model.stack());
    Sharding sharding(model, world, stage, gradients);
    AdamW optimizer(sharding.stepped);
    const TrainOptions options{.schedule = {0.003, 0.003, 0, sizes.steps}};
    Trainer trainer(sharding.stack, optimizer, options, sharding.hooks);
    const Batches batches(text, config.context, 1);
    const BatchShard mine = batch_shard(sizes.batch, world.size(), world.rank());
    context().ledger.reset();
    std::vector<double> losses;
    for (int64_t step = 0; step < sizes.steps; ++step) {
      const Batch batch = batches.draw(step, mine.begin, mine.end - mine.begin);
      const auto parts = microbatches(batch.inputs, batch.targets, sizes.microbatches, mine.begin);
      losses.push_back(trainer.step(step, parts, sizes.batch * config.context).loss);
    }
    if (world.rank() != 0) return;
    const Ledger& ledger = context().ledger;
    const MemoryCount& memory = *ledger.memory();
    const int64_t small = ledger.traffic("loss").bytes_sent +
                          ledger.traffic("zero.norm").bytes_sent +
                          ledger.traffic("fsdp.norm").bytes_sent;
    outcome = {losses,
               N,
               memory.live(MemoryKind::parameters),
               memory.live(MemoryKind::gradients),
               memory.live(MemoryKind::optimizer),
               (ledger.total_traffic().bytes_sent - small) / sizes.steps,
               memory.peak(MemoryKind::activations)};
  });
  return outcome;
}

// What an author counts for one parameter, in bytes.
struct Account {
  const char* who;
  int64_t weights, gradients, master, moments;
  const char* source;
  int64_t all() const { return weights + gradients + master + moments; }
};
constexpr Account accounts[] = {
    {"CS231n", 2, 2, 0, 4, "Stanford CS231n (2025), lecture 11: all four numbers in 16 bits"},
    {"scaling book", 2, 0, 0, 8, "\"How to Scale Your Model\" (2025), part 5"},
    {"ZeRO", 2, 2, 4, 8, "Rajbhandari et al. (2020), section 3.1"},
    {"Megatron", 2, 4, 4, 8, "Megatron Core's guide, \"Distributed Optimizer\""}};

// The same columns as the ledger counts them on one rank. It does not tell master from moments.
void counted_row(Lesson& lesson, const char* name, const Outcome& o) {
  const auto each = [&](int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(o.parameters);
  };
  lesson.say("{:<15}{:>8.2f}{:>11.2f}{:>17.2f}{:>6.2f}", name, each(o.weights), each(o.gradients),
             each(o.optimizer), each(o.weights + o.gradients + o.optimizer));
}

void bytes_each(Lesson& lesson) {
  lesson.section("Bytes a parameter, as four sources count them, and as the ledger does");
  const double memory = worked_chips()[0].memory;
  lesson.say("{:<15}{:>8}{:>11}{:>8}{:>9}{:>6}{:>28}", "", "weights", "gradients", "master",
             "moments", "all", "parameters in 80 GB, 1e9");
  for (const Account& a : accounts)
    lesson.say("{:<15}{:>8}{:>11}{:>8}{:>9}{:>6}{:>28.1f}", a.who, a.weights, a.gradients, a.master,
               a.moments, a.all(), memory / static_cast<double>(a.all()) / 1e9);
  const Sizes once{.steps = 1};
  lesson.say("{:<15}{:>8}{:>11}{:>17}{:>6}", "counted here:", "weights", "gradients", "optimizer",
             "all");
  counted_row(lesson, "f32", train(0, 1, once));
  counted_row(lesson, "bf16", train(1, 1, once, DType::bf16));
  for (const Account& a : accounts) lesson.say("{}: {}", a.who, a.source);
}

void stages(Lesson& lesson, const Sizes& sizes) {
  constexpr const char* names[] = {"DDP", "stage 1", "stage 2", "stage 3"};
  const Outcome one = train(0, 1, sizes);
  std::vector<Outcome> outcomes;
  for (int stage = 0; stage < 4; ++stage) outcomes.push_back(train(stage, sizes.p(), sizes));
  lesson.section(fmt::format("The same losses on 1 rank and, in each stage, on {}", sizes.ranks));
  for (size_t step = 0; step < one.losses.size(); ++step)
    lesson.say(
        "step {}: {:.3f} on 1 rank; {:.3f} DDP, {:.3f} stage 1, {:.3f} stage 2, {:.3f} stage 3",
        step, one.losses[step], outcomes[0].losses[step], outcomes[1].losses[step],
        outcomes[2].losses[step], outcomes[3].losses[step]);
  lesson.section(
      fmt::format("Bytes that rank 0 of {} holds for each parameter, in f32, and what a step sends",
                  sizes.ranks));
  lesson.say("{:<9}{:>9}{:>11}{:>11}{:>8}{:>22}", "", "weights", "gradients", "optimizer", "all",
             "elements sent");
  for (size_t stage = 0; stage < 4; ++stage) {
    const Outcome& o = outcomes[stage];
    const auto N = static_cast<double>(o.parameters);
    const auto each = [&](int64_t bytes) { return static_cast<double>(bytes) / N; };
    lesson.say("{:<9}{:>9.2f}{:>11.2f}{:>11.2f}{:>8.2f}{:>20.2f} N", names[stage], each(o.weights),
               each(o.gradients), each(o.optimizer), each(o.weights + o.gradients + o.optimizer),
               each(o.bytes_sent) / 4);
    lesson.number(fmt::format("stage{}.bytes", stage),
                  static_cast<double>(o.weights + o.gradients + o.optimizer));
    lesson.number(fmt::format("stage{}.bytes_sent", stage), static_cast<double>(o.bytes_sent));
  }
}

void mixed(Lesson& lesson, const Sizes& sizes) {
  lesson.section(
      fmt::format("Mixed precision: what rank 0 of {} holds in f32 and in bf16", sizes.ranks));
  lesson.say("{:<15}{:>9}{:>11}{:>11}{:>8}{:>18}", "", "weights", "gradients", "optimizer", "all",
             "activations");
  for (const int stage : {1, 2})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Outcome o = train(stage, sizes.p(), sizes, dtype);
      const auto each = [&](int64_t bytes) {
        return static_cast<double>(bytes) / static_cast<double>(o.parameters);
      };
      lesson.say("{:<15}{:>9.2f}{:>11.2f}{:>11.2f}{:>8.2f}{:>14.0f} KiB",
                 fmt::format("stage {}, {}", stage, name(dtype)), each(o.weights),
                 each(o.gradients), each(o.optimizer), each(o.weights + o.gradients + o.optimizer),
                 static_cast<double>(o.activations) / 1024);
      lesson.number(fmt::format("stage{}.{}.activations", stage, name(dtype)),
                    static_cast<double>(o.activations));
    }
}

// ---- who breaks first --------------------------------------------------------------------------

// The largest N, in 1e9, that a stage can hold in M bytes: zero_bytes_held(N) <= M.
double largest(int stage, int64_t ranks, double M) {
  constexpr int64_t sample = 1 << 30;  // divides by every `ranks` of this lesson
  const auto held =
      static_cast<double>(zero_bytes_held(stage, ranks, sample, zero_paper_bytes)) / sample;
  return M / held / 1e9;
}

// The largest models on 64 and 1024 ranks, and on however many there may be.
void breaks_memory(Lesson& lesson) {
  constexpr int64_t any = 1 << 30;
  lesson.section("Who breaks first: the largest model that fits, in 1e9 parameters of 16 bytes");
  lesson.say("{:<10}{:>12}{:>10}{:>10}{:>10}{:>10}{:>12}", "", "memory, GB", "ranks", "DDP",
             "stage 1", "stage 2", "stage 3");
  for (const WorkedChip& chip : worked_chips())
    for (const int64_t ranks : {int64_t{64}, int64_t{1024}, any}) {
      std::string line = fmt::format("{:<10}{:>12.0f}{:>10}", chip.name, chip.memory / 1e9,
                                     ranks == any ? "any" : fmt::format("{}", ranks));
      for (const int stage : {0, 1, 2})
        line += fmt::format("{:>10.1f}", largest(stage, ranks, chip.memory));
      line += ranks == any ? fmt::format("{:>12}", "no limit")
                           : fmt::format("{:>12.1f}", largest(3, ranks, chip.memory));
      lesson.say("{}", line);
    }
}

// Stage 2: forward, backward beside the reduce_scatter, then the step and the all_gather of new
// weights.
void breaks_network(Lesson& lesson, const Sizes& sizes) {
  constexpr double N = 7.5e9;
  constexpr int64_t p = 64;
  lesson.section(
      fmt::format("The network: a step of stage 2 with 7.5 billion parameters on {} {}chips, "
                  "which compute at their peak",
                  p, sizes.faster > 1 ? fmt::format("{} times faster ", sizes.faster) : ""));
  lesson.say("{:<10}{:>15}{:>16}{:>16}{:>15}{:>10}{:>9}", "", "tokens per rank", "computing, ms",
             "gradients, ms", "weights, ms", "step, ms", "MFU, %");
  for (const WorkedChip& chip : worked_chips(static_cast<double>(sizes.faster)))
    for (const double n : {512.0, chip.tokens_to_hide(), 8192.0}) {
      const double forward = 2 * N * n / chip.flops, trip = 2 * N * (p - 1) / p / chip.sends;
      const double step = forward + std::max(2 * forward, trip) + trip;
      lesson.say("{:<10}{:>15.0f}{:>16.1f}{:>16.1f}{:>15.1f}{:>10.1f}{:>9.1f}", chip.name, n,
                 3e3 * forward, 1e3 * trip, 1e3 * trip, 1e3 * step, 100 * 3 * forward / step);
    }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"14", "ZeRO", "what each stage holds and sends, by the formula and by the ledger"},
      [&](Lesson& lesson) {
        if (sizes.faster > 1) return breaks_network(lesson, sizes);
        bytes_each(lesson);
        table(lesson);
        stages(lesson, sizes);
        mixed(lesson, sizes);
        breaks_memory(lesson);
        breaks_network(lesson, sizes);
        if (sizes.draw == 1) std::ofstream("zero.svg") << zero_svg();
        lesson.say("\nNext: write it yourself, ./yotta check 14");
      },
      {{"ranks", "data-parallel ranks", &sizes.ranks, 1, 8},
       {"steps", "optimizer steps", &sizes.steps, 1, 1000},
       {"microbatches", "parts of a rank's batch", &sizes.microbatches, 1, 8},
       {"faster", "only the last table, for chips that compute so many times as fast",
        &sizes.faster, 1, 64},
       {"draw", "1: write zero.svg into this folder", &sizes.draw, 0, 1}});
}
