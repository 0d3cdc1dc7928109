// The graded cases of exercise 41: the emulator finds a race and a barrier that not all threads
// reach in every run, not only when a GPU's schedule shows them. Then the numbers, and what the
// mending costs.
#include "course/cases/graded.hpp"
#include "course/cases/whole_numbers.hpp"
#include "interface.hpp"
#include "yotta/core/matmul_ladder.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

// The product of (m, k) and (k, n) by a kernel; the emulator's complaint is told with `about`.
void expect_right(MatmulKernel kernel, int m, int n, int k, uint64_t seed, const char* about) {
  const std::vector<float> a = whole_numbers(m * k, 7), b = whole_numbers(k * n, 5);
  std::vector<double> expected(static_cast<size_t>(m * n));
  matmul_naive(row_major(a.data(), m, k), row_major(b.data(), k, n),
               row_major(expected.data(), m, n), Into::overwrite);
  std::vector<float> c;
  const std::string text = exercise::error_of([&] {
    c = launch_matmul({kernel, 1, 64, 1}, a, b, m, n, k, seed);
  });
  expect(text.empty(), fmt::format("k = {}: {}\n    {}", k, about, text));
  Clues clues;
  clues.what = fmt::format("({}, {}) times ({}, {})", m, k, k, n);
  clues.shape = {m, n};
  expect(compare(std::vector<double>(c.begin(), c.end()), expected, 0, clues));
}

// The same bits from numbers whose sum depends on the order of additions.
void expect_one_order() {
  std::vector<float> x(64), ones(64, 1);
  for (size_t i = 0; i < 64; ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  const MatmulLaunch kernel{solution.by_halves, 1, 64, 1};
  const float first = launch_matmul(kernel, x, ones, 1, 1, 64, 1)[0];
  for (const uint64_t seed : {2, 3, 4, 5}) {
    const float sum = launch_matmul(kernel, x, ones, 1, 1, 64, seed)[0];
    expect(sum == first,
           fmt::format("two runs of the same numbers: {:.9g} and {:.9g}. Which sum is "
                       "added to which must not depend on who comes first",
                       first, sum));
  }
}

// All threads multiply.
void expect_few_reads() {
  const std::vector<float> x = whole_numbers(128, 7);
  Profile profile;
  launch_matmul({solution.by_pieces, 1, 64, 1}, x, x, 1, 1, 128);
  const int64_t reads = profile.global_reads().requests, all = 2 * 2 * 2;  // arrays, warps, pieces
  expect(reads <= all,
         fmt::format("right, but warps read global memory {} times one after the other, where {} "
                     "would do: each thread multiplies one pair of a piece",
                     reads, all));
}

// C (m, n), the transpose of A (n, m).
std::vector<float> transposed_by(MatmulKernel kernel, const std::vector<float>& a, int m, int n,
                                 uint64_t seed) {
  const std::vector<float> unused(static_cast<size_t>(n) * static_cast<size_t>(n));
  std::vector<float> c;
  const std::string text = exercise::error_of([&] {
    c = launch_matmul({kernel, 32, 32, 8}, a, unused, m, n, n, seed);
  });
  expect(text.empty(), fmt::format("a transpose of ({}, {}): {}", n, m, text));
  return c;
}

void expect_transposed(int m, int n, uint64_t seed) {
  const std::vector<float> a = whole_numbers(m * n, 1009);
  const std::vector<float> c = transposed_by(solution.transpose, a, m, n, seed);
  for (int row = 0; row < m; ++row)
    for (int col = 0; col < n; ++col) {
      const float right = a[static_cast<size_t>(col * m + row)],
                  found = c[static_cast<size_t>(row * n + col)];
      expect(found == right, fmt::format("C({}, {}) of ({}, {}) is {}, and {} is right", row, col,
                                         m, n, found, right));
    }
}

}  // namespace

TEST_CASE("41.1: the same sum in every run, with a tree of additions") {
  for (const int k : exercise::sizes<int>({64, 1, 100, 200}, 3, 250))
    for (const uint64_t seed : {1, 2, 3})
      expect_right(solution.by_halves, 2, 3, k, seed,
                   "a thread reads a sum that another one may not have written yet");
  const std::vector<float> x = whole_numbers(64, 7);
  Profile profile;
  launch_matmul({solution.by_halves, 1, 64, 1}, x, x, 1, 1, 64);
  const int64_t reads = profile.shared_reads().requests, tree = 2 * 7 + 1;
  expect(reads <= tree,
         fmt::format("right, but warps read shared memory {} times one after the other, where {} "
                     "would do for six steps of additions: mend the order and keep the tree",
                     reads, tree));
  expect_one_order();
}

TEST_CASE("41.2: every launch ends, whatever k is, with the right numbers") {
  for (const int k : exercise::sizes<int>({65, 64, 1, 130, 128}, 3, 250))
    for (const uint64_t seed : {1, 2})
      expect_right(solution.by_pieces, 2, 3, k, seed,
                   "not all threads come to the same __syncthreads(), or one reads too early");
  expect_few_reads();
}

TEST_CASE("41.3: a transpose without bank conflicts, whole sectors in and out") {
  for (const uint64_t seed : {1, 2}) expect_transposed(64, 96, seed);
  for (const int m : exercise::sizes<int>({33, 1}, 2, 70)) expect_transposed(m, 40, 1);
  const std::vector<float> a = whole_numbers(64 * 96, 1009);
  Profile profile;
  transposed_by(solution.transpose, a, 64, 96, 1);
  const double passes = profile.shared_reads().wavefronts_per_request();
  expect(
      profile.shared_reads().conflict_free(),
      fmt::format("right, but a warp that reads shared memory takes {:.1f} passes over the banks: "
                  "numbers that its lanes want together lie in one bank, or in few",
                  passes));
  const double writes = profile.shared_writes().wavefronts_per_request();
  expect(profile.shared_writes().conflict_free(),
         fmt::format("right, but a warp that writes shared memory takes {:.1f} passes over the "
                     "banks",
                     writes));
  const int64_t sectors = profile.global_reads().sectors + profile.global_writes().sectors;
  const int64_t least = 2 * 64 * 96 * 4 / 32;
  expect(
      sectors <= least,
      fmt::format("right, but {} sectors travel from and to memory, where {} would do: lanes of a "
                  "warp want neighbours, in A as in C",
                  sectors, least));
}

namespace {

// An element that says where it lies. Never 0, which means: outside of the matrix.
uint16_t code(int row, int column, int columns) {
  return static_cast<uint16_t>(1 + row * columns + column);
}
exercise::Bits coded(int rows, int columns) {
  exercise::Bits bits;
  for (int i = 0; i < rows * columns; ++i) bits.push_back(code(i / columns, i % columns, columns));
  return bits;
}
std::string decoded(char name, int bits, int columns) {
  if (bits == 0) return "0";
  return fmt::format("{}({}, {})", name, (bits - 1) / columns, (bits - 1) % columns);
}

exercise::Bits as_bits(const std::vector<float>& numbers) {
  exercise::Bits bits;
  for (const float each : numbers) bits.push_back(bfloat16(each).bits);
  return bits;
}

constexpr int ring_side = 64;  // of the tiles

// What the matrix has there: its code, or 0 outside.
uint16_t coded_at(int rows, int columns, int row, int column) {
  return row < rows && column < columns ? code(row, column, columns) : 0;
}

void expect_tiles(exercise::Sizes shape, int row, int column, int places) {
  const auto [m, n, k] = shape;
  const std::string about = fmt::format("{} steps, a ring of {}", (k + 63) / 64, places);
  exercise::Bits tiles;
  const std::string error = exercise::error_of(
      [&] { tiles = solution.produced(coded(m, k), coded(k, n), shape, row, column, places); });
  expect(error.empty(),
         fmt::format("{}: {}{}", about, error,
                     error.find("on its way") == error.npos
                         ? ""
                         : ". Are all bytes announced that the copies of a step bring?"));
  for (int i = 0; i < std::ssize(tiles); ++i) {
    const int step = i / (2 * ring_side * ring_side), left = ring_side * step;
    const bool of_a = i / (ring_side * ring_side) % 2 == 0;
    const int r = i / ring_side % ring_side, c = i % ring_side;
    const uint16_t got = tiles[static_cast<size_t>(i)],
                   wanted = of_a ? coded_at(m, k, row + r, left + c)
                                 : coded_at(k, n, left + r, column + c);
    const char name = of_a ? 'A' : 'B';
    const int columns = of_a ? k : n;
    expect(got == wanted,
           fmt::format("{}, step {}: in the tile of {} ({}, {}) is {}, expected {}", about, step,
                       name, r, c, decoded(name, got, columns), decoded(name, wanted, columns)));
  }
}

// C of whole numbers, which are exact in any order, by both groups.
void expect_consumed(exercise::Sizes shape, int places) {
  const auto [m, n, k] = shape;
  const std::string about =
      fmt::format("({0}, {1}) times ({1}, {2}), a ring of {3}", m, k, n, places);
  const std::vector<float> a = whole_numbers(m * k, 7), b = whole_numbers(k * n, 5);
  std::vector<float> wanted(static_cast<size_t>(m * n)), c;
  matmul_naive(row_major(a.data(), m, k), row_major(b.data(), k, n), row_major(wanted.data(), m, n),
               Into::overwrite);
  const std::string error =
      exercise::error_of([&] { c = solution.consumed(as_bits(a), as_bits(b), shape, places); });
  expect(error.empty(), fmt::format("{}: {}", about, error));
  for (size_t i = 0; i < c.size(); ++i) {
    const size_t above = i - 64 * static_cast<size_t>(n);  // far beyond C for the first rows
    const bool of_above =
        above < i && i + 1 < c.size() && c[i] == wanted[above] && c[i + 1] == wanted[above + 1];
    expect(c[i] == wanted[i],
           fmt::format("{}: C({}, {}) is {}, expected {}{}", about, i / static_cast<size_t>(n),
                       i % static_cast<size_t>(n), c[i], wanted[i],
                       of_above ? ": that is what belongs 64 rows above. Which rows of A does the "
                                  "second group take?"
                                : ""));
  }
}

}  // namespace

TEST_CASE("41.4: each step's tiles come, in rings of one and of three places") {
  for (const int places : {3, 1}) {
    expect_tiles({64, 64, 128}, 0, 0, places);
    expect_tiles({100, 120, 120}, 64, 64, places);
  }
  expect_tiles({64, 64, 40}, 0, 0, 1);
  expect_tiles({64, 120, 192}, 0, 64, 1);
  expect_tiles({64, 64, 320}, 0, 0, 3);
}

TEST_CASE("41.5: C = A B by two groups, in rings of one and of three places") {
  expect_consumed({120, 48, 264}, 3);
  expect_consumed({80, 48, 136}, 1);
}
