// Packing for matmul: a block of a matrix copied into the order in which the kernel will read it.
//
// The register kernel reads TM numbers of A's column and TN of B's row at every step of k. Where
// they lie in the matrix is the caller's business (rows, columns, a head inside (B*T, 3C)), often
// pages apart; in a packed panel they are neighbours, aligned, and padded, so the kernel needs one
// pointer for each.
//
//     A (i, l), panels of TM rows                 panel in memory, `depth` steps of `pitch` numbers
//     +------------------+  <- TM rows, panel 0   a00 a10 a20 .. | a01 a11 a21 .. | a02 ...
//     +------------------+  <- TM rows, panel 1   one step of k    the next one
//
// B is the same thing transposed: panels of TN columns. So one function packs both; `across` is the
// step in memory from one member of a panel to the next, `along` the step along k. One of the two
// is 1 in nearly every matrix: if `across`, a step is a plain copy; if `along`, square pieces are
// transposed in registers. Cost: each element once, 0.3 to 1 cycle, against 2 n / FLOPs-per-cycle
// for using it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "yotta/core/cpu/block_cache.hpp"
#include "yotta/core/dtype.hpp"

namespace yotta {

// a / b, rounded up; a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Scratch for packed blocks, taken from the process's cache of free blocks and given back. From an
// eighth of a large page on it takes whole ones: on pages of 4 KiB large products are 3% slower,
// and attention over a window, which goes through its copies of keys and values once, 8% where
// memory is slow. A buffer wastes less than 2 MiB by it: attention over 4096 tokens, forward and
// backward on one thread, takes 34 MiB in all instead of 31.
template <class Real>
class PackBuffer {
 public:
  explicit PackBuffer(int64_t count)
      : bytes_(whole_pages(count * static_cast<int64_t>(sizeof(Real)))),
        data_(static_cast<Real*>(BlockCache::scratch().take(bytes_))) {}
  ~PackBuffer() { BlockCache::scratch().give(data_, bytes_); }
  PackBuffer(const PackBuffer&) = delete;
  PackBuffer& operator=(const PackBuffer&) = delete;
  Real* data() const { return data_; }

 private:
  static constexpr int64_t whole_pages(int64_t bytes) {
    return 8 * bytes < large_page ? bytes : ceil_div(bytes, large_page) * large_page;
  }

  int64_t bytes_;
  Real* data_;
};

// The widest vector register, and the tile of C that fills the register file but for the two or
// three that hold B's row and one number of A. TM independent chains also hide the latency of an
// FMA.
#if defined(__AVX512F__) && defined(__clang__)  // which loads two numbers of A ahead
inline constexpr int register_bytes = 64, tile_rows = 13, tile_registers = 2;  // 26 of 32
#elif defined(__AVX512F__)
inline constexpr int register_bytes = 64, tile_rows = 14, tile_registers = 2;  // 28 of 32
#elif defined(__AVX2__)
inline constexpr int register_bytes = 32, tile_rows = 6, tile_registers = 2;  // 12 of 16
#elif defined(__ARM_NEON)
inline constexpr int register_bytes = 16, tile_rows = 8, tile_registers = 3;  // 24 of 32
#else
inline constexpr int register_bytes = 16, tile_rows = 4, tile_registers = 2;  // 8 of 16
#endif

// Sizes in elements of one type; f32 on AVX-512: tiles of 14 x 32, blocks of 352 x 1117 (1.5 MiB of
// B).
template <class Real>
struct TileShape {
  typedef Real Register __attribute__((vector_size(register_bytes)));
  static constexpr int lanes = register_bytes / static_cast<int>(sizeof(Real));
  static constexpr int TM = tile_rows;
  static constexpr int TN = tile_registers * lanes;
  static constexpr int pitch = (TM + lanes - 1) / lanes * lanes;  // TM, padded to whole registers
};

// A register of f32 as its bits, and as many bf16. A bf16 is the upper half of an f32.
//
//     f32    s eeeeeeee mmmmmmm 0000000000000000      widened: shifted by 16
//     bf16   s eeeeeeee mmmmmmm                       rounded: to nearest, ties to even, as
//                                                     bfloat16(float) does for one number
typedef uint32_t F32Bits __attribute__((vector_size(register_bytes)));
typedef uint16_t Bf16Bits __attribute__((vector_size(register_bytes / 2)));

// nvcc has no conversion of vectors.
#if !defined(__CUDACC__)
inline TileShape<float>::Register widened(const Bf16Bits& bits) {
  return (TileShape<float>::Register)(__builtin_convertvector(bits, F32Bits) << 16);
}
inline Bf16Bits rounded(const TileShape<float>::Register& x) {
  const F32Bits bits = (F32Bits)x, upper = bits >> 16;
  const F32Bits nearest = (bits + 0x7fffu + (upper & 1u)) >> 16;
  const F32Bits nan = (upper & 0x8000u) | 0x7fc0u;
  return __builtin_convertvector((bits & 0x7fffffffu) > 0x7f800000u ? nan : nearest, Bf16Bits);
}
#else
inline TileShape<float>::Register widened(const Bf16Bits& bits) {
  F32Bits words;
  for (int i = 0; i < TileShape<float>::lanes; ++i) words[i] = uint32_t{bits[i]} << 16;
  return (TileShape<float>::Register)words;
}
inline Bf16Bits rounded(const TileShape<float>::Register& x) {
  Bf16Bits bits;
  for (int i = 0; i < TileShape<float>::lanes; ++i) bits[i] = bfloat16(x[i]).bits;
  return bits;
}
#endif

// One register from `lanes` numbers in a row, of the same type or a narrower one to be widened.
template <class Real, class T>
inline typename TileShape<Real>::Register load_register(const T* from) {
  typename TileShape<Real>::Register value;
  if constexpr (std::is_same_v<Real, T>) {
    std::memcpy(&value, from, sizeof value);
  } else if constexpr (std::is_same_v<Real, float> && std::is_same_v<T, bfloat16>) {
    Bf16Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    value = widened(bits);
  } else {
    Real lane[TileShape<Real>::lanes];
    for (int i = 0; i < TileShape<Real>::lanes; ++i) lane[i] = static_cast<Real>(from[i]);
    std::memcpy(&value, lane, sizeof value);
  }
  return value;
}
template <class Real, class Register>
inline void store_register(Real* to, const Register& value) {
  std::memcpy(to, &value, sizeof value);
}

// Lanes of two registers, counted through both; nvcc cannot print a shuffle for the host's
// compiler.
template <int... Lane, class Register>
inline Register shuffled(const Register& a, const Register& b) {
#if defined(__CUDACC__)
  constexpr int lanes = static_cast<int>(sizeof...(Lane)), from[] = {Lane...};
  Register x;
  for (int i = 0; i < lanes; ++i) x[i] = from[i] < lanes ? a[from[i]] : b[from[i] - lanes];
  return x;
#else
  return __builtin_shufflevector(a, b, Lane...);
#endif
}

// Transpose a square of `lanes` registers: exchange its off-diagonal quarters, then the same inside
// each quarter. log2(lanes) rounds of shuffles; nothing touches memory.
template <int Half, class Register, int... Lane>
inline void transpose_square(Register* x, std::integer_sequence<int, Lane...> lane) {
  constexpr int lanes = static_cast<int>(sizeof...(Lane));
#pragma GCC unroll 32
  for (int i = 0; i < lanes; ++i) {
    if ((i & Half) != 0) continue;
    const Register upper = x[i], lower = x[i + Half];
    x[i] = shuffled<(Lane & Half ? lanes + Lane - Half : Lane)...>(upper, lower);
    x[i + Half] = shuffled<(Lane & Half ? lanes + Lane : Lane + Half)...>(upper, lower);
  }
  if constexpr (Half > 1) transpose_square<Half / 2>(x, lane);
}

// One panel: out[l * Width + i] = from[i * across + l * along] for i < count, l < depth, else 0.
template <int Width, class Real, class T>
void pack_edge(const T* from, int64_t across, int64_t along, int64_t count, int64_t first,
               int64_t depth, Real* out) {
  for (int64_t l = first; l < depth; ++l)
    for (int64_t i = 0; i < Width; ++i)
      out[l * Width + i] = i < count ? static_cast<Real>(from[i * across + l * along]) : Real(0);
}

// A whole panel whose memory runs along k.
template <int Width, class Real, class T>
void pack_transposing(const T* from, int64_t across, int64_t depth, Real* out) {
  constexpr int lanes = TileShape<Real>::lanes;
  const int64_t whole = depth / lanes * lanes;
  for (int64_t l = 0; l < whole; l += lanes)
    for (int64_t i = 0; i < Width; i += lanes) {
      typename TileShape<Real>::Register x[lanes];
#pragma GCC unroll 32
      for (int r = 0; r < lanes; ++r) x[r] = load_register<Real>(from + (i + r) * across + l);
      transpose_square<lanes / 2>(x, std::make_integer_sequence<int, lanes>{});
#pragma GCC unroll 32
      for (int r = 0; r < lanes; ++r) store_register(out + (l + r) * Width + i, x[r]);
    }
  pack_edge<Width>(from, across, 1, Width, whole, depth, out);
}

// `panels` whole panels whose memory runs across: a row of memory is read once for all of them.
template <int Width, class Real, class T>
void pack_copying(const T* from, int64_t along, int64_t step, int64_t panels, int64_t depth,
                  Real* out) {
  for (int64_t l = 0; l < depth; ++l)
    for (int64_t p = 0; p < panels; ++p)
#pragma GCC unroll 4
      for (int i = 0; i < Width; i += TileShape<Real>::lanes)
        store_register(out + (p * depth + l) * Width + i,
                       load_register<Real>(from + l * along + p * step + i));
}

// Members [0, count) in panels that begin `step` apart and hold Width >= step each (A's panels
// overlap: TM rows are used of `pitch` packed). Panel p fills out[p * Width * depth ...].
template <int Width, class Real, class T>
void pack_panels(const T* from, int64_t across, int64_t along, int64_t step, int64_t panels,
                 int64_t count, int64_t depth, Real* out) {
  if (depth == 0) return;  // an empty matrix has no address to count from
  const int64_t whole = std::min(panels, count < Width ? 0 : (count - Width) / step + 1);
  if (across == 1) pack_copying<Width>(from, along, step, whole, depth, out);
  for (int64_t p = across == 1 ? whole : 0; p < panels; ++p) {
    const T* panel = from + p * step * across;
    Real* to = out + p * Width * depth;
    if (p < whole && along == 1)
      pack_transposing<Width>(panel, across, depth, to);
    else
      pack_edge<Width>(panel, across, along, count - p * step, 0, depth, to);
  }
}

}  // namespace yotta
