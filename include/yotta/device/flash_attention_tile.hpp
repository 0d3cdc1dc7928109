// FlashAttention, as first published: each tile of K and V is read once, and meets all queries.
//
//     for each tile of BK keys:          K, V -> shared memory        read once
//       for each tile of BQ queries:     Q, O, m, l -> this block     read N / BK times
//         S = Q K' / sqrt(d)             (BQ, BK), only in shared memory
//         m, l, P = online softmax of S
//         O = O e^(m_old - m) + P V      written N / BK times
//
//              keys ->                   The order is a, b, c, ... Between two tiles of keys a
//              0    1    2    3          query's m, l and O wait in global memory. S never does:
//        q  0  a    e    i    m          there is no (T, T).
//           1  b    f    j    n
//           2  c    g    k    o
//           3  d    h    l    p
//
// With a shared memory of M numbers a tile has about BK = M / (4 d) keys, so 3 N d numbers move
// N / BK times: 12 N^2 d^2 / M, or Theta(N^2 d^2 / M). No exact algorithm does better for every M
// between d and N d. Three kernels move Theta(N d + N^2); d^2 is 4,096 or 16,384, M some 50,000.
//
// flash_attention_mma.hpp exchanges the loops: O stays in registers, K and V are read N / BQ times.
// Cost: flash_tile_traffic(). Extra memory: m and l, 2 B H Tq numbers.
// Contract: as in flash_attention_unfused.hpp, and l (B, H, Tq); grid B H, block T::threads,
// dynamic shared memory of T::numbers floats.
// Letters: M numbers of shared memory; BQ, BK queries and keys of a tile; N = Tq = Tk.
// Reference: Dao et al. (2022), FlashAttention, algorithm 1, theorem 2, proposition 3.
#pragma once

#include "yotta/device/flash_attention_unfused.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The sizes of a block's tiles: BQ queries and BK keys of d numbers. Rows of K and of S are one
// number longer, so that what lies below each other lies in different banks.
template <int d_, int BQ_, int BK_, int threads_>
struct FlashTile {
  static constexpr int d = d_, BQ = BQ_, BK = BK_, threads = threads_;
  static constexpr int k_pitch = d + 1, s_pitch = BK + 1;
  static constexpr int numbers = BK * k_pitch + BK * d + BQ * d + BQ * s_pitch + 2 * BQ;  // M
  static_assert(BQ <= threads, "each row of S has a thread");
};

// Rows `first` to first + height - 1 of a head into shared memory; zeros from row `rows` on.
// at(row) is where a row begins in x.
template <int height, int d, int pitch, int threads, class At>
__device__ void load_rows(float* tile, const float* x, int first, int rows, At at) {
  for (int i = threadIdx.x; i < height * d; i += threads) {
    const int row = first + i / d;
    tile[i / d * pitch + i % d] = row < rows ? x[at(row) + i % d] : 0;
  }
}

// s (BQ, BK) = Q K' scale for the queries from `query` and the keys from `key` on.
template <class T>
__device__ void score_tile(float* s, const float* q, const float* k, int query, int key,
                           const AttentionShape& shape) {
  for (int i = threadIdx.x; i < T::BQ * T::BK; i += T::threads) {
    const int row = i / T::BK, column = i % T::BK;
    float sum = 0;
    for (int x = 0; x < T::d; ++x) sum += q[row * T::d + x] * k[column * T::k_pitch + x];
    const bool seen = key + column < shape.keys_of(query + row);
    s[row * T::s_pitch + column] = seen ? sum * shape.scale() : -INFINITY;
  }
}

// One row of S becomes one of P; m and l go on. Returns what the sums so far are still worth.
template <int BK>
__device__ float online_softmax(float* row, float& m, float& l) {
  float larger = m;
  for (int j = 0; j < BK; ++j) larger = fmaxf(larger, row[j]);
  const float still_worth = exp_below(m, larger);
  l *= still_worth;
  for (int j = 0; j < BK; ++j) l += row[j] = exp_below(row[j], larger);
  m = larger;
  return still_worth;
}

template <class T>
__global__ void flash_attention_tile(const float* q, const float* k, const float* v, float* o,
                                     float* L, float* l, AttentionShape shape) {
  constexpr int d = T::d, BQ = T::BQ, BK = T::BK;
  float* k_tile = dynamic_shared<float>();        // (BK, d + 1)
  float* v_tile = k_tile + BK * T::k_pitch;       // (BK, d)
  float* q_tile = v_tile + BK * d;                // (BQ, d)
  float* s_tile = q_tile + BQ * d;                // (BQ, BK + 1)
  float* still_worth = s_tile + BQ * T::s_pitch;  // (BQ)
  float* divisor = still_worth + BQ;              // (BQ)
  const int b = blockIdx.x / shape.H, h = blockIdx.x % shape.H, thread = threadIdx.x;
  const auto key_at = [&](int t) { return shape.key_at(b, t, h / shape.group()); };
  const auto query_at = [&](int t) { return shape.query_at(b, t, h); };
  for (int key = 0; key < shape.Tk; key += BK) {
    const bool first = key == 0, last = key + BK >= shape.Tk;
    load_rows<BK, d, T::k_pitch, T::threads>(k_tile, k, key, shape.Tk, key_at);
    load_rows<BK, d, d, T::threads>(v_tile, v, key, shape.Tk, key_at);
    for (int query = 0; query < shape.Tq; query += BQ) {
      load_rows<BQ, d, d, T::threads>(q_tile, q, query, shape.Tq, query_at);
      __syncthreads();
      score_tile<T>(s_tile, q_tile, k_tile, query, key, shape);
      __syncthreads();
      if (thread < BQ && query + thread < shape.Tq) {
        const int64_t row = shape.row_at(b, query + thread, h);
        float m_row = first ? -INFINITY : L[row], l_row = first ? 0 : l[row];
        still_worth[thread] = online_softmax<BK>(s_tile + thread * T::s_pitch, m_row, l_row);
        divisor[thread] = last && l_row > 0 ? l_row : 1;
        L[row] = last ? m_row + logf(l_row) : m_row;
        l[row] = l_row;
      }
      __syncthreads();
      for (int i = thread; i < BQ * d && query + i / d < shape.Tq; i += T::threads) {
        float* at = o + query_at(query + i / d) + i % d;
        float sum = first ? 0 : *at * still_worth[i / d];
        for (int j = 0; j < BK; ++j) sum += s_tile[i / d * T::s_pitch + j] * v_tile[j * d + i % d];
        *at = sum / divisor[i / d];
      }
      __syncthreads();
    }
  }
}

// Q is read for every tile of keys; O, m and l are read for all but the first, and written.
template <class T>
constexpr MemoryTraffic flash_tile_traffic(const AttentionShape& s) {
  const int64_t passes = tiles_along(s.Tk, T::BK), sums = s.query_numbers() + 2 * s.query_rows();
  const int64_t keys = s.key_numbers() * s.group();  // each query head reads its own
  return {4 * (2 * keys + passes * s.query_numbers() + (passes - 1) * sums), 4 * passes * sums};
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
