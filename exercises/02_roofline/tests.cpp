// The graded cases of exercise 02: right numbers, and right counts. Time on the emulator says
// nothing about a GPU and is not looked at.
#include "course/cases/graded.hpp"
#include "course/cases/whole_numbers.hpp"
#include "interface.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

// Both matrices, and what their product should be.
struct Problem {
  int m, n, k;
  std::vector<float> a = whole_numbers(m * k, 7), b = whole_numbers(k * n, 5);  // (m, k), (k, n)

  std::vector<double> expected() const {  // (m, n)
    std::vector<double> c(static_cast<size_t>(m * n));
    matmul_naive(row_major(a.data(), m, k), row_major(b.data(), k, n), row_major(c.data(), m, n),
                 Into::overwrite);
    return c;
  }
  std::vector<float> run(uint64_t seed = 1, int T = 32) const {
    const unsigned side = static_cast<unsigned>(T);
    const MatmulKernel kernel = T == 22 ? solution.tile_22 : solution.tile_32;
    return launch_matmul({kernel, T, side, side}, a, b, m, n, k, seed);
  }
  std::string size() const { return fmt::format("({}, {}) times ({}, {})", m, k, k, n); }
};

bool right(const Problem& problem) {
  const std::vector<float> c = problem.run();
  const std::vector<double> expected = problem.expected();
  return std::equal(c.begin(), c.end(), expected.begin(), expected.end());
}

void expect_right(const Problem& problem, const std::string& advice = "") {
  const std::vector<float> c = problem.run();
  Clues clues;
  clues.what = problem.size();
  clues.shape = {problem.m, problem.n};
  Verdict verdict = compare(std::vector<double>(c.begin(), c.end()), problem.expected(), 0, clues);
  if (!verdict && !advice.empty()) verdict.text += "\n    " + advice;
  expect(verdict);
}

// Runs it on blocks of 22 x 22, of which three reach exactly one row or column beyond 65. An access
// outside is said in the words of the exercise: "row 65 of 65 read".
void expect_inside(const Problem& problem, const std::string& advice) {
  const std::string text = exercise::error_of([&] { problem.run(1, 22); });
  if (text.empty()) return;
  const size_t row = text.find("row ");
  std::string what = problem.size() + ": ";
  if (text.find("out of bounds") != std::string::npos && row != std::string::npos)
    what += text.substr(row, text.find(',', row) - row) +
            (text.find("reads") != std::string::npos ? " read: " : " written: ");
  expect(false, what + advice + "\n    " + text);
  CHECK(true);
}

// A square product: the first tile whose bytes arrive while it computes; 0 if there is none.
int64_t first_that_fits(int64_t size, int64_t bytes_per_number, const Roofline& roof,
                        int64_t largest) {
  for (int64_t T = 1; T <= largest; ++T) {
    const int64_t tiles = (size + T - 1) / T, numbers = 2 * size * size * tiles + size * size;
    if (static_cast<double>(bytes_per_number * numbers) / roof.bandwidth <=
        matmul_flops(size, size, size) / roof.peak)
      return T;
  }
  return 0;
}

// Kernels in a row, and what their times should be.
struct Chain {
  const char* what;
  std::vector<exercise::Step> steps;

  double seconds(const Roofline& roof, double moved_twice) const {  // of one kernel
    double flops = 0, bytes = 0;
    for (const exercise::Step& step : steps)
      flops += step.flops, bytes += step.bytes - moved_twice * step.passes_on;
    return roof.seconds(flops, bytes);
  }
  double apart(const Roofline& roof) const {
    double sum = 0;
    for (const exercise::Step& step : steps) sum += roof.seconds(step.flops, step.bytes);
    return sum;
  }
  // Each step with the bytes that are left to it, one after the other.
  double in_turn(const Roofline& roof) const {
    double sum = 0, read = 0;
    for (const exercise::Step& step : steps) {
      sum += roof.seconds(step.flops, step.bytes - step.passes_on - read);
      read = step.passes_on;
    }
    return sum;
  }
};

// x is read, and y written: 1e9 numbers of 4 bytes each; between them four passes over them.
Chain passes_over_numbers() {
  return {"five passes over 1e9 numbers",
          {{1e9, 8e9, 4e9}, {1e9, 8e9, 4e9}, {2e9, 8e9, 4e9}, {1e9, 8e9, 4e9}, {1e9, 8e9, 0}}};
}
// A matmul of 8192, which is compute-bound, with an activation behind it, which is memory-bound.
Chain matmul_and_activation() {
  const double numbers = 8192.0 * 8192;
  return {"a matmul of 8192 and its gelu",
          {{2 * 8192 * numbers, 3 * 2 * numbers, 2 * numbers}, {10 * numbers, 2 * 2 * numbers, 0}}};
}

bool near(double a, double b) { return std::abs(a / b - 1) < 1e-9; }
// Up to the rounding of another order of operations.
bool same(double a, double b) { return std::abs(a / b - 1) < 1e-13; }

void expect_fused(const Chain& chain) {
  const Roofline roof = roofline_of(chip_named("h100"));
  const double got = solution.fuse(chain.steps, roof).fused, expected = chain.seconds(roof, 2);
  std::string why;
  if (near(got, chain.seconds(roof, 1)))
    why =
        ": what is passed on is left out only once, but it is in the bytes of two steps: one step "
        "writes it, and the next one reads it";
  if (near(got, chain.seconds(roof, 0)))
    why =
        ": those are all the bytes that the steps move; the one kernel moves nothing that is "
        "passed on";
  if (near(got, chain.in_turn(roof)))
    why =
        ": the steps' times are added; in one kernel the FLOPs of one step hide behind the bytes "
        "of another, so add up FLOPs and bytes and then ask the roof";
  expect(near(got, expected),
         fmt::format("{}, fused: {:.4g} s, expected {:.4g}{}", chain.what, got, expected, why));
}

}  // namespace

TEST_CASE("02.1: the lanes of a warp are neighbours in memory") {
  const Problem problem{64, 64, 32};
  Profile profile;
  problem.run();
  for (const LineCounts& line : profile.lines()) {
    if (line.shared) continue;
    expect(line.sectors_per_request() < 32,
           fmt::format(
               "{}:{}: 32 sectors per request: lanes walk down a column. Lanes of a warp differ in "
               "threadIdx.x: let x count columns\n{}",
               line.file, line.line, profile.table()));
    expect(line.sectors_per_request() <= 4,
           fmt::format("{}:{}: {:.1f} sectors per request; 32 neighbouring floats are 4\n{}",
                       line.file, line.line, line.sectors_per_request(), profile.table()));
  }
}

TEST_CASE("02.1: no thread reads what another is writing") {
  const Problem problem{32, 32, 96};
  for (const uint64_t seed : {1, 2, 3}) problem.run(seed);  // a race is thrown
  expect_right(problem, right({32, 32, 32}) ? "one tile is right, and three along k are not: does "
                                              "each step fetch the tiles that begin at "
                                              "`start`, and keep the sum?"
                                            : "");
}

TEST_CASE("02.1: no two lanes meet in a bank of shared memory") {
  const Problem problem{64, 64, 32};
  Profile profile;
  problem.run();
  for (const LineCounts& line : profile.lines())
    expect(
        !line.shared || line.conflict_free(),
        fmt::format("{}:{}: {:.0f} passes over the banks for a request, where {:.0f} would do: "
                    "lanes that differ in "
                    "threadIdx.x walk down a column of a tile, and a column of 32 floats lies in "
                    "one bank. Let x count "
                    "columns of the tiles too\n{}",
                    line.file, line.line, line.wavefronts_per_request(),
                    static_cast<double>(line.ideal_wavefronts) / static_cast<double>(line.requests),
                    profile.table()));
}

TEST_CASE("02.1: whole tiles") {
  expect_right({32, 32, 32});
  expect_right({64, 96, 32},
               "one tile of k is right, and several blocks are not: does each block begin at its "
               "own row and column?");
  expect_right({32, 64, 128});
}

TEST_CASE("02.1: sizes that do not divide by the tile") {
  expect_inside({65, 44, 22}, "threads beyond the edge of A read nothing and put 0 into the tile");
  expect_inside({44, 65, 22}, "threads beyond the edge of B read nothing and put 0 into the tile");
  expect_inside({44, 44, 40},
                "the last tile along k is no whole one; what is beyond k counts as 0");
  for (const Problem& problem :
       {Problem{65, 33, 32}, {32, 32, 40}, {1, 1, 1}, {exercise::size("m", 70, 65, 95), 45, 41}})
    expect_right(problem, right({64, 64, 64})
                              ? "whole tiles are right, and these are not: ask about the row and "
                                "about the column before you read"
                              : "");
}

TEST_CASE("02.1: nothing is written outside C") {
  expect_inside({65, 44, 22}, "threads beyond the edge of C write nothing");
  expect_inside({44, 65, 22},
                "beyond the end of a row of C begins the next one: ask about the column too");
  expect_right({65, 65, 32},
               "beyond the end of a row of C begins the next one: ask about the column too");
}

TEST_CASE("02.1: every number of C is written, also when k is 0") {
  expect_right({33, 65, 3});
  const std::vector<float> zeros = Problem{40, 40, 0}.run();
  expect(zeros == std::vector<float>(1600, 0.0f), "with k = 0 all of C is zero");
}

TEST_CASE("02.2: the ridge is that of dense matmuls") {
  const Roofline h100 = solution.dense_roofline(1979, true, 3.35);
  const double ridge = h100.ridge();
  expect(std::abs(ridge - 590.7) > 0.1,
         "ridge 591: that is the sparse rate, twice 295. The asterisk says that half of the "
         "products are with "
         "zeros and are skipped");
  expect(std::abs(ridge - 295.4) < 0.1, fmt::format("ridge {:.1f}, expected 295.4", ridge));
  const Roofline a100 = solution.dense_roofline(312, false, 2.0);
  expect(std::abs(a100.ridge() - 156) < 1e-6,
         fmt::format("A100, 312 TFLOP/s without an asterisk, 2 TB/s: ridge {:.1f}, expected 156",
                     a100.ridge()));
}

TEST_CASE("02.2: FLOP/s and bytes/s, to the last digits") {
  const Roofline h100 = solution.dense_roofline(1979, true, 3.35);
  expect(same(h100.peak, 989.5e12), fmt::format("peak {:.17g} FLOP/s, expected 9.895e14: a TFLOP "
                                                "is 1e12 FLOPs",
                                                h100.peak));
  expect(same(h100.bandwidth, 3.35e12),
         fmt::format("bandwidth {:.17g} bytes/s, expected 3.35e12: a TB is 1e12 bytes",
                     h100.bandwidth));
}

TEST_CASE("02.3: the bytes predicted are those that the kernel asks for") {
  for (const Problem& problem : {Problem{64, 96, 32}, {65, 33, 31}}) {
    Profile profile;
    problem.run();
    const double counted =
        static_cast<double>(profile.global_reads().bytes + profile.global_writes().bytes);
    const auto [m, n, k] = std::array<int64_t, 3>{problem.m, problem.n, problem.k};
    const auto [flops, bytes, seconds] = solution.predict(m, n, k, 32, 4, {1, 1});
    expect(flops == matmul_flops(m, n, k),
           fmt::format("{}: {:.0f} FLOPs predicted, expected 2 m n k = {:.0f}", problem.size(),
                       flops, matmul_flops(m, n, k)));
    std::string why;
    if (bytes == 4.0 * static_cast<double>(2 * m * n * k + m * n))
      why = ", up to 32x too many: a tile is read once for all its threads";
    if (bytes == matmul_bytes(m, n, k))
      why = ": each column of blocks reads all of A, and each row of blocks all of B";
    expect(bytes == counted, fmt::format("{}: {:.0f} bytes predicted, {:.0f} counted{}",
                                         problem.size(), bytes, counted, why));
  }
}

TEST_CASE("02.3: time is the longer of two") {
  for (const char* name : {"h100", "a100"})  // moving takes longer, computing takes longer
    for (const int64_t size : exercise::sizes<int64_t>({512, 8192}, 9000, 20000)) {
      const Roofline roof = roofline_of(chip_named(name));
      const auto [flops, bytes, seconds] = solution.predict(size, size, size, 512, 2, roof);
      const double compute = flops / roof.peak, move = bytes / roof.bandwidth;
      expect(std::abs(seconds / (compute + move) - 1) > 1e-9,
             "the time is the sum of both times; but computing and moving go on at once");
      expect(near(seconds, std::max(compute, move)),
             fmt::format("{}, a matmul of {} in tiles of 512: {:.3g} s predicted; computing takes "
                         "{:.3g} s and moving {:.3g} s",
                         name, size, seconds, compute, move));
    }
}

TEST_CASE("02.4: the smallest tile that is compute-bound, on five chips") {
  for (const char* name : {"a100", "h100", "h200", "b200", "v5e"})
    for (const int64_t bytes : {2, 4}) {
      const Roofline roof = roofline_of(chip_named(name), bytes == 2 ? DType::bf16 : DType::f32);
      const int64_t size = exercise::variant("size", 4096, 3000, 6000), largest = 1024;
      const int64_t expected = first_that_fits(size, bytes, roof, largest);
      const int64_t got = solution.smallest_tile(size, size, size, bytes, roof, largest);
      std::string why;
      if (got == largest && expected != largest)
        why = "\n    that is the largest tile tried: stop at the first one that is compute-bound";
      else if (got < expected && got > 0)
        why = fmt::format(
            "\n    with T = {} moving takes longer than computing: ask predict() for the bytes, C "
            "is "
            "stored too, and a last tile may hang over the edge",
            got);
      expect(got == expected,
             fmt::format("a matmul of {} with {} bytes per number on a chip with ridge {:.1f}: T = "
                         "{}, expected {}{}",
                         size, bytes, roof.ridge(), got, expected, why));
    }
}

TEST_CASE("02.4: m, n and k each count") {
  const Roofline roof{8e12, 1e12};
  for (const auto& [m, n, k, expected] : {std::tuple{96, 40, 24, 32}, {96, 24, 40, 24}}) {
    const int64_t got = solution.smallest_tile(m, n, k, 2, roof, 64);
    expect(
        got == expected,
        fmt::format("({}, {}) times ({}, {}), 2 bytes per number, a ridge of 8: T = {}, expected "
                    "{}",
                    m, k, k, n, got, expected));
  }
}

TEST_CASE("02.4: the first tile and the largest are tried too") {
  const int64_t first = solution.smallest_tile(64, 64, 64, 4, {1e11, 1e12}, 128);
  expect(first == 1,
         fmt::format("a ridge of 0.1, where any tile will do: T = {}, expected 1", first));
  const Roofline roof = roofline_of(chip_named("a100"));
  const int64_t fits = first_that_fits(4096, 2, roof, 1024);
  const int64_t last = solution.smallest_tile(4096, 4096, 4096, 2, roof, fits);
  expect(last == fits,
         fmt::format("tiles up to {}, where {} is the first that will do: T = {}: the largest is "
                     "one of those tried",
                     fits, fits, last));
  const int64_t none = solution.smallest_tile(4096, 4096, 4096, 2, roof, fits - 1);
  expect(none == 0, fmt::format("tiles up to {}, where {} is the first that will do: T = {}, "
                                "expected 0",
                                fits - 1, fits, none));
}

TEST_CASE("02.4: at the ridge memory delivers as fast as the chip multiplies") {
  // 2 x 64^3 FLOPs and, with T = 16, 4 (2 x 4 + 1) 64^2 bytes: a second each.
  const int64_t got = solution.smallest_tile(64, 64, 64, 4, {524288, 147456}, 64);
  expect(got == 16,
         fmt::format("with T = 16 moving takes as long as computing, and that is enough: "
                     "T = {}, expected 16",
                     got));
}

TEST_CASE("02.4: 0 if no tile will do") {
  const int64_t got = solution.smallest_tile(64, 64, 64, 4, {1e15, 1e9}, 128);
  expect(got == 0,
         fmt::format("a ridge of 1e6, far above any tile up to 128: T = {}, expected 0", got));
}

TEST_CASE("02.5: a measured time is read under the roof") {
  const Roofline roof = roofline_of(chip_named("h100"));
  for (const auto& [what, work, share] :
       {std::tuple{"a softmax", elementwise_workload(1e9, 5), 0.5},
        {"a matmul of 8192", matmul_workload(8192, 8192, 8192), 0.8},
        {"16 tokens", matmul_workload(16, 4096, 4096), 0.9}}) {
    const double seconds = roof.seconds(work.flops, work.bytes) / share;
    const exercise::Reading got = solution.read_measurement(work.flops, work.bytes, seconds, roof);
    expect(near(got.intensity, work.intensity()),
           fmt::format("{}: {:.3g} FLOPs per byte, expected {:.3g}", what, got.intensity,
                       work.intensity()));
    const double rate = work.flops / seconds, allowed = roof.attainable(work.intensity());
    expect(
        !near(got.rate, allowed),
        fmt::format("{}: {:.3g} FLOP/s: that is what the roof allows; the measured rate is FLOPs "
                    "/ seconds",
                    what, got.rate));
    expect(near(got.rate, rate),
           fmt::format("{}: {:.3g} FLOP/s, expected {:.3g}", what, got.rate, rate));
    const bool memory_bound = work.intensity() < roof.ridge();
    expect(got.memory_bound == memory_bound,
           fmt::format("{}: {:.3g} FLOPs per byte with a ridge of {:.0f}: expected {}", what,
                       work.intensity(), roof.ridge(),
                       memory_bound ? "memory-bound" : "compute-bound"));
    expect(!near(got.of_roof, rate / roof.peak) || near(allowed, roof.peak),
           fmt::format("{}: {:.2g} is a share of the peak, not of the roof above this intensity",
                       what, got.of_roof));
    expect(near(got.of_roof, share),
           fmt::format("{}: {:.3g} of the roof, expected {:.3g}", what, got.of_roof, share));
  }
}

TEST_CASE("02.5: a point just at the ridge is compute-bound") {
  const Roofline roof = {100, 10};  // ridge 10
  expect(!solution.read_measurement(20, 2, 1, roof).memory_bound,
         "10 FLOPs per byte with a ridge of 10: expected compute-bound");
}

TEST_CASE("02.6: kernels apart run one after the other") {
  const Roofline roof = roofline_of(chip_named("h100"));
  for (const Chain& chain : {matmul_and_activation(), passes_over_numbers()}) {
    const double got = solution.fuse(chain.steps, roof).apart, expected = chain.apart(roof);
    const char* const why = near(got, chain.seconds(roof, 0))
                                ? ": that is the time of the sums, as of one kernel; they run one "
                                  "after the other, so their times add up"
                                : "";
    expect(near(got, expected),
           fmt::format("{}, apart: {:.4g} s, expected {:.4g}{}", chain.what, got, expected, why));
  }
}

TEST_CASE("02.6: what is passed on is neither written nor read") {
  expect_fused(passes_over_numbers());
}

TEST_CASE("02.6: the one kernel computes and moves at once") {
  expect_fused(matmul_and_activation());
}

TEST_CASE("02.6: the one kernel has the steps' FLOPs and bytes, and no others") {
  // 5 FLOPs and 3 bytes: small, so that nothing that is added is lost beside them.
  const std::vector<exercise::Step> steps = {{3, 3, 1}, {2, 2, 0}};
  const double compute = solution.fuse(steps, {1, 10}).fused;
  expect(
      near(compute, 5),
      fmt::format("5 FLOPs at 1 FLOP/s and 3 bytes at 10 bytes/s: {:.4g} s, expected 5", compute));
  const double move = solution.fuse(steps, {10, 1}).fused;
  expect(near(move, 3),
         fmt::format("5 FLOPs at 10 FLOP/s and 3 bytes at 1 byte/s: {:.4g} s, expected 3", move));
}

TEST_CASE("02.6: a kernel alone is as it was") {
  const Roofline roof = roofline_of(chip_named("h100"));
  const std::vector<exercise::Step> one = {{1e12, 8e9, 0}};
  const exercise::Fusion got = solution.fuse(one, roof);
  expect(
      near(got.apart, roof.seconds(1e12, 8e9)) && near(got.fused, got.apart),
      fmt::format("one kernel alone: {:.4g} s apart and {:.4g} s fused, expected {:.4g} for both",
                  got.apart, got.fused, roof.seconds(1e12, 8e9)));
}
