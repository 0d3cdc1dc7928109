// wgmma: Hopper's tensor-core instruction. A warp group, four warps, multiplies 64 x k by k x n
// numbers into 64 x n sums of 32 bits, and goes on meanwhile. B comes straight from shared memory,
// A from there or from registers. A row of k has 32 bytes in every type:
//
//     bfloat16, float16             k 16   sums in f32
//     float (tf32: 19 of its bits)  k 8    sums in f32
//     float8_e4m3, float8_e5m2      k 32   sums in f32
//     int8_t, uint8_t               k 32   sums in int32_t, which wrap around
//
//     wgmma_fence();                             d is set, the tensor core may begin
//     wgmma<128, bfloat16>(d, a, b, step > 0);   d = a b, or d += a b
//     wgmma<128, bfloat16>(d, a + 2, b + 2);     the next k: 32 bytes further
//     wgmma_commit_group();                      what was started since the last one is a group
//     wgmma_wait_group<0>();                     until no group is at work: d is there
//
// Who holds what. Warp w has rows 16 w to 16 w + 15, as in mma_m16n8k16 (mma_fragments.hpp), and n
// / 8 such fragments of D side by side: wgmma_cell(thread, i). Of A in registers it has number i at
// wgmma_a_cell<Input>(thread, i), as in the mma of that type.
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
// Contract: all 128 threads of four neighbouring warps execute the same; n is 8, 16, 32, 64, 96,
// 128, 192 or 256; A and B have one type; tiles begin at multiples of 16 bytes, patterns of a
// swizzle at multiples of 1024. Compute capability 9.0 alone (sm_90a); elsewhere these functions
// trap. Cost: 2 * 64 n k FLOPs. References: PTX ISA, "Asynchronous Warpgroup Level Matrix
// Instructions": "Register Fragments", "Shared Memory Matrix Layout", "Matrix Descriptor Format",
// "wgmma.fence".
#pragma once

#include <cstdint>
#include <type_traits>

#include "yotta/core/dtype.hpp"
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

#if defined(__CUDACC__)
__device__ __forceinline__ uint32_t address_of_shared(const void* pointer) {
  return shared_word(pointer);
}
#else
// As on a GPU, a number below 2^18.
uint32_t address_of_shared(const void* pointer, Where where = Where::current());
#endif

// 64 bits: address, leading and stride without their last four bits, and the swizzle.
__device__ inline uint64_t wgmma_descriptor(const void* tile, uint32_t leading, uint32_t stride,
                                            Swizzle swizzle) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffff) >> 4); };
  return field(address_of_shared(tile)) | field(leading) << 16 | field(stride) << 32 |
         descriptor_code(swizzle) << 62;
}

template <int n>
inline constexpr bool is_wgmma_width =
    n == 8 || n == 16 || n == 32 || n == 64 || n == 96 || n == 128 || n == 192 || n == 256;

// Whether numbers of a type may lie in this order.
template <class Input, Major major>
inline constexpr bool may_be_major = sizeof(Input) == 2 || major == Major::k;

#if defined(__CUDACC__)

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define YOTTA_SM90A(...) __trap()
#else
#define YOTTA_SM90A(...) asm volatile(__VA_ARGS__)
#endif

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

// The registers of D: operands, and their places in the instruction, 8 at a time.
#define YOTTA_D4(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define YOTTA_D8(kind, i) YOTTA_D4(kind, i), YOTTA_D4(kind, i + 4)
#define YOTTA_D16(kind, i) YOTTA_D8(kind, i), YOTTA_D8(kind, i + 8)
#define YOTTA_D32(kind, i) YOTTA_D16(kind, i), YOTTA_D16(kind, i + 16)
#define YOTTA_D48(kind, i) YOTTA_D32(kind, i), YOTTA_D16(kind, i + 32)
#define YOTTA_D64(kind, i) YOTTA_D32(kind, i), YOTTA_D32(kind, i + 32)
#define YOTTA_D96(kind, i) YOTTA_D64(kind, i), YOTTA_D32(kind, i + 64)
#define YOTTA_D128(kind, i) YOTTA_D64(kind, i), YOTTA_D64(kind, i + 64)
#define YOTTA_N4 "%0,%1,%2,%3"
#define YOTTA_N8 YOTTA_N4 ",%4,%5,%6,%7"
#define YOTTA_N16 YOTTA_N8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define YOTTA_N32 YOTTA_N16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define YOTTA_N48 YOTTA_N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define YOTTA_N64 YOTTA_N48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define YOTTA_N80 YOTTA_N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define YOTTA_N96 YOTTA_N80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define YOTTA_N112 \
  YOTTA_N96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define YOTTA_N128 \
  YOTTA_N112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// One instruction: A by a descriptor (operands o0 to o4 after those of D), or in registers (o0 to
// o6). `name` is its shape and types in PTX, `end` what follows the predicate.
#define YOTTA_WGMMA_SS(name, end, names, o0, o1, o2, ...)                                     \
  YOTTA_SM90A("{ .reg .pred p; setp.ne.b32 p, %" o2 ", 0; wgmma.mma_async.sync.aligned." name \
              " {" names "}, %" o0 ", %" o1 ", p" end "; }"                                   \
              : __VA_ARGS__                                                                   \
              : "l"(a), "l"(b), "r"(add), "n"(a_by_mn), "n"(b_by_mn)                          \
              : "memory")
#define YOTTA_WGMMA_RS(name, end, names, o0, o1, o2, o3, o4, o5, ...)                         \
  YOTTA_SM90A("{ .reg .pred p; setp.ne.b32 p, %" o5 ", 0; wgmma.mma_async.sync.aligned." name \
              " {" names "}, {%" o0 ", %" o1 ", %" o2 ", %" o3 "}, %" o4 ", p" end "; }"      \
              : __VA_ARGS__                                                                   \
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(b_by_mn)    \
              : "memory")
// All types of input for one width. SS or RS is `way`, `orders` the orders of 16-bit numbers.
#define YOTTA_WGMMA_FLOATS(way, width, orders, names, D, ...)                                \
  if constexpr (std::is_same_v<Input, bfloat16>)                                             \
    way("m64n" #width "k16.f32.bf16.bf16", ", 1, 1" orders, names, __VA_ARGS__, D("+f", 0)); \
  else if constexpr (std::is_same_v<Input, float16>)                                         \
    way("m64n" #width "k16.f32.f16.f16", ", 1, 1" orders, names, __VA_ARGS__, D("+f", 0));   \
  else if constexpr (std::is_same_v<Input, float>)                                           \
    way("m64n" #width "k8.f32.tf32.tf32", ", 1, 1", names, __VA_ARGS__, D("+f", 0));         \
  else if constexpr (std::is_same_v<Input, float8_e4m3>)                                     \
    way("m64n" #width "k32.f32.e4m3.e4m3", ", 1, 1", names, __VA_ARGS__, D("+f", 0));        \
  else                                                                                       \
    way("m64n" #width "k32.f32.e5m2.e5m2", ", 1, 1", names, __VA_ARGS__, D("+f", 0));
#define YOTTA_WGMMA_INTEGERS(way, width, names, D, ...)                     \
  if constexpr (std::is_same_v<Input, int8_t>)                              \
    way("m64n" #width "k32.s32.s8.s8", "", names, __VA_ARGS__, D("+r", 0)); \
  else                                                                      \
    way("m64n" #width "k32.s32.u8.u8", "", names, __VA_ARGS__, D("+r", 0));
#define YOTTA_WGMMA_WIDTH(width, names, D, o0, o1, o2, o3, o4, o5, o6)                     \
  template <class Input, int a_by_mn, int b_by_mn>                                         \
  __device__ __forceinline__ void wgmma_of(float(&d)[width / 2], uint64_t a, uint64_t b,   \
                                           int add) {                                      \
    YOTTA_WGMMA_FLOATS(YOTTA_WGMMA_SS, width, ", %" o3 ", %" o4, names, D, o0, o1, o2)     \
  }                                                                                        \
  template <class Input, int a_by_mn, int b_by_mn>                                         \
  __device__ __forceinline__ void wgmma_of(int32_t(&d)[width / 2], uint64_t a, uint64_t b, \
                                           int add) {                                      \
    YOTTA_WGMMA_INTEGERS(YOTTA_WGMMA_SS, width, names, D, o0, o1, o2)                      \
  }                                                                                        \
  template <class Input, int b_by_mn>                                                      \
  __device__ __forceinline__ void wgmma_of(float(&d)[width / 2], const uint32_t(&a)[4],    \
                                           uint64_t b, int add) {                          \
    YOTTA_WGMMA_FLOATS(YOTTA_WGMMA_RS, width, ", %" o6, names, D, o0, o1, o2, o3, o4, o5)  \
  }                                                                                        \
  template <class Input, int b_by_mn>                                                      \
  __device__ __forceinline__ void wgmma_of(int32_t(&d)[width / 2], const uint32_t(&a)[4],  \
                                           uint64_t b, int add) {                          \
    YOTTA_WGMMA_INTEGERS(YOTTA_WGMMA_RS, width, names, D, o0, o1, o2, o3, o4, o5)          \
  }
YOTTA_WGMMA_WIDTH(8, YOTTA_N4, YOTTA_D4, "4", "5", "6", "7", "8", "9", "10")
YOTTA_WGMMA_WIDTH(16, YOTTA_N8, YOTTA_D8, "8", "9", "10", "11", "12", "13", "14")
YOTTA_WGMMA_WIDTH(32, YOTTA_N16, YOTTA_D16, "16", "17", "18", "19", "20", "21", "22")
YOTTA_WGMMA_WIDTH(64, YOTTA_N32, YOTTA_D32, "32", "33", "34", "35", "36", "37", "38")
YOTTA_WGMMA_WIDTH(96, YOTTA_N48, YOTTA_D48, "48", "49", "50", "51", "52", "53", "54")
YOTTA_WGMMA_WIDTH(128, YOTTA_N64, YOTTA_D64, "64", "65", "66", "67", "68", "69", "70")
YOTTA_WGMMA_WIDTH(192, YOTTA_N96, YOTTA_D96, "96", "97", "98", "99", "100", "101", "102")
YOTTA_WGMMA_WIDTH(256, YOTTA_N128, YOTTA_D128, "128", "129", "130", "131", "132", "133", "134")
#undef YOTTA_WGMMA_WIDTH
#undef YOTTA_WGMMA_INTEGERS
#undef YOTTA_WGMMA_FLOATS
#undef YOTTA_WGMMA_RS
#undef YOTTA_WGMMA_SS
#undef YOTTA_D4
#undef YOTTA_D8
#undef YOTTA_D16
#undef YOTTA_D32
#undef YOTTA_D48
#undef YOTTA_D64
#undef YOTTA_D96
#undef YOTTA_D128
#undef YOTTA_N4
#undef YOTTA_N8
#undef YOTTA_N16
#undef YOTTA_N32
#undef YOTTA_N48
#undef YOTTA_N64
#undef YOTTA_N80
#undef YOTTA_N96
#undef YOTTA_N112
#undef YOTTA_N128

template <int n, class Input, Major a_major = Major::k, Major b_major = Major::k>
__device__ __forceinline__ void wgmma(WgmmaSum<Input> (&d)[n / 2], uint64_t a, uint64_t b,
                                      bool accumulate = true) {
  static_assert(is_wgmma_width<n> && may_be_major<Input, a_major> && may_be_major<Input, b_major>);
  wgmma_of<Input, static_cast<int>(a_major), static_cast<int>(b_major)>(d, a, b, accumulate);
}
template <int n, class Input, Major b_major = Major::k>
__device__ __forceinline__ void wgmma(WgmmaSum<Input> (&d)[n / 2], const uint32_t (&a)[4],
                                      uint64_t b, bool accumulate = true) {
  static_assert(is_wgmma_width<n> && may_be_major<Input, b_major>);
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
  Major a_major = Major::k, b_major = Major::k;
  void* d = nullptr;                    // n / 2 sums of 32 bits
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

template <int n, class Input, Major a_major = Major::k, Major b_major = Major::k>
void wgmma(WgmmaSum<Input> (&d)[n / 2], uint64_t a, uint64_t b, bool accumulate = true,
           Where where = Where::current()) {
  static_assert(is_wgmma_width<n> && may_be_major<Input, a_major> && may_be_major<Input, b_major>);
  constexpr auto input = emulator::wgmma_input<Input>();
  emulator::start_wgmma({n, input, a_major, b_major, d, nullptr, a, b, accumulate}, where);
}
template <int n, class Input, Major b_major = Major::k>
void wgmma(WgmmaSum<Input> (&d)[n / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate = true,
           Where where = Where::current()) {
  static_assert(is_wgmma_width<n> && may_be_major<Input, b_major>);
  constexpr auto input = emulator::wgmma_input<Input>();
  emulator::start_wgmma({n, input, Major::k, b_major, d, a, 0, b, accumulate}, where);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/wgmma.ipp"
#endif
