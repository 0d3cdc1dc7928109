// Kernels for bodies: how a functor that g++ runs in a loop becomes a kernel of a GPU.
//
//     numbers   thread i has number i, and i + all threads, ...  body(i, OneLane{})
//     rows      warp w has row w, and w + all warps, ...         body(row, WarpTeam{lane})
//     columns   thread c has column c, and walks down it         body(n, c, OneLane{}), n = 0, 1, .
//     sums      a block has 32 columns, its 8 warps share rows,  out[k][c] += sum of term(n, c)[k]
//               and are added up in shared memory, in order
//
// A warp's lanes read 32 neighbouring numbers in all four. add_...<Body>() puts the kernel into the
// slot KernelOf<Body> (core/system/accelerator.hpp). Sums are taken in a fixed order: two runs
// agree to the bit.
// nvcc compiles this file too.
#pragma once

#include <algorithm>

#include "yotta/core/dtype.hpp"
#include "yotta/device/cuda/cuda_accelerator.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// 32 lanes that work on one row together; lane i has columns i, i + 32, ...
struct WarpTeam {
  int lane;

  template <class Body>
  __device__ void each(int64_t n, Body&& body) const {
    for (int64_t c = lane; c < n; c += 32) body(c, OneLane{});
  }
  // The sum over c < n of term(c, OneLane{}), on all lanes.
  template <class Term>
  __device__ auto sum(int64_t n, Term&& term) const {
    decltype(term(n, OneLane{})) total{};
    for (int64_t c = lane; c < n; c += 32) total += term(c, OneLane{});
    return all_lanes(total);
  }
  template <size_t Sums, class Term>
  __device__ auto sums(int64_t n, Term&& term) const {
    decltype(term(n, OneLane{})) total{};
    for (int64_t c = lane; c < n; c += 32) {
      const auto values = term(c, OneLane{});
      for (size_t k = 0; k < Sums; ++k) total[k] += values[k];
    }
    for (size_t k = 0; k < Sums; ++k) total[k] = all_lanes(total[k]);
    return total;
  }
  template <class Number>
  __device__ Computed<Number> largest(const Number* x, int64_t n) const {
    using Real = Computed<Number>;
    Real most = -static_cast<Real>(__builtin_inf());
    for (int64_t c = lane; c < n; c += 32) {
      const Real value = static_cast<Real>(x[c]);
      most = value > most ? value : most;
    }
    for (int step = 16; step > 0; step /= 2) {
      const Real other = __shfl_xor_sync(0xffffffffu, most, step);
      most = other > most ? other : most;
    }
    return most;
  }
  template <class Do>
  __device__ void once(Do&& one) const {
    if (lane == 0) one();
  }
  __device__ void meet() const { __syncwarp(); }

 private:
  template <class T>
  __device__ static T all_lanes(T total) {
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    return total;
  }
};

template <class Body>
__global__ void numbers_kernel(Body body, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    body(i, OneLane{});
}
template <class Body>
__global__ void rows_kernel(Body body, int64_t rows) {
  const int64_t warps = blockDim.x / 32, step = gridDim.x * warps;
  const WarpTeam team{static_cast<int>(threadIdx.x % 32)};
  for (int64_t row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += step)
    body(row, team);
}
template <class Body>
__global__ void columns_kernel(Body body, int64_t columns) {
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  for (int64_t n = 0; n < body.N; ++n) body(n, c, OneLane{});
}
inline constexpr int sums_warps = 8;
template <class Body>
__global__ void sums_kernel(Body body, int64_t columns) {
  using Sums = decltype(body.term(0, 0, OneLane{}));
  using Real = typename Sums::value_type;
  constexpr size_t count = sizeof(Sums) / sizeof(Real);
  __shared__ Real partial[count][sums_warps][32];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int64_t c = int64_t{blockIdx.x} * 32 + lane;
  Sums total{};
  for (int64_t n = warp; n < body.N && c < columns; n += sums_warps) {
    const Sums values = body.term(n, c, OneLane{});
    for (size_t k = 0; k < count; ++k) total[k] += values[k];
  }
  for (size_t k = 0; k < count; ++k) partial[k][warp][lane] = total[k];
  __syncthreads();
  if (warp != 0 || c >= columns) return;
  for (size_t k = 0; k < count; ++k) {
    Real sum = 0;
    for (int w = 0; w < sums_warps; ++w) sum += partial[k][w][lane];
    body.out[k][c] += sum;
  }
}

// Blocks for so many items, `each` per block; kernels that step over the grid need no more than a
// few thousand.
inline unsigned blocks_of(int64_t items, int64_t each, int64_t most = 0x7fffffff) {
  return static_cast<unsigned>(std::min((items + each - 1) / each, most));
}
inline constexpr int64_t stepping_blocks = 1 << 14;

template <class Body>
void launch_numbers(const Body& body, int64_t n, Where where) {
  launch(numbers_kernel<Body>, {blocks_of(n, 256, stepping_blocks), where}, 256, 0,
         compute_stream(), body, n);
}
template <class Body>
void launch_rows(const Body& body, int64_t rows, Where where) {
  launch(rows_kernel<Body>, {blocks_of(rows, 4, stepping_blocks), where}, 128, 0, compute_stream(),
         body, rows);
}
template <class Body>
void launch_columns(const Body& body, int64_t columns, Where where) {
  launch(columns_kernel<Body>, {blocks_of(columns, 64), where}, 64, 0, compute_stream(), body,
         columns);
}
template <class Body>
void launch_sums(const Body& body, int64_t columns, Where where) {
  launch(sums_kernel<Body>, {blocks_of(columns, 32), where}, 32 * sums_warps, 0, compute_stream(),
         body, columns);
}

template <class... Bodies>
void add_numbers() {
  ((KernelOf<Bodies>::launch = launch_numbers<Bodies>), ...);
}
template <class... Bodies>
void add_rows_kernels() {
  ((KernelOf<Bodies>::launch = launch_rows<Bodies>), ...);
}
template <class... Bodies>
void add_columns() {
  ((KernelOf<Bodies>::launch = launch_columns<Bodies>), ...);
}
template <class... Bodies>
void add_sums() {
  ((KernelOf<Bodies>::launch = launch_sums<Bodies>), ...);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
