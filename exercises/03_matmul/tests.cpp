// The graded cases of exercise 03: right numbers, and as few loads from shared memory as the tile
// allows.
#include "course/cases/graded.hpp"
#include "course/cases/whole_numbers.hpp"
#include "interface.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

MatmulLaunch column() { return {solution.column, 32, 128, 1}; }
MatmulLaunch tile() { return {solution.tile, 32, 32, 1}; }

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

// What the product of two matrices of (size, size) reads, in bytes.
struct Reads {
  int64_t shared, global;
  std::string table;
};
Reads reads_of(const MatmulLaunch& kernel) {
  const std::vector<float> x = whole_numbers(size * size, 7);
  Profile profile;
  launch_matmul(kernel, x, x, size, size, size);
  return {profile.shared_reads().bytes, profile.global_reads().bytes, profile.table()};
}

void expect_loads(const MatmulLaunch& kernel, double bytes_per_flop, const char* advice) {
  const Reads reads = reads_of(kernel);
  const double loaded = static_cast<double>(reads.shared) / matmul_flops(size, size, size);
  expect(loaded <= bytes_per_flop,
         fmt::format(
             "right numbers, but {:.2f} bytes a FLOP are loaded from shared memory, where {:.2f} "
             "would do: {}\n{}",
             loaded, bytes_per_flop, advice, reads.table));
}

// Each block of (32, 32) numbers of C reads its tiles of A and of B once.
void expect_global_loads(const MatmulLaunch& kernel) {
  const Reads reads = reads_of(kernel);
  const int64_t needed = int64_t{4} * 2 * size * size * (size / 32);
  expect(reads.global <= needed,
         fmt::format("right numbers, but {} bytes are read from global memory, where {} would do: "
                     "each number of a tile of A or B once a block. What other threads of the "
                     "block read too comes through shared memory, a_tile and b_tile\n{}",
                     reads.global, needed, reads.table));
}

}  // namespace

// (61, 45) in tiles of (32, 32): whole ones, and ones over both edges.
TEST_CASE("03.1: the tile holds the matrix, and zeros beyond its edges") {
  const int rows = 61, cols = 45;
  const std::vector<float> x = whole_numbers(rows * cols, 97);
  const std::vector<float> c = launch_matmul({solution.copy, 32, 128, 1}, x, {0}, 64, 64, cols);
  const auto expected = [&](int row, int col) {
    return row < rows && col < cols ? x[static_cast<size_t>(row * cols + col)] : 0.0f;
  };
  for (int row = 0; row < 64; ++row)
    for (int col = 0; col < 64; ++col) {
      const float got = c[static_cast<size_t>(row * 64 + col)];
      std::string why;
      if (got == exercise::untouched && (row >= rows || col >= cols))
        why = ", and it is what was there before: a number beyond the edge is 0 in the tile";
      else if (got == exercise::untouched && row == 4 && col == 0)
        why =
            ", and it is what was there before: the first 128 numbers of the tile are right. 128 "
            "threads copy 1024 numbers, so a thread takes more than one";
      expect(got == expected(row, col),
             fmt::format("a tile of (32, 32) at ({}, {}) of a (61, 45): its number ({}, {}) is {}, "
                         "expected {}{}",
                         row / 32 * 32, col / 32 * 32, row % 32, col % 32, got, expected(row, col),
                         why));
    }
}

TEST_CASE("03.1: each number is read once, by neighbouring lanes") {
  const int rows = 61, cols = 64;
  const std::vector<float> x = whole_numbers(rows * cols, 97);
  Profile profile;
  launch_matmul({solution.copy, 32, 128, 1}, x, {0}, 64, 64, cols);
  const LineCounts reads = profile.global_reads();
  expect(
      reads.bytes == 4 * rows * cols,
      fmt::format("{} bytes are read for (61, 64) numbers of 4 bytes, expected {}: each number by "
                  "one thread",
                  reads.bytes, 4 * rows * cols));
  expect(reads.sectors_per_request() <= 4,
         fmt::format("{:.1f} sectors per request; 32 neighbouring floats are 4: let neighbouring "
                     "threads copy neighbours in a row of x\n{}",
                     reads.sectors_per_request(), profile.table()));
}

TEST_CASE("03.2: no thread reads what another is writing") {
  const std::vector<float> x = whole_numbers(32 * 32, 7);
  for (const uint64_t seed : {1, 2, 3}) launch_matmul(column(), x, x, 32, 32, 32, seed);
  CHECK(true);  // a race is thrown
}

TEST_CASE("03.2: nothing is written outside C") {
  const std::vector<float> x = whole_numbers(33 * 45, 7);
  const std::string text = exercise::error_of([&] { launch_matmul(column(), x, x, 33, 33, 45); });
  expect(text.empty(),
         "(33, 45) times (45, 33), tiles of (32, 32): sums beyond the last row or column of C are "
         "not stored. Beyond the end of a row stands the first number of the next row\n    " +
             text);
}

TEST_CASE("03.2: the right numbers") {
  for (const auto& [m, n, k] :
       {std::array{32, 32, 8}, {64, 32, 24}, {exercise::size("m", 33, 33, 63), 45, 13}, {1, 1, 1}})
    expect_right(column(), m, n, k,
                 "a thread's rows are neighbours: row + i of a_tile belongs to sums[i], in column "
                 "col of b_tile");
}

TEST_CASE("03.2: each number of B is loaded once for all its rows") {
  expect_loads(column(), tile_bytes_per_flop(8, 1),
               "the number of B is the same for all rows: load it before an inner loop over rows");
}

TEST_CASE("03.2: a block reads its tiles from global memory once") {
  expect_global_loads(column());
}

TEST_CASE("03.3: the right numbers") {
  for (const auto& [m, n, k] :
       {std::array{32, 32, 8}, {64, 32, 24}, {exercise::size("m", 33, 33, 63), 45, 13}, {1, 1, 1}})
    expect_right(
        tile(), m, n, k,
        "sums[i][j] += a_tile[row + i][l] * b_tile[l][col + j], for all i < TM and j < TN; "
        "BN / TN threads stand side by side, TN columns each");
}

TEST_CASE("03.3: TM + TN loads for TM TN products") {
  expect_loads(
      tile(), tile_bytes_per_flop(8, 4),
      "TM numbers of A and TN of B are used again and again: load them into x and y first");
}

TEST_CASE("03.3: a block reads its tiles from global memory once") { expect_global_loads(tile()); }

TEST_CASE("03.3: no thread reads what another is writing, and nothing is written outside C") {
  const std::vector<float> x = whole_numbers(33 * 45, 7);
  for (const uint64_t seed : {1, 2, 3}) {
    const std::string text =
        exercise::error_of([&] { launch_matmul(tile(), x, x, 33, 33, 45, seed); });
    expect(text.empty(), "(33, 45) times (45, 33), tiles of (32, 32)\n    " + text);
  }
}

TEST_CASE("03.4: the bytes predicted are those that the kernels load") {
  for (const auto& [m, n, k, TM, TN] :
       {std::array{64, 64, 64, 8, 1}, {64, 64, 64, 8, 4}, {65, 33, 40, 8, 1}, {70, 65, 13, 8, 4}}) {
    const std::vector<float> a = whole_numbers(m * k, 7), b = whole_numbers(k * n, 5);
    const double down = (m + 31) / 32, across = (n + 31) / 32, steps = (k + 7) / 8 * 8;
    const double global = 4.0 * (m * k * across + k * n * down);
    const double shared = 4 * down * 32 * across * 32 * steps * (TM + TN) / (TM * TN);
    const auto [got_global, got_shared] = solution.bytes_loaded(m, n, k, {32, 32, 8, TM, TN});
    const std::string what =
        fmt::format("({}, {}) times ({}, {}), tiles of (32, 32) and {} x {} sums per thread", m, k,
                    k, n, TM, TN);
    const auto same = [](double x, double y) { return std::abs(x - y) <= 1e-9 * y; };
    std::string why;
    if (same(4 * got_global, global)) why = ", 4x too few: a float has 4 bytes";
    if (same(got_global, 4.0 * (m * k + k * n)))
      why = ": each column of blocks reads all of A, and each row of blocks all of B";
    expect(same(got_global, global),
           fmt::format("{}: {:.0f} bytes of global memory predicted, expected {:.0f}{}", what,
                       got_global, global, why));
    why.clear();
    if (same(got_shared, shared * TM * TN))
      why = ": TM + TN numbers are loaded once for TM TN products";
    if (same(got_shared, 4.0 * m * n * k * (TM + TN) / (TM * TN)))
      why = ": tiles are multiplied whole, what hangs over the edge is multiplied too";
    expect(same(got_shared, shared),
           fmt::format("{}: {:.0f} bytes of shared memory predicted, expected {:.0f}{}", what,
                       got_shared, shared, why));
  }
}

TEST_CASE("03.5: the bytes that load_tile writes into shared memory") {
  for (const auto& [m, n, k] : {std::array{64, 64, 64}, {65, 33, 40}, {70, 130, 11}}) {
    const int64_t down = (m + 31) / 32, across = (n + 31) / 32, steps = (k + 7) / 8;
    const int64_t expected = 4 * down * across * steps * (32 * 8 + 8 * 32);
    const int64_t got = solution.bytes_written(m, n, k, {32, 32, 8, 8, 4});
    std::string why;
    if (got == expected / 4) why = ": a float has 4 bytes";
    if (got == expected / steps) why = ": a block stores both tiles anew in every step along k";
    if (got == 4 * (m * k * across + k * n * down))
      why = ": that is what is read inside of the matrices; beyond an edge load_tile writes zeros";
    expect(got == expected,
           fmt::format("({}, {}) times ({}, {}), tiles of (32, 8) and (8, 32): {} bytes predicted, "
                       "expected {}{}",
                       m, k, k, n, got, expected, why));
  }
}
