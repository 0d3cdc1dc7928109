// yotta::matmul against OpenBLAS's sgemm, side by side in one run.
//
// Each row is one shape: pairs of (ours, theirs) timed one right after the other, first one and then the
// other in front, so that a busy machine slows both. `ratio` is the median of the pairs' ratios, the two
// rates are medians over the pairs. Between two libraries' threads there is a pause, since the threads of
// one keep spinning for a while and would take the other's cores.
// OpenBLAS may not know a processor newer than itself and then falls back to a slow kernel: before
// anything is measured, every kernel it has is tried in a process of its own and the fastest is taken.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../course/shared/console.hpp"
#include "bench.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/core/measure.hpp"

#ifdef YOTTA_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace {

using namespace yotta;
using bench::Json;
using bench::median;

// Layout as BLAS names it: nn, nt (B is stored (n, k), as linear layers store weights), tn (A is (k, m)).
struct Shape {
  int m, n, k;
  std::string layout;
};

struct Options {
  std::string json;
  int pairs = 15;
  std::vector<int> threads = {1, 2};
  bool quick = false, peer_rate = false;
};

// Squares, and a GPT-2 block's linear layers on 2048 tokens: y = x W', dx = dy W, dW = dy' x.
std::vector<Shape> shapes(bool quick) {
  std::vector<Shape> all;
  for (const int n : {256, 384, 512, 768, 1024, 1536, 2048})
    if (!quick || n <= 768) all.push_back({n, n, n, "nn"});
  const std::vector<std::pair<int, int>> weights = {
      {1152, 384}, {384, 384}, {1536, 384}, {384, 1536}, {256, 384}};  // (out, in)
  for (const auto& [out, in] : weights) {
    if (quick && out != 384) continue;
    all.push_back({2048, out, in, "nt"});
    all.push_back({2048, in, out, "nn"});
    all.push_back({out, in, 2048, "tn"});
  }
  return all;
}

class Problem {
 public:
  Problem(const Shape& shape, int threads)
      : shape_(shape),
        threads_(threads),
        a_(count(shape.m, shape.k)),
        b_(count(shape.k, shape.n)),
        c_(count(shape.m, shape.n)) {
    uint32_t seed = 1;
    for (auto* matrix : {&a_, &b_})
      for (float& x : *matrix) {
        seed = seed * 1664525u + 1013904223u;
        x = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
      }
  }

  void ours() {
    const auto a = a_transposed() ? transposed(row_major(a_.data(), shape_.k, shape_.m))
                                  : row_major(a_.data(), shape_.m, shape_.k);
    const auto b = b_transposed() ? transposed(row_major(b_.data(), shape_.n, shape_.k))
                                  : row_major(b_.data(), shape_.k, shape_.n);
    matmul(a, b, row_major(c_.data(), shape_.m, shape_.n), Into::overwrite, threads_);
  }

  void theirs() {
#ifdef YOTTA_HAVE_OPENBLAS
    cblas_sgemm(CblasRowMajor, a_transposed() ? CblasTrans : CblasNoTrans,
                b_transposed() ? CblasTrans : CblasNoTrans, shape_.m, shape_.n, shape_.k, 1.0f,
                a_.data(), a_transposed() ? shape_.m : shape_.k, b_.data(),
                b_transposed() ? shape_.k : shape_.n, 0.0f, c_.data(), shape_.n);
#endif
  }

  // Largest difference between the two results; what rounding explains is about 1e-5.
  double difference() {
    ours();
    const std::vector<float> mine = c_;
    theirs();
    double worst = 0;
    for (size_t i = 0; i < c_.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::fabs(mine[i] - c_[i])));
    return worst;
  }

  double flops() const { return matmul_flops(shape_.m, shape_.n, shape_.k); }

 private:
  static size_t count(int rows, int cols) {
    return static_cast<size_t>(rows) * static_cast<size_t>(cols);
  }
  bool a_transposed() const { return shape_.layout[0] == 't'; }
  bool b_transposed() const { return shape_.layout[1] == 't'; }

  Shape shape_;
  int threads_;
  std::vector<float> a_, b_, c_;
};

// GFLOP/s over `repeats` calls of a library that is at work: with several threads there is first a pause, in
// which the other library's threads stop looking for work and go to sleep, and then untimed calls until
// this one's threads are awake and on cores of their own, which a scheduler may take milliseconds for.
template <class Call>
double rate(const Problem& problem, int repeats, int threads, Call&& call) {
  if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(40));
  const double settled = seconds_now() + (threads > 1 ? 0.025 : 0);
  do call();
  while (seconds_now() < settled);
  const double start = seconds_now();
  for (int i = 0; i < repeats; ++i) call();
  return problem.flops() * repeats / (seconds_now() - start) * 1e-9;
}

Json measure(const Shape& shape, int threads, int pairs, bool peer) {
  Problem problem(shape, threads);
  const double difference = peer ? problem.difference() : 0;
  if (!(difference <= 1e-2))
    fail(Where::current(), "({}, {}, {}) {}: results differ by {}", shape.m, shape.n, shape.k,
         shape.layout, difference);
  const int repeats = std::max(1, static_cast<int>(5e8 * threads / problem.flops()));
  std::vector<double> ours, theirs, ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool peer_first = peer && pair % 2 == 1;
    double their_rate = 0;
    if (peer_first) their_rate = rate(problem, repeats, threads, [&] { problem.theirs(); });
    const double our_rate = rate(problem, repeats, threads, [&] { problem.ours(); });
    if (peer && !peer_first)
      their_rate = rate(problem, repeats, threads, [&] { problem.theirs(); });
    ours.push_back(our_rate);
    theirs.push_back(their_rate);
    if (peer) ratios.push_back(our_rate / their_rate);
  }
  Json row = {{"m", shape.m},
              {"n", shape.n},
              {"k", shape.k},
              {"layout", shape.layout},
              {"threads", threads},
              {"gflops", median(ours)},
              {"openblas_gflops", nullptr},
              {"ratio", nullptr},
              {"pairs", pairs}};
  if (peer) {
    row["openblas_gflops"] = median(theirs);
    row["ratio"] = median(ratios);
  }
  return row;
}

#ifdef YOTTA_HAVE_OPENBLAS
constexpr bool have_peer = true;
std::string peer_name() {
  return fmt::format("{}, kernel {}", openblas_get_config(), openblas_get_corename());
}
void set_peer_threads(int threads) { openblas_set_num_threads(threads); }

double peer_rate() {
  set_peer_threads(1);
  Problem problem({512, 512, 512, "nn"}, 1);
  return problem.flops() / shortest_seconds(0.1, [&] { problem.theirs(); }) * 1e-9;
}

// What this program prints when it is started with --peer-rate and one kernel chosen; 0 if it dies of an
// instruction that the processor does not have.
double rate_with_kernel(const std::string& program, const std::string& kernel) {
  const std::string choice = kernel.empty() ? "" : "OPENBLAS_CORETYPE=" + kernel + " ";
  std::FILE* pipe = popen((choice + "'" + program + "' --peer-rate 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return 0;
  double result = 0;
  if (std::fscanf(pipe, "%lf", &result) != 1) result = 0;
  pclose(pipe);
  return result;
}

// Starts this program again with OpenBLAS's fastest kernel, unless the user has chosen one.
void use_fastest_peer(const std::string& program, char** arguments) {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  std::string best;
  double best_rate = 1.03 * rate_with_kernel(program, "");  // a choice must be worth it
  for (const char* kernel : {"SapphireRapids", "Cooperlake", "SkylakeX", "Zen", "Haswell"}) {
    const double kernel_rate = rate_with_kernel(program, kernel);
    if (kernel_rate <= best_rate) continue;
    best_rate = kernel_rate;
    best = kernel;
  }
  if (best.empty()) return;
  setenv("OPENBLAS_CORETYPE", best.c_str(), 1);
  execv(program.c_str(), arguments);
}
#else
constexpr bool have_peer = false;
std::string peer_name() { return "not found: only yotta is measured (Debian: libopenblas-dev)"; }
void set_peer_threads(int) {}
double peer_rate() { return 0; }
void use_fastest_peer(const std::string&, char**) {}
#endif

std::vector<Json> measure_all(const Options& options) {
  const std::vector<Shape> all = shapes(options.quick);
  std::vector<Json> rows;
  console::Progress progress("matmul", static_cast<int64_t>(all.size() * options.threads.size()));
  for (const int threads : options.threads) {
    set_peer_threads(threads);
    for (const Shape& shape : all) {
      progress.update(static_cast<int64_t>(rows.size()),
                      fmt::format("{} x {} x {} {}", shape.m, shape.n, shape.k, shape.layout));
      rows.push_back(measure(shape, threads, options.pairs, have_peer));
    }
  }
  progress.update(static_cast<int64_t>(rows.size()));
  return rows;
}

void print_rows(const std::vector<Json>& rows) {
  console::Table table({"threads", "m", "n", "k", "layout", "yotta GFLOP/s", "OpenBLAS", "ratio"});
  for (const Json& row : rows) {
    const auto number = [&](const char* key, int digits) {
      return row[key].is_null() ? std::string("-")
                                : fmt::format("{:.{}f}", row[key].get<double>(), digits);
    };
    table.row({row["threads"].dump(), row["m"].dump(), row["n"].dump(), row["k"].dump(),
               row["layout"].get<std::string>(), number("gflops", 1), number("openblas_gflops", 1),
               number("ratio", 3)});
  }
  fmt::print("{}", table.text());
}

// {geometric_mean, minimum} of the ratios.
Json summary(const std::vector<Json>& rows) {
  double logs = 0, least = 1e300;
  for (const Json& row : rows) {
    logs += std::log(row["ratio"].get<double>());
    least = std::min(least, row["ratio"].get<double>());
  }
  return {{"geometric_mean", std::exp(logs / static_cast<double>(rows.size()))},
          {"minimum", least}};
}

int run(const Options& options) {
  fmt::print("OpenBLAS: {}\n", peer_name());
  const std::vector<Json> rows = measure_all(options);
  print_rows(rows);
  Json report = {{"benchmark", "matmul"}, {"openblas", peer_name()}, {"rows", rows}};
  if (have_peer) {
    report.update(summary(rows));
    fmt::print("ratio yotta / OpenBLAS: geometric mean {:.3f}, minimum {:.3f} over {} rows\n",
               report["geometric_mean"].get<double>(), report["minimum"].get<double>(),
               rows.size());
  }
  if (options.json.empty()) return 0;
  return bench::write_json(options.json, report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The course's matmul against OpenBLAS's sgemm, in GFLOP/s"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--pairs", options.pairs, "pairs of timings for each shape")
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", options.threads, "numbers of threads to measure")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--quick", options.quick, "fewer shapes and 5 pairs");
  app.add_flag("--peer-rate", options.peer_rate, "print OpenBLAS's rate and stop")->group("");
  CLI11_PARSE(app, argc, argv);
  if (options.peer_rate) {
    fmt::print("{}\n", peer_rate());
    return 0;
  }
  if (options.quick) options.pairs = std::min(options.pairs, 5);
  use_fastest_peer(bench::own_path(argv[0]), argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
