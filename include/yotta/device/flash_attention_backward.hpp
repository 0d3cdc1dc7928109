// The backward pass of FlashAttention-2 as kernels. P is computed again, tile by tile, from Q, K
// and L, so nothing of size (T, T) is kept or read.
//
//     P  = e^(S - L)                        S = Q K' / sqrt(d)
//     dV = P' dO        dP = dO V'          D = row sums of dO o O: the row sums of dP o P
//     dS = P o (dP - D)                     dK = dS' Q / sqrt(d),   dQ = dS K / sqrt(d)
//
//            keys ->              flash_backward_keys     a block has a tile of keys and goes over
//            0    1    2    3                             the queries: dK and dV are its own sums.
//     q  0  [\]   .    .    .                             dQ belongs to other blocks as well: they
//        1  [ ]  [\]   .    .                             add to it by atomics, in any order.
//        2  [ ]  [ ]  [\]   .     flash_backward_queries  a block has a tile of queries and goes
//        3  [ ]  [ ]  [ ]  [\]                            over the keys: dQ is its own sum, with
//                                                         the same bits in each run.
//
// Both have their rows in registers, as in the forward pass: the first computes S' = K Q' and
// dP' = V dO', so that P' and dS' lie as the left sides of dV and dK. Only dS for dQ must be
// turned, through shared memory.
//
// Cost: products of 2 T^2 d FLOPs: forward has 2, this has 5 (2.5 times as many), or 4 + 3 in a
// fixed order. Extra memory: D, B H Tq numbers.
// Contract: as flash_attention_mma.hpp; dO bf16 (B, Tq, H, d); dq, dk, dv f32, shaped as q, k, v;
// dq is zero before blocks add to it. Grid (tiles, B Hkv) for keys, (tiles, B H) for queries;
// block T::threads, dynamic shared memory T::shared_bytes.
// References: Dao et al. (2022), FlashAttention, appendix B.2; Dao (2023), FlashAttention-2,
// algorithm 2.
#pragma once

#include "yotta/device/atomics.hpp"
#include "yotta/device/flash_attention_mma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Tiles of `side` queries and as many keys; a warp has 16 rows of the block's own tile.
template <int d_, int side_>
struct FlashSquare {
  static constexpr int d = d_, side = side_, threads = 2 * side;
  static constexpr int tile = side * d;  // numbers
  // Two tiles that stay, two that come twice over, and dS.
  static constexpr size_t shared_bytes = size_t{2} * (6 * tile + side * side);
  static_assert(side % 16 == 0 && d % 32 == 0);
};

// D (B, H, Tq) = row sums of dO o O. A warp for each row; block `warps` warps.
template <class Out, int warps>
__global__ void rows_of_dout_o(const bfloat16* dout, const Out* o, float* D, AttentionShape shape) {
  const int64_t row = int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (row >= int64_t{shape.B} * shape.H * shape.Tq) return;
  const int lane = threadIdx.x % 32, t = static_cast<int>(row % shape.Tq);
  const int h = static_cast<int>(row / shape.Tq % shape.H);
  const int64_t at = shape.query_at(static_cast<int>(row / shape.Tq / shape.H), t, h);
  float sum = 0;
  for (int x = lane; x < shape.d; x += 32)
    sum += static_cast<float>(dout[at + x]) * static_cast<float>(o[at + x]);
  sum = warp_sum(sum);
  if (lane == 0) D[row] = sum;
}

// A tile of keys: of sequence b, for query head h, number `tile`, keys first to last.
struct KeyTile {
  int b, h, tile, first, last;
};

// The masks of flash_attention_mma.hpp, seen from the keys: which tiles of queries a tile of keys
// visits.
struct AllQueries {
  int query_tiles;
  __device__ int count(const KeyTile&) const { return query_tiles; }
  __device__ int tile(const KeyTile&, int i) const { return i; }
  __device__ bool partial(const KeyTile&, int) const { return false; }
  __device__ bool sees(int /*b*/, int /*h*/, int /*q*/, int /*kv*/) const { return true; }
};
struct CausalQueries {
  int query_tiles, BQ, ahead;
  __device__ int skipped(const KeyTile& at) const {
    const int before = (at.first - ahead) / BQ;
    return at.first <= ahead ? 0 : before < query_tiles ? before : query_tiles;
  }
  __device__ int count(const KeyTile& at) const { return query_tiles - skipped(at); }
  __device__ int tile(const KeyTile& at, int i) const { return skipped(at) + i; }
  __device__ bool partial(const KeyTile& at, int i) const {
    return at.last > tile(at, i) * BQ + ahead;
  }
  __device__ bool sees(int, int, int q, int kv) const { return kv <= q + ahead; }
};

// What a score needs for its gradient. A ScoreMod that changes scores has its derivative, too:
// derivative(score, b, h, q, kv).
template <class Mask, class ScoreMod>
struct ScoreGradient {
  AttentionShape shape;
  const float *L, *D;  // of this head
  const Mask& mask;
  const ScoreMod& mod;
  int b, h;

  // L and D of a query. An L of infinity makes P zero: no such query, or one that sees no key.
  __device__ float2 row(int query) const {
    if (query >= shape.Tq || L[query] == -INFINITY) return make_float2(INFINITY, 0);
    return make_float2(L[query], D[query]);
  }
  // s becomes p, and dp becomes ds.
  __device__ void operator()(float& s, float& dp, float2 row_L_D, bool partial, int q,
                             int kv) const {
    float score = s * shape.scale(), slope = 1;
    const bool seen = kv < shape.Tk && q < shape.Tq && (!partial || mask.sees(b, h, q, kv));
    if constexpr (!std::is_same_v<ScoreMod, ScoreAsIs>) {
      slope = seen ? mod.derivative(score, b, h, q, kv) : 0;
      score = seen ? mod(score, b, h, q, kv) : 0;
    }
    s = seen ? power_of_2((score - row_L_D.x) * log2_of_e) : 0;
    dp = s * (dp - row_L_D.y) * slope;
  }
};

// Writes x (16, d) of this warp, times `factor`, into rows from `first` on; rows end at `rows`.
template <int d, class At>
__device__ void store_gradient(const float (&x)[1][d / 8][4], float factor, float* to, int first,
                               int rows, At at) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = first + g + 8 * r;
    if (row >= rows) continue;
    float* row_of = to + at(row) + 2 * t;
    YOTTA_UNROLL
    for (int j = 0; j < d / 8; ++j)
      store_pair(row_of + 8 * j, x[0][j][2 * r] * factor, x[0][j][2 * r + 1] * factor);
  }
}

// ---- dQ, from dS' in shared memory ----

// This warp's part of dS' (keys, queries) into a swizzled tile: 16 keys from `row` on.
template <int side>
__device__ void store_scores(uint16_t* tile, const float (&ds)[1][side / 8][4], int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int j = 0; j < side / 8; ++j) {
    YOTTA_UNROLL
    for (int r = 0; r < 2; ++r) {
      uint16_t* to = tile + place<side, Rows::swizzled>(row + g + 8 * r, j) + 2 * t;
      *reinterpret_cast<uint32_t*>(to) = rounded_pair(ds[0][j][2 * r], ds[0][j][2 * r + 1]);
    }
  }
}

// dq (16, d) = dS K for this warp's queries from `row` on: dS' (keys, queries) and K (keys, d) in
// shared memory.
template <int d, int side>
__device__ void multiply_turned(float (&dq)[1][d / 8][4], const uint16_t* ds, int row,
                                const uint16_t* k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  YOTTA_UNROLL_BY(1)
  for (int l = 0; l < side; l += 16) {
    uint32_t a[4];
    ldmatrix_x4_trans(
        a, ds + place<side, Rows::swizzled>(l + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
    YOTTA_UNROLL
    for (int j = 0; j < d / 8; j += 2) {
      uint32_t b[2][2];
      shared_b<d, Loads::ldmatrix, Rows::swizzled>(b[0], b[1], k, l, 8 * j);
      mma_m16n8k16_bf16(dq[0][j], a, b[0], dq[0][j]);
      mma_m16n8k16_bf16(dq[0][j + 1], a, b[1], dq[0][j + 1]);
    }
  }
}

// Adds it instead.
template <int d, class At>
__device__ void add_gradient(const float (&x)[1][d / 8][4], float factor, float* to, int first,
                             int rows, At at) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int e = 0; e < 4; ++e) {
    const int row = first + g + e / 2 * 8;
    if (row >= rows) continue;
    float* row_of = to + at(row) + 2 * t + e % 2;
    YOTTA_UNROLL
    for (int j = 0; j < d / 8; ++j) atomicAdd(row_of + 8 * j, x[0][j][e] * factor);
  }
}

// ---- The kernels ----

// dk and dv of a tile of keys, summed over the query heads that use them; with add_dq also what
// these keys add to dq.
template <class T, bool add_dq, class Mask, class ScoreMod>
__global__ void __launch_bounds__(T::threads)
    flash_backward_keys(const bfloat16* q, const bfloat16* k, const bfloat16* v,
                        const bfloat16* dout, const float* L, const float* D, float* dq, float* dk,
                        float* dv, AttentionShape shape, Mask mask, ScoreMod mod) {
  constexpr int d = T::d, side = T::side;
  uint16_t* k_tile = dynamic_shared<uint16_t>();
  uint16_t* v_tile = k_tile + T::tile;
  uint16_t* ring = v_tile + T::tile;      // Q and dO, twice
  uint16_t* turned = ring + 4 * T::tile;  // dS' (side, side)
  const int b = blockIdx.y / shape.Hkv, slot = blockIdx.y % shape.Hkv;
  const int first = blockIdx.x * side, row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const auto key_at = [&](int key) { return shape.key_at(b, key, slot); };
  copy_rows_async<side, d, T::threads>(k_tile, k, first, shape.Tk, key_at);
  copy_rows_async<side, d, T::threads>(v_tile, v, first, shape.Tk, key_at);
  float dk_sum[1][d / 8][4] = {}, dv_sum[1][d / 8][4] = {};
  for (int h = slot * shape.group(); h < (slot + 1) * shape.group(); ++h) {
    const KeyTile at = {b, h, static_cast<int>(blockIdx.x), first, first + side - 1};
    const ScoreGradient<Mask, ScoreMod> gradient = {
        shape, L + shape.row_at(b, 0, h), D + shape.row_at(b, 0, h), mask, mod, b, h};
    const auto query_at = [&](int query) { return shape.query_at(b, query, h); };
    const int visited = mask.count(at);
    const auto copy = [&](int i) {
      uint16_t* to = ring + i % 2 * 2 * T::tile;
      if (i < visited) {
        const int query = mask.tile(at, i) * side;
        copy_rows_async<side, d, T::threads>(to, q, query, shape.Tq, query_at);
        copy_rows_async<side, d, T::threads>(to + T::tile, dout, query, shape.Tq, query_at);
      }
      cp_async_commit();
    };
    __syncthreads();  // all have finished with the head before
    copy(0);
    for (int i = 0; i < visited; ++i) {
      cp_async_wait<0>();
      __syncthreads();
      copy(i + 1);
      const uint16_t* q_tile = ring + i % 2 * 2 * T::tile;
      const uint16_t* dout_tile = q_tile + T::tile;
      const int query = mask.tile(at, i) * side;
      const bool partial = mask.partial(at, i);
      float s[1][side / 8][4] = {}, dp[1][side / 8][4] = {};
      multiply_rows<d>(s, k_tile, row, q_tile);
      multiply_rows<d>(dp, v_tile, row, dout_tile);
      YOTTA_UNROLL
      for (int j = 0; j < side / 8; ++j) {
        YOTTA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int here = query + 8 * j + 2 * t + c;
          const float2 row_L_D = gradient.row(here);
          YOTTA_UNROLL
          for (int r = 0; r < 2; ++r)
            gradient(s[0][j][2 * r + c], dp[0][j][2 * r + c], row_L_D, partial, here,
                     first + row + g + 8 * r);
        }
      }
      multiply_registers<d>(dv_sum, s, dout_tile);
      multiply_registers<d>(dk_sum, dp, q_tile);
      if constexpr (add_dq) {
        store_scores<side>(turned, dp, row);
        __syncthreads();
        float dq_sum[1][d / 8][4] = {};
        multiply_turned<d, side>(dq_sum, turned, row, k_tile);
        add_gradient<d>(dq_sum, shape.scale(), dq, query + row, shape.Tq, query_at);
      }
    }
  }
  store_gradient<d>(dk_sum, shape.scale(), dk, first + row, shape.Tk, key_at);
  store_gradient<d>(dv_sum, 1, dv, first + row, shape.Tk, key_at);
}

// dq of a tile of queries, in an order that never changes.
template <class T, class Mask, class ScoreMod>
__global__ void __launch_bounds__(T::threads)
    flash_backward_queries(const bfloat16* q, const bfloat16* k, const bfloat16* v,
                           const bfloat16* dout, const float* L, const float* D, float* dq,
                           AttentionShape shape, Mask mask, ScoreMod mod) {
  constexpr int d = T::d, side = T::side;
  uint16_t* q_tile = dynamic_shared<uint16_t>();
  uint16_t* dout_tile = q_tile + T::tile;
  uint16_t* ring = dout_tile + T::tile;  // K and V, twice
  const int b = blockIdx.y / shape.H, h = blockIdx.y % shape.H;
  const int first = blockIdx.x * side, row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const QueryTile at = {b, h, static_cast<int>(blockIdx.x), first,
                        first + side < shape.Tq ? first + side - 1 : shape.Tq - 1};
  const ScoreGradient<Mask, ScoreMod> gradient = {
      shape, L + shape.row_at(b, 0, h), D + shape.row_at(b, 0, h), mask, mod, b, h};
  const auto query_at = [&](int query) { return shape.query_at(b, query, h); };
  const int kv = h / shape.group();
  const auto key_at = [&](int key) { return shape.key_at(b, key, kv); };
  const int visited = mask.count(at);
  const auto copy = [&](int i) {
    uint16_t* to = ring + i % 2 * 2 * T::tile;
    if (i < visited) {
      const int key = mask.tile(at, i) * side;
      copy_rows_async<side, d, T::threads>(to, k, key, shape.Tk, key_at);
      copy_rows_async<side, d, T::threads>(to + T::tile, v, key, shape.Tk, key_at);
    }
    cp_async_commit();
  };
  copy_rows_async<side, d, T::threads>(q_tile, q, first, shape.Tq, query_at);
  copy_rows_async<side, d, T::threads>(dout_tile, dout, first, shape.Tq, query_at);
  copy(0);
  const int mine[2] = {first + row + g, first + row + g + 8};
  const float2 row_L_D[2] = {gradient.row(mine[0]), gradient.row(mine[1])};
  float dq_sum[1][d / 8][4] = {};
  for (int i = 0; i < visited; ++i) {
    cp_async_wait<0>();
    __syncthreads();
    copy(i + 1);
    const uint16_t* k_tile = ring + i % 2 * 2 * T::tile;
    const int key = mask.tile(at, i) * side;
    const bool partial = mask.partial(at, i);
    float s[1][side / 8][4] = {}, dp[1][side / 8][4] = {};
    multiply_rows<d>(s, q_tile, row, k_tile);
    multiply_rows<d>(dp, dout_tile, row, k_tile + T::tile);
    YOTTA_UNROLL
    for (int j = 0; j < side / 8; ++j) {
      YOTTA_UNROLL
      for (int e = 0; e < 4; ++e)
        gradient(s[0][j][e], dp[0][j][e], row_L_D[e / 2], partial, mine[e / 2],
                 key + 8 * j + 2 * t + e % 2);
    }
    multiply_registers<d>(dq_sum, dp, k_tile);
  }
  store_gradient<d>(dq_sum, shape.scale(), dq, first + row, shape.Tq, query_at);
}

// ---- Cost ----

// mma instructions of one product of two tiles: 5 for each tile with atomics, 4 + 3 without.
template <class T>
constexpr int64_t mma_of_product() {
  return (T::side / 16) * (T::side / 8) * (T::d / 16);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
