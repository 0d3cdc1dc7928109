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
