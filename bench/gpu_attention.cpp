// The CUDA ladder of attention against two matmuls of cuBLAS with a softmax between, in one run:
// forward, backward, and decoding with a long cache.
//
// FLOPs are 4 T^2 d for a head, half of them with a causal mask, and 2.5 times as many backward, as
// FlashAttention's authors count. Without a GPU, or built without nvcc, it says so and ends with
// 77, "not run".
#include <CLI/CLI.hpp>

#include "bench.hpp"
#include "course/shared/console.hpp"
#include "course/shared/usage.hpp"
#include "gpu_attention.hpp"
#include "yotta/core/cpu/measure.hpp"

namespace {

using namespace yotta;

struct Options {
  std::string json;
  std::vector<int> lengths = {512, 1024, 2048, 4096, 8192, 16384};
  std::vector<int> head_sizes = {64, 128};
  double seconds = 0.5;
};

int not_run(const char* why) {
  fmt::print("not run: {}\n", why);
  return 77;
}

#ifdef YOTTA_HAVE_CUDA

// Prints the kernels in one setting; true if all agree.
bool add_setting(const bench::AttentionSetting& setting, double seconds, bench::Json& rows) {
  const std::vector<bench::GpuAttention> all = bench::measure_gpu_attention(
      setting, [&](const auto& body) { return shortest_seconds(seconds, body); });
  console::Table table(
      {fmt::format("T {}, d {}{}", setting.T, setting.d, setting.causal ? ", causal" : ""),
       "TFLOP/s", "times cuBLAS", "difference"});
  bool right = true;
  for (const bench::GpuAttention& row : all) {
    table.row({row.name, fmt::format("{:.1f}", row.tflops),
               fmt::format("{:.2f}", row.tflops / all[0].tflops),
               fmt::format("{:.1e}", row.difference)});
    rows.push_back({{"kernel", row.name},
                    {"T", setting.T},
                    {"d", setting.d},
                    {"causal", setting.causal},
                    {"tflops", row.tflops},
                    {"of_cublas", row.tflops / all[0].tflops},
                    {"difference", row.difference}});
    if (!(row.difference < 0.03)) right = false;  // P is rounded to bf16 in all of them
  }
  fmt::print("{}\n", table.text());
  return right;
}

void add_decoding(double seconds, bench::Json& rows) {
  console::Table table({"a token, d 128", "keys", "heads", "splits", "GB/s of the cache"});
  for (const auto& [sequences, keys, H, Hkv] :
       {bench::DecodingSetting{1, 65536, 32, 8}, {1, 65536, 32, 32}, {16, 8192, 32, 8}}) {
    const std::vector<bench::GpuDecoding> all = bench::measure_gpu_decoding(
        {sequences, keys, H, Hkv},
        [&](const auto& body) { return shortest_seconds(seconds, body); });
    for (const bench::GpuDecoding& row : all) {
      table.row({row.name, fmt::format("{} x {}", sequences, keys), fmt::format("{}/{}", H, Hkv),
                 fmt::format("{}", row.splits), fmt::format("{:.0f}", row.gigabytes_a_second)});
      rows.push_back({{"kernel", row.name},
                      {"sequences", sequences},
                      {"keys", keys},
                      {"Hkv", Hkv},
                      {"splits", row.splits},
                      {"gigabytes_a_second", row.gigabytes_a_second}});
    }
  }
  fmt::print("{}\n", table.text());
}

// What the course wants of the tensor-core rung: FlashAttention-2's published rate on an H100.
void print_aim(const bench::Json& rows) {
  constexpr double aim = 335;
  double best = 0;
  for (const bench::Json& row : rows)
    if (row["kernel"] == "FlashAttention-2, mma.sync")
      best = std::max(best, row["tflops"].get<double>());
  fmt::print("forward reaches {:.0f} TFLOP/s at best; the aim on an H100 is {:.0f}: {}\n", best,
             aim, best >= aim ? "reached" : "not reached");
}

int run(const Options& options) {
  const std::string gpu = bench::gpu_name();
  if (gpu.empty()) return not_run("there is no GPU here");
  fmt::print("{}\n\n", gpu);
  bench::Json rows = bench::Json::array(), decoding = bench::Json::array();
  bool right = true;
  for (const int d : options.head_sizes)
    for (const bool causal : {false, true})
      for (const int T : options.lengths)
        right = add_setting({T, d, causal}, options.seconds, rows) && right;
  add_decoding(options.seconds, decoding);
  print_aim(rows);
  if (!right) fmt::print(stderr, "a kernel differs by more than 3%\n");
  int result = right ? 0 : 1;
  if (!options.json.empty())
    result |= bench::write_json(
        options.json,
        {{"benchmark", "gpu_attention"}, {"gpu", gpu}, {"rows", rows}, {"decoding", decoding}});
  return result;
}

#else

int run(const Options&) {
  return not_run("this was built without nvcc; cmake --preset cuda builds it with");
}

#endif

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The CUDA ladder of attention against cuBLAS, in TFLOP/s"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--lengths", options.lengths, "tokens of a sequence")->check(CLI::Range(1, 65536));
  app.add_option("--head-sizes", options.head_sizes, "numbers of a head")
      ->check(CLI::IsMember({64, 128}));
  app.add_option("--seconds", options.seconds, "time for each kernel")
      ->check(CLI::Range(0.01, 60.0));
  if (const auto status = yotta::parse_or_end(app, argc, argv)) return *status;
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
