// FlashAttention-2: a block keeps a tile of queries and goes over the keys; tensor cores multiply,
// and neither S nor O leaves the registers before the end.
//
//            keys ->                     a block: BQ queries         a warp: WQ of them, alone
//            0    1    2    3            Q  (BQ, d)  shared memory   S (WQ, BK)  registers
//     q  0  [\]   .    .    .            K  (BK, d)  shared memory   P = the same registers
//        1  [ ]  [\]   .    .  --->      V  (BK, d)  shared memory   O (WQ, d)   registers
//        2  [ ]  [ ]  [\]   .            one block for each tile of queries of each head
//        3  [ ]  [ ]  [ ]  [\]           .  tiles above the diagonal are not visited
//
// Three things differ from flash_attention_tile.hpp:
//   - The loops are exchanged: a block reads K and V for its tile of queries, and writes O once.
//     There are as many blocks as tiles of queries, not only as heads.
//   - Warps share out the queries, not the keys: a warp has whole rows of S, so it needs no other
//     warp for the softmax.
//   - Both products are m16n8k16 (flash_attention_warp.hpp).
//
// Copies run while tensor cores multiply, with one place for K and one for V:
//
//     copy       Q K0 | V0     | K1              | V1     | K2
//     multiply        | Q K0'  | softmax, P V0   | Q K1'  | softmax, P V1
//
// Three types change what is computed, and cost nothing where they are absent:
//     ScoreMod   a score becomes another, by its place
//     Mask       which tiles of keys are visited, and which of these are seen only in part
//     Keys       where the rows of K and V lie
//
// Cost: 4 T^2 d FLOPs per head, causal half; bytes: flash_attention_traffic(); extra memory: L.
// Scores, softmax and sums are f32; P is rounded to bf16.
// Contract: q and o (B, Tq, H, d), k and v (B, Tk, Hkv, d), L (B, H, Tq); all begin on 16 bytes, d
// a multiple of 32. Grid (tiles of queries, B heads, splits), block T::threads, dynamic shared
// memory T::shared_bytes. pack_heads and splits: flash_attention_decoding.hpp.
// Reference: Dao (2023), FlashAttention-2.
#pragma once

#include <type_traits>

#include "yotta/device/flash_attention_unfused.hpp"
#include "yotta/device/flash_attention_warp.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// ---- What may be changed ----

// ScoreMod: the score of query q and key kv, scaled by 1 / sqrt(d), becomes another. This one is
// never called.
struct ScoreAsIs {
  __device__ float operator()(float score, int /*b*/, int /*h*/, int /*q*/, int /*kv*/) const {
    return score;
  }
};

// Keys: how many keys a sequence has, and where one of their head kv begins in k and v.
struct KeyRows {
  AttentionShape shape;
  __device__ int count(int /*b*/) const { return shape.Tk; }
  __device__ int64_t at(int b, int key, int kv) const { return shape.key_at(b, key, kv); }
};

// A tile of queries: of sequence b and head h, number `tile`, queries first to last.
struct QueryTile {
  int b, h, tile, first, last;
};

// Mask: every query sees every key.
struct AllKeys {
  int key_tiles;
  // How many tiles of keys are visited, the i-th of them, and whether sees() must be asked there.
  __device__ int count(const QueryTile&) const { return key_tiles; }
  __device__ int tile(const QueryTile&, int i) const { return i; }
  __device__ bool partial(const QueryTile&, int) const { return false; }
  __device__ bool sees(int /*b*/, int /*h*/, int /*q*/, int /*kv*/) const { return true; }
};

// Mask: query q sees keys 0 to q + ahead.
struct CausalKeys {
  int key_tiles, BK, ahead;
  __device__ int count(const QueryTile& at) const {
    const int seen = at.last + ahead + 1, tiles = (seen + BK - 1) / BK;
    return seen <= 0 ? 0 : tiles < key_tiles ? tiles : key_tiles;
  }
  __device__ int tile(const QueryTile&, int i) const { return i; }
  __device__ bool partial(const QueryTile& at, int i) const {
    return (i + 1) * BK - 1 > at.first + ahead;
  }
  __device__ bool sees(int, int, int q, int kv) const { return kv <= q + ahead; }
};

// ---- The kernel ----

// The rows of a block's queries: those of head `slot`; or, with their heads packed, those of all
// heads that share the keys of head `slot`, query by query.
template <bool pack_heads>
struct QueryRows {
  AttentionShape shape;
  int b, slot;

  __device__ int count() const { return pack_heads ? shape.Tq * shape.group() : shape.Tq; }
  __device__ int query(int row) const { return pack_heads ? row / shape.group() : row; }
  __device__ int head(int row) const {
    return pack_heads ? slot * shape.group() + row % shape.group() : slot;
  }
  __device__ int64_t at(int row) const { return shape.query_at(b, query(row), head(row)); }
};

__device__ inline void store_pair(float* to, float x, float y) {
  *reinterpret_cast<float2*>(to) = make_float2(x, y);
}
__device__ inline void store_pair(bfloat16* to, float x, float y) {
  *reinterpret_cast<uint32_t*>(to) = rounded_pair(x, y);
}

// Applies the modifier to this warp's scores, and -infinity where a key is not seen or not there.
// Row 0 of s is the block's row `row`, column 0 is key `key`; keys end at keys_end.
template <bool pack_heads, class Mask, class ScoreMod, int down, int across>
__device__ void change_scores(float (&s)[down][across][4], const QueryRows<pack_heads>& rows,
                              int row, int key, int keys_end, bool partial, const Mask& mask,
                              const ScoreMod& mod) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int i = 0; i < down; ++i) {
    YOTTA_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int r = row + 16 * i + g + e / 2 * 8;
      const int query = rows.query(r), head = rows.head(r);
      YOTTA_UNROLL
      for (int j = 0; j < across; ++j) {
        const int kv = key + 8 * j + 2 * t + e % 2;
        float& score = s[i][j][e];
        const bool seen =
            kv < keys_end && r < rows.count() && (!partial || mask.sees(rows.b, head, query, kv));
        if (!seen)
          score = -INFINITY;
        else if constexpr (!std::is_same_v<ScoreMod, ScoreAsIs>)
          score = mod(score * rows.shape.scale(), rows.b, head, query, kv);
      }
    }
  }
}

// O / l and L of this warp's rows, from `row` on; unit: what m counts.
template <class T, bool pack_heads, class Out>
__device__ void store_rows(const WarpSoftmax<T>& sums, const QueryRows<pack_heads>& rows, int row,
                           float unit, Out* o, float* L) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int i = 0; i < T::WQ / 16; ++i) {
    YOTTA_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int here = row + 16 * i + g + 8 * r;
      const float l = row_sum(sums.l[i][r]), divisor = l > 0 ? l : 1;
      if (here >= rows.count()) continue;
      Out* to = o + rows.at(here) + 2 * t;
      YOTTA_UNROLL
      for (int j = 0; j < T::d / 8; ++j)
        store_pair(to + 8 * j, sums.o[i][j][2 * r] / divisor, sums.o[i][j][2 * r + 1] / divisor);
      if (t == 0)
        L[rows.shape.row_at(rows.b, rows.query(here), rows.head(here))] =
            sums.m[i][r] * unit + logf(l);
    }
  }
}

// Split z of gridDim.z goes over its share of the tiles of keys, and writes its own o and L.
template <class T, bool pack_heads, class Out, class Mask, class ScoreMod, class Keys>
__global__ void __launch_bounds__(T::threads)
    flash_attention(const bfloat16* q, const bfloat16* k, const bfloat16* v, Out* o, float* L,
                    AttentionShape shape, Mask mask, ScoreMod mod, Keys keys) {
  constexpr int d = T::d, BQ = T::BQ, BK = T::BK, down = T::WQ / 16;
  constexpr bool as_it_is = std::is_same_v<ScoreMod, ScoreAsIs>;
  constexpr bool scarce = down > 1 || d == 128;   // of registers
  uint16_t* q_tile = dynamic_shared<uint16_t>();  // (BQ, d)
  uint16_t* k_tile = q_tile + BQ * d;             // (BK, d)
  uint16_t* v_tile = k_tile + BK * d;             // (BK, d)

  const int slots = pack_heads ? shape.Hkv : shape.H;
  const int tile = gridDim.x - 1 - blockIdx.x;  // what takes longest begins first
  const QueryRows<pack_heads> rows = {shape, static_cast<int>(blockIdx.y) / slots,
                                      static_cast<int>(blockIdx.y) % slots};
  const int rows_end = (tile + 1) * BQ < rows.count() ? (tile + 1) * BQ : rows.count();
  const QueryTile at = {rows.b, rows.head(0), tile, rows.query(tile * BQ),
                        rows.query(rows_end - 1)};
  const float unit = as_it_is ? shape.scale() : 1;  // modified scores are scaled already
  const int keys_end = keys.count(rows.b), kv = at.h / shape.group();
  const int visited = mask.count(at), splits = gridDim.z, split = blockIdx.z;
  const int begin = visited * split / splits, end = visited * (split + 1) / splits;

  const auto copy_keys = [&](uint16_t* to, const bfloat16* x, int i) {
    const auto key_at = [&](int key) { return keys.at(rows.b, key, kv); };
    if (i < end) copy_rows_async<BK, d, T::threads>(to, x, mask.tile(at, i) * BK, keys_end, key_at);
    cp_async_commit();
  };
  copy_rows_async<BQ, d, T::threads>(q_tile, q, tile * BQ, rows.count(),
                                     [&](int row) { return rows.at(row); });
  copy_keys(k_tile, k, begin);
  const int row = static_cast<int>(threadIdx.x) / 32 * T::WQ;  // this warp's first, in the tile
  WarpSoftmax<T> sums;
  for (int i = begin; i < end; ++i) {
    cp_async_wait<0>();  // K is here, and everyone has finished with V
    __syncthreads();
    copy_keys(v_tile, v, i);
    float s[down][BK / 8][4] = {};
    multiply_rows<d>(s, computed_anew<scarce>(q_tile), row, computed_anew<scarce>(k_tile));
    const int key = mask.tile(at, i) * BK;
    const bool partial = mask.partial(at, i);
    if (!as_it_is || partial || key + BK > keys_end)
      change_scores(s, rows, tile * BQ + row, key, keys_end, partial, mask, mod);
    cp_async_wait<0>();  // V is here, and everyone has finished with K
    __syncthreads();
    copy_keys(k_tile, k, i + 1);
    sums.step(s, unit * log2_of_e);
    multiply_registers<d>(sums.o, s, computed_anew<scarce>(v_tile));
  }
  store_rows(sums, rows, tile * BQ + row, unit, o + split * shape.query_numbers(),
             L + split * shape.query_rows());
}

// ---- Cost ----

// Tiles of keys that the tiles of queries of one head visit together.
template <class T>
constexpr int64_t visited_tiles(const AttentionShape& s) {
  int64_t tiles = 0;
  for (int query = 0; query < s.Tq; query += T::BQ) {
    const int last = query + T::BQ < s.Tq ? query + T::BQ - 1 : s.Tq - 1;
    tiles += tiles_along(s.keys_of(last), T::BK);
  }
  return tiles;
}

// K and V are read for every tile of queries, as far as it sees; Q is read and O written once.
template <class T>
constexpr MemoryTraffic flash_attention_traffic(const AttentionShape& s, int64_t bytes_of_o) {
  int64_t keys = 0;
  for (int query = 0; query < s.Tq; query += T::BQ) {
    const int last = query + T::BQ < s.Tq ? query + T::BQ - 1 : s.Tq - 1;
    const int64_t visited = tiles_along(s.keys_of(last), T::BK) * T::BK;
    keys += visited < s.Tk ? visited : s.Tk;
  }
  return {2 * (s.query_numbers() + 2 * s.B * s.H * keys * s.d),
          bytes_of_o * s.query_numbers() + 4 * s.query_rows()};
}

// Instructions for one tile of queries against one of keys: as many for S as for O.
template <class T>
constexpr int64_t mma_of_tile() {
  return 2 * (T::BQ / 16) * (T::BK / 8) * (T::d / 16);
}

// Wavefronts of the same: ldmatrix takes 4 for 16 x 16 numbers. Each warp reads its queries, all
// keys and all values.
template <class T>
constexpr int64_t wavefronts_of_tile() {
  return 4 * (T::threads / 32) * (T::d / 16) * (T::WQ / 16 + 2 * (T::BK / 16));
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
