// What a host and the way to its GPU cost, beside the constants of lesson 06's model: a launch, a
// wait, a graph, the queue, copies from both kinds of memory, and how well copies and kernels
// overlap.
//
// Every time is the shortest of 20 tries. Without a GPU, or built without nvcc, it says so and ends
// with 77, "not run".
#include "gpu_launch.hpp"

#include "bench.hpp"
#include "course/options/console.hpp"
#include "gpu_program.hpp"
#include "yotta/machine/launch_overhead.hpp"

namespace {

using namespace yotta;

struct Options {
  std::string json;
  int megabytes = bench::in_emulator ? 1 : 64, pieces = 8, rounds = bench::in_emulator ? 1 : 1000;
};

#ifdef YOTTA_HAVE_CUDA

// Rows of what was measured; a model of 0 has none.
class Rows {
 public:
  void add(const char* what, const char* unit, double measured, double model = 0) {
    table_.row({fmt::format("{}, {}", what, unit), fmt::format("{:.2f}", measured),
                model > 0 ? fmt::format("{:.2f}", model) : ""});
    json_.push_back({{"what", what}, {"unit", unit}, {"measured", measured}, {"model", model}});
  }
  std::string text() const { return table_.text(); }
  const bench::Json& json() const { return json_; }

 private:
  console::Table table_{{"", "measured", "lesson 06"}};
  bench::Json json_ = bench::Json::array();
};

void add_launches(Rows& rows) {
  const Host host;
  const bench::GpuLaunch found = bench::measure_gpu_launch();
  rows.add("a launch", "us of the host", 1e6 * found.launch, 1e6 * host.launch);
  rows.add("a launch and a wait", "us", 1e6 * found.waited,
           1e6 * (host.launch + host.gap + host.completion));
  rows.add("a small kernel of 500, launched each", "us", 1e6 * found.separate);
  rows.add("the same in a graph", "us", 1e6 * found.replayed);
  rows.add("a launch of that graph", "us of the host", 1e6 * found.graph_launch,
           1e6 * host.graph_launch);
  rows.add("the queue", "launches; 0: over 100,000", found.queue);
}

void add_copies(const Options& options, Rows& rows) {
  const Host host;
  const auto bytes = static_cast<size_t>(options.megabytes) * 1'000'000;
  const bench::GpuCopies found = bench::measure_gpu_copies(bytes);
  rows.add("a copy from pinned memory", "GB/s", 1e-9 * found.pinned, 1e-9 * host.pinned);
  rows.add("a copy from pageable memory", "GB/s", 1e-9 * found.pageable, 1e-9 * host.pageable);
}

// True if both ways of running the pieces agree.
bool add_overlap(const Options& options, Rows& rows) {
  const int numbers = options.megabytes * 1'000'000 / 4;
  const bench::GpuOverlap found =
      bench::measure_gpu_overlap(options.pieces, numbers, options.rounds);
  rows.add("copies of all pieces to the GPU", "ms", 1e3 * found.copies);
  rows.add("kernels of all pieces", "ms", 1e3 * found.kernels);
  rows.add("pieces in turn, copied back too", "ms", 1e3 * found.in_turn);
  rows.add("pieces overlapped", "ms", 1e3 * found.overlapped);
  return found.same;
}

int run(const Options& options) {
  const std::string gpu = bench::gpu_name();
  if (gpu.empty()) return bench::not_run("there is no GPU here");
  Rows rows;
  add_launches(rows);
  add_copies(options, rows);
  const bool right = add_overlap(options, rows);
  fmt::print("{}\n\n{}", gpu, rows.text());
  if (!right) fmt::print(stderr, "overlapped pieces have other values than pieces in turn\n");
  return bench::end_with(right, options.json,
                         {{"benchmark", "gpu_launch"}, {"gpu", gpu}, {"rows", rows.json()}});
}

#else

int run(const Options&) { return bench::not_run(bench::no_nvcc); }

#endif

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Launches, graphs, copies and their overlap on a GPU"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--megabytes", options.megabytes, "of a copy, and of a piece")
      ->check(CLI::Range(1, 1000));
  app.add_option("--pieces", options.pieces, "pieces that are copied, computed and copied back")
      ->check(CLI::Range(1, 1000));
  app.add_option("--rounds", options.rounds, "work of a kernel on each number")
      ->check(CLI::Range(1, 1000000));
  return bench::run_benchmark(app, argc, argv, [&] { return run(options); });
}
