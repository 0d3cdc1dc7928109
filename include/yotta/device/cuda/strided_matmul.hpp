// The course's own matmul for tensors on Device::cuda: any strides, so that a transposed operand
// needs no copy.
//
//            k ->           a block has a (16, 16) tile of C, a thread one number of it. Tiles of A
//     A [ . T . . ]         and B pass through shared memory, where each number is used 16 times. A
//     B [ . ]               matrix that is read along its columns is fetched with the thread's two
//       [ T ]  ->  C [ T ]  indices exchanged, so that a warp's reads stay neighbours.
//
// The ladder of lesson 03 goes on from here; its best rung computes what it can: f32, both operands
// row-major, C overwritten. That is a linear layer's dx. install_course_matmul() puts both behind
// the ops.
// Cost: 2 m n k FLOPs, 4 (m n k) (1/16 + 1/16) bytes from memory or the L2 cache in f32.
// Letters: C (m, n) = A (m, k) B (k, n). nvcc compiles this file too.
#pragma once

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

template <class T, class TC, class Sum>
__global__ void strided_matmul(StridedMatrix<T> a, StridedMatrix<T> b, StridedMatrix<TC> c,
                               bool accumulate) {
  __shared__ Sum tile_a[16][17], tile_b[16][17];  // 17: columns lie in different banks
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t top = int64_t{blockIdx.y} * 16, left = int64_t{blockIdx.x} * 16;
  Sum sum = 0;
  for (int64_t l = 0; l < a.cols; l += 16) {
    a.fetch(tile_a, top, l, x, y);
    b.fetch(tile_b, l, left, x, y);
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  if (top + y >= c.rows || left + x >= c.cols) return;
  TC& to = c.at(top + y, left + x);
  to = static_cast<TC>(accumulate ? static_cast<Sum>(to) + sum : sum);
}

template <class T, class TC, class Sum>
void launch_strided_matmul(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c,
                           Into into, Where where) {
  launch(strided_matmul<T, TC, Sum>, {blocks_of(c.cols, 16), blocks_of(c.rows, 16), where},
         {16, 16}, 0, compute_stream(), StridedMatrix<T>(a), StridedMatrix<T>(b),
         StridedMatrix<TC>(c), into == Into::accumulate);
}

// device_matmul() of the course.
inline void course_matmul(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c,
                          Into into, Where where) {
  if (c.rows == 0 || c.cols == 0) return;
  const auto row_major = [](const DeviceMatrix& x) {
    return x.dtype == DType::f32 && x.col_stride == 1 && x.row_stride == x.cols;
  };
  if (into == Into::overwrite && row_major(a) && row_major(b) && row_major(c) && a.cols > 0)
    return matmul_rungs.back().run(static_cast<const float*>(a.data),
                                   static_cast<const float*>(b.data), static_cast<float*>(c.data),
                                   static_cast<int>(c.rows), static_cast<int>(c.cols),
                                   static_cast<int>(a.cols), compute_stream());
  if (a.dtype == DType::f64)
    return launch_strided_matmul<double, double, double>(a, b, c, into, where);
  const bool narrow = a.dtype == DType::bf16, narrow_c = c.dtype == DType::bf16;
  if (narrow && narrow_c)
    return launch_strided_matmul<bfloat16, bfloat16, float>(a, b, c, into, where);
  if (narrow) return launch_strided_matmul<bfloat16, float, float>(a, b, c, into, where);
  if (narrow_c) return launch_strided_matmul<float, bfloat16, float>(a, b, c, into, where);
  launch_strided_matmul<float, float, float>(a, b, c, into, where);
}
inline void install_course_matmul() { device_matmul() = course_matmul; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
