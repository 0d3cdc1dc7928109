// Blockwise attention of Device::cuda in f32, by tiles: FlashAttention-2 without tensor cores,
// which have no f32.
//
//     attention_f32          a block keeps 64 queries and goes over the keys    o, L
//     attention_f32_queries  the same, for the gradient                         dq
//     attention_f32_keys     a block keeps 64 keys and goes over the queries    dk, dv
//
//     others, 32 at a time ->                   a thread: of S 4 rows, 16 apart, and 4 columns, 8
//     own  [ S (64, 32) ] · [ others (32, d) ]            apart; of the sum its rows' 4 columns
//           -->  [ sum (64, d) ]                          in each 32
//
// One warp a row (nn/cpu/attention_rows.hpp) reads each key for every query. Here a tile that was
// read serves 64 rows, and what a thread sums stays in its registers. A row belongs to 8 lanes of
// one warp: the softmax needs shuffles alone, and P goes from a warp's lanes to the others by way
// of shared memory, without a wait of the block.
//
// For d 128 the gradients' kernels have 32 rows, so that they fit into 99 KB of shared memory. Sums
// are taken in a fixed order: two runs agree to the bit. All else (f64, other d, rows that do not
// begin on 16 bytes) takes one warp a row.
// Cost: FLOPs as in flash_attention.hpp, backward 7 products of tiles instead of 5. Extra memory
// for dk and dv: D, B H n numbers.
// Letters: as attention_rows.hpp; D = rowsum(dO o O). nvcc compiles this file too.
#pragma once

#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/device/mma.hpp"
#include "yotta/device/vector_types.hpp"
#include "yotta/nn/cpu/attention_rows.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A block's own tile has 16 `rows_` rows of d numbers.
template <int d_, int rows_>
struct F32Tile {
  static constexpr int d = d_, rows = rows_, own = 16 * rows_, other = 32, threads = 128;
  static constexpr int pitch = d + 4;        // 8 lanes that read 8 rows find 32 different banks
  static constexpr int p_pitch = other + 1;  // and so do 4 that read 4 rows of P
  static constexpr int sums = d / 32;        // of a thread in a row, each of 4 columns
  static constexpr int own_numbers = own * pitch, other_numbers = other * pitch,
                       p_numbers = own * p_pitch;
  static constexpr size_t forward_bytes =
      sizeof(float) * (own_numbers + 2 * other_numbers + p_numbers);
  static constexpr size_t backward_bytes =
      sizeof(float) * (2 * own_numbers + 2 * other_numbers + 2 * p_numbers + 2 * other);
};

// A thread's place in its block's own tile: rows y, y + 16, ...; columns x, x + 8, ... of S.
struct F32Place {
  int x = static_cast<int>(threadIdx.x) % 8, y = static_cast<int>(threadIdx.x) / 8;
  __device__ int row(int i) const { return y + 16 * i; }
  __device__ int column(int j) const { return x + 8 * j; }
  // Column e of 4 of sum c.
  __device__ int at(int c) const { return 32 * c + 4 * x; }
};

__device__ inline float4 four(const float* x) { return *reinterpret_cast<const float4*>(x); }

// Rows `first` to first + height - 1 into shared memory; zeros from row `rows` on. at(row) is where
// a row begins in x.
template <class T, int height, class At>
__device__ void load_f32_rows(float* tile, const float* x, int64_t first, int64_t rows, At at) {
  constexpr int chunks = T::d / 4;
  for (int i = static_cast<int>(threadIdx.x); i < height * chunks; i += T::threads) {
    const int row = i / chunks, chunk = i % chunks;
    float4 value = make_float4(0, 0, 0, 0);
    if (first + row < rows) value = four(x + at(first + row) + 4 * chunk);
    *reinterpret_cast<float4*>(tile + row * T::pitch + 4 * chunk) = value;
  }
}

// s = X Y' of a thread's rows of X and columns of S.
template <class T>
__device__ void multiply_f32_rows(float (&s)[T::rows][4], const float* x, const float* y,
                                  const F32Place& place) {
  for (int l = 0; l < T::d; l += 4) {
    float4 a[T::rows];
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i) a[i] = four(x + place.row(i) * T::pitch + l);
    YOTTA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float4 b = four(y + place.column(j) * T::pitch + l);
      YOTTA_UNROLL
      for (int i = 0; i < T::rows; ++i)
        s[i][j] += a[i].x * b.x + a[i].y * b.y + a[i].z * b.z + a[i].w * b.w;
    }
  }
}

// This warp's rows of S into shared memory, for its own lanes.
template <class T>
__device__ void share_scores(float* p, const float (&s)[T::rows][4], const F32Place& place) {
  __syncwarp();
  YOTTA_UNROLL
  for (int i = 0; i < T::rows; ++i) {
    YOTTA_UNROLL
    for (int j = 0; j < 4; ++j) p[place.row(i) * T::p_pitch + place.column(j)] = s[i][j];
  }
  __syncwarp();
}

// sum += P Y: P (own, other) as share_scores() left it, Y (other, d).
template <class T>
__device__ void add_product(float (&sum)[T::rows][T::sums][4], const float* p, const float* y,
                            const F32Place& place) {
  for (int l = 0; l < T::other; ++l) {
    float a[T::rows];
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i) a[i] = p[place.row(i) * T::p_pitch + l];
    YOTTA_UNROLL
    for (int c = 0; c < T::sums; ++c) {
      const float4 b = four(y + l * T::pitch + place.at(c));
      YOTTA_UNROLL
      for (int i = 0; i < T::rows; ++i) {
        sum[i][c][0] += a[i] * b.x;
        sum[i][c][1] += a[i] * b.y;
        sum[i][c][2] += a[i] * b.z;
        sum[i][c][3] += a[i] * b.w;
      }
    }
  }
}

// Over the 8 lanes that share a row.
__device__ inline float largest_of_8(float x) {
  YOTTA_UNROLL
  for (int step = 4; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ inline float sum_of_8(float x) {
  YOTTA_UNROLL
  for (int step = 4; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// The sum of a b over d numbers, on all 8 lanes.
template <class T>
__device__ float dot_of_8(const float* a, const float* b, const F32Place& place) {
  float sum = 0;
  YOTTA_UNROLL
  for (int c = 0; c < T::sums; ++c) {
    const float4 p = four(a + place.at(c)), q = four(b + place.at(c));
    sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  return sum_of_8(sum);
}

// Four numbers times `factor`; or added to what is there.
__device__ inline void store_four(float* to, const float (&x)[4], float factor, bool adds) {
  const float4 before = adds ? four(to) : make_float4(0, 0, 0, 0);
  *reinterpret_cast<float4*>(to) = make_float4(before.x + factor * x[0], before.y + factor * x[1],
                                               before.z + factor * x[2], before.w + factor * x[3]);
}

// ---- forward: o (B, n, H, d) and L (B, H, n) of a block ----

template <class T>
struct F32Softmax {
  float m[T::rows], l[T::rows];  // l: of this lane's columns
  float o[T::rows][T::sums][4] = {};
  __device__ F32Softmax() {
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i) m[i] = -INFINITY, l[i] = 0;
  }
  // S becomes P; what was summed before is made worth less.
  __device__ void step(float (&s)[T::rows][4]) {
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i) {
      float larger = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]));
      larger = fmaxf(m[i], largest_of_8(larger));
      const float top = larger == -INFINITY ? 0 : larger;  // nothing seen yet: all are 0
      const float still_worth = expf(m[i] - top);
      m[i] = larger;
      l[i] *= still_worth;
      YOTTA_UNROLL
      for (int j = 0; j < 4; ++j) l[i] += s[i][j] = expf(s[i][j] - top);
      YOTTA_UNROLL
      for (int c = 0; c < T::sums; ++c) {
        YOTTA_UNROLL
        for (int e = 0; e < 4; ++e) o[i][c][e] *= still_worth;
      }
    }
  }
};

// Scores of queries from `first` and keys from `key` on, times `scale`; -infinity where a key is
// not seen.
template <class T>
__device__ void hide_f32_scores(float (&s)[T::rows][4], const detail::AttentionRows& at,
                                float scale, int64_t first, int64_t key, const F32Place& place) {
  YOTTA_UNROLL
  for (int i = 0; i < T::rows; ++i) {
    const int64_t seen = at.seen(first + place.row(i));
    YOTTA_UNROLL
    for (int j = 0; j < 4; ++j)
      s[i][j] = key + place.column(j) < seen ? s[i][j] * scale : -INFINITY;
  }
}

// o = sums / l, and L.
template <class T>
__device__ void store_f32_output(const F32Softmax<T>& sums, const detail::AttentionRows& at,
                                 int64_t b, int64_t h, int64_t first, float* o, float* L,
                                 const F32Place& place) {
  YOTTA_UNROLL
  for (int i = 0; i < T::rows; ++i) {
    const int64_t t = first + place.row(i);
    const float l = sum_of_8(sums.l[i]);
    if (t >= at.n) continue;
    float* const to = o + ((b * at.n + t) * at.H + h) * at.d;
    YOTTA_UNROLL
    for (int c = 0; c < T::sums; ++c)
      store_four(to + place.at(c), sums.o[i][c], l > 0 ? 1 / l : 0, false);
    if (place.x == 0) L[(b * at.H + h) * at.n + t] = sums.m[i] + logf(l);
  }
}

template <class T>
__global__ void __launch_bounds__(T::threads)
    attention_f32(detail::AttentionRows at, const float* q, const float* k, const float* v,
                  float* o, float* L) {
  float *q_tile = dynamic_shared<float>(), *k_tile = q_tile + T::own_numbers;
  float *v_tile = k_tile + T::other_numbers, *p_tile = v_tile + T::other_numbers;
  const int64_t b = blockIdx.y / at.H, h = blockIdx.y % at.H, shared = at.shared(h);
  const int64_t first = int64_t{gridDim.x - 1 - blockIdx.x} * T::own;  // the longest begins first
  const int64_t last = first + T::own < at.n ? first + T::own - 1 : at.n - 1;
  const float scale = detail::one_over_root<float>(at.d);
  const auto key_at = [&](int64_t j) { return at.k(b, j, shared); };
  const F32Place place;
  load_f32_rows<T, T::own>(q_tile, q, first, at.n, [&](int64_t t) { return at.q(b, t, h); });
  F32Softmax<T> sums;
  for (int64_t key = 0; key < at.seen(last); key += T::other) {
    __syncthreads();
    load_f32_rows<T, T::other>(k_tile, k, key, at.n, key_at);
    load_f32_rows<T, T::other>(v_tile, v, key, at.n, key_at);
    __syncthreads();
    float s[T::rows][4] = {};
    multiply_f32_rows<T>(s, q_tile, k_tile, place);
    hide_f32_scores<T>(s, at, scale, first, key, place);
    sums.step(s);
    share_scores<T>(p_tile, s, place);
    add_product<T>(sums.o, p_tile, v_tile, place);
  }
  store_f32_output<T>(sums, at, b, h, first, o, L, place);
}

// ---- backward ----

// D (B, H, n) of a block's queries: number (b H + h) n + t.
struct RowsOfDoutO {
  detail::AttentionRows at;
  const float *dout, *o;
  float* D;
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t row = at.q(i / at.n / at.H, i % at.n, i / at.n % at.H);
    const float sum = detail::dot(dout + row, o + row, at.d, team);
    team.once([&] { D[i] = sum; });
  }
};

// p and ds of a score and a dp; zero where the key is not seen. ds lacks the factor 1 / sqrt(d).
__device__ inline void score_gradient(bool seen, float scale, float L, float D, float& s,
                                      float& dp) {
  s = seen ? expf(s * scale - L) : 0;
  dp = s * (dp - D);
}

// Adds factor times the sums to rows `first` and those after it; at(row) is where a row begins.
template <class T, class At>
__device__ void add_f32_gradient(float* to, const float (&sum)[T::rows][T::sums][4], float factor,
                                 int64_t first, int64_t rows, At at, const F32Place& place) {
  YOTTA_UNROLL
  for (int i = 0; i < T::rows; ++i) {
    const int64_t row = first + place.row(i);
    if (row >= rows) continue;
    YOTTA_UNROLL
    for (int c = 0; c < T::sums; ++c)
      store_four(to + at(row) + place.at(c), sum[i][c], factor, true);
  }
}

// S and dP of a thread's queries, from `first` on, become P and dS.
template <class T>
struct F32QueryScores {
  float L[T::rows], D[T::rows];
  __device__ F32QueryScores(const detail::BlockwiseSaved<float>& x, int64_t b, int64_t h,
                            int64_t first, const F32Place& place) {
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i) {
      const int64_t here = first + place.row(i), t = here < x.at.n ? here : x.at.n - 1;
      L[i] = x.log_sum_exp(b, h, t);
      D[i] = dot_of_8<T>(x.dout + x.at.q(b, t, h), x.o + x.at.q(b, t, h), place);
    }
  }
  __device__ void operator()(float (&s)[T::rows][4], float (&dp)[T::rows][4],
                             const detail::AttentionRows& at, float scale, int64_t first,
                             int64_t key, const F32Place& place) const {
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i) {
      const int64_t t = first + place.row(i), seen = t < at.n ? at.seen(t) : 0;
      YOTTA_UNROLL
      for (int j = 0; j < 4; ++j)
        score_gradient(key + place.column(j) < seen, scale, L[i], D[i], s[i][j], dp[i][j]);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(T::threads)
    attention_f32_queries(detail::BlockwiseSaved<float> x, float* dq) {
  const detail::AttentionRows& at = x.at;
  float *q_tile = dynamic_shared<float>(), *dout_tile = q_tile + T::own_numbers;
  float *k_tile = dout_tile + T::own_numbers, *v_tile = k_tile + T::other_numbers;
  float* p_tile = v_tile + T::other_numbers;
  const int64_t b = blockIdx.y / at.H, h = blockIdx.y % at.H, shared = at.shared(h);
  const int64_t first = int64_t{gridDim.x - 1 - blockIdx.x} * T::own;
  const int64_t last = first + T::own < at.n ? first + T::own - 1 : at.n - 1;
  const auto query_at = [&](int64_t t) { return at.q(b, t, h); };
  const float scale = detail::one_over_root<float>(at.d);
  const auto key_at = [&](int64_t j) { return at.k(b, j, shared); };
  const F32Place place;
  load_f32_rows<T, T::own>(q_tile, x.q, first, at.n, query_at);
  load_f32_rows<T, T::own>(dout_tile, x.dout, first, at.n, query_at);
  const F32QueryScores<T> gradient(x, b, h, first, place);
  float sum[T::rows][T::sums][4] = {};
  for (int64_t key = 0; key < at.seen(last); key += T::other) {
    __syncthreads();
    load_f32_rows<T, T::other>(k_tile, x.k, key, at.n, key_at);
    load_f32_rows<T, T::other>(v_tile, x.v, key, at.n, key_at);
    __syncthreads();
    float s[T::rows][4] = {}, dp[T::rows][4] = {};
    multiply_f32_rows<T>(s, q_tile, k_tile, place);
    multiply_f32_rows<T>(dp, dout_tile, v_tile, place);
    gradient(s, dp, at, scale, first, key, place);
    share_scores<T>(p_tile, dp, place);
    add_product<T>(sum, p_tile, k_tile, place);
  }
  add_f32_gradient<T>(dq, sum, scale, first, at.n, query_at, place);
}

// The same of a thread's keys, from `first` on: L and D of the queries from `query` on lie in
// shared memory.
template <class T>
__device__ void f32_key_scores(float (&s)[T::rows][4], float (&dp)[T::rows][4],
                               const detail::AttentionRows& at, float scale, int64_t first,
                               int64_t query, const float* L_tile, const float* D_tile,
                               const F32Place& place) {
  YOTTA_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int64_t t = query + place.column(j), seen = t < at.n ? at.seen(t) : 0;
    const float L = seen > 0 ? L_tile[place.column(j)] : 0;
    const float D = seen > 0 ? D_tile[place.column(j)] : 0;
    YOTTA_UNROLL
    for (int i = 0; i < T::rows; ++i)
      score_gradient(first + place.row(i) < seen, scale, L, D, s[i][j], dp[i][j]);
  }
}

template <class T>
__global__ void __launch_bounds__(T::threads)
    attention_f32_keys(detail::BlockwiseSaved<float> x, const float* D, float* dk, float* dv) {
  const detail::AttentionRows& at = x.at;
  float *k_tile = dynamic_shared<float>(), *v_tile = k_tile + T::own_numbers;
  float *q_tile = v_tile + T::own_numbers, *dout_tile = q_tile + T::other_numbers;
  float *p_tile = dout_tile + T::other_numbers, *ds_tile = p_tile + T::p_numbers;
  float *L_tile = ds_tile + T::p_numbers, *D_tile = L_tile + T::other;
  const int64_t b = blockIdx.y / at.Hkv, shared = blockIdx.y % at.Hkv, group = at.H / at.Hkv;
  const int64_t first = int64_t{blockIdx.x} * T::own;
  const float scale = detail::one_over_root<float>(at.d);
  const auto key_at = [&](int64_t j) { return at.k(b, j, shared); };
  const F32Place place;
  load_f32_rows<T, T::own>(k_tile, x.k, first, at.n, key_at);
  load_f32_rows<T, T::own>(v_tile, x.v, first, at.n, key_at);
  float dk_sum[T::rows][T::sums][4] = {}, dv_sum[T::rows][T::sums][4] = {};
  for (int64_t h = shared * group; h < (shared + 1) * group; ++h)
    for (int64_t query = at.first_query(first) / T::other * T::other; query < at.n;
         query += T::other) {
      const auto query_at = [&](int64_t t) { return at.q(b, t, h); };
      __syncthreads();
      load_f32_rows<T, T::other>(q_tile, x.q, query, at.n, query_at);
      load_f32_rows<T, T::other>(dout_tile, x.dout, query, at.n, query_at);
      if (const int64_t t = query + threadIdx.x; threadIdx.x < T::other && t < at.n) {
        L_tile[threadIdx.x] = x.log_sum_exp(b, h, t);
        D_tile[threadIdx.x] = D[(b * at.H + h) * at.n + t];
      }
      __syncthreads();
      float s[T::rows][4] = {}, dp[T::rows][4] = {};
      multiply_f32_rows<T>(s, k_tile, q_tile, place);
      multiply_f32_rows<T>(dp, v_tile, dout_tile, place);
      f32_key_scores<T>(s, dp, at, scale, first, query, L_tile, D_tile, place);
      share_scores<T>(p_tile, s, place);
      share_scores<T>(ds_tile, dp, place);
      add_product<T>(dv_sum, p_tile, dout_tile, place);
      add_product<T>(dk_sum, ds_tile, q_tile, place);
    }
  add_f32_gradient<T>(dk, dk_sum, scale, first, at.n, key_at, place);
  add_f32_gradient<T>(dv, dv_sum, 1, first, at.n, key_at, place);
}

// ---- how they take the place of rows ----

// run<T>() with the tile for this d; false: there is none, an address does not begin on 16 bytes,
// or there are more heads than a grid has rows of blocks.
template <bool backward, class Run>
bool with_f32_tile(int64_t d, int64_t heads, std::initializer_list<const float*> arrays, Run run) {
  if (heads > 65535) return false;
  for (const float* each : arrays)
    if (reinterpret_cast<uintptr_t>(each) % 16 != 0) return false;
  if (d == 32)
    run(F32Tile<32, 4>{});
  else if (d == 64)
    run(F32Tile<64, 4>{});
  else if (d == 128)
    run(F32Tile < 128, backward ? 2 : 4 > {});
  return d == 32 || d == 64 || d == 128;
}
template <class T>
Grid f32_grid(const detail::AttentionRows& at, int64_t heads, Where where) {
  return {blocks_of(at.n, T::own), static_cast<unsigned>(heads), where};
}

inline void launch_attention_f32(const detail::BlockwiseRow<float>& x, int64_t rows, Where where) {
  const auto run = [&]<class T>(T) {
    launch(attention_f32<T>, f32_grid<T>(x.at, rows / x.at.n, where), T::threads, T::forward_bytes,
           compute_stream(), x.at, x.q, x.k, x.v, x.o, x.L);
  };
  if (!with_f32_tile<false>(x.at.d, rows / x.at.n, {x.q, x.k, x.v, x.o}, run))
    launch_rows(x, rows, where);
}

inline void launch_attention_f32_queries(const detail::BlockwiseQueryGradient<float>& x,
                                         int64_t rows, Where where) {
  const detail::BlockwiseSaved<float>& s = x.saved;
  const auto run = [&]<class T>(T) {
    launch(attention_f32_queries<T>, f32_grid<T>(s.at, rows / s.at.n, where), T::threads,
           T::backward_bytes, compute_stream(), s, x.dq);
  };
  if (!with_f32_tile<true>(s.at.d, rows / s.at.n, {s.q, s.k, s.v, s.o, s.dout, x.dq}, run))
    launch_rows(x, rows, where);
}
inline void launch_attention_f32_keys(const detail::BlockwiseKeyGradient<float>& x, int64_t rows,
                                      Where where) {
  const detail::BlockwiseSaved<float>& s = x.saved;
  const auto run = [&]<class T>(T) {
    const int64_t queries = rows / s.at.Hkv * s.at.H;
    const DeviceScratch D(queries * int64_t{sizeof(float)}, where);
    launch_rows(RowsOfDoutO{s.at, s.dout, s.o, D.as<float>()}, queries, where);
    launch(attention_f32_keys<T>, f32_grid<T>(s.at, rows / s.at.n, where), T::threads,
           T::backward_bytes, compute_stream(), s, D.as<float>(), x.dk, x.dv);
  };
  if (!with_f32_tile<true>(s.at.d, rows / s.at.n, {s.q, s.k, s.v, s.o, s.dout, x.dk, x.dv}, run))
    launch_rows(x, rows, where);
}

inline void add_attention_f32() {
  KernelOf<detail::BlockwiseRow<float>>::launch = launch_attention_f32;
  KernelOf<detail::BlockwiseQueryGradient<float>>::launch = launch_attention_f32_queries;
  KernelOf<detail::BlockwiseKeyGradient<float>>::launch = launch_attention_f32_keys;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
