// Lesson 02: what this machine can do, measured; what operations need; and where the two meet.
#include <filesystem>
#include <fstream>
#include <thread>

#include "counts.hpp"
#include "course/lesson/h100_runs.hpp"
#include "course/lesson/lesson.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/device/roofline_matmul.hpp"
#include "yotta/machine/pictures/roofline_picture.hpp"
#include "yotta/machine/systolic.hpp"
#include "yotta/nn/cpu/vectors.hpp"

#ifdef YOTTA_HAVE_CUDA
#include "gpu.hpp"
#endif

using namespace yotta;

namespace {

struct Options {
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  int64_t milliseconds = 300;  // a measurement
  int64_t svg = 0;
};

// Runs body() for a while and says at what rate it did `work`.
template <class Body>
RooflinePoint measure(const char* name, const Options& options, Workload work, Body body) {
  const double seconds = shortest_seconds(static_cast<double>(options.milliseconds) * 1e-3, body);
  return {name, work.intensity(), work.flops / seconds};
}

// A dot product of two long vectors, on all threads.
RooflinePoint measure_dot(const Options& options) {
  const int64_t n = 1 << 24;
  const std::vector<float> x(n, 1.0f), y(n, 2.0f);
  std::atomic<int> keep = 0;
  return measure("dot product", options, dot_workload(n, 4), [&] {
    parallel_for(n, 1 << 16, [&](int64_t begin, int64_t end) {
      const float* a = x.data() + begin;
      const float* b = y.data() + begin;
      const float sum = sum_lanes<float>(end - begin, [&](int64_t i, auto count) {
        return load(a + i, count) * load(b + i, count);
      });
      keep += sum > 0;
    });
  });
}

RooflinePoint measure_matmul(const char* name, const Options& options, int64_t m, int64_t n,
                             int64_t k) {
  std::vector<float> a(static_cast<size_t>(m * k), 1.0f), b(static_cast<size_t>(k * n), 1.0f),
      c(static_cast<size_t>(m * n));
  return measure(name, options, matmul_workload(m, n, k, 4), [&] {
    matmul(row_major(a.data(), m, k), row_major(b.data(), k, n), row_major(c.data(), m, n),
           Into::overwrite, static_cast<int>(options.threads));
  });
}

void write_picture(Lesson& lesson, const RooflinePicture& picture) {
  std::ofstream("roofline.svg") << roofline_svg(picture);
  lesson.say("the same as a picture: {}",
             (std::filesystem::current_path() / "roofline.svg").string());
}

void this_machine(Lesson& lesson, const Options& options) {
  lesson.section("This machine, measured");
  const auto threads = static_cast<int>(options.threads);
  RankContext rank;
  rank.threads = threads;
  const ContextScope scope(rank);
  const double budget = static_cast<double>(options.milliseconds) * 1e-3;
  const RooflinePoint dot = measure_dot(options);
  const RooflinePoint square = {"matmul of 1024", matmul_workload(1024, 1024, 1024, 4).intensity(),
                                measure_matmul_gflops(threads, budget) * 1e9};
  // x = y + 3 z also writes, a dot product only reads: the better of both is the memory's rate.
  const Roofline roof{
      square.rate, std::max(measure_memory_gbps(threads, budget) * 1e9, dot.rate / dot.intensity)};
  lesson.say("{} threads: {} in fp32, {}, ridge at {:.1f} FLOPs per byte", threads,
             rate_text(roof.peak), rate_text(roof.bandwidth, "B/s"), roof.ridge());
  RooflinePicture picture{roof, {dot}, fmt::format("This machine, {} threads, fp32", threads)};
  picture.points.push_back(measure_matmul("(4096, 4096) times a vector", options, 4096, 1, 4096));
  picture.points.push_back(measure_matmul("(4096, 4096) times 16", options, 4096, 16, 4096));
  picture.points.push_back(square);
  lesson.show(draw_roofline(picture));
  lesson.number("peak", roof.peak);
  lesson.number("bandwidth", roof.bandwidth);
  for (const RooflinePoint& point : picture.points) lesson.number(point.name, point.rate);
  if (options.svg == 1) write_picture(lesson, picture);
}

// What others measured on an H100, under its roof.
void published_runs(Lesson& lesson, const Options& options) {
  const RooflinePicture picture = h100_picture();
  lesson.section(fmt::format("Published runs under the roof of an {}", picture.title));
  console::Table table({"run", "FLOPs per byte", "TFLOP/s", "limited by", "of the roof"});
  for (const PublishedRun& run : published_h100_runs()) {
    const RooflineReading reading =
        read_measurement(run.work.flops, run.work.bytes, run.work.flops / run.rate, picture.roof);
    table.row({run.name, fmt::format("{:.2f}", reading.intensity),
               fmt::format("{:.2f}", reading.rate / 1e12),
               reading.memory_bound ? "memory" : "multipliers",
               fmt::format("{:.1f}%", 100 * reading.of_roof)});
    lesson.number(fmt::format("{}.of_roof", run.name), reading.of_roof);
  }
  lesson.show(table.text());
  std::string_view last;
  for (const PublishedRun& run : published_h100_runs())
    if (run.source != last) lesson.say("{}: {}", run.name, last = run.source);
  if (options.svg == 2) write_picture(lesson, picture);
}

void gpu(Lesson& lesson, const Options& options) {
  lesson.section("The GPU");
#ifdef YOTTA_HAVE_CUDA
  const std::optional<GpuRates> rates = measure_gpu([&](const auto& body) {
    return shortest_seconds(static_cast<double>(options.milliseconds) * 1e-3, body);
  });
  if (!rates) return lesson.say("none is here: what follows needs none");
  const Roofline roof{rates->fma, rates->bandwidth};
  lesson.say("{}: {} in fp32, {}, ridge at {:.1f} FLOPs per byte", rates->name,
             rate_text(roof.peak), rate_text(roof.bandwidth, "B/s"), roof.ridge());
#else
  (void)options;
  lesson.say("not asked: this program was built without nvcc (cmake --preset cuda builds it with)");
#endif
}

void intensities(Lesson& lesson) {
  lesson.section("Intensity by shape, in bf16, and what an H100 can make of it");
  const Roofline h100 = roofline_of(chip_named("h100"));
  console::Table table({"operation", "FLOPs per byte", "limited by", "of the peak"});
  const auto row = [&](const std::string& name, const Workload& work) {
    const double intensity = work.intensity();
    table.row({name, fmt::format("{:.2f}", intensity),
               intensity < h100.ridge() ? "memory" : "multipliers",
               fmt::format("{:.2f}%", 100 * h100.attainable(intensity) / h100.peak)});
  };
  row("x * 2, element by element", elementwise_workload(1e6, 1, 2));
  row("dot product of 1,000,000", dot_workload(1e6));
  row("(4096, 4096) times a vector", matvec_workload(4096, 4096));
  for (const int64_t m : {16, 256, 4096})
    row(fmt::format("({}, 4096) times (4096, 4096)", m), matmul_workload(m, 4096, 4096));
  for (const int64_t n : {128, 1024, 8192})
    row(fmt::format("square matmul of {}", n), matmul_workload(n, n, n));
  lesson.show(table.text());
}

void minimum_batches(Lesson& lesson) {
  lesson.section("The smallest batch (tokens) that keeps the multipliers busy, bf16");
  console::Table table(
      {"chip", "TFLOP/s dense", "TB/s", "ridge", "batch, width 4096", "width 16384"});
  for (const Chip& chip : known_chips) {
    const Roofline roof = roofline_of(chip);
    table.row({chip.name, fmt::format("{:.1f}", roof.peak / 1e12),
               fmt::format("{:.3f}", roof.bandwidth / 1e12), fmt::format("{:.1f}", roof.ridge()),
               fmt::format("{:.0f}", std::ceil(minimum_batch(roof.ridge(), 4096, 4096))),
               fmt::format("{:.0f}", std::ceil(minimum_batch(roof.ridge(), 16384, 16384)))});
    lesson.number(fmt::format("ridge.{}", chip.name), roof.ridge());
  }
  lesson.show(table.text());
}

void sparse_trap(Lesson& lesson) {
  lesson.section("The asterisk");
  const double printed = h100_sheet.tflops / h100_sheet.tb_per_s;
  lesson.say("{}: the datasheet prints {} TFLOP per second*, memory {} TB per second",
             h100_sheet.chip, h100_sheet.tflops, h100_sheet.tb_per_s);
  lesson.say("  ridge of the printed figures   {:.1f}", printed);
  lesson.say("  ridge of dense matmuls         {:.1f}", dense_roofline(h100_sheet).ridge());
}

void units(Lesson& lesson) {
  lesson.section("What the peak is made of");
  lesson.say("one SM of an H100, a clock: {} FLOPs from 128 FMA lanes, {:.0f} from 4 tensor cores",
             sm_fma_flops_per_clock, sm_tensor_flops_per_clock);
  lesson.say("132 SMs at 1.83 GHz: {} and {}",
             rate_text(peak_of(132, sm_fma_flops_per_clock, 1.83e9)),
             rate_text(peak_of(132, sm_tensor_flops_per_clock, 1.83e9)));
  lesson.say("bytes of registers moved for each FLOP: {:.2f} by an FMA, {:.2f} by mma.m16n8k16",
             fma_register_bytes_per_flop, mma_register_bytes_per_flop);
  lesson.say("4 systolic arrays of 128 x 128 at 1.5 GHz, a TPU v5e: {}",
             rate_text(peak_of(4 * 128 * 128, 2, 1.5e9)));
}

void systolic(Lesson& lesson) {
  lesson.section("A systolic array of 4 x 4, six rows passing through");
  SystolicArray array(std::vector<double>(16, 1.0), 4);
  array.multiply(std::vector<double>(24, 1.0), 6);
  const std::vector<std::string>& pictures = array.pictures();
  std::string text = "clock   ";
  for (size_t t = 0; t < pictures.size(); ++t) text += fmt::format("{:<6}", t);
  lesson.say("{}", text.substr(0, text.find_last_not_of(' ') + 1));
  for (size_t i = 0; i < 4; ++i) {
    std::string line = "        ";
    for (const std::string& picture : pictures) line += picture.substr(5 * i, 4) + "  ";
    lesson.say("{}", line.substr(0, line.size() - 2));
  }
  lesson.say("{} clocks for {} products: {:.0f}% of the cells' time is used", array.clocks(),
             array.products(), 100 * systolic_use(6, 4));
  lesson.say("128 x 128, 128 rows: {:.0f}%; 8192 rows: {:.0f}%", 100 * systolic_use(128, 128),
             100 * systolic_use(8192, 128));
}

void tiles(Lesson& lesson) {
  lesson.section("What a shared tile of T x T buys: a matmul of 4096 in fp32 on an H100");
  const Roofline h100 = roofline_of(chip_named("h100"), DType::f32);
  console::Table table({"T", "GB from memory", "FLOPs per byte", "of the peak"});
  for (const int64_t T : {1, 8, 16, 32, 64, 128}) {
    const MatmulPrediction p = predict(4096, 4096, 4096, T, 4, h100);
    table.row({fmt::format("{}", T), fmt::format("{:.2f}", p.bytes / 1e9),
               fmt::format("{:.2f}", p.flops / p.bytes),
               fmt::format("{:.1f}%", 100 * p.flops / p.seconds / h100.peak)});
  }
  lesson.show(table.text());
  lesson.say("ridge: {:.1f}; the smallest tile that reaches the peak: {}", h100.ridge(),
             smallest_tile(4096, 4096, 4096, 4, h100, 128));
}

void counted(Lesson& lesson) {
  lesson.section("Counted by the emulator: (64, 64) times (64, 64)");
  console::Table table(
      {"kernel", "requests", "sectors", "sectors per request", "bytes asked for", "predicted"});
  const auto row = [&](const char* name, const TileCounts& counts, int64_t T) {
    table.row({name, fmt::format("{}", counts.requests), fmt::format("{}", counts.sectors),
               fmt::format("{:.1f}", static_cast<double>(counts.sectors) /
                                         static_cast<double>(counts.requests)),
               fmt::format("{}", counts.bytes),
               fmt::format("{:.0f}", predict(64, 64, 64, T, 4, {1, 1}).bytes)});
  };
  row("no tile, lanes down a column", count_lanes(64, true), 1);
  row("no tile, lanes along a row", count_lanes(64, false), 1);
  row("shared tile", count_shared_tile(64, 64, 64), 32);
  lesson.show(table.text());
  lesson.section("The shared tile, line by line");
  lesson.show(count_shared_tile(64, 64, 64).table);
  lesson.section("Mistake: the second barrier is missing");
  lesson.say("{}", report_of_missing_barrier());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_lesson_without_ranks(
      argc, argv,
      {"02", "The roofline", "this machine's rates, intensities, ridges and what follows"},
      [&](Lesson& lesson) {
        this_machine(lesson, options);
        gpu(lesson, options);
        published_runs(lesson, options);
        intensities(lesson);
        minimum_batches(lesson);
        sparse_trap(lesson);
        units(lesson);
        systolic(lesson);
        tiles(lesson);
        counted(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 02");
      },
      {{"threads", "OS threads to measure with", &options.threads, 1, 1024},
       {"milliseconds", "time for each measurement", &options.milliseconds, 1, 60'000},
       {"svg", "write roofline.svg here: 1 of this machine, 2 of the H100", &options.svg, 0, 2}});
}
