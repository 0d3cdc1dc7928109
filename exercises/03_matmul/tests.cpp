// The graded cases of exercise 03: right numbers, and as few loads from shared memory as the tile allows.
#include "course/shared/graded.hpp"
#include "interface.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

MatmulLaunch column() { return {solution.column, 32, 128, 1}; }
MatmulLaunch tile() { return {solution.tile, 32, 32, 1}; }

std::vector<float> whole_numbers(int count, int different) {
  std::vector<float> x(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(i % different - different / 2);
  return x;
}

// Runs a kernel and compares with the serial result.
void expect_right(const MatmulLaunch& kernel, int m, int n, int k, const char* advice) {
  const std::vector<float> a = whole_numbers(m * k, 7), b = whole_numbers(k * n, 5);
  std::vector<double> expected(static_cast<size_t>(m * n));
  matmul_naive(row_major(a.data(), m, k), row_major(b.data(), k, n),
               row_major(expected.data(), m, n), Into::overwrite);
  const std::vector<float> c = launch_matmul(kernel, a, b, m, n, k);
  Clues clues;
  clues.what = fmt::format("({}, {}) times ({}, {})", m, k, k, n);
  clues.shape = {m, n};
  Verdict verdict = compare(std::vector<double>(c.begin(), c.end()), expected, 0, clues);
  if (!verdict) verdict.text += fmt::format("\n    {}", advice);
  expect(verdict);
}

constexpr int size = 64;  // whole tiles

// Bytes that shared memory was asked for, a FLOP.
double shared_bytes_per_flop(const MatmulLaunch& kernel, std::string& table) {
  const std::vector<float> x = whole_numbers(size * size, 7);
  Profile profile;
  launch_matmul(kernel, x, x, size, size, size);
  table = profile.table();
  return static_cast<double>(profile.shared_reads().bytes) / matmul_flops(size, size, size);
}

void expect_loads(const MatmulLaunch& kernel, double bytes_per_flop, const char* advice) {
  std::string table;
  const double loaded = shared_bytes_per_flop(kernel, table);
  expect(loaded <= bytes_per_flop,
         fmt::format(
             "right numbers, but {:.2f} bytes a FLOP are loaded from shared memory, where {:.2f} "
             "would do: {}\n{}",
             loaded, bytes_per_flop, advice, table));
}

}  // namespace

TEST_CASE("03.1: the right numbers") {
  for (const auto& [m, n, k] : {std::array{32, 32, 8}, {64, 32, 24}, {33, 45, 13}, {1, 1, 1}})
    expect_right(column(), m, n, k,
                 "a thread's rows are neighbours: row + i of a_tile belongs to sums[i], in column "
                 "col of b_tile");
}

TEST_CASE("03.1: each number of B is loaded once for all its rows") {
  expect_loads(column(), tile_bytes_per_flop(8, 1),
               "the number of B is the same for all rows: load it before an inner loop over rows");
}

TEST_CASE("03.2: the right numbers") {
  for (const auto& [m, n, k] : {std::array{32, 32, 8}, {64, 32, 24}, {33, 45, 13}, {1, 1, 1}})
    expect_right(
        tile(), m, n, k,
        "sums[i][j] += a_tile[row + i][l] * b_tile[l][col + j], for all i < TM and j < TN");
}

TEST_CASE("03.2: TM + TN loads for TM TN products") {
  expect_loads(
      tile(), tile_bytes_per_flop(8, 4),
      "TM numbers of A and TN of B are used again and again: load them into x and y first");
}

TEST_CASE("03.3: the bytes predicted are those counted") {
  const double flops = matmul_flops(size, size, size);
  for (const auto& [TM, TN] : {std::pair{1, 1}, {8, 1}, {8, 4}, {8, 8}}) {
    const double expected = flops * tile_bytes_per_flop(TM, TN);
    const double got = solution.shared_bytes_loaded(size, size, size, TM, TN);
    std::string why;
    if (std::abs(4 * got / expected - 1) < 1e-9) why = ", 4x too few: a float has 4 bytes";
    if (got > expected) why = ": TM + TN numbers are loaded once for TM TN products";
    expect(std::abs(got / expected - 1) < 1e-9,
           fmt::format(
               "{0} x {0} x {0} with {1} x {2} sums a thread: {3:.0f} bytes predicted, expected "
               "{4:.0f}{5}",
               size, TM, TN, got, expected, why));
  }
}
