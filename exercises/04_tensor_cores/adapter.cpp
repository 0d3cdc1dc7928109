// One solution of exercise 04 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include <atomic>

namespace yotta::student {

// These stand before the library's, so a solution that uses them is counted.
inline std::atomic<int64_t> instructions, elements, stored_early;

constexpr float nothing_stored = -77;  // what C holds at first

// C, and what a block of how many warps makes of it: (height, width).
struct Output {
  const float* c = nullptr;
  int columns, warps, height, width;
  // The first number that this thread's warp stores.
  const float& first() const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = static_cast<int>(blockIdx.y) * height;
    const int column = static_cast<int>(blockIdx.x) * width + warp * (width / warps);
    return c[row * columns + column];
  }
};
inline Output output;

inline void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                              const float (&c)[4], Where where = Where::current()) {
  if (threadIdx.x % 32 == 0) {
    ++instructions;
    if (output.first() != nothing_stored) ++stored_early;
  }
  yotta::mma_m16n8k16_bf16(d, a, b, c, where);
}

// The whole product, and no part of it.
inline int64_t products, product_m, product_n, product_k;

template <class A, class B>
void matmul(MatrixView<A> a, MatrixView<B> b, MatrixView<float> c, Into into, int threads = 1,
            Where where = Where::current()) {
  products += c.rows == product_m && c.cols == product_n && a.cols == product_k;
  yotta::matmul(a, b, c, into, threads, where);
}

struct Bf16Matrix {
  const bfloat16* data;
  int rows, columns;
  uint32_t bits(int row, int column) const {
    ++elements;
    return yotta::Bf16Matrix{data, rows, columns}.bits(row, column);
  }
};

}  // namespace yotta::student

#include YOTTA_SOLUTION

namespace {

using namespace yotta;
using exercise::Bits;

// A loop without an end is named before the grader gives up.
const double patience = emulator_options().patience = 0.1;

using Load4 = void (*)(uint32_t (&)[4], const student::Bf16Matrix&, int, int);
using Load2 = void (*)(uint32_t (&)[2], const student::Bf16Matrix&, int, int);

// The second of two warps does the work: its lanes are threads 32 to 63.
template <auto load, int registers>
__global__ void fragment(student::Bf16Matrix matrix, int row, int column, uint32_t* out) {
  if (threadIdx.x < 32) return;
  uint32_t mine[registers] = {};
  load(mine, matrix, row, column);
  for (unsigned i = 0; i < registers; ++i) out[(threadIdx.x - 32) * registers + i] = mine[i];
}

__global__ void store(float* c, int m, int n, int row, int column) {
  if (threadIdx.x < 32) return;
  const auto first = static_cast<float>(4 * (threadIdx.x - 32));
  const float mine[4] = {first, first + 1, first + 2, first + 3};
  student::store_c(mine, c, m, n, row, column);
}

DeviceArray<bfloat16> on_device(const Bits& bits) {
  std::vector<bfloat16> numbers(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) numbers[i].bits = bits[i];
  return DeviceArray<bfloat16>(numbers);
}

template <auto load, int registers>
std::vector<uint32_t> run_load(const Bits& bits, int rows, int columns, int row, int column) {
  const DeviceArray<bfloat16> matrix = on_device(bits);
  DeviceArray<uint32_t> out(32 * registers);
  launch(fragment<load, registers>, 1, 64, 0, nullptr,
         student::Bf16Matrix{matrix.data(), rows, columns}, row, column, out.data());
  return out.to_host();
}

std::vector<float> stored(int m, int n, int row, int column) {
  DeviceArray<float> c(std::vector<float>(static_cast<size_t>(m * n + 64), -1.0f));
  launch(store, 1, 64, 0, nullptr, c.data(), m, n, row, column);
  return c.to_host();
}

template <auto kernel, unsigned warps, int height, int width>
exercise::Product run_product(const Bits& a, const Bits& b, int m, int n, int k) {
  const DeviceArray<bfloat16> device_a = on_device(a), device_b = on_device(b);
  // Larger than C, so that what is written behind it does no harm; task 04.3 finds it.
  DeviceArray<float> c(
      std::vector<float>(static_cast<size_t>((m + height) * (n + width)), student::nothing_stored));
  student::instructions = student::elements = student::stored_early = 0;
  student::output = {c.data(), n, warps, height, width};
  launch(kernel,
         {static_cast<unsigned>((n + width - 1) / width),
          static_cast<unsigned>((m + height - 1) / height)},
         32 * warps, 0, nullptr, device_a.data(), device_b.data(), c.data(), m, n, k);
  std::vector<float> result = c.to_host();
  result.resize(static_cast<size_t>(m * n));
  return {std::move(result), student::instructions, student::elements, student::stored_early};
}

exercise::Distances run_distances(const std::vector<float>& x, const std::vector<float>& y, int m,
                                  int n, int k) {
  exercise::Distances run = {std::vector<float>(static_cast<size_t>(m * n), -1)};
  student::products = 0;
  student::product_m = m, student::product_n = n, student::product_k = k;
  student::l2_by_matmul(row_major(x.data(), m, k), row_major(y.data(), n, k),
                        row_major(run.squares.data(), m, n));
  run.products = student::products;
  return run;
}

double l1_seconds(const exercise::Units& chip, double m, double n, double k) {
  return student::l1_seconds(
      {"a chip", chip.matrix, chip.others, chip.counted, chip.bandwidth, "made up"}, m, n, k);
}

}  // namespace

const exercise::Solution exercise::solution = {
    run_load<Load4{student::load_a}, 4>,
    run_load<Load2{student::load_b}, 2>,
    stored,
    run_product<student::matmul_mma<2>, 2, 16, 16>,
    run_product<student::matmul_warp_mma<2, 2, 4>, 2, 32, 64>,
    student::lane_of_c,
    run_distances,
    l1_seconds};
