// Lesson 13: one transformer on one rank and on several, and what its gradients' journey costs.
#include <cmath>
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/ddp_picture.hpp"
#include "course/pictures/staleness_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;

namespace {

// A text that never changes, so that the numbers in the lesson do not either.
const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all +=
        "Each rank holds the whole model and a share of the batch. After backward the ranks add up "
        "their gradients, so all of them take the same step. ";
  return all;
}();

enum class How { alone, naive, bucketed, overlapped };
constexpr const char* name(How how) {
  constexpr const char* names[] = {"alone", "naive", "bucketed", "overlapped"};
  return names[static_cast<int>(how)];
}

struct Sizes {
  int ranks = 4;
  int64_t steps = 5, batch = 8, bucket_bytes = 100'000;
};

struct Outcome {
  std::vector<double> loss;
  int buckets = 0, launched_when_backward_ended = 0;
  int64_t all_reduces = 0, bytes_by_all = 0, gradient_bytes = 0;
};

const TransformerConfig config = gpt2_config(2, 64, 4, 32, 256);

// Trains with SGD, which shows a wrong scale at once (AdamW would hide it).
void train(Communicator& world, How how, const Sizes& sizes, Outcome& outcome) {
  const Transformer model(config);
  const std::vector<ParameterPtr> all = parameters(model.stack());
  Sgd optimizer(all);
  TrainHooks hooks;
  std::optional<Ddp> ddp;
  int launched = 0;
  if (how == How::naive) {
    hooks.after_backward = [&] { reduce_gradients(all, world, ReduceOp::sum); };
  } else {
    ddp.emplace(all, world, DdpOptions{sizes.bucket_bytes, ReduceOp::sum, how == How::overlapped});
    hooks.after_backward = [&] {
      launched = ddp->launched();
      ddp->finish();
    };
  }
  hooks.sum_over_ranks = [&](double loss) { return sum_over(world, loss, "loss"); };
  hooks.world = world;
  Trainer trainer(model.stack(), optimizer, {.schedule = {0.5, 0.5, 0, sizes.steps}}, hooks);
  const Batches batches(text, config.context, 1);
  const BatchShard mine = batch_shard(sizes.batch, world.size(), world.rank());
  std::vector<double> losses;
  for (int64_t step = 0; step < sizes.steps; ++step) {
    const Batch batch = batches.draw(step, mine.begin, mine.end - mine.begin);
    losses.push_back(trainer
                         .step(step, microbatches(batch.inputs, batch.targets, 1, mine.begin),
                               sizes.batch * config.context)
                         .loss);
  }
  if (world.rank() != 0) return;
  outcome.loss = losses;
  outcome.buckets = ddp ? ddp->buckets() : static_cast<int>(all.size());
  outcome.launched_when_backward_ended = launched;
  outcome.gradient_bytes = 4 * parameters(config);
}

Outcome run(int ranks, How how, const Sizes& sizes) {
  Outcome outcome;
  for (const RankReport& rank :
       run_ranks(ranks, [&](Communicator& world) { train(world, how, sizes, outcome); }))
    outcome.bytes_by_all += rank.ledger().traffic("ddp.gradients").bytes_sent;
  return outcome;
}

void same_losses(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("The same losses on 1 rank and on {}", sizes.ranks));
  const Outcome one = run(1, How::overlapped, sizes);
  const Outcome many = run(sizes.ranks, How::overlapped, sizes);
  for (size_t step = 0; step < one.loss.size(); ++step)
    lesson.say("step {}: loss {:.3f} on 1 rank, {:.3f} on {} ranks", step, one.loss[step],
               many.loss[step], sizes.ranks);
  lesson.numbers("loss.serial", one.loss);
  lesson.numbers("loss.parallel", many.loss);
}

void traffic(Lesson& lesson, const Sizes& sizes) {
  const double formula =
      static_cast<double>(sizes.steps * ddp_bytes_sent_by_all(sizes.ranks, 4 * parameters(config)));
  lesson.section("Three ways to reduce the gradients");
  lesson.say("{:<9} {:>20} {:>26} {:>10}", "", "all_reduces per step",
             "bytes sent by all / 2(p-1)G", "launched");
  for (const How how : {How::naive, How::bucketed, How::overlapped}) {
    const Outcome outcome = run(sizes.ranks, how, sizes);
    lesson.say("{:<11} {:>18} {:>26.4f} {:>7} of {}", name(how), outcome.buckets,
               sizes.ranks > 1 ? static_cast<double>(outcome.bytes_by_all) / formula : 1.0,
               outcome.launched_when_backward_ended, outcome.buckets);
    lesson.number(fmt::format("{}.all_reduces", name(how)), outcome.buckets);
    lesson.number(fmt::format("{}.bytes_sent_by_all", name(how)),
                  static_cast<double>(outcome.bytes_by_all));
  }
  lesson.say("(launched: how many had left when backward ended)");
}

// What a rank computes for its sequences: matmuls with weights, and attention's with activations,
// forward and backward (PaLM, appendix B).
double model_flops_of_rank(const TransformerConfig& model, int64_t sequences) {
  const auto context = static_cast<double>(model.context);
  const double per_token = 6.0 * static_cast<double>(parameters(model)) +
                           12.0 * static_cast<double>(model.layers * model.width) * context;
  return per_token * static_cast<double>(sequences) * context;
}

constexpr int64_t usual_sequences = 4;  // of a rank

// Forward and backward of GPT-2, 124M, in bf16 on a described machine: its real code, without data.
Timed step_on(const std::string& machine, int ranks, How how, CommOptions comm,
              int64_t sequences = usual_sequences) {
  return run_on(cluster_named(machine), ranks, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    TransformerConfig gpt2 = gpt2_124m();
    gpt2.dtype = DType::bf16;
    const Transformer model(gpt2);
    const std::vector<ParameterPtr> all = parameters(model.stack());
    std::optional<Ddp> ddp;
    if (how >= How::bucketed)
      ddp.emplace(all, world, DdpOptions{25 << 20, ReduceOp::sum, how == How::overlapped, comm});
    Saved saved;
    const Tensor ids = Tensor::zeros({sequences, gpt2.context}, DType::i32);
    backward(model.stack(), forward(model.stack(), ids, saved), saved);
    if (ddp) ddp->finish();
    if (how == How::naive) reduce_gradients(all, world, ReduceOp::sum);
  });
}

// A machine, and how its all_reduces are done.
struct Setup {
  const char *title, *key;
  const char* machine;
  int ranks;
  CommOptions comm;
};
const Setup setups[] = {
    {"8, one node", "one_node", "h100x8", 8, {}},
    {"16, all cards", "two_nodes", "h100x16", 16, {}},
    {"16, ring per card", "two_nodes_multi_rail", "h100x16", 16, {Algorithm::multi_rail}},
    {"16, if one card", "two_nodes_one_ring", "h100x16", 16, {Algorithm::ring}}};

void on_a_machine(Lesson& lesson) {
  const double flops = model_flops_of_rank(gpt2_124m(), usual_sequences);
  const double peak = chip_named("h100").bf16;
  lesson.section("A step of GPT-2 (124M) in bf16 on H100s, on the virtual clock: time and MFU");
  std::string header = fmt::format("{:<12}", "");
  for (const Setup& setup : setups) header += fmt::format("{:>22}", setup.title);
  lesson.say("{}", header);
  for (const How how : {How::alone, How::naive, How::bucketed, How::overlapped}) {
    std::string line = fmt::format("{:<12}", name(how));
    for (const Setup& setup : setups) {
      if (how == How::naive && setup.comm.algorithm != Algorithm::automatic) {
        line += fmt::format("{:>22}", "-");  // reduce_gradients leaves the choice to comm/
        continue;
      }
      const double seconds = step_on(setup.machine, setup.ranks, how, setup.comm).seconds();
      line += fmt::format("{:>13.2f} ms {:>4.1f}%", 1e3 * seconds, 100 * flops / seconds / peak);
      lesson.number(fmt::format("{}.{}_seconds", name(how), setup.key), seconds);
    }
    lesson.say("{}", line);
  }
  lesson.say("MFU: {:.2f} TFLOP of the model / time / {:.1f} TFLOP/s", 1e-12 * flops, 1e-12 * peak);
  for (const Setup& setup : {setups[0], setups[1], setups[3]}) {
    const Trace trace = step_on(setup.machine, setup.ranks, How::overlapped, setup.comm).trace;
    lesson.show(fmt::format("\n{}, overlapped:\n{}", setup.title,
                            timeline_text(make_timeline(trace, 1), 72, console::colored())));
  }
}

// ---- who breaks first

// Chips, and how many bytes/s of one array a collective over all of them brings to each.
struct Network {
  std::string title;
  double flops, bandwidth;

  // Tokens a chip at which the all_reduce of bf16 gradients takes as long as backward.
  double tokens() const { return flops / bandwidth; }
};

std::vector<Network> networks() {
  const Chip& h100 = chip_named("h100");
  const Chip& v5p = chip_named("v5p");
  const double cards = h100.domain / cluster_named("h100x16").levels.back().beta;
  const double axis = 2 * v5p.link;  // both ways round
  return {{"H100, between nodes", h100.bf16, cards},
          {"TPU v5p, one axis", v5p.bf16, axis},
          {"TPU v5p, three axes", v5p.bf16, 3 * axis},
          {"H100, 8 times FLOP/s", 8 * h100.bf16, cards}};
}

void thresholds(Lesson& lesson) {
  const double batch = 16e6;
  lesson.section(
      "Who breaks first: tokens per chip below which gradients take longer than backward");
  lesson.say("{:<24}{:>12}{:>10}{:>18}{:>22}", "", "TFLOP/s", "GB/s", "tokens per chip",
             "chips for 16e6 tokens");
  for (const Network& network : networks()) {
    lesson.say("{:<24}{:>12.1f}{:>10.0f}{:>18.0f}{:>22.0f}", network.title, 1e-12 * network.flops,
               1e-9 * network.bandwidth, network.tokens(), std::floor(batch / network.tokens()));
    lesson.number(fmt::format("threshold.{}", network.title), network.tokens());
  }
}

// A step of a model whose matrix products run at the chip's peak, gradients behind backward.
void steps_at_peak(Lesson& lesson) {
  const auto weights = static_cast<double>(parameters(llama3_8b()));
  lesson.say("\nLlama 3 8B at the peak, gradients in bf16 behind backward:");
  lesson.say("{:<23}{:>15}{:>12}{:>12}{:>12}{:>14}", "", "tokens per chip", "backward", "gradients",
             "step", "MFU at most");
  for (const Network& network : networks())
    for (const double tokens : {8192.0, 1024.0}) {
      const double forward = 2 * weights * tokens / network.flops, backward = 2 * forward;
      const double gradients = 2 * 2 * weights / network.bandwidth;
      const double step = forward + std::max(backward, gradients);
      lesson.say("{:<24}{:>14.0f}{:>9.1f} ms{:>9.1f} ms{:>9.1f} ms{:>13.1f}%",
                 tokens > 5000 ? network.title : "", tokens, 1e3 * backward, 1e3 * gradients,
                 1e3 * step, 100 * (forward + backward) / step);
    }
}

// The same on the virtual clock, with latencies, f32 gradients and a last bucket.
void steps_on_the_clock(Lesson& lesson) {
  const double peak = chip_named("h100").bf16;
  lesson.say("\nGPT-2 124M on 16 H100 in two nodes, run on the clock (all cards, f32):");
  lesson.say("{:>14}{:>14}{:>20}", "tokens per GPU", "alone", "overlapped");
  for (const int64_t sequences : {16, 4, 1}) {
    const double flops = model_flops_of_rank(gpt2_124m(), sequences);
    std::string line = fmt::format("{:>14}", sequences * gpt2_124m().context);
    for (const How how : {How::alone, How::overlapped}) {
      const double seconds = step_on("h100x16", 16, how, {}, sequences).seconds();
      line += fmt::format("{:>9.2f} ms {:>5.1f}%", 1e3 * seconds, 100 * flops / seconds / peak);
      lesson.number(fmt::format("{}.{}_sequences_seconds", name(how), sequences), seconds);
    }
    lesson.say("{}", line);
  }
}

// The short form, with round figures: alpha lg p <= (B T / P - beta) N.
void short_form(Lesson& lesson) {
  struct Case {
    const char* title;
    double bandwidth, sequences;
    int ranks;
  };
  const double alpha = 1e-6, flops = 1500e12, tokens = 8e3;
  lesson.say("\nThe short inequality (alpha 1 us, P = 1500 TFLOP/s, T = 8000 tokens):");
  for (const Case& each : {Case{"between nodes", 50e9, 4, 1024}, {"in a node", 1e12, 1, 8}}) {
    const double least =
        alpha * std::log2(each.ranks) / (each.sequences * tokens / flops - 1 / each.bandwidth);
    lesson.say(
        "{:<14} 1/beta {:>4.0f} GB/s: B at least {:.2f}; B = {}, p = {}: N at least {:.1f} million",
        each.title, 1e-9 * each.bandwidth, flops / each.bandwidth / tokens, each.sequences,
        each.ranks, 1e-6 * least);
    lesson.number(fmt::format("short.{}", each.title), flops / each.bandwidth / tokens);
  }
}

void who_breaks_first(Lesson& lesson) {
  thresholds(lesson);
  steps_at_peak(lesson);
  steps_on_the_clock(lesson);
  short_form(lesson);
}

// ---- without waiting, and with larger batches

// The largest |w| of the last 50 of 400 steps of stale_descent.
double largest_at_the_end(double rate, int staleness) {
  const std::vector<double> w = stale_descent(rate, staleness, 400);
  double largest = 0;
  for (size_t step = 351; step <= 400; ++step) largest = std::max(largest, std::abs(w[step]));
  return largest;
}

void old_gradients(Lesson& lesson) {
  lesson.section("Asynchronous SGD: a gradient that is some steps old");
  lesson.say("{:<22}{:>12}{:>12}{:>12}", "steps old", "rate 0.30", "rate 0.10", "rate 0.03");
  for (const int staleness : {0, 1, 3, 7, 15, 31}) {
    std::string line = fmt::format("{:<22}", staleness);
    for (const double rate : {0.3, 0.1, 0.03}) {
      const double w = largest_at_the_end(rate, staleness);
      line += fmt::format("{:>12}", w < 1e-2 ? "at 0" : w < 1 ? "nears 0" : "diverges");
    }
    lesson.say("{}", line);
  }
}

void batch_sizes(Lesson& lesson) {
  lesson.section("Batches around the critical one");
  lesson.say("{:>22}{:>22}{:>22}", "batch / critical", "steps / fewest", "tokens / fewest");
  for (const double ratio : {0.25, 1.0, 4.0, 16.0})
    lesson.say("{:>22}{:>22.2f}{:>22.2f}", ratio, 1 + 1 / ratio, 1 + ratio);
}

void same_data(Lesson& lesson, const Sizes& sizes) {
  lesson.section("Mistake: the sampler forgot the rank");
  try {
    run_ranks(sizes.ranks, [&](Communicator& world) {
      const Batches batches(text, config.context, 1);
      check_ranks_differ(batches.draw(0, 0, 2).inputs, world);
    });
  } catch (const std::exception& error) {
    lesson.say("{}", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t ranks = sizes.ranks, machines = 1, draw = 0;
  return run_lesson_on_processes(
      argc, argv,
      {"13", "DDP", "losses on one rank and on several, and three ways to reduce gradients"},
      [&](Lesson& lesson) {
        sizes.ranks = static_cast<int>(ranks);
        if (draw != 0) {
          std::ofstream("ddp.svg") << ddp_svg();
          std::ofstream("staleness.svg") << staleness_svg();
          lesson.say("drawn in ddp.svg and staleness.svg");
        }
        same_losses(lesson, sizes);
        traffic(lesson, sizes);
        if (machines != 0) {
          on_a_machine(lesson);
          who_breaks_first(lesson);
        }
        old_gradients(lesson);
        batch_sizes(lesson);
        same_data(lesson, sizes);
        lesson.say("\nNext: write it yourself, ./yotta check 13");
      },
      {{"ranks", "data-parallel ranks", &ranks, 1, 16},
       {"steps", "optimizer steps", &sizes.steps, 1, 10'000},
       {"batch", "sequences of all ranks together", &sizes.batch, 1, 1024},
       {"bucket-bytes", "gradients that travel together", &sizes.bucket_bytes, 1, 1 << 30},
       {"machines", "0: without the described machines", &machines, 0, 1},
       {"draw", "1: write ddp.svg and staleness.svg into this folder", &draw, 0, 1}});
}
