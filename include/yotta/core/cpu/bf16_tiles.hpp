// Products of bf16 with f32 sums by the processor's own instructions, for matmul.
//
// A bf16 is half as wide as an f32, so a register holds pairs: two neighbours along k. One
// instruction multiplies pairs, and adds both products to one f32:
//
//     vdpbf16ps  AVX512-BF16        16 sums += a pair times 16 pairs          64 FLOPs
//     tdpbf16ps  AMX           16 x 16 sums += (16, 32) times (32, 16)    16,384 FLOPs
//
// The second is a tensor core in a CPU: its tiles, 16 rows of 64 bytes, are registers of their own.
// Packed matrices have k in steps of 32, with zeros beyond their ends:
//
//     by pair      a00 a01, a10 a11, a20 a21, .. | a02 a03, a12 a13, ..    a row for each pair of k
//     by member    a00 a01 .. a0,31 | a10 a11 .. a1,31 | ..                a row for each member
//
// AMX reads A by member and B by pair, vdpbf16ps both by pair. Both round sums to nearest, and take
// numbers below 2^-126 for zero: in A and B, in sums, and AMX in the C that it adds to.
// Reference: Intel, "Architecture Instruction Set Extensions Programming Reference", 319433.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "yotta/core/cpu/matmul_packing.hpp"
#include "yotta/core/matrix_view.hpp"
#include "yotta/core/system/build.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512F__) && !defined(__CUDACC__)
#define YOTTA_BF16_PAIRS 1
#include <immintrin.h>
#endif
// A sanitizer does not see what tiles load and store.
#if defined(YOTTA_BF16_PAIRS) && defined(__AMX_BF16__) && defined(__linux__) && !YOTTA_ASAN && \
    !YOTTA_TSAN
#define YOTTA_BF16_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace yotta {

// Packed numbers of a row of A or a column of B: one for each step of k, or for each pair.
template <class Packed>
struct PackedSteps {
  static constexpr int64_t k = 1;  // steps of k in one
  static constexpr int64_t of(int64_t depth) { return depth; }
};

#if defined(YOTTA_BF16_PAIRS)

struct Bf16Pair {
  uint32_t bits;
};
template <>
struct PackedSteps<Bf16Pair> {
  static constexpr int64_t k = 2;
  static constexpr int64_t of(int64_t depth) { return 16 * ceil_div(depth, 32); }
};
inline void multiply_add(TileShape<float>::Register& sum, Bf16Pair a,
                         const TileShape<float>::Register& row) {
  sum = (TileShape<float>::Register)_mm512_dpbf16_ps(
      (__m512)sum, (__m512bh)_mm512_set1_epi32(static_cast<int>(a.bits)), (__m512bh)row);
}

namespace bf16_tile {

inline constexpr int64_t members = 16, depth = 32;
enum class Order { by_pair, by_member };

// A tile whose memory runs along k: a register for each member.
inline void load_members(const bfloat16* from, int64_t across, F32Bits* row) {
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) std::memcpy(row + r, from + r * across, sizeof *row);
}
// A tile whose memory runs across: a register for each pair.
inline void load_pairs(const bfloat16* from, int64_t along, F32Bits* row) {
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) {
    Bf16Bits even, odd;
    std::memcpy(&even, from + 2 * r * along, sizeof even);
    std::memcpy(&odd, from + (2 * r + 1) * along, sizeof odd);
    row[r] = __builtin_convertvector(even, F32Bits) | (__builtin_convertvector(odd, F32Bits) << 16);
  }
}
template <bool Exchange>
void store(F32Bits* row, Bf16Pair* to, int64_t row_stride) {
  if (Exchange) transpose_square<8>(row, std::make_integer_sequence<int, 16>{});
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) std::memcpy(to + r * row_stride, row + r, sizeof *row);
}

// A tile of which `count` members and `left` steps of k are there; zeros are the rest.
template <Order order>
void pack_tile(const bfloat16* from, int64_t across, int64_t along, int64_t count, int64_t left,
               Bf16Pair* to, int64_t row_stride) {
  const bool is_whole = count >= members && left >= depth;
  F32Bits row[16];
  if (is_whole && across == 1) {
    load_pairs(from, along, row);
    return store<order == Order::by_member>(row, to, row_stride);
  }
  bfloat16 edge[members * depth];
  if (!is_whole || along != 1) {
    std::fill_n(edge, members * depth, bfloat16());
    for (int64_t i = 0; i < std::min(count, members); ++i)
      for (int64_t l = 0; l < std::min(left, depth); ++l)
        edge[i * depth + l] = from[i * across + l * along];
    from = edge;
    across = depth;
  }
  load_members(from, across, row);
  store<order == Order::by_pair>(row, to, row_stride);
}

// Members [0, count) in panels of Tiles tiles, which begin `step` members apart. By pair, a row has
// all members of a panel; by member, tiles follow each other.
template <Order order, int64_t Tiles>
void pack(const bfloat16* from, int64_t across, int64_t along, int64_t step, int64_t panels,
          int64_t count, int64_t k, Bf16Pair* out) {
  constexpr bool by_pair = order == Order::by_pair;
  constexpr int64_t row_stride = by_pair ? 16 * Tiles : 16, tile_stride = by_pair ? 16 : 256;
  const int64_t steps = ceil_div(k, depth);
  const auto pack_step = [&](int64_t p, int64_t s) {
    for (int64_t t = 0; t < Tiles; ++t) {
      const int64_t i = p * step + t * members, l = s * depth;
      pack_tile<order>(from + i * across + l * along, across, along, count - i, k - l,
                       out + (p * steps + s) * Tiles * 256 + t * tile_stride, row_stride);
    }
  };
  if (across == 1)  // a row of memory is read once for all panels
    for (int64_t s = 0; s < steps; ++s)
      for (int64_t p = 0; p < panels; ++p) pack_step(p, s);
  else
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t s = 0; s < steps; ++s) pack_step(p, s);
}

}  // namespace bf16_tile

// pack_panels (matmul_packing.hpp) of pairs.
template <int Width>
void pack_panels(const bfloat16* from, int64_t across, int64_t along, int64_t step, int64_t panels,
                 int64_t count, int64_t depth, Bf16Pair* out) {
  bf16_tile::pack<bf16_tile::Order::by_pair, Width / bf16_tile::members>(from, across, along, step,
                                                                         panels, count, depth, out);
}

#endif

#if defined(YOTTA_BF16_TILES)

// The system gives a process AMX's registers when it asks. False: this one does not.
inline bool bf16_tiles_are_granted() {
  constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, ask, tile_data) == 0;
  return granted;
}

// matmul's kernel of tdpbf16ps: a (32, 32) tile of C in four of AMX's eight registers; two hold A,
// two B.
struct Bf16Tiles {
  using Packed = Bf16Pair;
  static constexpr int64_t TM = 32, TN = 32, pitch = 32;
  static constexpr int64_t BK = 384;          // a panel of A, 24 KiB, stays in L1 while B streams
  static constexpr int64_t b_size = 3 << 17;  // 1.5 MiB, as of f32

  // While it lives, the thread's eight registers have 16 rows of 64 bytes.
  struct Session {
    Session() {
      struct alignas(64) Shapes {
        uint8_t palette = 1, start_row = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      };
      static constexpr Shapes shapes;  // in memory: g++ does not know that all of it is read
      _tile_loadconfig(&shapes);
    }
    ~Session() { _tile_release(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  template <class A>
  static void pack_a(MatrixView<A> a, int64_t panels, int64_t count, Bf16Pair* out) {
    bf16_tile::pack<bf16_tile::Order::by_member, 2>(a.data, a.row_stride, a.col_stride, TM, panels,
                                                    count, a.cols, out);
  }
  template <class B>
  static void pack_b(MatrixView<B> b, int64_t panels, int64_t count, Bf16Pair* out) {
    pack_panels<TN>(b.data, b.col_stride, b.row_stride, TN, panels, count, b.rows, out);
  }

  // c (rows, cols) (+)= a panel of A times one of B, both of `steps` pairs.
  static void multiply(int64_t rows, const Bf16Pair* a, const Bf16Pair* b, int64_t steps, float* c,
                       int64_t stride, int64_t cols, bool add) {
    if (rows == TM && cols == TN) return multiply_whole(a, b, steps, c, stride, add);
    alignas(64) float edge[TM * TN] = {};
    for (int64_t i = 0; i < rows && add; ++i) std::copy_n(c + i * stride, cols, edge + i * TN);
    multiply_whole(a, b, steps, edge, TN, add);
    for (int64_t i = 0; i < rows; ++i) std::copy_n(edge + i * TN, cols, c + i * stride);
  }

 private:
  static void multiply_whole(const Bf16Pair* a, const Bf16Pair* b, int64_t steps, float* c,
                             int64_t stride, bool add) {
    asm volatile("" ::: "memory");  // g++ does not know that tiles are loaded from memory
    float *const right = c + 16, *const below = c + 16 * stride, *const corner = below + 16;
    const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
    if (add) {
      _tile_loadd(0, c, bytes);
      _tile_loadd(1, right, bytes);
      _tile_loadd(2, below, bytes);
      _tile_loadd(3, corner, bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (int64_t l = 0; l < steps; l += 16, a += 2 * 256, b += 2 * 256) {
      _tile_loadd(4, a, 64);
      _tile_loadd(6, b, 128);
      _tile_loadd(7, b + 16, 128);
      for (int64_t r = 0; r < 16; ++r) __builtin_prefetch(b + 1024 + 16 * r, 0);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      for (int64_t r = 16; r < 32; ++r) __builtin_prefetch(b + 1024 + 16 * r, 0);
      _tile_loadd(5, a + 256, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, bytes);
    _tile_stored(1, right, bytes);
    _tile_stored(2, below, bytes);
    _tile_stored(3, corner, bytes);
  }
};

#endif

// The kernel of matmul.hpp, whose tiles of C are in the registers of vectors.
template <class Packed, class Real>
struct RegisterKernel;

// f(kernel): the fastest kernel of this processor for A (m, k) B (k, n) summed in Real.
template <class A, class B, class Real, class F>
void with_kernel(F&& f) {
#if defined(YOTTA_BF16_PAIRS)
  if constexpr (std::is_same_v<const A, const bfloat16> &&
                std::is_same_v<const B, const bfloat16> && std::is_same_v<Real, float>) {
#if defined(YOTTA_BF16_TILES)
    if (bf16_tiles_are_granted()) return f(Bf16Tiles{});
#endif
    return f(RegisterKernel<Bf16Pair, Real>{});
  } else
#endif
    f(RegisterKernel<Real, Real>{});
}

}  // namespace yotta
