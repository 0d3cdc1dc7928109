// Kernels for bodies: how a functor that g++ runs in a loop becomes a kernel of a GPU.
//
//     numbers   thread i has number i, and i + all threads, ...  body(i, OneLane{})
//     rows      warp w has row w, and w + all warps, ...         body(row, WarpTeam{lane})
//     scatter   warp n has row n, if it is the first of those    body(m, c, OneLane{}), m = n, ...
//               that body.row() sends to one place; it walks
//               down them, lanes have its columns
//     sums      a block has 32 columns, its 8 warps share rows,  out[k][c] += sum of term(n, c)[k]
//               and are added up in shared memory, in order
//     many      numbers, rows or sums of several bodies          one launch (KernelBatch)
//
// Tall sums. 768 columns are 24 blocks, and a GPU has 132 multiprocessors. So the rows are cut into
// parts, each with blocks of its own; their sums go to memory, 32 columns a block, and a second
// kernel adds them up in order. How many parts there are depends on the sizes alone.
//
// A warp's lanes read 32 neighbouring numbers in all of them. add_...<Body>() puts the kernel into
// the slot KernelOf<Body> (core/system/accelerator.hpp). Sums are taken in a fixed order: two runs
// agree to the bit.
// nvcc compiles this file too.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "yotta/core/dtype.hpp"
#include "yotta/core/system/kernel_batch.hpp"
#include "yotta/device/cuda/cuda_accelerator.hpp"

#if !defined(__CUDACC__)
#define __grid_constant__  // an argument that a kernel's threads read where it lies
#endif

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
inline constexpr int scatter_columns = 256;
template <class Body>
__global__ void scatter_kernel(Body body, int64_t columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t n = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  const int64_t to = n < body.N ? body.row(n) : -1;
  if (to < 0) return;  // the whole warp
  const auto goes_there = [&](int64_t m) { return m < body.N && body.row(m) == to; };
  for (int64_t m = lane; m - lane < n; m += 32)
    if (__any_sync(0xffffffffu, m < n && goes_there(m))) return;
  const int64_t left = int64_t{blockIdx.y} * scatter_columns, right = left + scatter_columns;
  for (int64_t first = n; first < body.N; first += 32) {
    const unsigned found = __ballot_sync(0xffffffffu, goes_there(first + lane));
    int64_t m = first;
    for (unsigned rest = found; rest != 0; rest >>= 1, ++m)
      for (int64_t c = left + lane; (rest & 1) != 0 && c < columns && c < right; c += 32)
        body(m, c, OneLane{});
  }
}

inline constexpr int sums_warps = 8;
template <class Body>
struct BodySums {
  using Sums = decltype(std::declval<Body>().term(0, 0, OneLane{}));
  using Real = typename Sums::value_type;
  static constexpr size_t count = sizeof(Sums) / sizeof(Real);
  using Partial = Real[count][sums_warps][32];  // in shared memory
};
// ---- several bodies by one launch ----

// As many as an argument of a kernel may hold, 4 KB, or fewer. Each has blocks of its own.
template <class Body, int count = static_cast<int>(3968 / (sizeof(Body) + 12))>
struct ManyBodies {
  static_assert(std::is_trivially_copyable_v<Body>);
  static constexpr int most = count;
  alignas(Body) unsigned char bodies[most * sizeof(Body)];
  int64_t items[most];
  unsigned end[most];  // of its blocks

  __device__ const Body& body(int i) const { return reinterpret_cast<const Body*>(bodies)[i]; }
};
// run(body, items, this block among the body's, its blocks).
template <class Body, int most, class Run>
__device__ void run_one_of(const ManyBodies<Body, most>& all, Run run) {
  int i = 0;
  while (blockIdx.x >= all.end[i]) ++i;
  const unsigned begin = i == 0 ? 0 : all.end[i - 1];
  run(all.body(i), all.items[i], int64_t{blockIdx.x - begin}, int64_t{all.end[i] - begin});
}
template <class Body>
__global__ void many_numbers_kernel(const __grid_constant__ ManyBodies<Body> all) {
  run_one_of(all, [](const Body& body, int64_t n, int64_t block, int64_t blocks) {
    for (int64_t i = block * blockDim.x + threadIdx.x; i < n; i += blocks * blockDim.x)
      body(i, OneLane{});
  });
}
template <class Body>
__global__ void many_rows_kernel(const __grid_constant__ ManyBodies<Body> all) {
  run_one_of(all, [](const Body& body, int64_t rows, int64_t block, int64_t blocks) {
    const int64_t warps = blockDim.x / 32;
    const WarpTeam team{static_cast<int>(threadIdx.x % 32)};
    for (int64_t row = block * warps + threadIdx.x / 32; row < rows; row += blocks * warps)
      body(row, team);
  });
}

inline constexpr int sums_together = 4;
// A block sums rows first to last of columns left to left + 32; one warp has the sums:
// add(k, c, sum).
template <class Body, class Add>
__device__ void sum_rows(const Body& body, int64_t left, int64_t columns, int64_t first,
                         int64_t last, typename BodySums<Body>::Partial& partial, Add add) {
  constexpr size_t count = BodySums<Body>::count;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int64_t c = left + lane;
  typename BodySums<Body>::Sums total{};
  for (int64_t n = first + warp; n < last && c < columns; n += sums_warps) {
    const auto values = body.term(n, c, OneLane{});
    for (size_t k = 0; k < count; ++k) total[k] += values[k];
  }
  for (size_t k = 0; k < count; ++k) partial[k][warp][lane] = total[k];
  __syncthreads();
  if (warp != 0 || c >= columns) return;
  for (size_t k = 0; k < count; ++k) {
    typename BodySums<Body>::Real sum = 0;
    for (int w = 0; w < sums_warps; ++w) sum += partial[k][w][lane];
    add(k, c, sum);
  }
}
// A body's blocks: all of its columns for the first part of its rows, then for the second, ...
// Where there are several parts their sums go to `parts` (blocks, count, 32).
template <class Body>
__global__ void many_sums_kernel(const __grid_constant__ ManyBodies<Body, sums_together> all,
                                 typename BodySums<Body>::Real* parts) {
  __shared__ typename BodySums<Body>::Partial partial;
  run_one_of(all, [&](const Body& body, int64_t columns, int64_t block, int64_t blocks) {
    const int64_t wide = (columns + 31) / 32, part = block / wide, count = blocks / wide;
    const int64_t rows = (body.N + count - 1) / count, first = part * rows;
    const int64_t last = first + rows < body.N ? first + rows : body.N;
    const int64_t own = int64_t{blockIdx.x} * 32 * static_cast<int64_t>(BodySums<Body>::count);
    sum_rows(body, block % wide * 32, columns, first, last, partial,
             [&](size_t k, int64_t c, auto sum) {
               if (count == 1)
                 body.out[k][c] += sum;
               else
                 parts[own + static_cast<int64_t>(k) * 32 + c % 32] = sum;
             });
  });
}
// With the same blocks; warp k of a body's first ones has sum k.
template <class Body>
__global__ void add_parts_kernel(const __grid_constant__ ManyBodies<Body, sums_together> all,
                                 const typename BodySums<Body>::Real* parts) {
  constexpr auto sums = static_cast<int64_t>(BodySums<Body>::count);
  run_one_of(all, [&](const Body& body, int64_t columns, int64_t block, int64_t blocks) {
    const int64_t wide = (columns + 31) / 32, count = blocks / wide;
    const int64_t k = threadIdx.x / 32, lane = threadIdx.x % 32, c = block * 32 + lane;
    if (block >= wide || count == 1 || k >= sums || c >= columns) return;
    typename BodySums<Body>::Real sum = 0;
    for (int64_t part = 0; part < count; ++part)
      sum += parts[((blockIdx.x + part * wide) * sums + k) * 32 + lane];
    body.out[static_cast<size_t>(k)][c] += sum;
  });
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
void launch_scatter(const Body& body, int64_t columns, Where where) {
  if (body.N == 0) return;
  launch(scatter_kernel<Body>, {blocks_of(body.N, 4), blocks_of(columns, scatter_columns), where},
         128, 0, compute_stream(), body, columns);
}

// Into how many parts tall sums cut their rows: some thousand blocks, of 256 rows or more each.
constexpr int64_t parts_of_rows(int64_t rows, int64_t columns) {
  return std::max<int64_t>(1, std::min(1024 / ((columns + 31) / 32), rows / 256));
}
// run(ManyBodies, blocks) for as many at a time as it holds; body i has blocks_for(i) of them.
template <class Body, int most, class BlocksFor, class Run>
void for_many(std::span<const Body> bodies, std::span<const int64_t> items, BlocksFor blocks_for,
              Run run) {
  for (size_t first = 0; first < bodies.size(); first += most) {
    const size_t count = std::min<size_t>(most, bodies.size() - first);
    ManyBodies<Body, most> all{};
    std::memcpy(all.bodies, &bodies[first], count * sizeof(Body));
    unsigned blocks = 0;
    for (size_t i = 0; i < count; ++i) {
      all.items[i] = items[first + i];
      all.end[i] = blocks += blocks_for(first + i);
    }
    run(all, blocks);
  }
}
// kernel(ManyBodies) with enough blocks for each body's items, `each` a block.
template <class Body, class Kernel>
void launch_many(Kernel kernel, std::span<const Body> bodies, std::span<const int64_t> items,
                 int64_t each, unsigned threads, Where where) {
  for_many<Body, ManyBodies<Body>::most>(
      bodies, items, [&](size_t i) { return blocks_of(items[i], each, 1 << 10); },
      [&](const auto& all, unsigned blocks) {
        launch(kernel, {blocks, where}, threads, 0, compute_stream(), all);
      });
}
template <class Body>
void launch_many_numbers(std::span<const Body> bodies, std::span<const int64_t> items,
                         Where where) {
  launch_many<Body>(many_numbers_kernel<Body>, bodies, items, 256, 256, where);
}
template <class Body>
void launch_many_rows(std::span<const Body> bodies, std::span<const int64_t> items, Where where) {
  launch_many<Body>(many_rows_kernel<Body>, bodies, items, 4, 128, where);
}

template <class Body>
void launch_many_sums(std::span<const Body> bodies, std::span<const int64_t> columns, Where where) {
  using Real = typename BodySums<Body>::Real;
  const auto parts = [&](size_t i) { return parts_of_rows(bodies[i].N, columns[i]); };
  const auto blocks_for = [&](size_t i) {
    return blocks_of(columns[i], 32) * static_cast<unsigned>(parts(i));
  };
  bool tall = false;
  for (size_t i = 0; i < bodies.size(); ++i) tall = tall || parts(i) > 1;
  for_many<Body, sums_together>(bodies, columns, blocks_for, [&](const auto& all, unsigned blocks) {
    const int64_t bytes = tall ? blocks * int64_t{32 * BodySums<Body>::count * sizeof(Real)} : 0;
    const DeviceScratch sums(bytes, where);
    launch(many_sums_kernel<Body>, {blocks, where}, 32 * sums_warps, 0, compute_stream(), all,
           sums.as<Real>());
    if (tall)
      launch(add_parts_kernel<Body>, {blocks, where}, 32 * sums_warps, 0, compute_stream(), all,
             sums.as<Real>());
  });
}
template <class Body>
void launch_sums(const Body& body, int64_t columns, Where where) {
  launch_many_sums<Body>({&body, 1}, {&columns, 1}, where);
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
void add_scatter() {
  ((KernelOf<Bodies>::launch = launch_scatter<Bodies>), ...);
}
// Alone, and several by one launch.
template <class... Bodies>
void add_many_numbers() {
  add_numbers<Bodies...>();
  ((KernelOfMany<Bodies>::launch = launch_many_numbers<Bodies>), ...);
}
template <class... Bodies>
void add_many_rows() {
  add_rows_kernels<Bodies...>();
  ((KernelOfMany<Bodies>::launch = launch_many_rows<Bodies>), ...);
}
template <class... Bodies>
void add_sums() {
  ((KernelOf<Bodies>::launch = launch_sums<Bodies>), ...);
  ((KernelOfMany<Bodies>::launch = launch_many_sums<Bodies>), ...);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
