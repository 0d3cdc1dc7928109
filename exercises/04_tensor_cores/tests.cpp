// The graded cases of exercise 04. Fragments are checked lane by lane, with matrices whose elements
// say where they lie; products against exact ones, with suspects for what wrong loops make; then
// what was counted.
#include <fmt/format.h>

#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/mma_fragments.hpp"

using namespace yotta;
using exercise::Bits;
using exercise::expect;
using exercise::Product;
using exercise::solution;

namespace {

// An element that says where it lies; up to 128 x 128. Never 0, which means: outside of the matrix.
uint16_t code(int row, int column) { return static_cast<uint16_t>(0x8000 | row << 7 | column); }
Bits coded(int rows, int columns) {
  Bits bits;
  for (int i = 0; i < rows * columns; ++i) bits.push_back(code(i / columns, i % columns));
  return bits;
}
std::string decoded(char name, uint32_t bits) {
  if (bits == 0) return "0";
  return fmt::format("{}({}, {})", name, bits >> 7 & 0x7f, bits & 0x7f);
}

struct Tile {
  int rows, columns, row, column;  // of the matrix, and where the tile begins
};

// A way in which a fragment is often wrong: where element i of a lane would come from.
struct Habit {
  const char* sentence;
  MatrixCell (*cell)(int lane, int i);
};

uint32_t bits_at(const Tile& tile, MatrixCell at) {
  const int row = tile.row + at.row, column = tile.column + at.column;
  return row < tile.rows && column < tile.columns ? code(row, column) : 0;
}

// Checks the fragment of one operand, `per_lane` elements each, lane by lane.
void expect_fragment(char name, const Tile& tile, const std::vector<uint32_t>& registers,
                     int per_lane, MatrixCell (*cell)(int, int), std::span<const Habit> habits) {
  const auto element = [&](int lane, int i) {
    return registers[static_cast<size_t>((lane * per_lane + i) / 2)] >> (16 * (i % 2)) & 0xffffu;
  };
  const auto fits = [&](MatrixCell (*other)(int, int)) {
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < per_lane; ++i)
        if (element(lane, i) != bits_at(tile, other(lane, i))) return false;
    return true;
  };
  std::string why;
  for (const Habit& habit : habits)
    if (why.empty() && fits(habit.cell)) why = fmt::format("{}\n    ", habit.sentence);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < per_lane; ++i) {
      const uint32_t got = element(lane, i), wanted = bits_at(tile, cell(lane, i));
      if (got == wanted) continue;
      expect(
          false,
          fmt::format("{}lane {} (g = {}, t = {}): the {} half of register {}{} is {}, expected {} "
                      "(tile at ({}, {}) of a {} x {} matrix)",
                      why, lane, lane / 4, lane % 4, i % 2 == 0 ? "low" : "high",
                      static_cast<char>(name - 'A' + 'a'), i / 2, decoded(name, got),
                      decoded(name, wanted), tile.row, tile.column, tile.rows, tile.columns));
    }
  CHECK(true);
}

constexpr MatrixCell halves_a(int lane, int i) { return M16N8K16::a(lane, i ^ 1); }
constexpr MatrixCell halves_b(int lane, int i) { return M16N8K16::b(lane, i ^ 1); }
constexpr MatrixCell registers_b(int lane, int i) { return M16N8K16::b(lane, i ^ 2); }
constexpr MatrixCell crossed_a(int lane, int i) {
  constexpr int other[] = {0, 1, 4, 5, 2, 3, 6, 7};  // a1 and a2
  return M16N8K16::a(lane, other[i]);
}
constexpr MatrixCell turned_a(int lane, int i) { return transposed(M16N8K16::a(lane, i)); }
constexpr MatrixCell turned_b(int lane, int i) { return transposed(M16N8K16::b(lane, i)); }

constexpr Habit habits_a[] = {
    {"row g+8 exchanged with column +8: registers a1 and a2 are swapped", crossed_a},
    {"the two halves of each register are exchanged: the lower index belongs into the low half",
     halves_a},
    {"rows and columns of A are exchanged", turned_a}};
constexpr Habit habits_b[] = {
    {"rows and columns of B are exchanged, so the product equals A times B transposed: element (k, "
     "n) of a "
     "row-major B lies at k * columns + n",
     turned_b},
    {"registers b0 and b1 are swapped", registers_b},
    {"the two halves of each register are exchanged: the lower index belongs into the low half",
     halves_b}};

using Matrix = std::vector<double>;

Bits random_bits(const char* name, int count, double shift) {
  Bits bits;
  for (int i = 0; i < count; ++i)
    bits.push_back(
        bfloat16(Random(exercise::seed(4), name).uniform(static_cast<uint64_t>(i)) - shift).bits);
  return bits;
}
double number(uint16_t bits) { return static_cast<double>(bfloat16::decode(bits)); }

// A B over the steps [begin, end) of k; b(l, j) is where to read B.
template <class Where_>
Matrix exact(const Bits& a, const Bits& b, int m, int n, int k, int begin, int end, Where_ at) {
  Matrix c(static_cast<size_t>(m * n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int l = begin; l < end; ++l)
        c[static_cast<size_t>(i * n + j)] +=
            number(a[static_cast<size_t>(i * k + l)]) * number(b[static_cast<size_t>(at(l, j))]);
  return c;
}

struct Size {
  int m, n, k;
};
constexpr Size sizes[] = {{16, 8, 16}, {16, 16, 48}, {16, 8, 40}, {32, 32, 32},
                          {17, 9, 33}, {40, 72, 20}, {1, 1, 1}};

using Multiply = exercise::Call<Product(const Bits& a, const Bits& b, int m, int n, int k)>;
void expect_product(Multiply multiply, Size size) {
  const auto [m, n, k] = size;
  const Bits a = random_bits("a", m * k, 0.5), b = random_bits("b", k * n, 0.5);
  const auto plain = [n](int l, int j) { return l * n + j; };
  const int last = (k - 1) / 16 * 16;
  Clues clues;
  clues.what = fmt::format("C ({} x {}) with k = {}", m, n, k);
  clues.shape = {m, n};
  if (k > 16) {
    clues.suspects.push_back(
        {"the sum over only the last K tile: do the sums begin anew in each step?",
         exact(a, b, m, n, k, last, k, plain)});
    clues.suspects.push_back(
        {"the sum over only the first K tile", exact(a, b, m, n, k, 0, 16, plain)});
  }
  if (k % 16 != 0)
    clues.suspects.push_back(
        {"the sum over only whole steps of 16: what is left of k behind them is missing",
         exact(a, b, m, n, k, 0, k / 16 * 16, plain)});
  if (n == k)
    clues.suspects.push_back({"A times B transposed",
                              exact(a, b, m, n, k, 0, k, [k](int l, int j) { return j * k + l; })});
  const std::vector<float> c = multiply(a, b, m, n, k).c;
  expect(compare(Matrix(c.begin(), c.end()), exact(a, b, m, n, k, 0, k, plain), 1e-2, clues));
}

void expect_stored_once(Multiply multiply) {
  const int m = 32, n = 64, k = 64;
  const Product product =
      multiply(random_bits("a", m * k, 0.5), random_bits("b", k * n, 0.5), m, n, k);
  expect(product.stored_early == 0,
         fmt::format("right, but C is stored while there is more to add up: {} of {} mma "
                     "instructions come after it. Each store is traffic to global memory; the sums "
                     "stay in registers until the loop along k is over",
                     product.stored_early, product.instructions));
}

// k = 0: the loop does not run.
void expect_zeros(Multiply multiply) {
  for (const auto& [m, n] : {std::pair{16, 8}, {17, 9}})
    for (const float got : multiply({}, {}, m, n, 0).c)
      expect(got == 0, fmt::format("({}, 0) times (0, {}): a number of C is {}{}", m, n, got,
                                   got == -77 ? ", which is what was there before: C is stored "
                                                "behind the loop, also if that never runs"
                                              : ""));
}

}  // namespace

TEST_CASE("04.1: every lane holds its eight elements of A") {
  for (const Tile& tile : {Tile{16, 16, 0, 0},
                           {64, 48, 32, 16},
                           {exercise::size("rows", 23, 17, 31), 29, 16, 16},
                           {7, 3, 0, 0}})
    expect_fragment('A', tile,
                    solution.fragment_a(coded(tile.rows, tile.columns), tile.rows, tile.columns,
                                        tile.row, tile.column),
                    8, M16N8K16::a, habits_a);
}

TEST_CASE("04.2: every lane holds its four elements of B") {
  for (const Tile& tile : {Tile{16, 16, 0, 0},
                           {48, 64, 16, 8},
                           {exercise::size("rows", 29, 17, 31), 11, 16, 8},
                           {3, 5, 0, 0}})
    expect_fragment('B', tile,
                    solution.fragment_b(coded(tile.rows, tile.columns), tile.rows, tile.columns,
                                        tile.row, tile.column),
                    4, M16N8K16::b, habits_b);
}

TEST_CASE("04.3: every accumulator goes to its place") {
  const std::vector<float> c = solution.stored(16, 8, 0, 0);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const MatrixCell at = M16N8K16::c(lane, i);
      const auto got = static_cast<int>(c[static_cast<size_t>(at.row * 8 + at.column)]);
      const std::string what =
          got < 0 ? "nothing" : fmt::format("c{} of lane {}", got % 4, got / 4);
      expect(got == 4 * lane + i,
             fmt::format("C({}, {}) holds {}, expected c{} of lane {} (g = {}, t = {})", at.row,
                         at.column, what, i, lane, lane / 4, lane % 4));
    }
}

TEST_CASE("04.3: nothing outside of C is written") {
  for (const Tile& tile : {Tile{16, 13, 0, 8}, {17, 8, 16, 0}, {23, 13, 16, 8}, {1, 1, 0, 0}}) {
    const std::vector<float> c = solution.stored(tile.rows, tile.columns, tile.row, tile.column);
    for (int index = 0; index < std::ssize(c); ++index) {
      const int row = index / tile.columns, column = index % tile.columns;
      const MatrixCell in_tile{row - tile.row, column - tile.column};
      const bool mine =
          in_tile.row >= 0 && in_tile.column >= 0 && row < tile.rows && in_tile.column < 8;
      const auto got = static_cast<int>(c[static_cast<size_t>(index)]);
      if (mine) {
        expect(got >= 0, fmt::format("C({}, {}) of a {} x {} matrix was not written", row, column,
                                     tile.rows, tile.columns));
      } else if (got >= 0) {
        const MatrixCell meant = M16N8K16::c(got / 4, got % 4);
        const int to_row = tile.row + meant.row, to_column = tile.column + meant.column;
        const bool wide = to_column >= tile.columns;
        expect(false, fmt::format("{} {} of {} was written: c{} of lane {} lies outside of C ({} x "
                                  "{}) and landed in {}",
                                  wide ? "column" : "row", wide ? to_column : to_row,
                                  wide ? tile.columns : tile.rows, got % 4, got / 4, tile.rows,
                                  tile.columns,
                                  row < tile.rows ? fmt::format("C({}, {})", row, column)
                                                  : "the memory behind it"));
      }
    }
  }
  CHECK(true);
}

TEST_CASE("04.3: nothing outside of the tile is written") {
  const std::vector<float> c = solution.stored(48, 24, 16, 8);
  for (int row = 0; row < 48; ++row)
    for (int column = 0; column < 24; ++column) {
      const bool inside = row / 16 == 1 && column / 8 == 1;
      expect(inside || c[static_cast<size_t>(row * 24 + column)] == -1,
             fmt::format("the tile at (16, 8) of a 48 x 24 matrix is 16 x 8, and C({}, {}) was "
                         "written too",
                         row, column));
    }
}

TEST_CASE("04.4: a single one in A copies a row of B to C, for each element of each lane") {
  const Bits b = random_bits("b", 16 * 8, 0.5);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      const MatrixCell at = M16N8K16::a(lane, i);
      Bits a(16 * 16);
      a[static_cast<size_t>(at.row * 16 + at.column)] = bfloat16(1.0f).bits;
      const Product product = solution.product(a, b, 16, 8, 16);
      for (int row = 0; row < 16; ++row)
        for (int j = 0; j < 8; ++j) {
          const double wanted =
              row == at.row ? number(b[static_cast<size_t>(at.column * 8 + j)]) : 0;
          const auto got = static_cast<double>(product.c[static_cast<size_t>(row * 8 + j)]);
          expect(
              got == wanted,
              fmt::format(
                  "A is zero but for A({}, {}) = 1, a{} of lane {}: C({}, {}) is {}, expected {}",
                  at.row, at.column, i / 2, lane, row, j, got, wanted));
        }
    }
}

TEST_CASE("04.4: C = A B, for sizes that divide and that do not") {
  for (const Size size : sizes) expect_product(solution.product, size);
}

TEST_CASE("04.4: sums are kept in 32 bits") {
  std::string report;
  double first = -1, last = 0;
  for (const int k : {16, 128, 1024}) {
    const Bits a = random_bits("a", 16 * k, 0), b = random_bits("b", k * 8, 0);
    const Matrix wanted = exact(a, b, 16, 8, k, 0, k, [](int l, int j) { return l * 8 + j; });
    const std::vector<float> c = solution.product(a, b, 16, 8, k).c;
    last = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double relative = std::abs(static_cast<double>(c[i]) - wanted[i]) / wanted[i];
      if (!(relative <= last)) last = relative;  // a NaN stays
    }
    report += fmt::format("{}{:.3f}% at k = {}", report.empty() ? "" : ", ", 100 * last, k);
    if (first < 0) first = last;
  }
  const bool grows = first < 0.01 && last > first;
  expect(last < 1e-4,
         grows ? fmt::format("error grows with K: {}. A sum in f32 stays below 0.01%: is it "
                             "rounded to bf16 in between?",
                             report)
               : fmt::format("the error is {}", report));
}

TEST_CASE("04.4: the sums are stored once, behind the loop") {
  expect_stored_once(solution.product);
}

TEST_CASE("04.4: with nothing to add up C is 0") { expect_zeros(solution.product); }

TEST_CASE("04.4: one instruction for each tile and 16 of k") {
  for (const auto [m, n, k] : sizes) {
    const int64_t wanted = int64_t{(m + 15) / 16} * ((n + 7) / 8) * ((k + 15) / 16);
    const int64_t got =
        solution.product(random_bits("a", m * k, 0.5), random_bits("b", k * n, 0.5), m, n, k)
            .instructions;
    expect(got == wanted,
           fmt::format("{} x {} x {}: {} mma instructions, expected {}", m, n, k, got, wanted));
  }
}

TEST_CASE("04.5: C = A B with 32 x 32 a warp") {
  for (const Size size : sizes) expect_product(solution.warp_tiles, size);
}

TEST_CASE("04.5: the sums are stored once, behind the loop") {
  expect_stored_once(solution.warp_tiles);
}

TEST_CASE("04.5: with nothing to add up C is 0") { expect_zeros(solution.warp_tiles); }

TEST_CASE("04.5: a warp whose columns are outside multiplies nothing") {
  // Two warps side by side have 64 columns; C has 32, or one more.
  for (const auto& [n, warps] : {std::pair{32, 1}, {33, 2}}) {
    const int64_t got =
        solution
            .warp_tiles(random_bits("a", 32 * 16, 0.5), random_bits("b", 16 * n, 0.5), 32, n, 16)
            .instructions;
    expect(got == 8 * warps,
           fmt::format("32 x {} x 16: {} mma instructions, expected {}: 2 x 4 a warp, and a warp "
                       "that has no column leaves",
                       n, got, 8 * warps));
  }
}

TEST_CASE("04.5: each fragment is loaded once a step") {
  const int m = 64, n = 64, k = 48;
  const Product product =
      solution.warp_tiles(random_bits("a", m * k, 0.5), random_bits("b", k * n, 0.5), m, n, k);
  const int64_t warps = int64_t{m / 32} * (n / 32), steps = k / 16;
  expect(product.instructions == warps * steps * 8,
         fmt::format("{} mma instructions, expected {}: 2 x 4 a warp and step",
                     product.instructions, warps * steps * 8));
  const int64_t wanted = warps * steps * 32 * (2 * 8 + 4 * 4);
  expect(product.elements == wanted,
         fmt::format("right, but {} elements of A and B were read where {} are enough: {} a lane "
                     "and step, expected {}. "
                     "Load 2 fragments of A and 4 of B, then multiply all 8 pairs",
                     product.elements, wanted, product.elements / (warps * steps * 32),
                     2 * 8 + 4 * 4));
}

TEST_CASE("04.6: the lane of each number of C") {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const MatrixCell at = M16N8K16::c(lane, i);
      const int got = solution.lane_of_c(at.row, at.column);
      std::string why;
      if (got == 4 * at.row + at.column / 2)
        why = ": rows g and g + 8 are in the same lanes, and a warp has 32";
      if (got == at.row % 8 + 8 * (at.column / 2)) why = ": a lane is 4g + t, and not g + 8t";
      expect(got == lane,
             fmt::format("C({}, {}) is in lane {} (g = {}, t = {}), your answer is {}{}", at.row,
                         at.column, lane, lane / 4, lane % 4, got, why));
    }
}

namespace {

std::vector<float> drawn(const char* name, int count, float from, float to) {
  std::vector<float> all;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    all.push_back(from + (to - from) * static_cast<float>(Random(47, name).uniform(i)));
  return all;
}

// Points x (m, k) and y (n, k), and the squares of their distances in double.
struct Cloud {
  Cloud(Size s, float from, float to)
      : size(s), x(drawn("x", s.m * s.k, from, to)), y(drawn("y", s.n * s.k, from, to)) {}
  double coordinate(const std::vector<float>& points, int i, int l) const {
    return static_cast<double>(points[static_cast<size_t>(i * size.k + l)]);
  }
  std::vector<double> mean(const std::vector<float>& points) const {
    const int count = static_cast<int>(points.size()) / size.k;
    std::vector<double> sum(static_cast<size_t>(size.k));
    for (int i = 0; i < count; ++i)
      for (int l = 0; l < size.k; ++l)
        sum[static_cast<size_t>(l)] += coordinate(points, i, l) / count;
    return sum;
  }
  // |x_i - y_j|^2 of moved points, with `times` times x . y taken away: (m, n).
  std::vector<double> squares(double times = 2, bool own_means = false) const {
    const std::vector<double> of_y = mean(y), of_x = own_means ? mean(x) : of_y;
    std::vector<double> all;
    for (int i = 0; i < size.m; ++i)
      for (int j = 0; j < size.n; ++j) {
        double sum = 0;
        for (int l = 0; l < size.k; ++l) {
          const double a = coordinate(x, i, l) - of_x[static_cast<size_t>(l)];
          const double b = coordinate(y, j, l) - of_y[static_cast<size_t>(l)];
          sum += a * a - times * a * b + b * b;
        }
        all.push_back(sum);
      }
    return all;
  }
  Size size;
  std::vector<float> x, y;
};

exercise::Distances distances_of(const Cloud& cloud) {
  return solution.distances(cloud.x, cloud.y, cloud.size.m, cloud.size.n, cloud.size.k);
}

// Where the first square is that is not this one to f32's digits; if there is none, how many there
// are.
size_t first_other(const std::vector<float>& squares, const std::vector<double>& wanted) {
  double largest = 1e-30;
  for (const double each : wanted) largest = std::max(largest, std::abs(each));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!(std::abs(static_cast<double>(squares[i]) - wanted[i]) <= 2e-5 * largest)) return i;
  return wanted.size();
}

void expect_squares(const Cloud& cloud, const std::vector<float>& squares, const char* otherwise) {
  const std::vector<double> wanted = cloud.squares();
  const size_t at = first_other(squares, wanted);
  if (at == wanted.size()) return expect(true, "");
  std::string why = otherwise;
  if (first_other(squares, cloud.squares(1)) == wanted.size()) why = ": is x . y taken away once?";
  if (first_other(squares, cloud.squares(2, true)) == wanted.size())
    why = ": x was moved by its own mean and y by its own; both have to be moved by the same";
  const auto n = static_cast<size_t>(cloud.size.n);
  expect(false, fmt::format("{} and {} points in {} dimensions: the square of the distance of "
                            "x_{} and y_{} is {:.6g}, expected {:.6g}{}",
                            cloud.size.m, cloud.size.n, cloud.size.k, at / n, at % n, squares[at],
                            wanted[at], why));
}

}  // namespace

TEST_CASE("04.7: the squares of all distances, for sizes that divide and that do not") {
  for (const Size size : {Size{1, 1, 1}, {16, 8, 16}, {5, 21, 7}, {33, 40, 50}}) {
    const Cloud cloud(size, -1, 1);
    expect_squares(cloud, distances_of(cloud).squares,
                   ": |x|^2 - 2 x . y + |y|^2, where x and y are moved");
  }
}

TEST_CASE("04.7: far from the origin the digits are still there") {
  const Cloud cloud({20, 30, 16}, 1000, 1001);
  expect_squares(cloud, distances_of(cloud).squares,
                 ": this is a difference of large numbers that are nearly equal; are the points "
                 "moved to the origin first?");
}

TEST_CASE("04.7: no square is below 0") {
  Cloud cloud({40, 40, 64}, 3, 4);
  cloud.y = cloud.x;
  for (const float square : distances_of(cloud).squares)
    expect(!(square < 0),
           fmt::format("the square of a distance is {}: its root would be a NaN", square));
}

TEST_CASE("04.7: one matmul, and no loop over all terms") {
  const Cloud cloud({12, 9, 24}, -1, 1);
  const int64_t products = distances_of(cloud).products;
  expect(products == 1,
         products == 0
             ? std::string("right, but without a matmul of (12, 24) times (24, 9): x . y of all "
                           "pairs is one")
             : fmt::format("{} matmuls, expected one for all pairs", products));
}

namespace {

constexpr exercise::Units gpu = {300e12, 20e12, 2, 2e12}, tpu = {200e12, 6e12, 1, 0.8e12};

void expect_l1(const exercise::Units& chip, double m, double n, double k) {
  const double instructions = 2 * m * n * k / (chip.others / chip.counted);
  const double bytes = (2 * (m + n) * k + 4 * m * n) / chip.bandwidth;
  const double expected = std::max(instructions, bytes), got = solution.l1_seconds(chip, m, n, k);
  const auto is = [&](double seconds) { return std::abs(got - seconds) <= 1e-9 * seconds; };
  std::string why = ": the longer of two times, of instructions and of bytes";
  if (is(std::max(instructions / chip.counted, bytes)))
    why = ": the chip's figure counts a fused multiply-add as two FLOPs, and L1 has none";
  if (is(instructions)) why = ": this is the arithmetic, without the bytes of points and distances";
  expect(is(expected),
         fmt::format("{} and {} points in {} dimensions, {} FLOP/s of which an instruction counts "
                     "{}, {} bytes/s: {:.6g} s, expected {:.6g}{}",
                     m, n, k, chip.others, chip.counted, chip.bandwidth, got, expected, why));
}

}  // namespace

TEST_CASE("04.8: L1 takes as long as its instructions") {
  expect_l1(gpu, 4096, 1024, 512);
  expect_l1(tpu, 1024, 4096, 512);
}

TEST_CASE("04.8: or as long as its bytes, if those take longer") {
  expect_l1(gpu, 4096, 1024, 4);
  expect_l1(tpu, 16, 8, 1024);
}
