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

// A block's shared memory, and the head that it works on.
template <class T>
struct FlashBlock {
  AttentionShape shape;
  int b, h;
  float *k, *v, *q;              // (BK, d + 1), (BK, d), (BQ, d)
  float* s;                      // (BQ, BK + 1)
  float *still_worth, *divisor;  // (BQ)

  __device__ explicit FlashBlock(const AttentionShape& of) : shape(of) {
    b = blockIdx.x / shape.H, h = blockIdx.x % shape.H;
    k = dynamic_shared<float>(), v = k + T::BK * T::k_pitch, q = v + T::BK * T::d;
    s = q + T::BQ * T::d, still_worth = s + T::BQ * T::s_pitch, divisor = still_worth + T::BQ;
  }
  // Where query t begins in q and o, its number in L and l, and where key t begins in k and v.
  __device__ int64_t query_at(int t) const { return shape.query_at(b, t, h); }
  __device__ int64_t row_at(int t) const { return shape.row_at(b, t, h); }
  __device__ int64_t key_at(int t) const { return shape.key_at(b, t, h / shape.group()); }
};

// The queries from `query` on take one tile of keys, whose scores are in block.s and whose V is in
// block.v: m, l and O go on. `first`: nothing has been summed yet. `last`: O is divided by l; L,
// which held m until then, becomes the log-sum-exp.
template <class T>
__device__ void take_keys(const FlashBlock<T>& block, int query, bool first, bool last, float* o,
                          float* L, float* l) {
  const int thread = threadIdx.x, rows = block.shape.Tq - query;  // fewer than BQ at the end
  if (thread < T::BQ && thread < rows) {
    const int64_t row = block.row_at(query + thread);
    float m_row = first ? -INFINITY : L[row], l_row = first ? 0 : l[row];
    block.still_worth[thread] = online_softmax<T::BK>(block.s + thread * T::s_pitch, m_row, l_row);
    block.divisor[thread] = last && l_row > 0 ? l_row : 1;  // a query may see no key
    l[row] = l_row, L[row] = last ? m_row + logf(l_row) : m_row;
  }
  __syncthreads();
  for (int i = thread; i < T::BQ * T::d && i / T::d < rows; i += T::threads) {
    const int r = i / T::d, x = i % T::d;
    float* at = o + block.query_at(query + r) + x;
    float sum = first ? 0 : *at * block.still_worth[r];
    for (int j = 0; j < T::BK; ++j) sum += block.s[r * T::s_pitch + j] * block.v[j * T::d + x];
    *at = sum / block.divisor[r];
  }
}

template <class T>
__global__ void flash_attention_tile(const float* q, const float* k, const float* v, float* o,
                                     float* L, float* l, AttentionShape shape) {
  const FlashBlock<T> block(shape);
  const auto key_at = [&](int t) { return block.key_at(t); };
  const auto query_at = [&](int t) { return block.query_at(t); };
  for (int key = 0; key < shape.Tk; key += T::BK) {
    load_rows<T::BK, T::d, T::k_pitch, T::threads>(block.k, k, key, shape.Tk, key_at);
    load_rows<T::BK, T::d, T::d, T::threads>(block.v, v, key, shape.Tk, key_at);
    for (int query = 0; query < shape.Tq; query += T::BQ) {
      load_rows<T::BQ, T::d, T::d, T::threads>(block.q, q, query, shape.Tq, query_at);
      __syncthreads();
      score_tile<T>(block.s, block.q, block.k, query, key, shape);
      __syncthreads();
      take_keys(block, query, key == 0, key + T::BK >= shape.Tk, o, L, l);
      __syncthreads();  // all have finished with S, before the next queries come
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
