// Lesson 05: where a transformer's time goes, how much arithmetic memory hides, a function captured
// as a graph, fused, compiled, differentiated; and what a compiler's own loops miss.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "counts.hpp"
#include "course/lesson/lesson.hpp"
#include "course/pictures/cut_picture.hpp"
#include "course/pictures/multiplies_picture.hpp"
#include "loops.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/device/fused_program.hpp"
#include "yotta/device/pictures/graph_picture.hpp"
#include "yotta/machine/clock.hpp"
#include "yotta/machine/roofline.hpp"
#include "yotta/nn/softmax.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/graph_collectives.hpp"

using namespace yotta;

namespace {

struct Options {
  int64_t milliseconds = 0, draw = 0, rows = 64, columns = 512;
};

// ---- operator classes ----
enum Class { contraction, normalisation, elementwise };

// Adds up FLOPs and, on each chip, seconds of every operation, by class.
class Classes : public CostSink {
 public:
  Classes(std::vector<Chip> chips, const TransformerConfig& config, int64_t batch)
      : chips_(std::move(chips)), seconds(chips_.size()), config_(config), batch_(batch) {}

  void op(const OpCost& cost) override {
    const std::string_view name = cost.name;
    if (name.starts_with("attention")) return attention(cost, name.ends_with("backward"));
    const bool product = name.starts_with("linear");
    const bool norm = name.find("norm") != name.npos || name.find("entropy") != name.npos;
    add(product ? contraction : norm ? normalisation : elementwise, cost);
  }
  EventStamp send(const MessageCost&) override { return {}; }
  void receive(const MessageCost&, const EventStamp&) override {}
  EventStamp now(int) override { return {}; }
  void wait(int, const EventStamp&) override {}

 private:
  // Our op has the products, the softmax, scale, mask and dropout in one; here each is a kernel.
  void attention(const OpCost& cost, bool backward) {
    const int64_t n = batch_ * config_.heads * config_.context * config_.context;
    add(contraction, cost);
    add(normalisation,
        backward ? softmax_backward_cost(cost.dtype, n) : softmax_cost(cost.dtype, n));
    add(elementwise, elementwise_cost("scale and mask", cost.dtype, n, 2, 1, 1));
    add(elementwise, elementwise_cost("dropout", cost.dtype, n, 2, 1, 1));
  }
  void add(Class kind, const OpCost& cost) {
    flops[kind] += cost.flops;
    for (size_t c = 0; c < chips_.size(); ++c) seconds[c][kind] += op_seconds(chips_[c], cost);
  }
  std::vector<Chip> chips_;

 public:
  std::array<double, 3> flops{};
  std::vector<std::array<double, 3>> seconds;

 private:
  TransformerConfig config_;
  int64_t batch_;
};

void classes(Lesson& lesson) {
  lesson.section("Where a training step's time goes: BERT-large's sizes, 8 sequences of 512, bf16");
  TransformerConfig config = gpt2_config(24, 1024, 16, 512, 30522);
  config.dtype = DType::bf16;
  config.attention = AttentionKind::plain;
  config.dropout = 0.1;
  const int64_t batch = 8;
  // A V100, and the same chip without tensor cores.
  Chip v100 = chip_named("a100");
  v100.bf16 = 125e12, v100.bandwidth = 0.9e12;
  Chip plain = v100;
  plain.bf16 = 15.7e12;
  Classes counted({plain, v100, chip_named("a100"), chip_named("h100")}, config, batch);
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const Transformer model(config);
  rank.clock = &counted;
  Saved saved(BatchPosition{.training = true});
  const Tensor ids = Tensor::empty({batch, config.context}, DType::i32);
  const Tensor logits = forward(model.stack(), ids, saved);
  backward(model.stack(), logits.clone(), saved);
  rank.clock = nullptr;
  console::Table table({"share of", "contractions", "normalisations", "element by element"});
  const auto row = [&](const std::string& name, const std::array<double, 3>& parts) {
    const double sum = parts[0] + parts[1] + parts[2];
    table.row({name, fmt::format("{:.2f}%", 100 * parts[0] / sum),
               fmt::format("{:.2f}%", 100 * parts[1] / sum),
               fmt::format("{:.2f}%", 100 * parts[2] / sum)});
    lesson.number(name + ".contractions", parts[0] / sum);
  };
  row("FLOPs, published (BERT)", {99.8, 0.17, 0.03});
  row("FLOPs, ours", counted.flops);
  row("time, published (V100)", {61.0, 25.5, 13.5});
  const char* names[] = {"time, V100 without tensor cores", "time, V100", "time, A100",
                         "time, H100"};
  for (size_t c = 0; c < 4; ++c) row(names[c], counted.seconds[c]);
  lesson.show(table.text());
}

// ---- how much arithmetic memory hides ----
void multiplies(Lesson& lesson) {
  lesson.section("x = x * 2, several times in one kernel, fp32 on an A100: 10 TFLOP/s, 2 TB/s");
  const Roofline a100{10e12, 2e12};  // one multiplication a lane and clock: half of the FMA's rate
  const double once = a100.seconds(1, 8);
  lesson.say("{:>5} {:>16} {:>16} {:>15}", "times", "bytes a number", "FLOPs a number",
             "time / once");
  for (const int k : {1, 10, 40, 80, 160}) {
    const MultiplyCounts counts = count_multiplies(k);
    const double time = a100.seconds(counts.flops, counts.bytes) / once;
    lesson.say("{:>5} {:>16.0f} {:>16.0f} {:>15.2f}", k, counts.bytes, counts.flops, time);
    lesson.number(fmt::format("multiplies.{}", k), time);
  }
}

// ---- functions to capture ----
Array row_softmax(const Array& x) {
  const Array e = exp(x - row_max(x));
  return e / row_sum(e);
}
Array masked_softmax(const Array& x) {
  return row_softmax(choose(row_index(x) < column_index(x), -HUGE_VAL, x));
}
Array row_layernorm(const Array& x, const Array& gain, const Array& bias) {
  const double columns = static_cast<double>(x.size().columns);
  const Array centred = x - row_sum(x) / columns;
  return centred / sqrt(row_sum(centred * centred) / columns + 1e-5) * gain + bias;
}
// Weights, gradients, means and squares of so many parameters.
std::vector<Array> adamw(const std::vector<Array>& in) {
  std::vector<Array> out;
  const size_t n = in.size() / 4;
  for (size_t i = 0; i < n; ++i) {
    const Array &w = in[i], &g = in[n + i];
    const Array m = in[2 * n + i] * 0.9 + g * 0.1, v = in[3 * n + i] * 0.95 + g * g * 0.05;
    out.push_back(w * 0.9999 - m * 1e-3 / (sqrt(v) + 1e-8));
    out.push_back(m);
    out.push_back(v);
  }
  return out;
}

void tracing(Lesson& lesson, const Options& options) {
  lesson.section("softmax as a graph");
  const Tensor x = Tensor::zeros({options.rows, options.columns});
  lesson.show(print(capture(row_softmax, x)));
  lesson.section("What tracing cannot see");
  try {
    capture([](const Array& a) { return row_max(a) < 3 ? a : a * 2; }, x);
  } catch (const Error& error) {
    lesson.say("{}", error.what());
  }
  lesson.section("Guards: one program for each size");
  CompiledFunction f(
      [](const std::vector<Array>& in) { return std::vector<Array>{row_softmax(in[0])}; },
      {.run_by = RunBy::interpreter});
  for (const int64_t rows : {8, 16, 8, 16}) {
    f({Tensor::zeros({rows, 32})});
    lesson.say("({:>2}, 32): programs so far: {}", rows, f.programs().size());
  }
}

// ---- fusion ----
double eager_bytes(const Graph& graph) {
  double bytes = 0;
  for (int n = 0; n < graph.size(); ++n) {
    if (graph.node(n).op == Op::input || graph.node(n).op == Op::number) continue;
    const OpCost cost = eager_cost(graph, n);
    bytes += cost.bytes_read + cost.bytes_written;
  }
  return bytes;
}

void fusion(Lesson& lesson, const Options& options) {
  lesson.section(fmt::format("One operation at a time, and fused: ({}, {}), f32", options.rows,
                             options.columns));
  const Shape shape = {options.rows, options.columns};
  const Tensor x = Tensor::zeros(shape), r = Tensor::zeros(shape),
               b = Tensor::zeros({options.columns});
  std::vector<Tensor> parameters;
  for (int kind = 0; kind < 4; ++kind)
    for (const Shape& each : {shape, Shape{options.columns}, Shape{3, 5}})
      parameters.push_back(Tensor::zeros(each));
  lesson.say("{:<34} {:>10} {:>7} {:>8} {:>10} {:>10} {:>6}", "", "operations", "kernels",
             "launches", "KB before", "KB after", "ratio");
  const auto row = [&](const char* name, const Graph& graph) {
    const Graph once = merge_equal(graph);
    const std::vector<Kernel> all = kernels(once, fuse(once));
    const double before = eager_bytes(graph), after = bytes_moved(once, all);
    int operations = 0;
    for (const Node& node : graph.nodes)
      operations += node.op != Op::input && node.op != Op::number;
    lesson.say("{:<34} {:>10} {:>7} {:>8} {:>10.0f} {:>10.0f} {:>6.1f}", name, operations,
               all.size(), foreach (once, all).size(), before / 1e3, after / 1e3, before / after);
    lesson.number(fmt::format("{}.ratio", name), before / after);
  };
  row("bias, gelu, dropout, residual", capture(block_end, x, b, r));
  row("softmax", capture(row_softmax, x));
  row("softmax with a causal mask", capture(masked_softmax, x));
  row("layernorm", capture(row_layernorm, x, b, b));
  row("AdamW on three parameters", capture_list(adamw, parameters));
}

void code(Lesson& lesson, const Options& options) {
  lesson.section("The kernel of softmax");
  const Graph graph = capture(row_softmax, Tensor::zeros({options.rows, options.columns}));
  const Kernel kernel = kernels(graph, fuse(graph))[0];
  const std::map<int, std::string> memory = {{kernel.reads[0], "x"}, {kernel.writes[0], "y"}};
  const std::string cpp = print_part(graph, kernel, cpp_kernel, 0, memory);
  lesson.show(cpp);
  lesson.section("In CUDA these lines differ");
  const std::string cuda = print_part(graph, kernel, cuda_kernel, 0, memory);
  for (size_t begin = 0, end; (end = cuda.find('\n', begin)) != cuda.npos; begin = end + 1) {
    const std::string line = cuda.substr(begin, end - begin);
    if (cpp.find(line + "\n") == cpp.npos) lesson.say("{}", line);
  }
}

void backwards(Lesson& lesson, const Options& options) {
  lesson.section("Backward of matmul, bias, gelu, dropout, residual: what to keep");
  const Joint joint = block_end_joint(options.rows, options.columns);
  lesson.say("{:<22} {:>7} {:>9} {:>14} {:>10}", "", "kept", "KB kept", "KB fwd + bwd", "GFLOP");
  const auto row = [&](const char* name, const std::vector<int>& kept) {
    const Halves halves = split(joint, kept);
    double bytes = 0, flops = 0;
    for (const Graph& half : {merge_equal(halves.forward), merge_equal(halves.backward)})
      for (const Kernel& kernel : kernels(half, fuse(half))) {
        const OpCost cost = cost_of(half, kernel);
        bytes += cost.bytes_read + cost.bytes_written;
        flops += cost.flops;
      }
    std::vector<int> made;  // beside the arguments, which are there anyway
    for (const int n : kept)
      if (joint.graph.node(n).op != Op::input) made.push_back(n);
    lesson.say("{:<22} {:>7} {:>9.0f} {:>14.0f} {:>10.4f}", name, made.size(),
               kept_bytes(joint, made) / 1e3, bytes / 1e3, flops / 1e9);
    lesson.number(fmt::format("{}.kept", name), kept_bytes(joint, made));
  };
  row("all that is read", keep_all(joint));
  row("the minimum cut", keep_least(joint));
}

void collectives(Lesson& lesson) {
  lesson.section("A data-parallel step: its actions, as written and after the passes");
  const Tensor g = Tensor::zeros({8, 8});
  const Graph graph = capture_list(
      [](const std::vector<Array>& in) {
        std::vector<Array> sums, out;
        for (size_t i = 0; i < 3; ++i)  // the gradients of three layers
          sums.push_back(all_reduce(matmul(in[0], in[i + 1])));
        for (size_t i = 0; i < 3; ++i) out.push_back(in[i + 1] - sums[i] * 0.01);
        return out;
      },
      {g, g, g, g});
  const auto line = [&](const char* name, const GraphSchedule& schedule) {
    std::string text;
    for (const Action& action : schedule) {
      const Op op = graph.node(action.nodes[0]).op;
      if (op == Op::number || op == Op::multiply) continue;  // a step's subtraction stands for it
      text += action.act == Act::run ? std::string(op == Op::matmul ? " grad" : " step")
                                     : (action.act == Act::start ? " START" : " WAIT");
    }
    lesson.say("{:<12}{}", name, text);
  };
  const GraphSchedule late = late_waits(graph, early_starts(graph, as_written(graph)));
  line("as written", as_written(graph));
  line("late waits", late);
  line("buckets", bucketed(graph, late, 2 * 4 * 64));
}

// ---- measured here ----
volatile float sink;
__attribute__((noinline)) float sum_by_lanes(const float* x, int64_t n) {
  using L = Lanes<float>;
  L::V total{};
  for (int64_t i = 0; i < n; i += L::lanes) total += L::load(x + i, n - i);
  return L::fold_sum(total);
}

// In rounds, so that what else runs on the computer meets every kernel.
std::vector<MultiplyPoint> measure_multiplies(double seconds_budget) {
  const Tensor x = Tensor::full({4096, 4096}, 1.0);
  std::vector<MultiplyPoint> points;
  std::vector<FusedProgram> programs;
  for (int k = 1; k <= 64; k *= 2) {
    const MultiplyCounts counts = count_multiplies(k);
    points.push_back({k, 1e9, counts.bytes, counts.flops});
    programs.emplace_back(capture(
        [k](const Array& a) {
          Array y = a;
          for (int i = 0; i < k; ++i) y = y * 1.0001;
          return y;
        },
        x));
  }
  constexpr int rounds = 8;
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < points.size(); ++i)
      points[i].slower = std::min(
          points[i].slower, shortest_seconds(seconds_budget / rounds, [&] { programs[i]({x}); }));
  const double once = points[0].slower;
  for (MultiplyPoint& each : points) each.slower /= once;
  return points;
}

void measured(Lesson& lesson, const Options& options) {
  if (options.milliseconds == 0) return;
  const double budget = static_cast<double>(options.milliseconds) * 1e-3;
  lesson.section("Measured here: x = x * 2, several times, 64 MiB on all threads");
  const std::vector<MultiplyPoint> points = measure_multiplies(budget);
  for (const MultiplyPoint& each : points) {
    const auto bar = static_cast<size_t>(std::lround(10 * each.slower));
    lesson.say("{:>4} {:>7.2f} {}", each.times, each.slower,
               std::string(std::min<size_t>(bar, 60), '#'));
    lesson.number(fmt::format("measured.{}", each.times), each.slower);
  }
  if (options.draw == 1) std::ofstream("multiplies.svg") << multiplies_svg(points);
  lesson.section("Measured here: three loops over 32 KiB, numbers a nanosecond on one thread");
  const int64_t small = 8192;
  const Tensor a = Tensor::full({small}, 1.0);
  Tensor y = Tensor::zeros({small});
  const float* from = a.data<float>();
  const auto rate = [&](const char* name, auto body) {
    const double seconds = shortest_seconds(budget, [&] {
      for (int i = 0; i < 100; ++i) {
        body();
        asm volatile("" : : : "memory");  // or the compiler would call it once
      }
    });
    lesson.say("{:<34} {:>6.1f}", name, 100 * static_cast<double>(small) / seconds / 1e9);
  };
  rate("y[i] = x[i] * 2", [&] { scale(from, y.data<float>(), small); });
  rate("total += x[i]", [&] { sink = sum(from, small); });
  rate("while (x[i] >= least) ++i",
       [&] { sink = static_cast<float>(first_below(from, small, 0)); });
  rate("total += x[i], in explicit vectors", [&] { sink = sum_by_lanes(from, small); });
}

void draw(const Options& options) {
  if (options.draw == 0) return;
  const Graph graph = merge_equal(capture(row_softmax, Tensor::zeros({64, 512})));
  std::ofstream("softmax_apart.svg") << graph_svg(graph, kernels(graph, one_kernel_each(graph)),
                                                  "softmax, one operation at a time");
  std::ofstream("softmax_fused.svg")
      << graph_svg(graph, kernels(graph, fuse(graph)), "softmax, fused");
  const Joint joint = block_end_joint(64, 512);
  std::ofstream("minimum_cut.svg") << cut_svg(joint, keep_least(joint));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_lesson(
      argc, argv,
      {"05", "Fusion", "where time goes, a captured graph, its passes, its code, its backward"},
      [&](Lesson& lesson) {
        classes(lesson);
        multiplies(lesson);
        tracing(lesson, options);
        fusion(lesson, options);
        code(lesson, options);
        backwards(lesson, options);
        collectives(lesson);
        measured(lesson, options);
        draw(options);
        lesson.say("\nNext: write it yourself, ./yotta check 05");
      },
      {{"rows", "of the examples", &options.rows, 1, 1 << 20},
       {"columns", "of the examples", &options.columns, 1, 1 << 16},
       {"milliseconds", "time for each measurement; 0: none", &options.milliseconds, 0, 60'000},
       {"draw", "1: write the pictures here, multiplies.svg if it is measured", &options.draw, 0,
        1}});
}
