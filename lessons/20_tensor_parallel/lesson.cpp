// Lesson 20: one feed-forward layer on several ranks, cut the right way and the wrong way, and a
// transformer.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/tensor_parallel_picture.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/core/random.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/activations.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t ranks = 4, tokens = 32, width = 64, hidden = 256;
};

// Normal numbers, small enough that a product of two such matrices is of size 1.
Tensor numbers(const Shape& shape, const char* name) {
  Tensor made = Tensor::empty(shape, DType::f64);
  const Random random(20, name);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data<double>()[i] =
        random.normal(static_cast<uint64_t>(i)) / std::sqrt(static_cast<double>(shape[1]));
  return made;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    most = std::max(most, std::abs(a.data<double>()[i] - b.data<double>()[i]));
  return most;
}

std::string text_of(int64_t bytes) { return console::bytes(static_cast<double>(bytes)); }

// "rounding" or "0.31".
std::string size_of(double difference) {
  return difference < 1e-12 ? "rounding" : fmt::format("{:.2f}", difference);
}

// act(x A) B with A cut by columns (and B by rows), and with A cut by rows.
void two_cuts(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format("y = gelu(x A) B on {} ranks: which way to cut A", s.ranks));
  const Tensor x =
      scale(numbers({s.tokens, s.width}, "x"), std::sqrt(static_cast<double>(s.width)));
  const Tensor A = numbers({s.hidden, s.width}, "A"), B = numbers({s.width, s.hidden}, "B");
  const Tensor y = linear(gelu(linear(x, A)), B);
  const auto cut = [&](const Tensor& whole, bool rows,
                       int64_t r) {  // the rank's rows, or its columns
    const int64_t R = whole.dim(0), K = whole.dim(1), p = s.ranks;
    const ShardRange part =
        rows ? ShardRange{R / p, K, r * R / p, 0, R, K} : ShardRange{R, K / p, 0, r * K / p, R, K};
    Tensor held = Tensor::empty({part.rows, part.columns}, DType::f64);
    take_shard(whole, part, held);
    return held;
  };
  Tensor columns_first = Tensor::zeros(y.shape(), DType::f64);
  Tensor rows_first = Tensor::zeros({s.tokens, s.hidden}, DType::f64);
  for (int64_t r = 0; r < s.ranks; ++r) {
    // A weight has a row for each output: a cut of A by columns takes rows of the weight.
    add_into(columns_first, linear(gelu(linear(x, cut(A, true, r))), cut(B, false, r)));
    add_into(rows_first, gelu(linear(cut(x, false, r), cut(A, false, r))));
  }
  const double right = largest_difference(columns_first, y);
  const double wrong = largest_difference(linear(rows_first, B), y);
  lesson.say("A by columns, B by rows: sum of gelu(x A_r) B_r      differs by {}", size_of(right));
  lesson.say("A by rows: gelu(x_0 A_0) + gelu(x_1 A_1) + ...       differs by {}", size_of(wrong));
  lesson.number("difference.columns_first", right);
  lesson.number("difference.rows_first", wrong);
}

// The layer itself, forward and backward.
void costs(Lesson& lesson, const Sizes& s) {
  lesson.section("The layer: what a rank holds, keeps and sends");
  const Tensor x = numbers({s.tokens, s.width}, "x"), dy = numbers({s.tokens, s.width}, "dy");
  const MlpOptions options{MlpKind::gelu, s.width, s.hidden, true};
  Mlp serial("mlp", options, {1, DType::f64});
  Saved whole;
  const Tensor y = serial.forward(x, whole), dx = serial.backward_input(dy, whole);
  lesson.say("{:>5} {:>12} {:>12} {:>16} {:>16} {:>10}", "ranks", "weights", "kept", "sent forward",
             "sent backward", "y, dx");
  for (const int ranks : {1, 2, 4, 8}) {
    int64_t weights = 0, kept = 0;
    double difference = 0;
    const auto reports = run_ranks(ranks, [&](Communicator& tp) {
      Mlp part("mlp", options, {1, DType::f64});
      tensor_parallel(part, std::make_shared<Border>(tp));
      Saved saved;
      const Tensor own_y = part.forward(x, saved);
      const int64_t own_kept = saved.bytes();
      const Tensor own_dx = part.backward_input(dy, saved);
      if (tp.rank() != 0) return;
      difference = std::max(largest_difference(own_y, y), largest_difference(own_dx, dx));
      kept = own_kept;
      std::vector<ParameterPtr> all;
      part.add_parameters(all);
      for (const ParameterPtr& each : all) weights += each->value.numel();
    });
    const Ledger& ledger = reports[0].ledger();
    lesson.say("{:>5} {:>12} {:>12} {:>16} {:>16} {:>10}", ranks, weights, text_of(kept),
               text_of(ledger.traffic("tp.forward").bytes_sent),
               text_of(ledger.traffic("tp.backward").bytes_sent), size_of(difference));
    lesson.number(fmt::format("sent.{}", ranks),
                  static_cast<double>(ledger.traffic("tp.forward").bytes_sent));
  }
}

const TransformerConfig config = gpt2_config(2, 64, 8, 32, 256);

// Three steps of SGD with a vocabulary, heads and feed-forward width over the ranks.
std::vector<double> losses(int ranks, std::vector<RankReport>* reports = nullptr) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "A by columns, B by rows, and nothing is sent between them. ";
  std::vector<double> all;
  auto ended = run_ranks(ranks, [&](Communicator& world) {
    Mesh mesh(world, {.tp = ranks});
    Transformer model(config);
    tensor_parallel(model, mesh[Axis::tp]);
    Sgd optimizer(parameters(model.stack()));
    TrainHooks hooks;
    hooks.loss = vocab_parallel_loss(config.vocabulary, mesh[Axis::tp]);
    hooks.sum_of_squares = [&](double squares) {
      return sum_over(mesh[Axis::tp], squares, "norm");
    };
    Trainer trainer(model.stack(), optimizer, {.schedule = {0.5, 0.5, 0, 3}}, hooks);
    const Batches batches(text, config.context, 1);
    for (int64_t step = 0; step < 3; ++step) {
      const Batch batch = batches.draw(step, 0, 4);
      const StepReport report =
          trainer.step(step, microbatches(batch.inputs, batch.targets, 1), 4 * config.context);
      if (world.rank() == 0) all.push_back(report.loss);
    }
  });
  if (reports != nullptr) *reports = std::move(ended);
  return all;
}

void transformer(Lesson& lesson, const Sizes& s) {
  lesson.section(fmt::format("A whole transformer on {} ranks", s.ranks));
  const std::vector<double> one = losses(1);
  std::vector<RankReport> reports;
  const std::vector<double> many = losses(static_cast<int>(s.ranks), &reports);
  for (size_t step = 0; step < one.size(); ++step)
    lesson.say("step {}: loss {:.4f} on 1 rank, {:.4f} on {}", step, one[step], many[step],
               s.ranks);
  lesson.numbers("loss.serial", one);
  lesson.numbers("loss.parallel", many);

  lesson.section("The loss, without gathering logits");
  const int64_t tokens = 3 * 4 * config.context;  // of three steps
  int64_t sent = 0;
  for (const RankReport& rank : reports) sent += rank.ledger().traffic("tp.loss").bytes_sent;
  const int64_t gathered = (s.ranks - 1) * tokens * config.vocabulary * 4;
  lesson.say("sent by all ranks for the loss of {} tokens: {}", tokens, text_of(sent));
  lesson.say("to gather their logits, {} x {}:          {}", tokens, config.vocabulary,
             text_of(gathered));
}

// ---- who breaks first ----

// What the two all_reduces of a layer travel over.
struct Network {
  const char* name;
  Cluster cluster;
  double bandwidth;       // W: bytes/s that each chip sends in an all_reduce
  CommOptions comm = {};  // of its all_reduces
};

// Chips that all reach each other with the same bandwidth, as on one big switch.
Cluster one_switch(const Chip& chip, double bandwidth) {
  return {chip.name, chip, {{"all", 1024, 1e-6, 1 / bandwidth}}, {}};
}

std::vector<Network> networks() {
  const Chip h100 = chip_named("h100"), v5p = chip_named("v5p");
  Chip faster = h100;
  faster.bf16 *= 8, faster.bandwidth *= 8, faster.launch_overhead /= 8;
  const Cluster nodes = switched(h100, 32);
  const double card = 1 / nodes.levels[1].beta, axis = 2 * v5p.link;  // an axis' two directions
  return {{"H100, NVLink to all", one_switch(h100, h100.link), h100.link},
          {"H100, nodes, all cards", nodes, 8 * card},
          {"H100, nodes, if one card", nodes, card, {Algorithm::ring}},
          {"v5p, one axis", one_switch(v5p, axis), axis},
          {"v5p, three axes", one_switch(v5p, 3 * axis), 3 * axis},
          {"8 times an H100, NVLink", one_switch(faster, h100.link), h100.link}};
}

constexpr TransformerConfig big = llama3_405b();
constexpr int64_t big_tokens = 8192;

// Forward and backward of a rank's part of the feed-forward layer, with the two all_reduces.
double layer_seconds(const Network& network, int tp) {
  const Timed run = run_on(network.cluster, tp, [&](Communicator& group) {
    const DeviceScope meta(Device::meta);
    Mlp part("mlp", {MlpKind::swiglu, big.width, big.feed_forward / tp, false}, {1, DType::bf16});
    const auto sum = [&](Tensor part_of_sum) {
      if (tp > 1) group.all_reduce(part_of_sum, ReduceOp::sum, network.comm);
      return part_of_sum;
    };
    Saved saved;
    const Tensor x = Tensor::empty({1, big_tokens, big.width}, DType::bf16);
    const Tensor y = sum(part.forward(x, saved));  // g
    sum(part.backward_input(y, saved));            // f
    part.backward_weight(saved);
  });
  return run.seconds();
}

void who_breaks_first(Lesson& lesson) {
  lesson.section(fmt::format("Who breaks first: tp < F W / P, with F {}", big.feed_forward));
  lesson.say("{:<26} {:>8} {:>7} {:>13} {:>15}", "", "W, GB/s", "P / W", "tp <, gelu",
             "tp <, SwiGLU");
  for (const Network& network : networks()) {
    const double ridge = network.cluster.chip.bf16 / network.bandwidth;
    const double most = static_cast<double>(big.feed_forward) / ridge;
    lesson.say("{:<26} {:>8.0f} {:>7.0f} {:>13.1f} {:>15.1f}", network.name,
               1e-9 * network.bandwidth, ridge, most, 1.5 * most);
    lesson.number(fmt::format("bound.{}", network.name), most);
  }
  lesson.section(fmt::format("SwiGLU of {} tokens, C {}, forward and backward in bf16: time, MFU",
                             big_tokens, big.width));
  const double flops =
      18.0 * static_cast<double>(big_tokens) * static_cast<double>(big.width * big.feed_forward);
  std::string header = fmt::format("{:<26}", "");
  for (const int tp : {1, 4, 8, 16, 32}) header += fmt::format("{:>16}", fmt::format("tp {}", tp));
  lesson.say("{}", header);
  for (const Network& network : networks()) {
    std::string line = fmt::format("{:<26}", network.name);
    for (const int tp : {1, 4, 8, 16, 32}) {
      const double seconds = layer_seconds(network, tp);
      const double mfu = flops / tp / seconds / network.cluster.chip.bf16;
      line += fmt::format("{:>8.2f} ms{:>4.0f}%", 1e3 * seconds, 100 * mfu);
      lesson.number(fmt::format("mfu.{}.{}", network.name, tp), mfu);
    }
    lesson.say("{}", line);
  }
}

void draw(Lesson& lesson) {
  std::ofstream("tensor_parallel.svg") << tensor_parallel_svg();
  lesson.say("drawn in tensor_parallel.svg");
}

void mistakes(Lesson& lesson) {
  lesson.section("A mistake: heads that do not divide");
  try {
    run_ranks(3, [](Communicator& world) {
      Transformer model(config);
      tensor_parallel(model, world);
    });
  } catch (const std::exception& error) {
    lesson.say("{}", error.what());
  }
  lesson.section("Who holds what: 8 ranks as tp 2 x pp 2 x dp_shard 2");
  lesson.show(picture({.tp = 2, .pp = 2, .dp_shard = 2}));
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(argc, argv,
                    {"20", "Tensor parallelism", "one layer on several ranks: columns, then rows"},
                    [&](Lesson& lesson) {
                      if (8 % sizes.ranks != 0 || sizes.width % 8 != 0 || sizes.hidden % 8 != 0)
                        fail(Where::current(),
                             "{} ranks, C {}, F {}: take 1, 2, 4 or 8 ranks, "
                             "and multiples of 8 for C and F",
                             sizes.ranks, sizes.width, sizes.hidden);
                      if (drawn != 0) draw(lesson);
                      two_cuts(lesson, sizes);
                      costs(lesson, sizes);
                      transformer(lesson, sizes);
                      who_breaks_first(lesson);
                      mistakes(lesson);
                      lesson.say("\nNext: write it yourself, ./yotta check 20");
                    },
                    {{"ranks", "of the tensor-parallel group: 1, 2, 4 or 8", &sizes.ranks, 1, 8},
                     {"tokens", "of the layer's input", &sizes.tokens, 1, 4096},
                     {"width", "C, a multiple of 8", &sizes.width, 8, 4096},
                     {"hidden", "F, a multiple of 8", &sizes.hidden, 8, 16384},
                     {"draw", "1: write tensor_parallel.svg into this folder", &drawn, 0, 1}});
}
