// Fused kernels against the same operations one at a time, and against torch.compile's CPU code:
// arrays of 64 MiB, in one run.
//
// For each chain: seconds one operation at a time, seconds fused, their ratio, and the ratio of
// bytes by the formula. While memory is the limit the two ratios agree. PyTorch runs the same
// chain, eagerly and compiled by TorchInductor, on as many threads; it is started once for each
// round, so that the computer's moods meet both. A figure is the shortest of all rounds.
//
// Neither side pays for fresh memory. Ours keeps what it has freed (core/cpu/block_cache.hpp).
// PyTorch's compiled functions write into results that are there before the clock starts
// (out.copy_(f(x)), which TorchInductor fuses into the kernel), and its malloc gives nothing back
// to the system, for the values between eager operations. Dropout is each side's own: Philox in
// both fused kernels, a Mersenne twister in PyTorch's eager mode.
//
// PyTorch is looked for as --python PROGRAM, else python3 on the PATH. Without it that column is
// left out, and the program says so.
//
// --device gpu runs the same chains as CUDA on the first GPU instead, through NVRTC, and compares
// their results with the CPU's.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "../course/options/console.hpp"
#include "bench.hpp"
#include "fused_chains.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/device/compile/gpu_program.hpp"
#include "yotta/device/compile/nvrtc.hpp"
#include "yotta/device/fused_program.hpp"

namespace {

using namespace yotta;
using bench::chains;
using bench::Json;

struct Options {
  std::string json, python = "python3", device = "cpu";
  int threads = 2, rounds = 3;
  int64_t rows = 4096, columns = 4096;
  int milliseconds = 1000;
};

// The same chains in PyTorch: prints "number eager compiled", seconds, a line for each.
constexpr const char* torch_program = R"(
import sys, time, torch
rows, columns, threads, budget = (int(a) for a in sys.argv[1:5])
torch.set_num_threads(threads)
def gelu(x): return x / (torch.exp(x * (x * x * 0.0713548162726 + 1.5957691216) * -1.0) + 1.0)
def softmax(x):
    e = torch.exp(x - x.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)
def masked(x):
    later = torch.arange(x.shape[0])[:, None] < torch.arange(x.shape[1])
    return softmax(torch.where(later, -torch.inf, x))
def layernorm(x):
    c = x - x.sum(1, keepdim=True) / x.shape[1]
    return c / torch.sqrt((c * c).sum(1, keepdim=True) / x.shape[1] + 1e-5)
def affine(x, gain, bias): return layernorm(x) * gain + bias
def adamw(*a):
    n, made = len(a) // 4, []
    for w, g, m, v in zip(a[:n], a[n:2 * n], a[2 * n:3 * n], a[3 * n:]):
        m, v = m * 0.9 + g * 0.1, v * 0.95 + g * g * 0.05
        made += [w * 0.9999 - m * 1e-3 / (torch.sqrt(v) + 1e-8), m, v]
    return tuple(made)
def dropped(x, b, r): return torch.nn.functional.dropout(gelu(x + b), 0.25) + r
chains = [(lambda x: torch.relu(x * 2 + 1), 1, (), 1), (lambda x, b, r: gelu(x + b) + r, 3, (1,), 1),
          (dropped, 3, (1,), 1), (softmax, 1, (), 1), (masked, 1, (), 1), (layernorm, 1, (), 1),
          (affine, 3, (1, 2), 1), (adamw, 4, (), 1), (adamw, 80, (), 20)]
def into(f):
    def g(results, *a):
        made = f(*a)
        for result, each in zip(results, made if isinstance(made, tuple) else (made,)):
            result.copy_(each)
    return torch.compile(g)
def shortest(f, *a):
    f(*a); f(*a)
    best, end = 1e9, time.time() + budget / 1000
    while time.time() < end:
        start = time.perf_counter(); f(*a); best = min(best, time.perf_counter() - start)
    return best
with torch.no_grad():
    for i, (f, n, single, parts) in enumerate(chains):
        a = [torch.rand(1 if j in single else max(rows // parts, 1), columns) for j in range(n)]
        results = [torch.zeros_like(a[0]) for _ in range(3 * n // 4 if f is adamw else 1)]
        print(i, shortest(f, *a), shortest(into(f), results, *a), flush=True)
)";

struct Times {
  double eager = 1e9, fused = 1e9;
  void shorten(double e, double f) {
    eager = std::min(eager, e);
    fused = std::min(fused, f);
  }
};

// Runs PyTorch once; nothing if it is not there.
std::map<size_t, Times> run_torch(const Options& options) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("yotta_bench_fusion_{}.py", getpid());
  std::ofstream(file) << torch_program;
  const std::string command = fmt::format(
      "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 "
      "{} {} {} {} {} {} 2>/dev/null",
      options.python, file.string(), options.rows, options.columns, options.threads,
      options.milliseconds);
  std::map<size_t, Times> all;
  std::FILE* output = popen(command.c_str(), "r");
  size_t chain = 0;
  double eager = 0, compiled = 0;
  while (output != nullptr && std::fscanf(output, "%zu %lf %lf", &chain, &eager, &compiled) == 3)
    all[chain].shorten(eager, compiled);
  if (output != nullptr) pclose(output);
  std::filesystem::remove(file);
  return all;
}

double eager_bytes(const Graph& graph) {
  double bytes = 0;
  for (int n = 0; n < graph.size(); ++n) {
    if (graph.node(n).op == Op::input || graph.node(n).op == Op::number) continue;
    const OpCost cost = eager_cost(graph, n);
    bytes += cost.bytes_read + cost.bytes_written;
  }
  return bytes;
}

std::vector<Tensor> arguments(const Options& options, const bench::Chain& chain) {
  return bench::arguments(chain, options.rows, options.columns);
}

// One operation a kernel, and fused, on the first GPU.
int run_on_gpu(const Options& options) {
  for (const std::string& missing : {why_no_gpu(), why_no_nvrtc()})
    if (!missing.empty()) {
      fmt::print("not run: {}\n", missing);
      return 77;
    }
  fmt::print("{}\n", gpu_chip().name);
  console::Table table(
      {"chain", "one by one, ms", "fused, ms", "times", "bytes", "times/bytes", "fused, GB/s"});
  Json report = {{"gpu", gpu_chip().name}, {"chains", Json::array()}};
  for (size_t c = 0; c < std::size(chains); ++c) {
    const std::vector<Tensor> in = arguments(options, chains[c]);
    const Graph graph = merge_equal(capture_list(chains[c].function, in));
    std::vector<double> seconds, bytes;
    for (const bool fused : {false, true}) {
      const auto all = kernels(graph, fused ? fuse(graph) : one_kernel_each(graph));
      const GpuProgram program(graph, fused ? foreach (graph, all) : one_launch_each(all));
      const std::vector<Tensor> got = program(in), expected = run(graph, in);
      for (size_t i = 0; i < got.size(); ++i) {
        const Verdict verdict = compare(got[i], expected[i], 1e-5);
        if (!verdict) {
          fmt::print("{}: {}\n", chains[c].name, verdict.text);
          return 1;
        }
      }
      seconds.push_back(1e9);
      for (int round = 0; round < options.rounds; ++round)
        seconds.back() = std::min(seconds.back(), program.seconds(20));
      bytes.push_back(bytes_moved(graph, all));
    }
    const double times = seconds[0] / seconds[1], ratio = bytes[0] / bytes[1];
    table.row({chains[c].name, fmt::format("{:.3f}", 1e3 * seconds[0]),
               fmt::format("{:.3f}", 1e3 * seconds[1]), fmt::format("{:.2f}", times),
               fmt::format("{:.2f}", ratio), fmt::format("{:.2f}", times / ratio),
               fmt::format("{:.0f}", bytes[1] / seconds[1] / 1e9)});
    report["chains"].push_back({{"chain", chains[c].name},
                                {"apart_seconds", seconds[0]},
                                {"fused_seconds", seconds[1]},
                                {"bytes_ratio", ratio}});
  }
  fmt::print("{}", table.text());
  return options.json.empty() ? 0 : bench::write_json(options.json, report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Fused kernels, one operation at a time, and torch.compile on the same chains.");
  Options options;
  app.add_option("--threads", options.threads, "of each")->check(CLI::Range(1, 256));
  app.add_option("--rounds", options.rounds, "of all")->check(CLI::Range(1, 100));
  app.add_option("--rows", options.rows, "of the arrays")->check(CLI::Range(1, 1 << 20));
  app.add_option("--columns", options.columns, "of the arrays")->check(CLI::Range(1, 8192));
  app.add_option("--milliseconds", options.milliseconds, "for a measurement")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--python", options.python, "a Python with PyTorch");
  app.add_option("--device", options.device, "cpu or gpu")->check(CLI::IsMember({"cpu", "gpu"}));
  app.add_option("--json", options.json, "write the figures to this file");
  if (const auto status = parse_or_end(app, argc, argv)) return *status;
  if (options.device == "gpu") return run_on_gpu(options);
  context().threads = options.threads;
  constexpr size_t count = std::size(chains);
  std::vector<Times> ours(count), torch(count);
  bool has_torch = true;
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t c = 0; c < count; ++c) {
      const std::vector<Tensor> in = arguments(options, chains[c]);
      const FusedProgram program(capture_list(chains[c].function, in));
      std::vector<Array> arrays;
      for (const Tensor& each : in) arrays.push_back(Array(each));
      const double budget = options.milliseconds * 1e-3;
      ours[c].shorten(shortest_seconds(budget, [&] { chains[c].function(arrays); }),
                      shortest_seconds(budget, [&] { program(in); }));
    }
    if (!has_torch) continue;
    const std::map<size_t, Times> theirs = run_torch(options);
    has_torch = theirs.size() == count;
    for (const auto& [c, times] : theirs) torch[c].shorten(times.eager, times.fused);
  }
  if (!has_torch)
    fmt::print("torch.compile: not run, {} has no working PyTorch (--python PROGRAM names one)\n",
               options.python);
  console::Table table({"chain", "one by one, ms", "fused, ms", "times", "bytes", "times/bytes",
                        "torch, ms", "compiled, ms", "compiled/fused"});
  Json report = {{"rows", options.rows},
                 {"columns", options.columns},
                 {"threads", options.threads},
                 {"torch", has_torch},
                 {"chains", Json::array()}};
  for (size_t c = 0; c < count; ++c) {
    const Graph graph = capture_list(chains[c].function, arguments(options, chains[c]));
    const Graph once = merge_equal(graph);
    const double times = ours[c].eager / ours[c].fused;
    const double bytes = eager_bytes(graph) / bytes_moved(once, kernels(once, fuse(once)));
    const auto torch_text = [&](double value, const char* none = "-") {
      return has_torch ? fmt::format("{:.2f}", value) : std::string(none);
    };
    table.row({chains[c].name, fmt::format("{:.2f}", 1e3 * ours[c].eager),
               fmt::format("{:.2f}", 1e3 * ours[c].fused), fmt::format("{:.2f}", times),
               fmt::format("{:.2f}", bytes), fmt::format("{:.2f}", times / bytes),
               torch_text(1e3 * torch[c].eager), torch_text(1e3 * torch[c].fused),
               torch_text(torch[c].fused / ours[c].fused)});
    Json row = {{"chain", chains[c].name},
                {"eager_seconds", ours[c].eager},
                {"fused_seconds", ours[c].fused},
                {"bytes_ratio", bytes}};
    if (has_torch) row["torch_eager_seconds"] = torch[c].eager;
    if (has_torch) row["torch_compiled_seconds"] = torch[c].fused;
    report["chains"].push_back(row);
  }
  fmt::print("{}", table.text());
  return options.json.empty() ? 0 : bench::write_json(options.json, report);
}
