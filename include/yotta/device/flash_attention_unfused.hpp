// Attention on a GPU before FlashAttention: three kernels through global memory; and the softmax
// that needs only one pass over its row.
//
//     S = Q K' / sqrt(d)     attention_scores       writes S (T, T)        three kernels, and N^2
//     P = softmax(S)         attention_softmax      reads S, writes P      numbers pass through
//     O = P V                attention_values       reads P                memory seven times
//
//     attention_online       a warp takes one query and goes over the keys once. Of the softmax it
//                            keeps the largest score m, the sum l of e^(s - m), and o, the sum of
//                            e^(s - m) v. A larger score makes what was summed worth
//                            e^(m - larger) of itself:
//
//         keys   0    1    2    3              l = l e^(m - larger) + e^(s - larger)
//         s     0.5  2.0  1.0  3.0             o = o e^(m - larger) + e^(s - larger) v
//         m     0.5  2.0  2.0  3.0             m = larger
//
//     No (T, T) is left, but every query reads all keys and values: more bytes than before.
//     flash_attention_tile.hpp shares them.
//
// Cost: bytes of global memory: unfused_attention_traffic(), online_attention_traffic().
// Extra memory: B H Tq Tk numbers for S, or none.
// Contract: q and o (B, Tq, H, d), k and v (B, Tk, Hkv, d), L (B, H, Tq), in f32; H a multiple of
// Hkv. Grids are in flash_attention_rungs.hpp.
// Letters: B sequences, Tq and Tk queries and keys of each, H query heads, Hkv heads of keys and
// values, d numbers per head, L = m + log l.
// References: Milakov and Gimelshein (2018), "Online normalizer calculation for softmax"; Dao et
// al. (2022), FlashAttention, algorithm 0.
#pragma once

#include <cmath>
#include <cstdint>

#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The sizes of attention. Query head h uses head h / group() of the keys and values: kv.
struct AttentionShape {
  int B, Tq, Tk, H, Hkv, d;
  bool causal = false;  // query t sees keys 0 to t + Tk - Tq: the last query sees them all

  __host__ __device__ constexpr int group() const { return H / Hkv; }
  // Where row t of a head begins in q and o, in k and v, and its number in L.
  __host__ __device__ constexpr int64_t query_at(int b, int t, int h) const {
    return ((int64_t{b} * Tq + t) * H + h) * d;
  }
  __host__ __device__ constexpr int64_t key_at(int b, int t, int kv) const {
    return ((int64_t{b} * Tk + t) * Hkv + kv) * d;
  }
  __host__ __device__ constexpr int64_t row_at(int b, int t, int h) const {
    return (int64_t{b} * H + h) * Tq + t;
  }
  // How many keys a query sees: the first ones.
  __host__ __device__ constexpr int keys_of(int query) const {
    const int seen = query + 1 + Tk - Tq;
    return !causal ? Tk : seen < 0 ? 0 : seen;
  }
  __device__ float scale() const { return 1 / sqrtf(static_cast<float>(d)); }

  constexpr int64_t query_rows() const { return int64_t{B} * H * Tq; }
  constexpr int64_t query_numbers() const { return query_rows() * d; }
  constexpr int64_t key_numbers() const { return int64_t{B} * Hkv * Tk * d; }
};

// e^(x - larger), and 0 for an x of -infinity, which stands for what is not there or not seen.
__device__ inline float exp_below(float x, float larger) {
  return x == -INFINITY ? 0 : expf(x - larger);
}

// The largest value and the sum over the 32 lanes of a warp, known to each.
__device__ inline float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ inline float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// ---- Three kernels ----

// S (B, H, Tq, Tk) = Q K' / sqrt(d), with -infinity where a query must not look. Block (Tile, Tile)
// threads, one for each score; lesson 03's shared tile.
template <int Tile>
__global__ void attention_scores(const float* q, const float* k, float* s, AttentionShape shape) {
  __shared__ float q_tile[Tile][Tile + 1], k_tile[Tile][Tile + 1];
  const int x = threadIdx.x, y = threadIdx.y, d = shape.d;
  const int b = blockIdx.z / shape.H, h = blockIdx.z % shape.H;
  const int query = blockIdx.y * Tile + y, first_key = blockIdx.x * Tile, key = first_key + x;
  float sum = 0;
  for (int l = 0; l < d; l += Tile) {
    const bool query_here = query < shape.Tq && l + x < d;
    const bool key_here = first_key + y < shape.Tk && l + x < d;
    q_tile[y][x] = query_here ? q[shape.query_at(b, query, h) + l + x] : 0;
    k_tile[y][x] = key_here ? k[shape.key_at(b, first_key + y, h / shape.group()) + l + x] : 0;
    __syncthreads();
    for (int i = 0; i < Tile; ++i) sum += q_tile[y][i] * k_tile[x][i];
    __syncthreads();
  }
  if (query < shape.Tq && key < shape.Tk)
    s[shape.row_at(b, query, h) * shape.Tk + key] =
        key < shape.keys_of(query) ? sum * shape.scale() : -INFINITY;
}

// P = softmax(S) in place, row by row: one pass for the largest, one for the sum, one to divide.
// Block `warps` warps, one for each row.
template <int warps>
__global__ void attention_softmax(float* s, float* L, AttentionShape shape) {
  const int64_t row = int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (row >= int64_t{shape.B} * shape.H * shape.Tq) return;
  const int lane = threadIdx.x % 32;
  float* scores = s + row * shape.Tk;
  float m = -INFINITY, l = 0;
  for (int key = lane; key < shape.Tk; key += 32) m = fmaxf(m, scores[key]);
  m = warp_max(m);
  for (int key = lane; key < shape.Tk; key += 32) l += exp_below(scores[key], m);
  l = warp_sum(l);
  const float divisor = l > 0 ? l : 1;  // a query may see no key
  for (int key = lane; key < shape.Tk; key += 32) scores[key] = exp_below(scores[key], m) / divisor;
  if (lane == 0) L[row] = m + logf(l);
}

// O = P V. Block (Tile, Tile) threads, one for each number of O.
template <int Tile>
__global__ void attention_values(const float* p, const float* v, float* o, AttentionShape shape) {
  __shared__ float p_tile[Tile][Tile], v_tile[Tile][Tile];
  const int x = threadIdx.x, y = threadIdx.y, d = shape.d;
  const int b = blockIdx.z / shape.H, h = blockIdx.z % shape.H;
  const int query = blockIdx.y * Tile + y, column = blockIdx.x * Tile + x;
  float sum = 0;
  for (int key = 0; key < shape.Tk; key += Tile) {
    const bool p_here = query < shape.Tq && key + x < shape.Tk;
    const bool v_here = key + y < shape.Tk && column < d;
    p_tile[y][x] = p_here ? p[shape.row_at(b, query, h) * shape.Tk + key + x] : 0;
    v_tile[y][x] = v_here ? v[shape.key_at(b, key + y, h / shape.group()) + column] : 0;
    __syncthreads();
    for (int i = 0; i < Tile; ++i) sum += p_tile[y][i] * v_tile[i][x];
    __syncthreads();
  }
  if (query < shape.Tq && column < d) o[shape.query_at(b, query, h) + column] = sum;
}

// ---- One pass ----

// A warp for each query: its lanes hold d / 32 numbers of q and of o each. Block `warps` warps.
template <int d, int warps>
__global__ void attention_online(const float* q, const float* k, const float* v, float* o, float* L,
                                 AttentionShape shape) {
  constexpr int mine = d / 32;
  const int64_t row = int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (row >= int64_t{shape.B} * shape.H * shape.Tq) return;
  const int b = static_cast<int>(row / shape.Tq / shape.H), lane = threadIdx.x % 32;
  const int h = static_cast<int>(row / shape.Tq % shape.H), t = static_cast<int>(row % shape.Tq);
  const int kv = h / shape.group();
  float query[mine], sum[mine] = {}, m = -INFINITY, l = 0;
  for (int i = 0; i < mine; ++i) query[i] = q[shape.query_at(b, t, h) + lane + 32 * i];
  for (int key = 0; key < shape.keys_of(t); ++key) {
    float part = 0;
    for (int i = 0; i < mine; ++i) part += query[i] * k[shape.key_at(b, key, kv) + lane + 32 * i];
    const float s = warp_sum(part) * shape.scale();
    const float larger = fmaxf(m, s), still_worth = exp_below(m, larger), p = exp_below(s, larger);
    l = l * still_worth + p;
    for (int i = 0; i < mine; ++i)
      sum[i] = sum[i] * still_worth + p * v[shape.key_at(b, key, kv) + lane + 32 * i];
    m = larger;
  }
  for (int i = 0; i < mine; ++i)
    o[shape.query_at(b, t, h) + lane + 32 * i] = l == 0 ? 0 : sum[i] / l;  // a NaN stays one
  if (lane == 0) L[row] = m + logf(l);
}

// ---- Cost ----

struct MemoryTraffic {
  int64_t read, written;  // bytes of global memory that threads ask for
  constexpr int64_t bytes() const { return read + written; }
  constexpr bool operator==(const MemoryTraffic&) const = default;
};

constexpr int64_t tiles_along(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

// S is written, read three times and written by the softmax, and read again for O. The matmuls read
// Q once for each tile of keys, and so on.
constexpr MemoryTraffic unfused_attention_traffic(const AttentionShape& s, int64_t tile) {
  const int64_t scores = s.query_rows() * s.Tk;
  const int64_t keys = s.key_numbers() * s.group();  // each query head reads its own
  const int64_t matmul_reads = tiles_along(s.Tk, tile) * s.query_numbers() +
                               2 * tiles_along(s.Tq, tile) * keys + tiles_along(s.d, tile) * scores;
  return {4 * (matmul_reads + 3 * scores), 4 * (2 * scores + s.query_rows() + s.query_numbers())};
}

// Keys that the queries of a sequence see, together.
constexpr int64_t seen_keys(const AttentionShape& s) {
  int64_t seen = 0;
  for (int t = 0; t < s.Tq; ++t) seen += s.keys_of(t);
  return seen;
}
constexpr MemoryTraffic online_attention_traffic(const AttentionShape& s) {
  return {4 * (s.query_numbers() + 2 * s.B * s.H * s.d * seen_keys(s)),
          4 * (s.query_numbers() + s.query_rows())};
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
