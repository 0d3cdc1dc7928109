// The hardware lottery: of two ideas that are equally good, the one that is a matmul wins, because
// chips are built for matmuls. Here are two distances between m points x and n points y in k
// dimensions, and which of them a tensor core can compute.
//
//                    y_0   y_1   y_2                  D(i, j)
//                  +-----+-----+-----+
//         x_0      |     |     |     |     L2^2   sum over l of (x_il - y_jl)^2
//                  +-----+-----+-----+                = |x_i|^2 - 2 x_i . y_j + |y_j|^2
//         x_1      |     |     |     |                              `-------- a matmul
//                  +-----+-----+-----+     L1     sum over l of |x_il - y_jl|
//                                                     no such identity: an absolute value is not
//                                                     a sum of products
//
// So L2 runs at the rate of the matrix units, and L1 at that of the ordinary lanes: a fifteenth on
// an A100 or H100, if one counts FLOPs, and a thirtieth if one counts instructions, since a lane's
// peak counts a fused multiply-add as two FLOPs and L1 has nothing to fuse.
//
// The identity has a price. Far from the origin it subtracts large numbers that are nearly equal,
// so the points are moved first, their mean to the origin: distances stay as they are.
//
// Cost: L2 by matmul 2 m n k FLOPs, and O((m + n) k + m n) others; both distances term by term
// l2_instructions, l1_instructions for each i, j, l. Bytes: pair_bytes().
// Contract: x (m, k), y (n, k), d (m, n), the numbers of a row neighbours in memory; d does not
// overlap the others.
// References: Hooker, "The Hardware Lottery" (CACM 2021); Johnson, Douze, Jegou, "Billion-scale
// similarity search with GPUs" (2017), section 2 (L2 by a matmul).
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "yotta/core/dot_chains.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta {

using Points = MatrixView<const float>;  // (points, k)

inline void check_distances(Points x, Points y, MatrixView<float> d, Where where) {
  const bool fits = x.cols == y.cols && d.rows == x.rows && d.cols == y.rows;
  if (fits && x.col_stride == 1 && y.col_stride == 1 && d.col_stride == 1) return;
  fail(where,
       "distances: x is ({}, {}), y is ({}, {}), d is ({}, {}); expected (m, k), (n, k) and (m, "
       "n), with rows whose numbers are neighbours in memory. Has one been transposed()?",
       x.rows, x.cols, y.rows, y.cols, d.rows, d.cols);
}

// ---- L2: a matmul ----
// The mean of all points: (k). 0 if there are none.
inline std::vector<float> mean_point(Points x) {
  std::vector<double> sum(static_cast<size_t>(x.cols));
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* point = x.data + i * x.row_stride;
    for (size_t l = 0; l < sum.size(); ++l) sum[l] += static_cast<double>(point[l]);
  }
  std::vector<float> mean;
  for (const double each : sum)
    mean.push_back(static_cast<float>(each / static_cast<double>(std::max<int64_t>(x.rows, 1))));
  return mean;
}

// The points as seen from `origin` (k), and the square of how far each is away from it.
struct MovedPoints {
  MovedPoints(Points x, std::span<const float> origin) : numbers(x.rows * x.cols), k(x.cols) {
    for (int64_t i = 0; i < x.rows; ++i) {
      const float* from = x.data + i * x.row_stride;
      float* to = numbers.data() + i * k;
      for (size_t l = 0; l < origin.size(); ++l) to[l] = from[l] - origin[l];
      squares.push_back(dot_in_chains<4>(to, to, k));
    }
  }
  Points view() const {
    return row_major<const float>(numbers.data(), static_cast<int64_t>(squares.size()), k);
  }
  float square(int64_t i) const { return squares[static_cast<size_t>(i)]; }

  PackBuffer<float> numbers;   // (points, k)
  std::vector<float> squares;  // (points)
  int64_t k;
};

// d(i, j) = |x_i - y_j|^2, by the identity.
inline void l2_by_matmul(Points x, Points y, MatrixView<float> d, int threads = 1,
                         Where where = Where::current()) {
  check_distances(x, y, d, where);
  const std::vector<float> origin = mean_point(y);
  const MovedPoints a(x, origin), b(y, origin);
  matmul(a.view(), transposed(b.view()), d, Into::overwrite, threads);
  for (int64_t i = 0; i < d.rows; ++i)
    for (int64_t j = 0; j < d.cols; ++j)  // rounding may leave a small one below 0
      d(i, j) = std::max(a.square(i) - 2 * d(i, j) + b.square(j), 0.0f);
}

// ---- Both distances, term by term ---- A tile of D stays in registers, as in matmul_tile; only
// the step differs. So their times differ by their instructions alone.
using DistanceRegister = TileShape<float>::Register;

struct SquaredStep {  // a subtraction, and a fused multiply-add
  static DistanceRegister add(DistanceRegister sum, float x, DistanceRegister y) {
    const DistanceRegister difference = y - x;
    return sum + difference * difference;
  }
};
struct AbsoluteStep {  // a subtraction, the sign bit cleared, and an addition
  static DistanceRegister add(DistanceRegister sum, float x, DistanceRegister y) {
    const DistanceRegister difference = y - x;
    return sum + (DistanceRegister)((F32Bits)difference & 0x7fffffffu);
  }
};

inline constexpr int distance_rows = tile_rows > 8 ? 8 : 4;  // of a tile of D
inline constexpr int distance_columns = TileShape<float>::TN;

// The distances of these points x to a panel of y (k, distance_columns).
template <class Step>
void distance_tile(const float* const (&x)[distance_rows], const float* panel, int64_t k,
                   float (&tile)[distance_rows][distance_columns]) {
  constexpr int lanes = TileShape<float>::lanes, N = tile_registers;
  DistanceRegister sum[distance_rows][N] = {};
  for (int64_t l = 0; l < k; ++l) {
    DistanceRegister y[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j)
      y[j] = load_register<float>(panel + l * distance_columns + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < distance_rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] = Step::add(sum[i][j], x[i][l], y[j]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < distance_rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) store_register(&tile[i][j * lanes], sum[i][j]);
}

template <class Step>
void distances(Points x, Points y, MatrixView<float> d, Where where = Where::current()) {
  check_distances(x, y, d, where);
  const PackBuffer<float> panel(distance_columns * x.cols);
  for (int64_t j = 0; j < d.cols; j += distance_columns) {
    pack_panels<distance_columns>(y.data + j * y.row_stride, y.row_stride, 1, distance_columns, 1,
                                  y.rows - j, y.cols, panel.data());
    for (int64_t i = 0; i < d.rows; i += distance_rows) {
      const float* rows[distance_rows];  // behind the last point the last one again
      for (int64_t r = 0; r < distance_rows; ++r)
        rows[r] = x.data + std::min(i + r, x.rows - 1) * x.row_stride;
      float tile[distance_rows][distance_columns];
      distance_tile<Step>(rows, panel.data(), x.cols, tile);
      for (int64_t r = 0; r < distance_rows && i + r < d.rows; ++r)
        for (int64_t c = 0; c < distance_columns && j + c < d.cols; ++c)
          d(i + r, j + c) = tile[r][c];
    }
  }
}

inline void l2_term_by_term(Points x, Points y, MatrixView<float> d,
                            Where where = Where::current()) {
  distances<SquaredStep>(x, y, d, where);
}
inline void l1_term_by_term(Points x, Points y, MatrixView<float> d,
                            Where where = Where::current()) {
  distances<AbsoluteStep>(x, y, d, where);
}

// ---- What a chip can make of them ----
// Instructions of an ordinary lane for one i, j, l. On an NVIDIA GPU the absolute value is free: an
// addition may take |b| for its operand b. On x86 it is an instruction.
inline constexpr int l2_instructions = 2, l1_instructions = 2, l1_instructions_x86 = 3;

// A chip's two kinds of arithmetic.
struct ChipUnits {
  const char* name;
  double matrix;     // FLOP/s of its matrix units, bf16, dense
  double others;     // FLOP/s of its other units, f32, as published
  double counted;    // FLOPs that this figure counts for an instruction: 2 if it is of FMAs
  double bandwidth;  // of its memory, bytes/s
  const char* source;

  constexpr double instructions() const { return others / counted; }  // a second, of one lane each
};

// A TPU's f32 in machine/chip.hpp is that of its matrix units, so its vector unit stands here.
inline constexpr std::array<ChipUnits, 5> chip_units = {{
    {"a100", known_chips[0].bf16, known_chips[0].f32, 2, known_chips[0].bandwidth,
     known_chips[0].source},
    {"h100", known_chips[1].bf16, known_chips[1].f32, 2, known_chips[1].bandwidth,
     known_chips[1].source},
    {"b200", known_chips[4].bf16, known_chips[4].f32, 2, known_chips[4].bandwidth,
     known_chips[4].source},
    {"v5e", known_chips[5].bf16, 8 * 128 * 4 * 1.5e9, 1, known_chips[5].bandwidth,
     "Google Cloud TPU v5e; vector unit: 8 x 128 lanes, 4 additions a clock each, 1.5 GHz (Austin "
     "et al. 2025, \"How to scale your model\", part 2)"},
    {"trainium2", 667e12, 8e12, 1, 2.9e12,
     "AWS Neuron documentation, Trainium2 and NeuronCore-v3: 8 cores, the vector engine of each 1 "
     "TFLOP/s in f32"},
}};

// Points in bf16 read once, distances in f32 written once.
constexpr double pair_bytes(double m, double n, double k) { return 2 * (m + n) * k + 4 * m * n; }

// At the peaks, for all m n pairs.
constexpr double l2_seconds(const ChipUnits& chip, double m, double n, double k) {
  return std::max(2 * m * n * k / chip.matrix, pair_bytes(m, n, k) / chip.bandwidth);
}
constexpr double l1_seconds(const ChipUnits& chip, double m, double n, double k) {
  return std::max(l1_instructions * m * n * k / chip.instructions(),
                  pair_bytes(m, n, k) / chip.bandwidth);
}

}  // namespace yotta
