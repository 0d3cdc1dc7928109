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
// turned, through shared memory. Then dK takes dS' from there, too, which frees registers.
//
// Cost: products of 2 T^2 d FLOPs: forward has 2, this has 5 (2.5 times as many), or 4 + 3 in a
// fixed order. Extra memory: D, B H Tq numbers.
// Contract: as flash_attention_mma.hpp; dO bf16 (B, Tq, H, d); dq, dk, dv shaped as q, k, v, f32 or
// bf16 (Grad), overwritten or, f32 alone, added to (Into); dq is f32 and zero before blocks add to
// it. Grid (tiles, B Hkv) for keys, (tiles, B H) for queries; block T::threads, dynamic shared
// memory T::shared_bytes.
// References: Dao et al. (2022), FlashAttention, appendix B.2; Dao (2023), FlashAttention-2,
// algorithm 2.
#pragma once

#include "yotta/core/matrix_view.hpp"
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

// Scores become -infinity where seen(row, column) is false: rows of this warp, columns of its tile.
template <int across, class Seen>
__device__ void hide_scores(float (&s)[1][across][4], Seen seen) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int j = 0; j < across; ++j) {
    YOTTA_UNROLL
    for (int e = 0; e < 4; ++e)
      if (!seen(g + e / 2 * 8, 8 * j + 2 * t + e % 2)) s[0][j][e] = -INFINITY;
  }
}

// What a score needs for its gradient. A ScoreMod that changes scores has its derivative, too:
// derivative(score, b, h, q, kv).
template <class Mask, class ScoreMod>
struct ScoreGradient {
  AttentionShape shape;
  const Mask& mask;
  const ScoreMod& mod;
  int b, h;

  // Of x (B, H, Tq) what is this head's.
  __device__ const float* of_head(const float* x) const { return x + shape.row_at(b, 0, h); }
  // L, as a power of 2, and D of a query; both of this head. An L of infinity makes P zero: no such
  // query, or one that sees no key.
  __device__ float2 row(const float* L, const float* D, int query) const {
    if (query >= shape.Tq || L[query] == -INFINITY) return make_float2(INFINITY, 0);
    return make_float2(L[query] * log2_of_e, D[query]);
  }
  __device__ bool sees(bool partial, int q, int kv) const {
    return kv < shape.Tk && q < shape.Tq && (!partial || mask.sees(b, h, q, kv));
  }
  // s becomes p, and dp becomes ds. A hidden score is -infinity, so its p is 0.
  __device__ void operator()(float& s, float& dp, float2 row_L_D, int q, int kv) const {
    float score = s, unit = shape.scale(), slope = 1;
    if constexpr (!std::is_same_v<ScoreMod, ScoreAsIs>)
      if (s != -INFINITY) {
        slope = mod.derivative(s * unit, b, h, q, kv);
        score = mod(s * unit, b, h, q, kv), unit = 1;
      }
    s = power_of_2(fmaf(score, unit * log2_of_e, -row_L_D.x));
    dp = s * (dp - row_L_D.y) * slope;
  }
};

// Writes x (16, d) of this warp, times `factor`, into rows from `first` on, or adds it to them;
// rows end at `rows`. bf16 is always overwritten.
template <int d, class Grad, class At>
__device__ void store_gradient(const float (&x)[1][d / 8][4], float factor, Into into, Grad* to,
                               int first, int rows, At at) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = first + g + 8 * r;
    if (row >= rows) continue;
    Grad* row_of = to + at(row) + 2 * t;
    YOTTA_UNROLL
    for (int j = 0; j < d / 8; ++j) {
      Grad* const pair = row_of + 8 * j;
      float2 sum = make_float2(0, 0);
      if constexpr (std::is_same_v<Grad, float>)
        if (into == Into::accumulate) sum = *reinterpret_cast<const float2*>(pair);
      store_pair(pair, sum.x + x[0][j][2 * r] * factor, sum.y + x[0][j][2 * r + 1] * factor);
    }
  }
}

// ---- dQ and dK, from dS' in shared memory ----

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

// dk (16, d) += dS' Q for this warp's keys from `row` on: dS' (keys, queries) and Q (queries, d) in
// shared memory. The registers that held dS' are free by then.
template <int d, int side>
__device__ void multiply_stored(float (&dk)[1][d / 8][4], const uint16_t* ds, int row,
                                const uint16_t* q) {
  YOTTA_UNROLL
  for (int l = 0; l < side; l += 16) {
    uint32_t a[4];
    shared_a<side, Loads::ldmatrix, Rows::swizzled>(a, ds, row, l);
    YOTTA_UNROLL
    for (int j = 0; j < d / 8; j += 2) {
      uint32_t b[2][2];
      shared_b<d, Loads::ldmatrix, Rows::swizzled>(b[0], b[1], q, l, 8 * j);
      mma_m16n8k16_bf16(dk[0][j], a, b[0], dk[0][j]);
      mma_m16n8k16_bf16(dk[0][j + 1], a, b[1], dk[0][j + 1]);
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

// Adds it, where other blocks do so at the same time.
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
template <class T, bool add_dq, class Mask, class ScoreMod, class Grad>
__global__ void __launch_bounds__(T::threads, T::d == 32 && !add_dq ? 3 : 1)
    flash_backward_keys(const bfloat16* q, const bfloat16* k, const bfloat16* v,
                        const bfloat16* dout, const float* L, const float* D, Grad* dq, Grad* dk,
                        Grad* dv, Into into, AttentionShape shape, Mask mask, ScoreMod mod) {
  constexpr int d = T::d, side = T::side;
  // Where registers are scarce, two addresses are computed anew for each query.
  constexpr bool scarce = add_dq || d == 128;
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
    const ScoreGradient<Mask, ScoreMod> gradient = {shape, mask, mod, b, h};
    const float *L_head = gradient.of_head(L), *D_head = gradient.of_head(D);
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
      if (partial || first + side > shape.Tk || query + side > shape.Tq)
        hide_scores(s, [&](int key, int column) {
          return gradient.sees(partial, query + column, first + row + key);
        });
      multiply_rows<d>(dp, v_tile, row, dout_tile);
      YOTTA_UNROLL
      for (int j = 0; j < side / 8; ++j) {
        YOTTA_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int here = query + 8 * j + 2 * t + c;
          const float2 row_L_D = gradient.row(scarce ? gradient.of_head(L) : L_head,
                                              scarce ? gradient.of_head(D) : D_head, here);
          YOTTA_UNROLL
          for (int r = 0; r < 2; ++r)
            gradient(s[0][j][2 * r + c], dp[0][j][2 * r + c], row_L_D, here,
                     first + row + g + 8 * r);
        }
      }
      if constexpr (add_dq) {
        store_scores<side>(turned, dp, row);
        __syncthreads();
      }
      multiply_registers<d>(dv_sum, s, dout_tile);
      if constexpr (add_dq) {
        multiply_stored<d, side>(dk_sum, turned, row, q_tile);
        float dq_sum[1][d / 8][4] = {};
        multiply_turned<d, side>(dq_sum, turned, row, k_tile);
        add_gradient<d>(dq_sum, shape.scale(), dq, query + row, shape.Tq, query_at);
      } else {
        multiply_registers<d>(dk_sum, dp, q_tile);
      }
    }
  }
  store_gradient<d>(dk_sum, shape.scale(), into, dk, first + row, shape.Tk, key_at);
  store_gradient<d>(dv_sum, 1, into, dv, first + row, shape.Tk, key_at);
}

// dq of a tile of queries, in an order that never changes.
template <class T, class Mask, class ScoreMod, class Grad>
__global__ void __launch_bounds__(T::threads)
    flash_backward_queries(const bfloat16* q, const bfloat16* k, const bfloat16* v,
                           const bfloat16* dout, const float* L, const float* D, Grad* dq,
                           Into into, AttentionShape shape, Mask mask, ScoreMod mod) {
  constexpr int d = T::d, side = T::side;
  uint16_t* q_tile = dynamic_shared<uint16_t>();
  uint16_t* dout_tile = q_tile + T::tile;
  uint16_t* ring = dout_tile + T::tile;  // K and V, twice
  const int b = blockIdx.y / shape.H, h = blockIdx.y % shape.H;
  const int first = blockIdx.x * side, row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const QueryTile at = {b, h, static_cast<int>(blockIdx.x), first,
                        first + side < shape.Tq ? first + side - 1 : shape.Tq - 1};
  const ScoreGradient<Mask, ScoreMod> gradient = {shape, mask, mod, b, h};
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
  const float *L_head = gradient.of_head(L), *D_head = gradient.of_head(D);
  const float2 row_L_D[2] = {gradient.row(L_head, D_head, mine[0]),
                             gradient.row(L_head, D_head, mine[1])};
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
    if (partial || key + side > shape.Tk || first + side > shape.Tq)
      hide_scores(s, [&](int query, int column) {
        return gradient.sees(partial, first + row + query, key + column);
      });
    multiply_rows<d>(dp, dout_tile, row, k_tile + T::tile);
    YOTTA_UNROLL
    for (int j = 0; j < side / 8; ++j) {
      YOTTA_UNROLL
      for (int e = 0; e < 4; ++e)
        gradient(s[0][j][e], dp[0][j][e], row_L_D[e / 2], mine[e / 2], key + 8 * j + 2 * t + e % 2);
    }
    multiply_registers<d>(dq_sum, dp, k_tile);
  }
  store_gradient<d>(dq_sum, shape.scale(), into, dq, first + row, shape.Tq, query_at);
}

// ---- Cost ----

// mma instructions of one product of two tiles: 5 for each tile with atomics, 4 + 3 without.
template <class T>
constexpr int64_t mma_of_product() {
  return (T::side / 16) * (T::side / 8) * (T::d / 16);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
