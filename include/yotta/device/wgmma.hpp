// wgmma: Hopper's tensor-core instruction. A warp group, four warps, multiplies 64 x k by k x n
// numbers into 64 x n sums of 32 bits, and goes on meanwhile. B comes straight from shared memory,
// A from there or from registers. A row of k has 32 bytes in every type:
//
//     bfloat16                      k 16   sums in f32
//     float16                       k 16   sums in f32, or in f16
//     float (tf32: 19 of its bits)  k 8    sums in f32
//     float8_e4m3, float8_e5m2      k 32   sums in f32, or in f16
//     int8_t, uint8_t               k 32   sums in int32_t, which wrap around
//
//     wgmma_fence();                             d is set, the tensor core may begin
//     wgmma<128, bfloat16>(d, a, b, step > 0);   d = a b, or d += a b
//     wgmma<128, bfloat16>(d, a + 2, b + 2);     the next k: 32 bytes further
//     wgmma_commit_group();                      what was started since the last one is a group
//     wgmma_wait_group<0>();                     until no group is at work: d is there
//
// Who holds what. Warp w has rows 16 w to 16 w + 15, as in mma_m16n8k16 (mma_fragments.hpp), and n
// / 8 such fragments of D side by side: a thread's number i lies at wgmma_cell(thread, i). d is
// float[n / 2] or int32_t[n / 2]; for sums in f16 it is uint32_t[n / 4], two numbers in each, the
// first in the low half. Of A in registers a thread has number i at wgmma_a_cell<Input>(thread, i),
// as in the mma of that type.
//
// Descriptors. wgmma_descriptor() tells a tile in shared memory: where it begins, two distances and
// the swizzle with which it was written. A tile consists of atoms of 8 rows of 16, 32, 64 or 128
// bytes (the swizzle's span), one row after the other.
//
//     Major::k    rows of an atom are rows of A (or columns of B), k runs along them
//                 stride: to the next 8 rows; leading: to the next 16 bytes of k, without a
//                 swizzle only
//     Major::mn   rows of an atom are numbers k; along them run rows of A (or columns of B); for
//                 numbers of 16 bits only
//                 stride: to the next 8 of k; leading: to the next span of rows. Without a swizzle
//                 stride and leading change their parts
//
// A box that cp_async_bulk_tensor has loaded with Swizzle::b128, rows of 64 numbers that run along
// k: wgmma_descriptor(tile, 0, 1024, Swizzle::b128). wgmma_byte() is the rule.
//
// What a wgmma reads must be there and stay until it is done: writes of threads need a
// fence_proxy_async(), and a tile may be replaced after wgmma_wait_group only. So may d be read.
//
// Contract: all 128 threads of four neighbouring warps execute the same; n is a multiple of 8 up to
// 256, of integers 8, 16, 24, 32, 48, 64, 80, ..., 256; A and B have one type; tiles begin at
// multiples of 16 bytes, patterns of a swizzle at multiples of 1024. Compute capability 9.0 alone
// (sm_90a); elsewhere these functions trap. Cost: 2 * 64 n k FLOPs. References: PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions": "Register Fragments", "Shared Memory Matrix
// Layout", "Matrix Descriptor Format", "wgmma.fence".
#pragma once

#include <cstdint>
#include <type_traits>

#include "yotta/core/dtype.hpp"
#include "yotta/device/cuda/wgmma_instructions.hpp"
#include "yotta/device/mbarrier.hpp"
#include "yotta/device/mma_fragments.hpp"
#include "yotta/device/tensor_map.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Along which of its dimensions the numbers of a tile are neighbours.
enum class Major : uint8_t { k, mn };

// The numbers of one type along k.
template <class Input>
inline constexpr int wgmma_k = 32 / static_cast<int>(sizeof(Input));
template <class Input>
using WgmmaSum = std::conditional_t<std::is_integral_v<Input>, int32_t, float>;

// The row and column of D that a thread of the warp group holds as d[i].
__host__ __device__ constexpr MatrixCell wgmma_cell(int thread, int i) {
  const MatrixCell at = cell_of_blocks<2, 2>(thread % 32, i);
  return {16 * (thread / 32) + at.row, at.column};
}
// The row and k of A that it holds as number i of its registers.
template <class Input>
__host__ __device__ constexpr MatrixCell wgmma_a_cell(int thread, int i) {
  constexpr int bytes = static_cast<int>(sizeof(Input)), per_register = 4 / bytes;
  const int at = i / per_register;
  return {16 * (thread / 32) + thread % 32 / 4 + 8 * (at % 2),
          (16 * (at / 2) + 4 * (thread % 4)) / bytes + i % per_register};
}

// Where a number of A (row, k), or of B (column, k), lies that has so many bytes: in bytes from the
// beginning of its tile, before the swizzle.
struct WgmmaTile {
  Major major = Major::k;
  uint32_t leading = 0, stride = 0;  // in bytes
  Swizzle swizzle = Swizzle::none;
};
__host__ __device__ constexpr uint32_t wgmma_byte(const WgmmaTile& tile, uint32_t row, uint32_t k,
                                                  uint32_t bytes = 2) {
  const auto span = static_cast<uint32_t>(tile.swizzle);
  const bool plain = tile.swizzle == Swizzle::none;
  if (tile.major == Major::k)
    return row / 8 * tile.stride + row % 8 * span +
           (plain ? k * bytes / 16 * tile.leading + k * bytes % 16 : k * bytes);
  const uint32_t width = span / 2;  // rows in an atom
  const uint32_t to_rows = plain ? tile.stride : tile.leading;
  const uint32_t to_k = plain ? tile.leading : tile.stride;
  return row / width * to_rows + k / 8 * to_k + k % 8 * span + row % width * 2;
}

// The code of a swizzle in a descriptor's bits 62 and 63.
__host__ __device__ constexpr uint64_t descriptor_code(Swizzle swizzle) {
  return swizzle == Swizzle::b128  ? 1
         : swizzle == Swizzle::b64 ? 2
         : swizzle == Swizzle::b32 ? 3
                                   : 0;
}

// 64 bits: address, leading and stride without their last four bits, and the swizzle.
__host__ __device__ constexpr uint64_t descriptor_bits(uint32_t address, uint32_t leading,
                                                       uint32_t stride, Swizzle swizzle) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffff) >> 4); };
  return field(address) | field(leading) << 16 | field(stride) << 32 |
         descriptor_code(swizzle) << 62;
}
#if defined(__CUDACC__)
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* tile, uint32_t leading,
                                                     uint32_t stride, Swizzle swizzle) {
  return descriptor_bits(shared_word(tile), leading, stride, swizzle);
}
#else
// The address of a tile is a number below 2^18, as on a GPU.
uint64_t wgmma_descriptor(const void* tile, uint32_t leading, uint32_t stride, Swizzle swizzle,
                          Where where = Where::current());
#endif

// Whether there are wgmmas of n columns.
template <int n, class Input>
inline constexpr bool is_wgmma_width = n >= 8 && n <= 256 &&
                                       (std::is_integral_v<Input> ? n % 16 == 0 || n == 8 || n == 24
                                                                  : n % 8 == 0);
// Whether they may sum in this type; uint32_t stands for two numbers of 16 bits.
template <class Input, class Sum>
inline constexpr bool is_wgmma_sum = std::is_same_v<Sum, WgmmaSum<Input>> ||
                                     (std::is_same_v<Sum, uint32_t> &&
                                      (std::is_same_v<Input, float16> ||
                                       (sizeof(Input) == 1 && !std::is_integral_v<Input>)));
template <int n, class Input, class Sum, int registers, Major a_major, Major b_major>
__host__ __device__ constexpr void check_wgmma() {
  static_assert(is_wgmma_width<n, Input>, "no wgmma has so many columns");
  static_assert(is_wgmma_sum<Input, Sum>, "no wgmma of this type sums in the type of d");
  static_assert(registers == (std::is_same_v<Sum, uint32_t> ? n / 4 : n / 2),
                "d has another number of registers than this wgmma");
  static_assert(sizeof(Input) == 2 || (a_major == Major::k && b_major == Major::k),
                "only numbers of 16 bits may lie along their rows");
}

#if defined(__CUDACC__)

__device__ __forceinline__ void wgmma_fence() {
  YOTTA_SM90A("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit_group() {
  YOTTA_SM90A("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wgmma_wait_group() {
  YOTTA_SM90A("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

template <int n, class Input, Major a_major = Major::k, Major b_major = Major::k, class Sum,
          int registers>
__device__ __forceinline__ void wgmma(Sum (&d)[registers], uint64_t a, uint64_t b,
                                      bool accumulate = true) {
  check_wgmma<n, Input, Sum, registers, a_major, b_major>();
  wgmma_of<Input, static_cast<int>(a_major), static_cast<int>(b_major)>(d, a, b, accumulate);
}
template <int n, class Input, Major b_major = Major::k, class Sum, int registers>
__device__ __forceinline__ void wgmma(Sum (&d)[registers], const uint32_t (&a)[4], uint64_t b,
                                      bool accumulate = true) {
  check_wgmma<n, Input, Sum, registers, Major::k, b_major>();
  wgmma_of<Input, static_cast<int>(b_major)>(d, a, b, accumulate);
}

#else

namespace emulator {

enum class WgmmaInput : uint8_t { bf16, f16, tf32, e4m3, e5m2, s8, u8 };
template <class Input>
constexpr WgmmaInput wgmma_input() {
  if constexpr (std::is_same_v<Input, bfloat16>) return WgmmaInput::bf16;
  if constexpr (std::is_same_v<Input, float16>) return WgmmaInput::f16;
  if constexpr (std::is_same_v<Input, float>) return WgmmaInput::tf32;
  if constexpr (std::is_same_v<Input, float8_e4m3>) return WgmmaInput::e4m3;
  if constexpr (std::is_same_v<Input, float8_e5m2>) return WgmmaInput::e5m2;
  if constexpr (std::is_same_v<Input, int8_t>) return WgmmaInput::s8;
  if constexpr (std::is_same_v<Input, uint8_t>) return WgmmaInput::u8;
}

// What a lane brings to one wgmma.
struct WgmmaLane {
  int n = 0;
  WgmmaInput input = WgmmaInput::bf16;
  int sum_bytes = 4;
  Major a_major = Major::k, b_major = Major::k;
  void* d = nullptr;                    // n / 2 sums
  const uint32_t* registers = nullptr;  // of A; null: it is in shared memory
  uint64_t a = 0, b = 0;
  bool accumulate = false;
};
void start_wgmma(const WgmmaLane& lane, Where where);
void wait_for_wgmmas(int pending, Where where);

}  // namespace emulator

void wgmma_fence(Where where = Where::current());
void wgmma_commit_group(Where where = Where::current());
template <int pending>
void wgmma_wait_group(Where where = Where::current()) {
  static_assert(pending >= 0 && pending < 8);
  emulator::wait_for_wgmmas(pending, where);
}

template <int n, class Input, Major a_major = Major::k, Major b_major = Major::k, class Sum,
          int registers>
void wgmma(Sum (&d)[registers], uint64_t a, uint64_t b, bool accumulate = true,
           Where where = Where::current()) {
  check_wgmma<n, Input, Sum, registers, a_major, b_major>();
  constexpr auto input = emulator::wgmma_input<Input>();
  emulator::start_wgmma(
      {n, input, 8 * registers / n, a_major, b_major, d, nullptr, a, b, accumulate}, where);
}
template <int n, class Input, Major b_major = Major::k, class Sum, int registers>
void wgmma(Sum (&d)[registers], const uint32_t (&a)[4], uint64_t b, bool accumulate = true,
           Where where = Where::current()) {
  check_wgmma<n, Input, Sum, registers, Major::k, b_major>();
  constexpr auto input = emulator::wgmma_input<Input>();
  emulator::start_wgmma({n, input, 8 * registers / n, Major::k, b_major, d, a, 0, b, accumulate},
                        where);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/wgmma.ipp"
#endif
