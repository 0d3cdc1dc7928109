// Lesson 03: two ladders to one matmul, on the CPU (measured) and in CUDA (counted by the
// emulator).
#include <filesystem>
#include <fstream>
#include <thread>

#include "counts.hpp"
#include "course/lesson/lesson.hpp"
#include "course/pictures/tile_picture.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/machine/roofline.hpp"
#include "yotta/machine/tile_waves.hpp"

using namespace yotta;

namespace {

struct Options {
  int64_t size = 128;
  int64_t milliseconds = 200;  // a measurement
  int64_t measure = 1;         // 0: only what is counted
  int64_t draw = 0;
};

void one_law(Lesson& lesson, const Options& options) {
  lesson.section("One law: what a tile of C needs for a step along k, fp32");
  console::Table table({"tile", "numbers read", "products", "bytes per FLOP"});
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {8, 1}, {8, 8}, {32, 32}, {128, 128}, {128, 256}})
    table.row({fmt::format("{} x {}", rows, columns), fmt::format("{}", rows + columns),
               fmt::format("{}", rows * columns),
               fmt::format("{:.4f}", tile_bytes_per_flop(rows, columns))});
  lesson.show(table.text());
  if (options.draw == 0) return;
  std::ofstream("matmul_tiles.svg") << tile_svg();
  lesson.say("drawn: {}", (std::filesystem::current_path() / "matmul_tiles.svg").string());
}

struct Matrices {
  explicit Matrices(int64_t n) : size(n), a(static_cast<size_t>(n * n), 1.0f), b(a), c(a) {}
  int64_t size;
  std::vector<float> a, b, c;  // (size, size) each

  // The rate of multiply(a, b, c), in FLOP/s. Called through a pointer that the compiler cannot see
  // through: with the sizes known it would put naive's loops into a better order by itself.
  using View = MatrixView<float>;
  using Multiply = void (*)(View, View, View);
  double rate(const Options& options, Multiply multiply) {
    Multiply volatile unknown = multiply;
    const auto view = [&](std::vector<float>& x) { return row_major(x.data(), size, size); };
    const double seconds = shortest_seconds(static_cast<double>(options.milliseconds) * 1e-3,
                                            [&] { unknown(view(a), view(b), view(c)); });
    return matmul_flops(size, size, size) / seconds;
  }
};

struct CpuRung {
  const char* name;
  double bytes;  // a FLOP, in the innermost loop
  Matrices::Multiply multiply;
  double rate = 0;
};

void cpu_ladder(Lesson& lesson, const Options& options) {
  lesson.section("The CPU ladder, one core, measured");
  std::vector<CpuRung> rungs = {
      {"naive", 4, [](auto a, auto b, auto c) { matmul_naive(a, b, c, Into::overwrite); }},
      {"reordered", 6, [](auto a, auto b, auto c) { matmul_reordered(a, b, c, Into::overwrite); }},
      {"tiled", 6, [](auto a, auto b, auto c) { matmul_tiled(a, b, c, Into::overwrite); }},
      {"packed, register tile", tile_bytes_per_flop(TileShape<float>::TM, TileShape<float>::TN),
       [](auto a, auto b, auto c) { matmul(a, b, c, Into::overwrite); }}};
  Matrices m(768);
  for (CpuRung& rung : rungs) rung.rate = m.rate(options, rung.multiply);
  console::Table table(
      {"rung", "bytes per FLOP, innermost loop", "GFLOP/s at 768", "of the last rung"});
  for (const CpuRung& rung : rungs) {
    table.row({rung.name, fmt::format("{:.2f}", rung.bytes),
               fmt::format("{:.2f}", rung.rate * 1e-9),
               fmt::format("{:.1f}%", 100 * rung.rate / rungs.back().rate)});
    lesson.number(fmt::format("cpu.{}", rung.name), rung.rate);
  }
  lesson.show(table.text());
}

void cpu_by_size(Lesson& lesson, const Options& options) {
  lesson.section("FLOP utilisation by size, one core: the last rung, of its own best");
  std::vector<std::pair<int64_t, double>> rates;
  double best = 0;
  for (const int64_t n : {16, 32, 64, 96, 128, 256, 512, 1000, 1024}) {
    Matrices m(n);
    const double rate =
        m.rate(options, [](auto a, auto b, auto c) { matmul(a, b, c, Into::overwrite); });
    rates.emplace_back(n, rate);
    best = std::max(best, rate);
  }
  for (const auto& [n, rate] : rates)
    lesson.say("{:>5}  {} {:>3.0f}%", n, console::bar(rate, best, 40), 100 * rate / best);
}

void cuda_ladder(Lesson& lesson, const Options& options) {
  const auto size = static_cast<int>(options.size);
  lesson.section(fmt::format("The CUDA ladder, counted: ({0}, {0}) times ({0}, {0})", size));
  const std::vector<RungCounts> rungs = count_rungs(size, size, size);
  console::Table counted(
      {"rung", "sectors/request", "bytes/FLOP", "sectors/FMA", "wavefronts/FMA", "conflicts"});
  for (const RungCounts& rung : rungs) {
    counted.row({rung.name, fmt::format("{:.2f}", rung.sectors_per_request),
                 fmt::format("{:.3f}", rung.global_bytes_per_flop),
                 fmt::format("{:.3f}", rung.sectors), fmt::format("{:.3f}", rung.wavefronts),
                 fmt::format("{:.1f}x", rung.conflicts)});
    lesson.number(fmt::format("{}.sectors", rung.name), rung.sectors);
    lesson.number(fmt::format("{}.wavefronts", rung.name), rung.wavefronts);
  }
  lesson.show(counted.text());

  lesson.section("What the counts allow, and what was published for an RTX A6000 (38.7 TFLOP/s)");
  console::Table table({"rung", "at most", "gain", "published", "gain of it", "idea"});
  double before = 0, measured_before = 0;
  for (const RungCounts& rung : rungs) {
    const auto gain = [](double now, double then) {
      return then > 0 && now > 0 ? fmt::format("{:.1f}x", now / then) : std::string("-");
    };
    table.row({rung.name, fmt::format("{:.1f}%", 100 * rung.attainable),
               gain(rung.attainable, before),
               rung.a6000_gflops > 0 ? fmt::format("{:.1f}%", rung.a6000_gflops / 387) : "-",
               gain(rung.a6000_gflops, measured_before), rung.idea});
    before = rung.attainable;
    if (rung.a6000_gflops > 0) measured_before = rung.a6000_gflops;
  }
  lesson.show(table.text());
}

// Blocks run side by side, 132 at a time on an H100; the last wave may be half empty, and tiles
// hang over edges.
void gpu_by_size(Lesson& lesson) {
  lesson.section(
      "FLOP utilisation by size, 132 SMs, tiles of 128 x 128: what edges and waves leave");
  lesson.say("{:>5}  {:<41}{:>4}  {:>6}  {:>5}", "size", "share of the SMs' time that is of use",
             "", "blocks", "waves");
  for (const int64_t n : {512, 1024, 1408, 1536, 2048, 3072, 4096, 4100, 8192}) {
    const double useful = matmul_use(n, n);
    lesson.say("{:>5}  {} {:>3.0f}%  {:>6}  {:>5}", n, console::bar(useful, 1, 40), 100 * useful,
               tiles_of(n, n), waves_of(n, n));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_lesson_without_ranks(
      argc, argv, {"03", "Matmul", "the rungs of two matmul ladders, and what each gains"},
      [&](Lesson& lesson) {
        one_law(lesson, options);
        if (options.measure != 0) cpu_ladder(lesson, options);
        if (options.measure != 0) cpu_by_size(lesson, options);
        cuda_ladder(lesson, options);
        gpu_by_size(lesson);
        lesson.say(
            "\nOn a GPU: ./yotta bench gpu_matmul. Next: write it yourself, ./yotta check 03");
      },
      {{"size", "of the matrices that the emulator multiplies", &options.size, 1, 512},
       {"milliseconds", "time for each measurement", &options.milliseconds, 1, 60'000},
       {"measure", "1 measures the CPU too; 0 only counts", &options.measure, 0, 1},
       {"draw", "1: write matmul_tiles.svg into this folder", &options.draw, 0, 1}});
}
