// yotta::matmul against OpenBLAS's sgemm, side by side in one run.
//
// Each row is one shape. It is timed in pairs, ours, theirs, theirs, ours, and then the other way
// round: what drifts meanwhile (a core's clock varies by 10% and more) meets both sides alike.
// `ratio` is the median of the pairs' ratios, the two rates are medians over the pairs. All shapes
// take turns, a pair each, so that the pairs of one lie far apart: a few slow seconds are no
// shape's own.
// With several threads a library's threads stay awake for a while after a call and would take the
// other's cores, so there is a pause before each change. OpenBLAS's would stay for 30 ms;
// OPENBLAS_THREAD_TIMEOUT makes that 2 ms, which is still far longer than the time between two of
// its calls here, and short pauses keep the two sides of a pair close together.
// OpenBLAS may not know a processor newer than itself and then falls back to a slow kernel: before
// anything is measured, every kernel it has is tried in a process of its own and the fastest is
// taken.
// Beside each pair stands our rate with the same matrices in bf16, summed in f32.
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

#include "../course/options/console.hpp"
#include "bench.hpp"
#include "course/options/usage.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/core/matmul.hpp"

#ifdef YOTTA_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace {

using namespace yotta;
using bench::Json;
using bench::median;

// Layout as BLAS names it: nn, nt (B is stored (n, k), as linear layers store weights), tn (A is
// (k, m)).
struct Shape {
  int m, n, k;
  std::string layout;
};

struct Options {
  std::string json;
  int pairs = 25;
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
    for (const float x : a_) a_bf16_.emplace_back(x);
    for (const float x : b_) b_bf16_.emplace_back(x);
  }

  void ours() { multiply(a_, b_); }
  void ours_in_bf16() { multiply(a_bf16_, b_bf16_); }

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
  template <class T>
  void multiply(const std::vector<T>& left, const std::vector<T>& right) {
    const auto a = a_transposed() ? transposed(row_major(left.data(), shape_.k, shape_.m))
                                  : row_major(left.data(), shape_.m, shape_.k);
    const auto b = b_transposed() ? transposed(row_major(right.data(), shape_.n, shape_.k))
                                  : row_major(right.data(), shape_.k, shape_.n);
    matmul(a, b, row_major(c_.data(), shape_.m, shape_.n), Into::overwrite, threads_);
  }

  Shape shape_;
  int threads_;
  std::vector<float> a_, b_, c_;
  std::vector<yotta::bfloat16> a_bf16_, b_bf16_;
};

// Until no thread of the other library looks for work any more, and then until this one's are awake
// and on cores of their own, for which a scheduler may take milliseconds.
template <class Call>
void settle(int threads, Call&& call) {
  if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(7));
  const double until = seconds_now() + (threads > 1 ? 0.008 : 0);
  do call();
  while (seconds_now() < until);
}

template <class Call>
double seconds_of(int repeats, Call&& call) {
  const double start = seconds_now();
  for (int i = 0; i < repeats; ++i) call();
  return seconds_now() - start;
}

// Seconds that `2 * repeats` calls of each take; the inner ones lie between the two halves of the
// outer ones.
struct Pair {
  double outer, inner;
};
template <class Outer, class Inner>
Pair measure_pair(int repeats, int threads, Outer&& outer, Inner&& inner) {
  settle(threads, outer);
  const double first = seconds_of(repeats, outer);
  settle(threads, inner);
  const double between = seconds_of(2 * repeats, inner);
  settle(threads, outer);
  return {first + seconds_of(repeats, outer), between};
}

// One shape's pairs.
struct Row {
  Shape shape;
  int threads;
  std::vector<double> ours, theirs, bf16, ratios;  // GFLOP/s, and quotients
};

// The matrices are made anew each time: where their pages lie in the caches is luck, and not always
// the same side's.
void add_pair(Row& row) {
  Problem problem(row.shape, row.threads);
  const int repeats = std::max(1, static_cast<int>(6e8 * row.threads / problem.flops()));
  const double work = problem.flops() * 2 * repeats * 1e-9;
  const auto our_call = [&] { problem.ours(); };
  const auto their_call = [&] { problem.theirs(); };
  const bool ours_outside = row.ratios.size() % 2 == 0;
  Pair time = ours_outside ? measure_pair(repeats, row.threads, our_call, their_call)
                           : measure_pair(repeats, row.threads, their_call, our_call);
  if (!ours_outside) std::swap(time.outer, time.inner);
  row.ours.push_back(work / time.outer);
  row.theirs.push_back(work / time.inner);
  row.ratios.push_back(time.inner / time.outer);
  const auto bf16_call = [&] { problem.ours_in_bf16(); };
  settle(row.threads, bf16_call);
  row.bf16.push_back(3 * work / seconds_of(6 * repeats, bf16_call));
}

void expect_equal(const Shape& shape, int threads) {
  const double difference = Problem(shape, threads).difference();
  if (!(difference <= 1e-2))
    fail(Where::current(), "({}, {}, {}) {}: results differ by {}", shape.m, shape.n, shape.k,
         shape.layout, difference);
}

Json as_json(const Row& row, bool peer) {
  Json json = {{"m", row.shape.m},
               {"n", row.shape.n},
               {"k", row.shape.k},
               {"layout", row.shape.layout},
               {"threads", row.threads},
               {"gflops", median(row.ours)},
               {"bf16_gflops", median(row.bf16)},
               {"openblas_gflops", nullptr},
               {"ratio", nullptr},
               {"pairs", row.ratios.size()}};
  if (peer) {
    json["openblas_gflops"] = median(row.theirs);
    json["ratio"] = median(row.ratios);
  }
  return json;
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

// What this program prints when it is started with --peer-rate and one kernel chosen; 0 if it dies
// of an instruction that the processor does not have.
double rate_with_kernel(const std::string& program, const std::string& kernel) {
  const std::string choice = kernel.empty() ? "" : "OPENBLAS_CORETYPE=" + kernel + " ";
  std::FILE* pipe = popen((choice + "'" + program + "' --peer-rate 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return 0;
  double result = 0;
  if (std::fscanf(pipe, "%lf", &result) != 1) result = 0;
  pclose(pipe);
  return result;
}

std::string fastest_kernel(const std::string& program) {
  std::string best;
  double best_rate = 1.03 * rate_with_kernel(program, "");  // a choice must be worth it
  for (const char* kernel : {"SapphireRapids", "Cooperlake", "SkylakeX", "Zen", "Haswell"}) {
    const double kernel_rate = rate_with_kernel(program, kernel);
    if (kernel_rate <= best_rate) continue;
    best_rate = kernel_rate;
    best = kernel;
  }
  return best;
}

// Starts this program again, if need be, with OpenBLAS's fastest kernel and its threads' patience
// as said above, unless the user has chosen.
void prepare_peer(const std::string& program, char** arguments) {
  const bool patient = std::getenv("OPENBLAS_THREAD_TIMEOUT") == nullptr;
  const std::string kernel =
      std::getenv("OPENBLAS_CORETYPE") == nullptr ? fastest_kernel(program) : "";
  if (patient) setenv("OPENBLAS_THREAD_TIMEOUT", "22", 1);  // 2^22 cycles
  if (!kernel.empty()) setenv("OPENBLAS_CORETYPE", kernel.c_str(), 1);
  if (patient || !kernel.empty()) execv(program.c_str(), arguments);
}
#else
constexpr bool have_peer = false;
std::string peer_name() { return "not found: only yotta is measured (Debian: libopenblas-dev)"; }
void set_peer_threads(int) {}
double peer_rate() { return 0; }
void prepare_peer(const std::string&, char**) {}
#endif

std::vector<Json> measure_all(const Options& options) {
  const std::vector<Shape> all = shapes(options.quick);
  std::vector<Json> json;
  const int64_t rounds = std::ssize(options.threads) * options.pairs;
  console::Progress progress("matmul", rounds);
  for (const int threads : options.threads) {
    set_peer_threads(threads);
    std::vector<Row> rows;
    for (const Shape& shape : all) {
      if (have_peer) expect_equal(shape, threads);
      rows.push_back({shape, threads, {}, {}, {}, {}});
    }
    for (int round = 0; round < options.pairs; ++round) {
      for (Row& row : rows) add_pair(row);
      progress.update(std::ssize(json) / std::ssize(all) * options.pairs + round + 1,
                      fmt::format("{} threads, a pair of each shape", threads));
    }
    for (const Row& row : rows) json.push_back(as_json(row, have_peer));
  }
  return json;
}

void print_rows(const std::vector<Json>& rows) {
  console::Table table(
      {"threads", "m", "n", "k", "layout", "yotta GFLOP/s", "OpenBLAS", "ratio", "yotta in bf16"});
  for (const Json& row : rows) {
    const auto number = [&](const char* key, int digits) {
      return row[key].is_null() ? std::string("-")
                                : fmt::format("{:.{}f}", row[key].get<double>(), digits);
    };
    table.row({row["threads"].dump(), row["m"].dump(), row["n"].dump(), row["k"].dump(),
               row["layout"].get<std::string>(), number("gflops", 1), number("openblas_gflops", 1),
               number("ratio", 3), number("bf16_gflops", 1)});
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
  if (const auto status = yotta::parse_or_end(app, argc, argv)) return *status;
  if (options.peer_rate) {
    fmt::print("{}\n", peer_rate());
    return 0;
  }
  if (options.quick) options.pairs = std::min(options.pairs, 5);
  prepare_peer(bench::own_path(argv[0]), argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
