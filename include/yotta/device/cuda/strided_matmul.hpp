// The course's own matmul for tensors on Device::cuda: any strides, so that a transposed operand
// needs no copy.
//
//            k ->           a block has a (16, 16) tile of C, a thread one number of it. Tiles of A
//     A [ . T . . ]         and B pass through shared memory, where each number is used 16 times. A
//     B [ . ]               matrix that is read along its columns is fetched with the thread's two
//       [ T ]  ->  C [ T ]  indices exchanged, so that a warp's reads stay neighbours.
//
// Several products are one launch: q, k and v of one x, and the sum of what their gradients give
// to dx. Block z of the grid's third dimension has result z, and walks over all of its products. A
// bias is added before a sum is rounded and stored, so that y is written once and not read.
//
// The ladder of lesson 03 goes on from here; its best rung computes what it can: f32, both operands
// row-major, C overwritten, no bias, all on 16 bytes. That is a linear layer's dx.
// install_course_matmul() puts both behind the ops.
// Cost: 2 m n k FLOPs, 4 (m n k) (1/16 + 1/16) bytes from memory or the L2 cache in f32.
// Letters: C (m, n) = A (m, k) B (k, n). nvcc compiles this file too.
#pragma once

#include <climits>

#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/device/cuda/device_matmul.hpp"
#include "yotta/device/matmul_rungs.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A matrix as a kernel sees it.
template <class T>
struct StridedMatrix {
  T* data;
  int64_t rows, cols, row_stride, col_stride;
  StridedMatrix() = default;
  explicit StridedMatrix(const DeviceMatrix& x)
      : data(static_cast<T*>(x.data)),
        rows(x.rows),
        cols(x.cols),
        row_stride(x.row_stride),
        col_stride(x.col_stride) {}
  __device__ T& at(int64_t r, int64_t c) const { return data[r * row_stride + c * col_stride]; }
  // Its (16, 16) tile at (top, left), zeros beyond the edges; thread (x, y) fetches one number.
  template <class Sum>
  __device__ void fetch(Sum (*tile)[17], int64_t top, int64_t left, int x, int y) const {
    const int r = col_stride == 1 ? y : x, c = col_stride == 1 ? x : y;
    const bool inside = top + r < rows && left + c < cols;
    tile[r][c] = inside ? static_cast<Sum>(at(top + r, left + c)) : Sum{0};
  }
};

// What one launch computes: result z is c[z], the sum of products end[z - 1] to end[z] and bias[z].
template <class T, class TC>
struct StridedProducts {
  static constexpr size_t most = 4;
  StridedMatrix<T> a[most], b[most];
  StridedMatrix<TC> c[most];
  const TC* bias[most];  // null: none
  bool accumulates[most];
  int end[most];
  unsigned results;
};

template <class T, class TC, class Sum>
__global__ void strided_matmul(const __grid_constant__ StridedProducts<T, TC> all) {
  __shared__ Sum tile_a[16][17], tile_b[16][17];  // 17: columns lie in different banks
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t top = int64_t{blockIdx.y} * 16, left = int64_t{blockIdx.x} * 16;
  const unsigned z = blockIdx.z;
  const StridedMatrix<TC>& c = all.c[z];
  if (top >= c.rows || left >= c.cols) return;  // the whole block: another result is larger
  Sum sum = 0;
  for (int p = z == 0 ? 0 : all.end[z - 1]; p < all.end[z]; ++p)
    for (int64_t l = 0; l < all.a[p].cols; l += 16) {
      all.a[p].fetch(tile_a, top, l, x, y);
      all.b[p].fetch(tile_b, l, left, x, y);
      __syncthreads();
      for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
      __syncthreads();
    }
  if (top + y >= c.rows || left + x >= c.cols) return;
  TC& to = c.at(top + y, left + x);
  if (all.bias[z] != nullptr) sum += static_cast<Sum>(all.bias[z][left + x]);
  to = static_cast<TC>(all.accumulates[z] ? static_cast<Sum>(to) + sum : sum);
}

// Is `next` one more term of the sum that `product` is, or ends?
inline bool is_next_term(const DeviceProduct& product, const DeviceProduct& next) {
  return next.c.data == product.c.data && next.into == Into::accumulate && next.bias == nullptr;
}

// Products of these types, StridedProducts::most at most, for one launch.
template <class T, class TC>
StridedProducts<T, TC> gather_products(std::span<const DeviceProduct> products) {
  StridedProducts<T, TC> all{};
  for (size_t i = 0; i < products.size(); ++i) {
    const DeviceProduct& product = products[i];
    all.a[i] = StridedMatrix<T>(product.a);
    all.b[i] = StridedMatrix<T>(product.b);
    if (i == 0 || !is_next_term(products[i - 1], product)) {
      all.c[all.results] = StridedMatrix<TC>(product.c);
      all.bias[all.results] = static_cast<const TC*>(product.bias);
      all.accumulates[all.results++] = product.into == Into::accumulate;
    }
    all.end[all.results - 1] = static_cast<int>(i) + 1;
  }
  return all;
}
template <class T, class TC, class Sum>
void launch_strided_matmul(std::span<const DeviceProduct> products, Where where) {
  int64_t rows = 0, cols = 0;  // of the largest result
  for (const DeviceProduct& each : products) {
    rows = std::max(rows, each.c.rows);
    cols = std::max(cols, each.c.cols);
  }
  const StridedProducts<T, TC> all = gather_products<T, TC>(products);
  launch(strided_matmul<T, TC, Sum>, {blocks_of(cols, 16), blocks_of(rows, 16), all.results, where},
         {16, 16}, 0, compute_stream(), all);
}

// Can the ladder's best rung compute it? It takes f32, row-major, reads four numbers at a time
// where rows allow it, so that a matrix must begin on 16 bytes (a view of a larger array may not),
// and counts numbers in ints.
inline bool ladder_takes(const DeviceMatrix& x) {
  return x.dtype == DType::f32 && x.col_stride == 1 && x.row_stride == x.cols &&
         x.rows * x.cols <= INT_MAX && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

inline bool ladder_multiplies(const DeviceProduct& x) {
  return x.into == Into::overwrite && x.bias == nullptr && ladder_takes(x.a) && ladder_takes(x.b) &&
         ladder_takes(x.c) && x.a.cols > 0;
}

// Products of the same types.
inline void multiply_strided(std::span<const DeviceProduct> products, Where where) {
  const DType in = products[0].a.dtype, out = products[0].c.dtype;
  if (in == DType::f64) return launch_strided_matmul<double, double, double>(products, where);
  const bool narrow = in == DType::bf16, narrow_c = out == DType::bf16;
  if (narrow && narrow_c) return launch_strided_matmul<bfloat16, bfloat16, float>(products, where);
  if (narrow) return launch_strided_matmul<bfloat16, float, float>(products, where);
  if (narrow_c) return launch_strided_matmul<float, bfloat16, float>(products, where);
  launch_strided_matmul<float, float, float>(products, where);
}

// How many of the products, from the first on, one launch can have.
inline size_t launched_together(std::span<const DeviceProduct> products) {
  const DeviceProduct& first = products[0];
  size_t count = 1;
  for (; count < std::min(products.size(), StridedProducts<float, float>::most); ++count)
    if (products[count].a.dtype != first.a.dtype || products[count].c.dtype != first.c.dtype) break;
  return count;
}

// The first of these products, and how many of those after it, by one launch. Returns how many.
inline size_t launch_first_of(std::span<const DeviceProduct> products, Where where) {
  const DeviceProduct& first = products[0];
  if (is_empty(first)) return 1;
  const size_t count = launched_together(products);
  if (count > 1 || !ladder_multiplies(first)) {
    multiply_strided(products.first(count), where);
    return count;
  }
  const auto numbers = [](const DeviceMatrix& x) { return static_cast<float*>(x.data); };
  matmul_rungs.back().run(numbers(first.a), numbers(first.b), numbers(first.c),
                          static_cast<int>(first.c.rows), static_cast<int>(first.c.cols),
                          static_cast<int>(first.a.cols), compute_stream());
  return 1;
}

// device_matmul() of the course.
inline void course_matmul(std::span<const DeviceProduct> products, Where where) {
  while (!products.empty()) products = products.subspan(launch_first_of(products, where));
}
inline void install_course_matmul() { device_matmul() = course_matmul; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
