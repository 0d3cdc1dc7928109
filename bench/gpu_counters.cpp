// Sectors and bank conflicts of the kernels of lessons 02 to 08: as the emulator counts them, and
// beside them as a GPU's own counters do.
//
//     bench_gpu_counters                                         the emulator's counts
//     ncu --csv --print-units base --metrics M PROGRAM --launch  M: what --metrics prints
//     bench_gpu_counters --ncu FILE                              both, from what ncu printed
//
// Caches do not matter: these are what kernels ask for.
//
// Left out: Hopper's rungs of lesson 04. These metrics are those of an SM's load and store unit,
// and what TMA copies and wgmma reads does not pass through it. Lesson 05's kernels are
// compiled by NVRTC; where that is missing, --launch leaves them out and says so.
#include "gpu_counters.hpp"

#include <cmath>
#include <sstream>

#include "bench.hpp"
#include "course/options/console.hpp"
#include "fused_chains.hpp"
#include "gpu_program.hpp"
#include "yotta/device/compile/gpu_program.hpp"
#include "yotta/device/compile/nvrtc.hpp"

namespace yotta::bench {
namespace {

constexpr const char* reads = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
// cp.async of 4 and 8 bytes goes through L1 (.ca), of 16 bytes past it (.cg).
constexpr const char* copies_ca =
    "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum";
constexpr const char* copies_cg =
    "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum";
constexpr const char* writes = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum";
// Atomics whose result nobody reads.
constexpr const char* reductions = "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum";
constexpr const char* conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum";

// The fields of a line, each between quotes; in them "" stands for a quote.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (c == '"' && (quoted = !quoted))
      fields.emplace_back();
    else if (c != '"' && quoted)
      fields.back() += c;
  }
  return fields;
}

// "1,024" is a number; NaN if it is none, as where a GPU lacks a metric.
double number_in(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return end == text.c_str() || *end != 0 ? std::nan("") : number;
}

struct NcuColumns {
  size_t id = 0, kernel = 0, metric = 0, value = 0;
  explicit NcuColumns(const std::vector<std::string>& names) {
    const auto find = [&](const char* name) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end())
        fail(Where::current(), "ncu's table has no column \"{}\"; run ncu with --csv", name);
      return static_cast<size_t>(at - names.begin());
    };
    id = find("ID"), kernel = find("Kernel Name");
    metric = find("Metric Name"), value = find("Metric Value");
  }
  size_t last() const { return std::max({id, kernel, metric, value}); }
};

int64_t count_of(const NcuLaunch& launch, const char* metric) {
  const auto found = launch.metrics.find(metric);
  if (found == launch.metrics.end() || !std::isfinite(found->second))
    fail(Where::current(), "ncu has no {} for {}; this GPU or this ncu lacks it", metric,
         launch.kernel);
  return std::llround(found->second);
}

}  // namespace

std::string ncu_metrics() {
  return fmt::format("{},{},{},{},{},{}", reads, copies_ca, copies_cg, writes, reductions,
                     conflicts);
}

std::vector<NcuLaunch> read_ncu(std::string_view csv) {
  std::istringstream lines{std::string(csv)};
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("\"ID\"")) continue;
  const NcuColumns columns(fields_of(line));
  std::vector<NcuLaunch> all;
  std::string last;
  while (std::getline(lines, line)) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() <= columns.last()) continue;
    if (all.empty() || fields[columns.id] != last) all.push_back({fields[columns.kernel], {}});
    last = fields[columns.id];
    all.back().metrics[fields[columns.metric]] = number_in(fields[columns.value]);
  }
  return all;
}

std::vector<KernelCounters> as_on_gpu(const std::vector<KernelCounters>& emulated,
                                      const std::vector<NcuLaunch>& launches) {
  const auto seen = static_cast<int64_t>(launches.size());
  int64_t wanted = 0, of_nvrtc = 0;
  for (const KernelCounters& each : emulated) {
    wanted += each.launches;
    if (each.lesson == compiled_by_nvrtc) of_nvrtc += each.launches;
  }
  if (seen != wanted && seen != wanted - of_nvrtc)
    fail(Where::current(), "ncu saw {} launches; the program makes {}. Give ncu no --launch-count",
         seen, wanted);
  std::vector<KernelCounters> all;
  size_t next = 0;
  for (const KernelCounters& each : emulated) {
    if (seen != wanted && each.lesson == compiled_by_nvrtc) continue;
    KernelCounters sum = {each.lesson, each.name, each.launches};
    for (int64_t i = 0; i < each.launches; ++i) {
      const NcuLaunch& launch = launches[next++];
      for (const char* metric : {reads, copies_ca, copies_cg})
        sum.sectors_read += count_of(launch, metric);
      for (const char* metric : {writes, reductions})
        sum.sectors_written += count_of(launch, metric);
      sum.conflicts += count_of(launch, conflicts);
    }
    all.push_back(sum);
  }
  return all;
}

}  // namespace yotta::bench

namespace {

using namespace yotta;

struct Options {
  std::string json, ncu;
  bool launch = false, metrics = false;
};

std::string whole_file(const std::string& name) {
  std::ifstream file(name);
  if (!file) fail(Where::current(), "cannot read {}", name);
  return {std::istreambuf_iterator<char>(file), {}};
}

#ifdef YOTTA_HAVE_CUDA
int launch_all() {
  if (bench::gpu_name().empty()) return bench::not_run("there is no GPU here");
  bench::launch_on_gpu();
  if (const std::string why = why_no_nvrtc(); !why.empty()) {
    fmt::print("lesson {}'s kernels are left out: {}\n", bench::compiled_by_nvrtc, why);
    return 0;
  }
  for (const bench::Chain& chain : bench::chains) {
    const bench::FusedChain fused = bench::counted(chain);
    GpuProgram(fused.graph, fused.launches)(fused.in);
  }
  return 0;
}
#else
int launch_all() { return bench::not_run(bench::no_nvcc); }
#endif

// Both beside each other, or one where the GPU's is not known.
std::string beside(int64_t emulated, const int64_t* on_gpu) {
  if (on_gpu == nullptr) return std::to_string(emulated);
  return fmt::format("{} {} {}", emulated, emulated == *on_gpu ? "=" : "/", *on_gpu);
}

bench::Json as_json(const bench::KernelCounters& x) {
  return {{"sectors_read", x.sectors_read},
          {"sectors_written", x.sectors_written},
          {"conflicts", x.conflicts}};
}

int run(const Options& options) {
  if (options.metrics) return fmt::print("{}\n", bench::ncu_metrics()), 0;
  if (options.launch) return launch_all();
  std::vector<bench::NcuLaunch> launches;
  if (!options.ncu.empty()) launches = bench::read_ncu(whole_file(options.ncu));
  const std::vector<bench::KernelCounters> emulated = bench::count_in_emulator();
  std::vector<bench::KernelCounters> on_gpu;
  if (!options.ncu.empty()) on_gpu = bench::as_on_gpu(emulated, launches);
  console::Table table(
      {on_gpu.empty() ? "counted by the emulator" : "emulator / GPU, or = if alike", "sectors read",
       "written", "bank conflicts"});
  bench::Json rows = bench::Json::array();
  size_t alike = 0;
  for (size_t i = 0; i < emulated.size(); ++i) {
    const bench::KernelCounters& here = emulated[i];
    const bench::KernelCounters* const there = i < on_gpu.size() ? &on_gpu[i] : nullptr;
    alike += there != nullptr && here == *there;
    const auto of = [&](int64_t bench::KernelCounters::*count) {
      return beside(here.*count, there == nullptr ? nullptr : &(there->*count));
    };
    table.row({here.lesson + " " + here.name, of(&bench::KernelCounters::sectors_read),
               of(&bench::KernelCounters::sectors_written), of(&bench::KernelCounters::conflicts)});
    rows.push_back({{"lesson", here.lesson},
                    {"kernel", here.name},
                    {"launches", here.launches},
                    {"emulator", as_json(here)},
                    {"gpu", there == nullptr ? bench::Json() : as_json(*there)}});
  }
  fmt::print("{}", table.text());
  if (!on_gpu.empty()) fmt::print("{} of {} kernels alike\n", alike, on_gpu.size());
  if (!on_gpu.empty() && on_gpu.size() < emulated.size())
    fmt::print("lesson {} was not launched on the GPU: NVRTC, which compiles it, was missing\n",
               bench::compiled_by_nvrtc);
  fmt::print(
      "left out: Hopper's rungs; what TMA copies and wgmma reads does not pass through the unit\n"
      "whose counters these are\n");
  return bench::end_with(true, options.json, {{"benchmark", "gpu_counters"}, {"rows", rows}});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Sectors and bank conflicts of the lessons' kernels: the emulator's, and ncu's"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--ncu", options.ncu, "what ncu printed for --launch: its counts stand beside");
  app.add_flag("--launch", options.launch, "launch each kernel once on the GPU, for ncu");
  app.add_flag("--metrics", options.metrics, "print the metrics that ncu is to collect");
  return bench::run_benchmark(app, argc, argv, [&] { return run(options); });
}
