// The CUDA matmul ladders against cuBLAS, side by side in one run: fp32 on the FMA lanes, and bf16
// with sums in f32 on tensor cores; its last rungs, Hopper's, in a table of their own.
//
// Each row is one kernel on one size: its shortest batch of calls between two events, after a
// warm-up, and how far its result is from cuBLAS's. Before the bf16 ladder stands its roof: tensor
// cores that do nothing but mma.sync. Then cuBLAS on several kinds of data, beside lesson 06's
// model of an A100. Without a GPU, or built without nvcc, it says so and ends with 77, "not run".
#include "gpu_matmul.hpp"
#include "bench.hpp"
#include "course/options/console.hpp"
#include "gpu_program.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/machine/toggle_power.hpp"

namespace {

using namespace yotta;

struct Options {
  std::string json;
  std::vector<std::string> types = {"fp32", "bf16", "hopper", "data"};
  std::vector<int> sizes =
      bench::in_emulator ? std::vector{32} : std::vector{512, 1024, 2048, 4096, 8192};
  double seconds = 1;
};

#ifdef YOTTA_HAVE_CUDA

// Prints the kernels of one type and size; true if all agree with cuBLAS.
bool add_size(const std::string& type, int size, double seconds, bench::Json& rows) {
  const auto ladder = type == "fp32"   ? bench::Ladder::fp32
                      : type == "bf16" ? bench::Ladder::bf16
                                       : bench::Ladder::hopper;
  const std::vector<bench::GpuMatmul> all = bench::measure_gpu_matmul(
      ladder, size, [&](const auto& batch) { return shortest_of_batches(seconds, batch); });
  console::Table table({fmt::format("{} {}^3", type, size), "TFLOP/s", "of cuBLAS", "difference"});
  bool right = true;
  for (const bench::GpuMatmul& row : all) {
    table.row({row.name, fmt::format("{:.2f}", row.tflops),
               fmt::format("{:.1f}%", 100 * row.tflops / all[0].tflops),
               fmt::format("{:.1e}", row.difference)});
    rows.push_back({{"type", type},
                    {"kernel", row.name},
                    {"size", row.size},
                    {"tflops", row.tflops},
                    {"of_cublas", row.tflops / all[0].tflops},
                    {"difference", row.difference}});
    if (!(row.difference < 1e-4)) right = false;
  }
  fmt::print("{}\n", table.text());
  return right;
}

// What the course wants of a ladder's last rung, as a part of cuBLAS at the largest size.
void print_aim(const std::string& type, const bench::Json& rows) {
  const double aim = type == "fp32" ? 0.9 : type == "bf16" ? 0.6 : 1.0;
  const bench::Json& last = rows.back();
  const double reached = last["of_cublas"];
  fmt::print("{} {}^3: {} reaches {:.1f}% of cuBLAS; the aim is {:.0f}%: {}\n\n", type,
             last["size"].get<int>(), last["kernel"].get<std::string>(), 100 * reached, 100 * aim,
             reached >= aim ? "reached" : "not reached");
}

void add_mma_peak(double seconds, bench::Json& rows) {
  const double tflops = bench::measure_mma_peak(
      [&](const auto& batch) { return shortest_of_batches(seconds, batch); });
  fmt::print("tensor cores, mma.sync on registers alone: {:.1f} TFLOP/s\n\n", tflops);
  rows.push_back({{"type", "peak"}, {"kernel", "mma.sync alone"}, {"tflops", tflops}});
}

// Prints what cuBLAS makes of each kind of data; the first are zeros.
void add_data(int size, double seconds, bench::Json& rows) {
  const std::vector<bench::GpuMatmul> all = bench::measure_gpu_data(size, seconds);
  const PowerModel a100;
  console::Table table(
      {fmt::format("cuBLAS bf16 {}^3", size), "TFLOP/s", "of zeros", "model, A100"});
  for (size_t i = 0; i < all.size(); ++i) {
    const double of_zeros = all[i].tflops / all[0].tflops,
                 model = a100.clock(toggles_of(all_data_kinds[i], 64).all());
    table.row({all[i].name, fmt::format("{:.1f}", all[i].tflops),
               fmt::format("{:.1f}%", 100 * of_zeros), fmt::format("{:.1f}%", 100 * model)});
    rows.push_back({{"type", "data"},
                    {"kernel", all[i].name},
                    {"size", size},
                    {"tflops", all[i].tflops},
                    {"of_zeros", of_zeros}});
  }
  fmt::print("{}\n", table.text());
}

// The ladder of one type at all sizes that it takes; true if all agree with cuBLAS.
bool add_type(const std::string& type, const Options& options, bench::Json& rows) {
  const size_t before = rows.size();
  bool right = true;
  for (const int size : options.sizes) {
    if (type == "hopper" && size % 8 != 0)
      fmt::print("hopper {}^3: not run: TMA wants a multiple of 8\n\n", size);
    else
      right = add_size(type, size, options.seconds, rows) && right;
  }
  if (rows.size() > before) print_aim(type, rows);
  return right;
}

int run(Options options) {
  if (bench::in_emulator) options.seconds = 1e-9;
  const std::string gpu = bench::gpu_name();
  if (gpu.empty()) return bench::not_run("there is no GPU here");
  fmt::print("{}\n\n", gpu);
  bench::Json rows = bench::Json::array();
  bool right = true;
  for (const std::string& type : options.types) {
    if (type == "data") {
      if (!options.sizes.empty()) add_data(options.sizes.back(), options.seconds, rows);
      continue;
    }
    if (type == "hopper" && !bench::has_hopper_instructions()) {
      fmt::print("hopper: not run: wgmma needs a GPU of compute capability 9.0\n\n");
      continue;
    }
    if (type == "bf16") add_mma_peak(options.seconds, rows);
    right = add_type(type, options, rows) && right;
  }
  if (!right) fmt::print(stderr, "a kernel differs from cuBLAS by more than 1e-4\n");
  return bench::end_with(right, options.json,
                         {{"benchmark", "gpu_matmul"}, {"gpu", gpu}, {"rows", rows}});
}

#else

int run(const Options&) { return bench::not_run(bench::no_nvcc); }

#endif

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The CUDA matmul ladders against cuBLAS, in TFLOP/s"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--types", options.types,
                 "ladders to measure; hopper: bf16's last rungs; data: cuBLAS on zeros, ...")
      ->check(CLI::IsMember({"fp32", "bf16", "hopper", "data"}));
  app.add_option("--sizes", options.sizes, "sizes of the square matrices")
      ->check(CLI::Range(1, 32768));
  app.add_option("--seconds", options.seconds, "time for each kernel")
      ->check(CLI::Range(0.01, 60.0));
  return bench::run_benchmark(app, argc, argv, [&] { return run(options); });
}
