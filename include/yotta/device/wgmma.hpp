// wgmma: Hopper's tensor-core instruction. A warp group, four warps, multiplies 64 x 16 by 16 x n
// numbers of 16 bits into 64 x n sums in f32, and goes on meanwhile. B comes straight from shared
// memory, A from there or from registers.
//
//     wgmma_fence();                             d is set, the tensor core may begin
//     wgmma<128, bfloat16>(d, a, b, step > 0);   d = a b, or d += a b
//     wgmma<128, bfloat16>(d, a + 2, b + 2);     the next 16 of k: 32 bytes further
//     wgmma_commit_group();                      what was started since the last one is a group
//     wgmma_wait_group<0>();                     until no group is at work: d is there
//
// Who holds what. Warp w has rows 16 w to 16 w + 15, as in mma_m16n8k16 (mma_fragments.hpp), and n
// / 8 such fragments of D side by side: wgmma_cell(thread, i).
//
// Descriptors. wgmma_descriptor() tells a tile in shared memory: where it begins, two distances and
// the swizzle with which it was written. A tile consists of atoms of 8 rows of 16, 32, 64 or 128
// bytes (the swizzle's span), one row after the other.
//
//     Major::k    rows of an atom are rows of A (or columns of B), k runs along them
//                 stride: to the next 8 rows; leading: to the next 8 of k, without a swizzle only
//     Major::mn   rows of an atom are numbers k; along them run rows of A (or columns of B)
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
// 128, 192 or 256; tiles begin at multiples of 16 bytes, patterns of a swizzle at multiples of
// 1024. Compute capability 9.0 alone (sm_90a); elsewhere these functions trap. Cost: 2 * 64 n 16
// FLOPs. References: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": "Register
// Fragments", "Shared Memory Matrix Layout", "Matrix Descriptor Format", "wgmma.fence".
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

// The row and column of D that a thread of the warp group holds as d[i]; of A, as number i of its
// registers.
__host__ __device__ constexpr MatrixCell wgmma_cell(int thread, int i) {
  const MatrixCell at = cell_of_blocks<2, 2>(thread % 32, i);
  return {16 * (thread / 32) + at.row, at.column};
}

// Where a number of A (row, k), or of B (column, k), lies: in bytes from the beginning of its tile,
// before the swizzle.
struct WgmmaTile {
  Major major = Major::k;
  uint32_t leading = 0, stride = 0;  // in bytes
  Swizzle swizzle = Swizzle::none;
};
__host__ __device__ constexpr uint32_t wgmma_byte(const WgmmaTile& tile, uint32_t row, uint32_t k) {
  const auto span = static_cast<uint32_t>(tile.swizzle);
  const bool plain = tile.swizzle == Swizzle::none;
  if (tile.major == Major::k)
    return row / 8 * tile.stride + row % 8 * span +
           (plain ? k / 8 * tile.leading + k % 8 * 2 : k * 2);
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
#define YOTTA_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define YOTTA_D8(i) YOTTA_D4(i), YOTTA_D4(i + 4)
#define YOTTA_D16(i) YOTTA_D8(i), YOTTA_D8(i + 8)
#define YOTTA_D32(i) YOTTA_D16(i), YOTTA_D16(i + 16)
#define YOTTA_D64(i) YOTTA_D32(i), YOTTA_D32(i + 32)
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

// One instruction: A by a descriptor (six operands after D), or in registers (seven). `type` is its
// name in PTX, twice.
#define YOTTA_WGMMA_SS(width, type, names, o0, o1, o2, o3, o4, ...)                                \
  YOTTA_SM90A("{ .reg .pred p; setp.ne.b32 p, %" o2                                                \
              ", 0; wgmma.mma_async.sync.aligned.m64n" #width "k16.f32." type " {" names "}, %" o0 \
              ", %" o1 ", p, 1, 1, %" o3 ", %" o4 "; }"                                            \
              : __VA_ARGS__                                                                        \
              : "l"(a), "l"(b), "r"(add), "n"(a_by_mn), "n"(b_by_mn)                               \
              : "memory")
#define YOTTA_WGMMA_RS(width, type, names, o0, o1, o2, o3, o4, o5, o6, ...)                \
  YOTTA_SM90A("{ .reg .pred p; setp.ne.b32 p, %" o5                                        \
              ", 0; wgmma.mma_async.sync.aligned.m64n" #width "k16.f32." type " {" names   \
              "}, {%" o0 ", %" o1 ", %" o2 ", %" o3 "}, %" o4 ", p, 1, 1, %" o6 "; }"      \
              : __VA_ARGS__                                                                \
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(b_by_mn) \
              : "memory")
// Both types of input for one width.
#define YOTTA_WGMMA_WIDTH(width, names, o0, o1, o2, o3, o4, o5, o6, ...)                  \
  template <class Input, int a_by_mn, int b_by_mn>                                        \
  __device__ __forceinline__ void wgmma_of(float(&d)[width / 2], uint64_t a, uint64_t b,  \
                                           int add) {                                     \
    if constexpr (std::is_same_v<Input, bfloat16>)                                        \
      YOTTA_WGMMA_SS(width, "bf16.bf16", names, o0, o1, o2, o3, o4, __VA_ARGS__);         \
    else                                                                                  \
      YOTTA_WGMMA_SS(width, "f16.f16", names, o0, o1, o2, o3, o4, __VA_ARGS__);           \
  }                                                                                       \
  template <class Input, int b_by_mn>                                                     \
  __device__ __forceinline__ void wgmma_of(float(&d)[width / 2], const uint32_t(&a)[4],   \
                                           uint64_t b, int add) {                         \
    if constexpr (std::is_same_v<Input, bfloat16>)                                        \
      YOTTA_WGMMA_RS(width, "bf16.bf16", names, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__); \
    else                                                                                  \
      YOTTA_WGMMA_RS(width, "f16.f16", names, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__);   \
  }
YOTTA_WGMMA_WIDTH(8, YOTTA_N4, "4", "5", "6", "7", "8", "9", "10", YOTTA_D4(0))
YOTTA_WGMMA_WIDTH(16, YOTTA_N8, "8", "9", "10", "11", "12", "13", "14", YOTTA_D8(0))
YOTTA_WGMMA_WIDTH(32, YOTTA_N16, "16", "17", "18", "19", "20", "21", "22", YOTTA_D16(0))
YOTTA_WGMMA_WIDTH(64, YOTTA_N32, "32", "33", "34", "35", "36", "37", "38", YOTTA_D32(0))
YOTTA_WGMMA_WIDTH(96, YOTTA_N48, "48", "49", "50", "51", "52", "53", "54", YOTTA_D32(0),
                  YOTTA_D16(32))
YOTTA_WGMMA_WIDTH(128, YOTTA_N64, "64", "65", "66", "67", "68", "69", "70", YOTTA_D64(0))
YOTTA_WGMMA_WIDTH(192, YOTTA_N96, "96", "97", "98", "99", "100", "101", "102", YOTTA_D64(0),
                  YOTTA_D32(64))
YOTTA_WGMMA_WIDTH(256, YOTTA_N128, "128", "129", "130", "131", "132", "133", "134", YOTTA_D64(0),
                  YOTTA_D64(64))
#undef YOTTA_WGMMA_WIDTH
#undef YOTTA_WGMMA_RS
#undef YOTTA_WGMMA_SS
#undef YOTTA_D4
#undef YOTTA_D8
#undef YOTTA_D16
#undef YOTTA_D32
#undef YOTTA_D64
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
__device__ __forceinline__ void wgmma(float (&d)[n / 2], uint64_t a, uint64_t b,
                                      bool accumulate = true) {
  static_assert(is_wgmma_width<n>);
  wgmma_of<Input, static_cast<int>(a_major), static_cast<int>(b_major)>(d, a, b, accumulate);
}
template <int n, class Input, Major b_major = Major::k>
__device__ __forceinline__ void wgmma(float (&d)[n / 2], const uint32_t (&a)[4], uint64_t b,
                                      bool accumulate = true) {
  static_assert(is_wgmma_width<n>);
  wgmma_of<Input, static_cast<int>(b_major)>(d, a, b, accumulate);
}

#else

namespace emulator {

// What a lane brings to one wgmma.
struct WgmmaLane {
  int n = 0;
  bool f16 = false;  // else bf16
  Major a_major = Major::k, b_major = Major::k;
  float* d = nullptr;
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
void wgmma(float (&d)[n / 2], uint64_t a, uint64_t b, bool accumulate = true,
           Where where = Where::current()) {
  static_assert(is_wgmma_width<n>);
  constexpr bool f16 = std::is_same_v<Input, float16>;
  emulator::start_wgmma({n, f16, a_major, b_major, d, nullptr, a, b, accumulate}, where);
}
template <int n, class Input, Major b_major = Major::k>
void wgmma(float (&d)[n / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate = true,
           Where where = Where::current()) {
  static_assert(is_wgmma_width<n>);
  constexpr bool f16 = std::is_same_v<Input, float16>;
  emulator::start_wgmma({n, f16, Major::k, b_major, d, a, 0, b, accumulate}, where);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/wgmma.ipp"
#endif
