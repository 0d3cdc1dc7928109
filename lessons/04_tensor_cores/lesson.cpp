// Lesson 04: fragments lane by lane, one mma by hand, the ladder of kernels with its counters,
// mixed precision, and the hardware lottery.
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "chips.hpp"
#include "counts.hpp"
#include "course/lesson/lesson.hpp"
#include "course/pictures/chip_roofs_picture.hpp"
#include "hopper.hpp"
#include "lottery.hpp"
#include "yotta/core/dot_chains.hpp"
#include "yotta/core/log_matmul.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/pictures/mma_picture.hpp"
#include "yotta/device/tensor_cores.hpp"
#include "yotta/device/tensor_cores_tile.hpp"
#include "yotta/machine/hardware_lottery.hpp"
#include "yotta/machine/roofline.hpp"

using namespace yotta;

namespace {

struct Options {
  int64_t lane = 5, size = 128, k = 16384, round = 16;
  int64_t dimensions = 1024;  // of the points whose distances are timed
  int64_t measure = 1;        // 0: only what is counted
  int64_t draw = 0;
};

void fragments(Lesson& lesson, const Options& options) {
  lesson.section("Who holds what");
  lesson.show(draw_fragment(mma_shapes[0].c));
  lesson.say("\nand of A, lane {} alone:\n", options.lane);
  lesson.show(draw_fragment(mma_shapes[0].a, static_cast<int>(options.lane)));
  lesson.say("\n{:<10} {:<12} {:>22} {:>7}", "shape", "inputs", "elements a lane: A B C", "FLOPs");
  for (const MmaShape& shape : mma_shapes)
    lesson.say("{:<10} {:<12} {:>14} {:>3} {:>3} {:>7}", shape.name, shape.inputs, shape.a.elements,
               shape.b.elements, shape.c.elements,
               int64_t{2} * shape.m * shape.n * shape.k * shape.a.matrices);
}

// Small whole numbers, so that the sums can be followed.
std::vector<bfloat16> whole_numbers(const char* name, size_t count) {
  std::vector<bfloat16> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back(bfloat16(static_cast<float>(Random(4, name).bits(i) % 5) - 2.0f));
  return all;
}

template <class T>
std::string listed(int count, T element) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{:>3}", element(i));
  return text;
}

void by_hand(Lesson& lesson, const Options& options) {
  const std::vector<bfloat16> a = whole_numbers("a", 256), b = whole_numbers("b", 128);
  const DeviceArray<bfloat16> device_a(a), device_b(b);
  DeviceArray<float> device_c(128);
  launch(matmul_mma<1>, 1, 32, 0, nullptr, device_a.data(), device_b.data(), device_c.data(), 16, 8,
         16);
  const std::vector<float> c = device_c.to_host();

  const auto lane = static_cast<int>(options.lane);
  const MatrixCell at = M16N8K16::c(lane, 0);
  lesson.section(
      fmt::format("One mma by hand: C({}, {}), which is c0 of lane {}", at.row, at.column, lane));
  const auto row = [&](int l) {
    return static_cast<float>(a[static_cast<size_t>(at.row * 16 + l)]);
  };
  const auto column = [&](int l) {
    return static_cast<float>(b[static_cast<size_t>(l * 8 + at.column)]);
  };
  float sum = 0;
  for (int l = 0; l < 16; ++l) sum += row(l) * column(l);
  lesson.say("row {} of A, in lanes {} to {}:     {}", at.row, lane / 4 * 4, lane / 4 * 4 + 3,
             listed(16, row));
  lesson.say("column {} of B, in lanes {} to {}:  {}", at.column, at.column * 4, at.column * 4 + 3,
             listed(16, column));
  lesson.say("products, added up by hand: {}; the instruction says {}", sum,
             c[static_cast<size_t>(at.row * 8 + at.column)]);
  lesson.say("lane {} itself holds", lane);
  lesson.say("  of A {}", listed(8, [&](int i) {
               const MatrixCell cell = M16N8K16::a(lane, i);
               return static_cast<float>(a[static_cast<size_t>(cell.row * 16 + cell.column)]);
             }));
  lesson.say("  of B {}", listed(4, [&](int i) {
               const MatrixCell cell = M16N8K16::b(lane, i);
               return static_cast<float>(b[static_cast<size_t>(cell.row * 8 + cell.column)]);
             }));
  lesson.say("  of C {}", listed(4, [&](int i) {
               const MatrixCell cell = M16N8K16::c(lane, i);
               return c[static_cast<size_t>(cell.row * 8 + cell.column)];
             }));
  lesson.number("by_hand", static_cast<double>(sum));
}

void ladder(Lesson& lesson, const Options& options) {
  lesson.section(fmt::format("The ladder on {0} x {0} x {0}: what is asked of an SM for each mma",
                             options.size));
  lesson.say("{:<13} {:>6} {:>9} {:>8} {:>11} {:>9} {:>9}", "", "mma", "ldmatrix", "sectors",
             "wavefronts", "roof H100", "roof A100");
  for (const RungCounts& rung : count_rungs(static_cast<int>(options.size))) {
    lesson.say("{:<13} {:>6} {:>9} {:>8.2f} {:>11.2f} {:>8.1f}% {:>8.1f}%", rung.name, rung.mma,
               rung.loads, rung.sectors, rung.wavefronts, 100 * rung.on_h100, 100 * rung.on_a100);
    lesson.number(rung.name + ".sectors", rung.sectors);
    lesson.number(rung.name + ".wavefronts", rung.wavefronts);
  }
  lesson.say("\nwith tiles of 128 x 256 a block and 64 x 64 a warp, by the same arithmetic\n");
  lesson.say("{:<13} {:>8} {:>11} {:>9} {:>9}", "", "sectors", "wavefronts", "roof H100",
             "roof A100");
  for (const RungCounts& rung : expect_large_rungs())
    lesson.say("{:<13} {:>8.2f} {:>11.2f} {:>8.1f}% {:>8.1f}%", rung.name, rung.expected_sectors,
               rung.expected_wavefronts, 100 * rung.on_h100, 100 * rung.on_a100);
}

// Where chunk 0 of eight rows of 64 bytes lies in shared memory.
template <Rows rows>
std::string banks_of_chunk_0() {
  std::string text;
  for (int row = 0; row < 8; ++row)
    text += fmt::format("{:>4}", place<32, rows>(row, 0) * 2 / 4 % 32);
  return text;
}

void swizzle(Lesson& lesson) {
  lesson.section("Chunk 0 of eight neighbouring rows: the first of its four banks, of 32");
  lesson.say("row                 0   1   2   3   4   5   6   7");
  lesson.say("in order         {}", banks_of_chunk_0<Rows::plain>());
  lesson.say("swizzled         {}", banks_of_chunk_0<Rows::swizzled>());
}

// The sum of k products of numbers between 0 and 1, rounded to T after every `round` products; an
// mma has 16.
template <class T>
double sum_kept_in(const std::vector<bfloat16>& a, const std::vector<bfloat16>& b, size_t round) {
  T sum{};
  for (size_t l = 0; l < a.size(); l += round) {
    auto step = static_cast<float>(sum);
    for (size_t i = l; i < std::min(l + round, a.size()); ++i)
      step += static_cast<float>(a[i]) * static_cast<float>(b[i]);
    sum = T(step);
  }
  return static_cast<double>(sum);
}

// The mean error of 64 such sums, in percent, kept in f32, f16 and bf16.
std::array<double, 3> sum_errors(int64_t k, size_t round) {
  std::array<double, 3> errors = {};
  for (uint64_t trial = 0; trial < 64; ++trial) {
    std::vector<bfloat16> a, b;
    double exact = 0;
    for (uint64_t i = 0; i < static_cast<uint64_t>(k); ++i) {
      a.push_back(bfloat16(Random(trial, "a").uniform(i)));
      b.push_back(bfloat16(Random(trial, "b").uniform(i)));
      exact += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    const double sums[] = {sum_kept_in<float>(a, b, round), sum_kept_in<float16>(a, b, round),
                           sum_kept_in<bfloat16>(a, b, round)};
    for (size_t i = 0; i < 3; ++i) errors[i] += 100 * std::abs(sums[i] - exact) / exact / 64;
  }
  return errors;
}

void precision(Lesson& lesson, const Options& options) {
  lesson.section("Mixed precision: the same bf16 inputs, sums kept in three types");
  lesson.say("{:>6} {:>12} {:>12} {:>12}", "k", "f32", "f16", "bf16");
  for (int64_t k = 16; k <= options.k; k *= 4) {
    const auto [f32, f16, bf16] = sum_errors(k, static_cast<size_t>(options.round));
    lesson.say("{:>6} {:>11.5f}% {:>11.3f}% {:>11.3f}%", k, f32, f16, bf16);
    lesson.number(fmt::format("error_percent.bf16.k{}", k), bf16);
  }
  float ones = 0;
  while (static_cast<float>(bfloat16(ones + 1)) > ones) ones += 1;
  lesson.say("ones added up in bf16 stop at {}: there the next number is {} away, and 1 is lost",
             ones, static_cast<float>(bfloat16(ones + 2)) - ones);
}

void everything_else(Lesson& lesson) {
  lesson.section("What is no matmul: tensor cores against the other units of the same chip");
  lesson.say("{:<10} {:>12} {:>10} {:>8} {:>26}", "", "bf16 matmul", "f32", "ratio",
             "FLOPs per byte to be busy");
  for (const char* name : {"a100", "h100", "h200", "b200"}) {
    const Chip& chip = chip_named(name);
    lesson.say("{:<10} {:>7.0f} TF/s {:>5.1f} TF/s {:>8.1f} {:>14.0f} against {:.0f}", name,
               chip.bf16 * 1e-12, chip.f32 * 1e-12, matmul_advantage(chip.bf16, chip.f32),
               chip.bf16 / chip.bandwidth, chip.f32 / chip.bandwidth);
  }
}

// A product whose inputs nobody cast runs in f32 on the ordinary lanes. The same one in bf16 runs
// on tensor cores.
void forgotten_cast(Lesson& lesson) {
  lesson.section("Forget the cast: a product of 8192 x 8192 x 8192 at the peak, in ms");
  const double flops = matmul_flops(8192, 8192, 8192);
  lesson.say("{:<6} {:>20} {:>22} {:>8}", "", "f32, ordinary, ms", "bf16, tensor, ms", "times");
  for (const char* name : {"a100", "h100", "h200", "b200"}) {
    const Chip& chip = chip_named(name);
    const double f32 = flops / peak(chip, DType::f32), bf16 = flops / peak(chip, DType::bf16);
    lesson.say("{:<6} {:>20.2f} {:>22.2f} {:>7.1f}x", name, 1e3 * f32, 1e3 * bf16, f32 / bf16);
    lesson.number(fmt::format("cast.{}", name), f32 / bf16);
  }
}

// A peak that machine/chip.hpp does not hold, in FLOP/s, with what prints it.
struct Printed {
  double flops;
  const char* source;
};
constexpr Printed k40_f32 = {peak_of(2880, 2, 875e6),
                             "NVIDIA Tesla K40 board specification BD-06902-001 (2013): 2880 cores "
                             "at 875 MHz; 4.29 TFLOP/s at the base clock of 745 MHz"};
constexpr double k40_bandwidth = 288e9;  // bytes/s, same source
constexpr Printed b200_tf32 = {1.1e15,
                               "NVIDIA Blackwell architecture technical brief (2024), HGX "
                               "B200: tf32 2.2 PFLOP/s sparse, halved"};
constexpr Printed gb200_bf16_sparse = {
    5e15, "the same brief, a GPU of GB200: fp16 and bf16 5 PFLOP/s sparse"};
constexpr Printed b200_fp4 = {9e15, "the same brief: fp4 18 PFLOP/s sparse, halved"};

struct Step {
  const char* what;
  double flops;
  bool printed = false;  // a figure as vendors print it, beside the steps
};

void eleven_years(Lesson& lesson, const Chip& b200) {
  lesson.section("A K40 (2013) and a B200 (2024): where a factor of 1000 comes from");
  const Step steps[] = {{"K40, f32", k40_f32.flops},
                        {"B200, f32: more lanes, faster clock", b200.f32},
                        {"tensor cores, inputs cut to tf32", b200_tf32.flops},
                        {"number format: bf16", b200.bf16},
                        {"number format: fp8", b200.fp8},
                        {"number format: fp4", b200_fp4.flops},
                        {"sparsity 2:4: half the products skipped", 2 * b200_fp4.flops},
                        {"printed for bf16, sparse", 2 * b200.bf16, true},
                        {"the same of a GB200's GPU", gb200_bf16_sparse.flops, true}};
  lesson.say("{:<42} {:>9} {:>8} {:>11}", "", "TFLOP/s", "factor", "of the K40");
  double before = 0;
  for (const Step& step : steps) {
    const bool has_factor = before > 0 && !step.printed;
    lesson.say("{:<42} {:>9.1f} {:>8} {:>10.0f}x", step.what, step.flops * 1e-12,
               has_factor ? fmt::format("{:.1f}x", step.flops / before) : "",
               step.flops / k40_f32.flops);
    lesson.number(fmt::format("of_k40.{}", step.what), step.flops / k40_f32.flops);
    before = step.flops;
  }
}

void memory_in_eleven_years(Lesson& lesson, const Chip& b200) {
  lesson.say("\nmemory: {:.3f} TB/s then, {:.1f} TB/s now, {:.0f}x", 1e-12 * k40_bandwidth,
             1e-12 * b200.bandwidth, b200.bandwidth / k40_bandwidth);
  lesson.say("FLOPs per byte to be busy: {:.0f} then (f32), {:.0f} now (bf16)\n",
             k40_f32.flops / k40_bandwidth, b200.bf16 / b200.bandwidth);
  lesson.say("K40: {}\nB200 in tf32: {}\nB200 in fp4: {}\nB200 else: {}\nGB200: {}", k40_f32.source,
             b200_tf32.source, b200_fp4.source, b200.source, gb200_bf16_sparse.source);
}

void chips_on_one_roofline(Lesson& lesson, const Options& options) {
  lesson.section("Three makers' chips: matrix units against all other units");
  console::Table table({"chip", "matrix units, TFLOP/s", "others, f32", "ratio", "TB/s",
                        "ridge, matrix units", "ridge, others"});
  for (const ChipUnits& chip : chip_units) {
    const Roofline matrix{chip.matrix, chip.bandwidth}, others{chip.others, chip.bandwidth};
    table.row({chip.name, fmt::format("{:.0f}", chip.matrix * 1e-12),
               fmt::format("{:.1f}", chip.others * 1e-12),
               fmt::format("{:.1f}", chip.matrix / chip.others),
               fmt::format("{:.2f}", chip.bandwidth * 1e-12), fmt::format("{:.0f}", matrix.ridge()),
               fmt::format("{:.1f}", others.ridge())});
    lesson.number(fmt::format("lottery.{}", chip.name), chip.matrix / chip.others);
  }
  lesson.show(table.text());
  if (options.draw == 0) return;
  std::ofstream("chip_roofs.svg") << chip_roofs_svg();
  lesson.say("drawn: {}", (std::filesystem::current_path() / "chip_roofs.svg").string());
}

void distances_by_model(Lesson& lesson, const Options& options) {
  const double n = 16384, k = static_cast<double>(options.dimensions);
  lesson.section(
      fmt::format("Distances of {0} points to {0} points in {1} dimensions, at the peaks", n, k));
  console::Table table({"chip", "L2 by a matmul, ms", "L1, ms", "times"});
  for (const ChipUnits& chip : chip_units) {
    const double l2 = l2_seconds(chip, n, n, k), l1 = l1_seconds(chip, n, n, k);
    table.row({chip.name, fmt::format("{:.2f}", 1e3 * l2), fmt::format("{:.2f}", 1e3 * l1),
               fmt::format("{:.1f}", l1 / l2)});
  }
  lesson.show(table.text());
}

void distances_measured(Lesson& lesson) {
  lesson.section("The same on this CPU, one core: 512 points to 512 in 1024 dimensions");
  const DistanceRates rates = measure_distances(0.05);
  const auto row = [&](const char* name, int instructions, double rate) {
    lesson.say("{:<18} {} for a term: {:>6.1f} GFLOP/s, two FLOPs a term", name,
               instructions == 1 ? "1 instruction " : fmt::format("{} instructions", instructions),
               rate * 1e-9);
  };
  row("L2 by a matmul", 1, rates.l2_by_matmul);
  row("L2 term by term", l2_instructions, rates.l2);
  row("L1 term by term", l1_instructions_x86, rates.l1);
}

void logarithms(Lesson& lesson, const Options& options) {
  lesson.section("A matmul of logarithms, 256 x 256 x 256");
  lesson.say("term by term: {:.0f} exps", naive_exps(256, 256, 256));
  if (options.measure != 0)
    lesson.say("term by term: {:.1f} ms", 1e3 * naive_log_matmul_seconds(1));
  for (const double spread : {1, 100, 300, 500}) {
    const LogMatmulRun run = run_log_matmul(spread);
    lesson.say("by a matmul, logarithms from {:>4} to 0: {:.0f} exps, {:>5} of {} sums lost",
               -spread, log_matmul_exps(256, 256, 256) + 256.0 * static_cast<double>(run.again),
               run.again, 256 * 256);
    if (options.measure != 0) lesson.say("    {:.1f} ms", 1e3 * run.seconds);
  }
}

void dots(Lesson& lesson, const Options& options) {
  lesson.section("A dot product of 2048 numbers: cycles by the model, registers of 16 numbers");
  const CorePace zen4 = {.fma_latency = 4, .fmas = 1, .loads = 1};
  const CorePace golden_cove = {.fma_latency = 4, .fmas = 2, .loads = 2};
  lesson.say("{:<12} {:>14} {:>10} {:>14}", "", "sums at once", "Zen 4", "Golden Cove");
  const auto row = [&](const char* name, double lanes, double chains) {
    lesson.say("{:<12} {:>14.0f} {:>10.0f} {:>14.0f}", name, lanes * chains,
               dot_cycles(2048, lanes, chains, zen4), dot_cycles(2048, lanes, chains, golden_cove));
  };
  row("in order", 1, 1);
  row("1 register", 16, 1);
  for (const double chains : {2, 4, 8})
    row(fmt::format("{} registers", chains).c_str(), 16, chains);
  if (options.measure == 0) return;
  lesson.section("The same on this CPU, measured");
  for (const DotTime& time : measure_dots(0.01))
    lesson.say("{:<12} {:.0f} ns", time.name, 1e9 * time.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_lesson_without_ranks(
      argc, argv,
      {"04", "Tensor cores", "fragments, one mma by hand, a ladder of kernels, mixed precision"},
      [&](Lesson& lesson) {
        fragments(lesson, options);
        by_hand(lesson, options);
        ladder(lesson, options);
        swizzle(lesson);
        hopper_page::all(lesson, options.draw != 0);
        precision(lesson, options);
        everything_else(lesson);
        forgotten_cast(lesson);
        eleven_years(lesson, chip_named("b200"));
        memory_in_eleven_years(lesson, chip_named("b200"));
        chips_page::five_gpus(lesson);
        chips_page::core_and_sm(lesson);
        chips_page::four_designs(lesson);
        chips_on_one_roofline(lesson, options);
        distances_by_model(lesson, options);
        if (options.measure != 0) distances_measured(lesson);
        logarithms(lesson, options);
        dots(lesson, options);
        lesson.section("Mistake: a tile is read before it has landed");
        lesson.say("{}", read_too_early());
        hopper_page::mistake(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 04");
      },
      {{"lane", "the lane to look at", &options.lane, 0, 31},
       {"size", "of the ladder's matrices", &options.size, 1, 512},
       {"round", "products that the precision table adds up before it rounds", &options.round, 1,
        1024},
       {"k", "longest sum of the precision table", &options.k, 16, 1 << 20},
       {"dimensions", "of the points whose distances are timed by the model", &options.dimensions,
        1, 1 << 20},
       {"measure", "1 measures this CPU too; 0 only counts", &options.measure, 0, 1},
       {"draw", "1 writes chip_roofs.svg and hopper_rungs.svg into this folder", &options.draw, 0,
        1}});
}
