// Lesson 18: pipeline schedules drawn, run on the virtual clock, and one transformer on one rank
// and on four.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/cluster.hpp"
#include "yotta/model/pipelined.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/pipeline_picture.hpp"
#include "yotta/parallel/tied_parameters.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, microbatches = 8, chunks = 2, draw = 0;
  int p() const { return static_cast<int>(ranks); }
};

struct Choice {
  PipelineKind kind;
  int chunks;
};
std::vector<Choice> choices(const Sizes& sizes) {
  return {{PipelineKind::naive, 1},
          {PipelineKind::gpipe, 1},
          {PipelineKind::one_f_one_b, 1},
          {PipelineKind::interleaved, static_cast<int>(sizes.chunks)}};
}

// How many microbatches fit on a line of a terminal.
int64_t drawn(PipelineKind kind, const Sizes& sizes) {
  if (kind == PipelineKind::naive) return std::min<int64_t>(2, sizes.microbatches);
  if (kind == PipelineKind::interleaved) return std::min(sizes.ranks, sizes.microbatches);
  return std::min<int64_t>(8, sizes.microbatches);
}

void pictures(Lesson& lesson, const Sizes& sizes) {
  for (const auto& [kind, chunks] : choices(sizes)) {
    const PipelineTimeline timeline =
        simulate(make_schedule(kind, sizes.p(), sizes.microbatches, chunks));
    const int64_t m = drawn(kind, sizes);
    lesson.section(fmt::format("{}: {} microbatches, {:.1f}% busy{}", name(kind),
                               sizes.microbatches, 100 * timeline.busy(),
                               m < sizes.microbatches ? fmt::format(" (drawn: {})", m) : ""));
    lesson.show(
        picture(simulate(make_schedule(kind, sizes.p(), m, chunks)), 1, console::colored()));
    if (sizes.draw == 0 || kind == PipelineKind::naive) continue;
    const std::string file =
        fmt::format("pipeline_{}.svg", kind == PipelineKind::gpipe         ? "gpipe"
                                       : kind == PipelineKind::one_f_one_b ? "1f1b"
                                                                           : "interleaved");
    std::ofstream(file) << svg(timeline, caption(timeline));
    lesson.say("drawn in {}", file);
  }
}

void lists(Lesson& lesson, const Sizes& sizes) {
  lesson.section("A schedule is a list of actions: 1F1B");
  const PipelineSchedule schedule =
      make_schedule(PipelineKind::one_f_one_b, sizes.p(), sizes.microbatches);
  for (int rank = 0; rank < sizes.p(); ++rank)
    lesson.say("rank {}: {}", rank, str(schedule.by_rank[static_cast<size_t>(rank)]));
}

// One step of the linear net with equal stages, on machine ideal. Returns the busy share of all
// ranks.
struct Measured {
  double busy = 0;
  int64_t messages = 0, most_saved = 0;
};
Measured run_linear_net(const Choice& choice, const Sizes& sizes) {
  const int stages = sizes.p() * choice.chunks;
  const LinearNetConfig net{2 * stages, 8};
  Measured measured;
  const Timed run = run_on(ideal(), sizes.p(), [&](Communicator& pp) {
    std::vector<std::vector<LayerPtr>> layers;
    for (int c = 0; c < choice.chunks; ++c) {
      const StageLayers mine = layers_of_stage(net.layers, stages, pp.rank() + c * sizes.p());
      layers.push_back(make_linear_net(net, mine.first, mine.last));
    }
    Pipeline pipeline(pp, {layers.begin(), layers.end()});
    const std::vector<PipelineMicrobatch> microbatches(
        static_cast<size_t>(sizes.microbatches),
        {Tensor::full({4, net.width}, 1), {4, net.width}, DType::f32, {}});
    const PipelineReport report =
        pipeline.run(make_schedule(choice.kind, sizes.p(), sizes.microbatches, choice.chunks),
                     microbatches, [](size_t, const Tensor& y, Tensor& dy) {
                       dy = y.clone();
                       return 0.0;
                     });
    if (pp.rank() == 0) measured.most_saved = report.most_saved;
  });
  for (int rank = 0; rank < sizes.p(); ++rank) {
    measured.busy += run.busy_share(rank) / sizes.p();
    measured.messages +=
        run.reports[static_cast<size_t>(rank)].ledger().traffic("send").messages_sent;
  }
  return measured;
}

void measure(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("Run on {} ranks, {} microbatches, machine ideal", sizes.ranks,
                             sizes.microbatches));
  lesson.say("{:<18}{:>10}{:>12}{:>26}{:>11}", "", "busy", "1 - bubble", "rank 0 holds at once",
             "messages");
  for (const Choice& choice : choices(sizes)) {
    const Measured measured = run_linear_net(choice, sizes);
    const double formula = choice.kind == PipelineKind::naive
                               ? 1.0 / sizes.p()
                               : 1 - bubble_of_total(sizes.p(), sizes.microbatches, choice.chunks);
    lesson.say("{:<18}{:>9.2f}%{:>11.2f}%{:>15} x 1/{} stage{:>11}", name(choice.kind),
               100 * measured.busy, 100 * formula, measured.most_saved, choice.chunks,
               measured.messages);
    lesson.number(fmt::format("{}.busy", name(choice.kind)), measured.busy);
  }
}

void more_stages(Lesson& lesson) {
  lesson.section("More stages on the same GPUs and batch");
  for (const int p : {2, 4, 8, 16})
    lesson.say("p = {:>2}, m = {:>2}: bubble {:.1f}%, in flight on rank 0: {}", p, p,
               100 * bubble_of_total(p, p), in_flight_1f1b(0, p, p));
}

// Llama 3 405B as it was trained on 8192 H100 ("The Llama 3 Herd of Models", arXiv 2407.21783,
// table 4): groups of 8 for tensor parallelism, 16 stages, and 32 sequences of 8192 tokens a copy,
// here one a microbatch.
struct LargeRun {
  TransformerConfig model = llama3_405b();
  int tp = 8, p = 16;
  int64_t m = 32, tokens = 8192;

  // Seconds of F in one of a rank's v chunks, on chips of so many FLOP/s: stages are equal, kernels
  // at the peak.
  double forward(double flops, int v) const {
    return step_flops(model, 1, tokens) / 3 / tp / (p * v) / flops;
  }
  // Bytes of a message: each of the tp ranks of a stage sends its share of (1, T, C) in bf16.
  double message_bytes() const { return 2.0 * static_cast<double>(tokens * model.width) / tp; }
};

// A chip, its FLOP/s, and the link over which its messages go.
struct Row {
  const char* name;
  double flops;
  Link link;
};

// A table: 1F1B and 8 chunks on each of the chips.
void breaks(Lesson& lesson, const std::vector<Row>& rows) {
  const LargeRun run;
  lesson.say("{:<18}{:>3}{:>11}{:>9}{:>8}{:>10}{:>10}{:>8}{:>13}", "", "v", "F of chunk", "message",
             "waited", "step", "idle", "bubble", "MFU at most");
  for (const Row& row : rows)
    for (const int v : {1, 8}) {
      const double forward = run.forward(row.flops, v),
                   message = row.link.seconds(run.message_bytes());
      const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, run.p, run.m, v);
      const PipelineTimeline timeline = simulate(schedule, {forward, forward, forward, message});
      const double without = simulate(schedule, {forward, forward, forward, 0}).length;
      lesson.say(
          "{:<18}{:>3}{:>8.2f} ms{:>6.2f} ms{:>8.0f}{:>7.0f} ms{:>7.0f} ms{:>7.1f}%{:>12.1f}%",
          row.name, v, 1e3 * forward, 1e3 * message, (timeline.length - without) / message,
          1e3 * timeline.length, 1e3 * (1 - timeline.busy()) * timeline.length,
          100 * (1 - timeline.busy()), 100 * timeline.busy());
      lesson.number(fmt::format("breaks.{}.v{}.mfu", row.name, v), timeline.busy());
    }
}

void who_breaks_first(Lesson& lesson) {
  const Chip &h100 = chip_named("h100"), &v5p = chip_named("v5p");
  const Link rack = llama3_24k().link(0, 8), neighbour = torus(v5p, {16, 16, 32}).link(0, 1);
  lesson.section("Who breaks first: Llama 3 405B, 16 stages, 32 microbatches, kernels at the peak");
  breaks(lesson, {{"H100", h100.bf16, rack}, {"TPU v5p", v5p.bf16, neighbour}});
  lesson.section("GPUs 8 times faster, the same network");
  breaks(lesson, {{"H100, 8 x faster", 8 * h100.bf16, rack}});
}

const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all +=
        "A pipeline is full in the middle and empty at its ends, and the ends cost the same "
        "whether the middle is short or long. ";
  return all;
}();

// Losses of a few steps with tied embeddings: on `p` ranks, 1F1B.
std::vector<double> losses(int p, int64_t microbatch_count) {
  const TransformerConfig config = gpt2_config(6, 48, 4, 32, 256);
  const int64_t sequences = 2 * microbatch_count, steps = 4;
  std::vector<double> loss;
  run_ranks(p, [&](Communicator& pp) {
    const StageLayers mine = stage_entries(config, p, pp.rank());
    const Transformer stage(config, mine.first, mine.last);
    const std::vector<ParameterPtr> all = parameters(stage.stack());
    Sgd optimizer(all);
    Pipeline pipeline(pp, {stage.stack()});
    TiedParameters tied(all, pp);
    const Batches batches(text, config.context, 1);
    for (int64_t step = 0; step < steps; ++step) {
      zero_gradients(stage.stack());
      const Batch batch = batches.draw(step, 0, sequences);
      const PipelineReport report = run_pipelined(
          pipeline, p, {.width = config.width}, {.step = step, .training = true},
          microbatches(batch.inputs, batch.targets, microbatch_count), sequences * config.context);
      tied.reduce();
      optimizer.step(0.2, 1);
      if (pp.rank() + 1 == p) loss.push_back(report.loss);
    }
  });
  return loss;
}

void same_losses(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("One transformer, tied embeddings, on 1 rank and on {}", sizes.ranks));
  const std::vector<double> one = losses(1, sizes.microbatches),
                            many = losses(sizes.p(), sizes.microbatches);
  for (size_t step = 0; step < one.size(); ++step)
    lesson.say("step {}: loss {:.3f} on 1 rank, {:.3f} on {} ranks", step, one[step], many[step],
               sizes.ranks);
  lesson.numbers("loss.serial", one);
  lesson.numbers("loss.pipelined", many);
}

void blocking(Lesson& lesson) {
  lesson.section("Mistake: sends that wait for their receiver");
  RunOptions options;
  options.buffered_sends = false;
  try {
    run_ranks(
        2,
        [](Communicator& pp) {  // 1F1B in the middle: F1 goes down while B0's dx comes up
          std::vector<float> y(4), dx(4);
          const int other = 1 - pp.rank();
          pp.send(y, other);
          pp.recv(dx, other);
        },
        options);
  } catch (const Deadlock& error) {
    lesson.say("{}", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  return run_lesson(
      argc, argv,
      {"18", "Pipelines",
       "four schedules drawn, run on a virtual clock, and checked against one rank"},
      [&](Lesson& lesson) {
        pictures(lesson, sizes);
        lists(lesson, sizes);
        measure(lesson, sizes);
        more_stages(lesson);
        who_breaks_first(lesson);
        same_losses(lesson, sizes);
        blocking(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 18");
      },
      {{"ranks", "pipeline ranks, p", &sizes.ranks, 1, 8},
       {"microbatches", "microbatches, m", &sizes.microbatches, 1, 64},
       {"chunks", "chunks per rank when interleaved, v", &sizes.chunks, 1, 8},
       {"draw", "1: write the schedules as pipeline_*.svg into this folder", &sizes.draw, 0, 1}});
}
