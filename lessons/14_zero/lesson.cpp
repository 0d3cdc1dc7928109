// Lesson 14: what DDP holds p times over, and what each stage of ZeRO saves of it.
#include "course/shared/lesson.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/zero.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, steps = 4, batch = 8, microbatches = 1;
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
    for (const int64_t P : {int64_t{7'500'000'000}, int64_t{128'000'000'000}}) {
      for (const int stage : {1, 2, 3})
        line += fmt::format(
            "{:>10.2f}",
            static_cast<double>(zero_bytes_held(stage, ranks, P, zero_paper_bytes)) / 1e9);
      line += "    ";
    }
    lesson.say("{}", line.substr(0, line.find_last_not_of(' ') + 1));
  }
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
    const int64_t P = parameter_count(model.stack());
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
               P,
               memory.live(MemoryKind::parameters),
               memory.live(MemoryKind::gradients),
               memory.live(MemoryKind::optimizer),
               (ledger.total_traffic().bytes_sent - small) / sizes.steps,
               memory.peak(MemoryKind::activations)};
  });
  return outcome;
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
    const auto P = static_cast<double>(o.parameters);
    const auto each = [&](int64_t bytes) { return static_cast<double>(bytes) / P; };
    lesson.say("{:<9}{:>9.2f}{:>11.2f}{:>11.2f}{:>8.2f}{:>20.2f} P", names[stage], each(o.weights),
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

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"14", "ZeRO", "what each stage holds and sends, by the formula and by the ledger"},
      [&](Lesson& lesson) {
        table(lesson);
        stages(lesson, sizes);
        mixed(lesson, sizes);
        lesson.say("\nNext: write it yourself, ./yotta check 14");
      },
      {{"ranks", "data-parallel ranks", &sizes.ranks, 1, 8},
       {"steps", "optimizer steps", &sizes.steps, 1, 1000},
       {"microbatches", "parts of a rank's batch", &sizes.microbatches, 1, 8}});
}
