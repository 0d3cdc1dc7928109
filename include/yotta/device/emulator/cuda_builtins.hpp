// CUDA's words on the CPU: what nvcc knows by itself, declared for g++ and clang.
//
//     __global__ void scale(float* x, float factor) {
//       const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//       x[i] *= factor;
//     }
//
// __shared__ is thread_local: all threads of a block run on one OS thread, so they share it, and
// blocks on other OS threads have their own. As on a GPU, its contents are undefined when a block
// starts. (`extern __shared__` has no counterpart: dynamic_shared<T>() of kernel.hpp gives that
// memory in every build.)
//
// Instructions that the lanes of a warp execute together: shuffles, votes, __syncwarp(), and what
// is built on them (mma.sync, ldmatrix).
//
//     lane 0   __shfl_sync(mask, 10, 1) --+                          +--> 20
//     lane 1   __shfl_sync(mask, 20, 0) --+--> all have arrived: run +--> 10
//     ...                                 |    on their values       |
//     lane 31  ...                      --+                          +--> ...
//
// warp_rendezvous() is the one primitive: each lane brings a pointer to its operands and room for
// its result, the call is carried out once for all, and each lane goes on with its own result.
// Lanes that the mask does not name, and lanes that have returned, are null. Asking for the value
// of such a lane is an error here, and undefined on a GPU. A lane that calls with a mask that does
// not name itself is refused.
//
// Wrapped instructions. The compiler instruments a plain kernel's loads and stores
// (device_build.hpp). A function that stands for an instruction (mma.sync, ldmatrix, cp.async, an
// atomic) moves memory in the emulator's own code, which is not instrumented, so it reports what it
// does; in the unchecked build these reports do nothing:
//
//     ldmatrix  note_read_group(8 addresses of 16 bytes) x 4, by the lanes that gave the addresses
//     cp.async  note_copy_from(from), note_copy_begins(to), and when it is waited for
//               note_copy_ends(to)
//     mma.sync  count_instruction("mma.sync ..."), count_flops(2 m n k)
//
// Reference: CUDA C++ Programming Guide, "Warp Vote Functions", "Warp Shuffle Functions".
// nvcc has its own: for it, this file is empty.
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "yotta/device/emulator/task.hpp"

#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#if defined(__CLANG_REPL__)
#define __global__
#define __shared__ static thread_local
#define __constant__ static
#else
#define __constant__ static __attribute__((abi_tag("yotta_constant")))
#define __global__ __attribute__((abi_tag("yotta_kernel")))
#define __shared__ static thread_local __attribute__((abi_tag("yotta_shared") YOTTA_APART))
#endif
// Under checks no array ends where the next begins: each starts at a multiple of 64 KiB, and none
// is larger than 48.
#if defined(YOTTA_CHECKED)
#define YOTTA_APART , aligned(1 << 16)
#else
#define YOTTA_APART
#endif

#define threadIdx (::yotta::emulator::thread_index())
#define blockIdx (::yotta::emulator::block_index())
#define blockDim (::yotta::emulator::block_size())
#define gridDim (::yotta::emulator::grid_size())

inline constexpr int warpSize = 32;

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// These never change during a thread's life, so the compiler may ask once: hence const.
#if defined(YOTTA_CHECKED)
#define YOTTA_ASK_ONCE YOTTA_UNSEEN YOTTA_CALLED __attribute__((const))
#else
#define YOTTA_ASK_ONCE __attribute__((const))
#endif
// Null on the host.
YOTTA_ASK_ONCE const uint3* thread_index_here() noexcept;
YOTTA_ASK_ONCE const uint3* block_index_here() noexcept;
YOTTA_ASK_ONCE const dim3* block_size_here() noexcept;
YOTTA_ASK_ONCE const dim3* grid_size_here() noexcept;
YOTTA_ASK_ONCE const int* lane_index_here() noexcept;

#define YOTTA_LANES_OWN(name, T, word)                                                  \
  __attribute__((always_inline)) inline const T& name(Where where = Where::current()) { \
    const T* const here = name##_here();                                                \
    if (here == nullptr) refuse_on_host(word, where);                                   \
    return *here;                                                                       \
  }
YOTTA_LANES_OWN(thread_index, uint3, "threadIdx")
YOTTA_LANES_OWN(block_index, uint3, "blockIdx")
YOTTA_LANES_OWN(block_size, dim3, "blockDim")
YOTTA_LANES_OWN(grid_size, dim3, "gridDim")
YOTTA_LANES_OWN(lane_index, int, "the number of a lane")  // in its warp
#undef YOTTA_LANES_OWN
std::byte* dynamic_shared_memory(Where where);
// Waits for all threads of a cooperative launch.
void grid_sync(Where where);

// ---- Instructions of a warp ----
using Lanes = void* const (&)[32];

// Throws an error of the lane that runs.
[[noreturn]] void refuse(Where where, const std::string& why);

// All lanes of `mask` meet; run(the 32 pointers) is called once. Then all go on.
void warp_rendezvous(const char* name, uint32_t mask, void* mine, void (*run)(Lanes), Where where);

// Checks that all 32 lanes have arrived at an instruction of the whole warp, and counts it.
void begin_whole_warp(const char* name, int present, Where where);

// The value (as bits) that lane `source` brought.
uint64_t shuffle_bits(const char* name, uint32_t mask, uint64_t bits, int source, Where where);
template <class T>
YOTTA_UNSEEN T shuffle(const char* name, uint32_t mask, T value, int source, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "shuffles move up to 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = shuffle_bits(name, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The lane that a shuffle reads from: groups of `width` lanes (a power of two) shuffle among
// themselves, and a lane that asks beyond the group's end gets its own value.
constexpr int source_in_group(int lane, int source, int width) {
  const int group = lane / width * width;
  return source < group || source >= group + width ? lane : source;
}

// All lanes' predicates as a mask.
uint32_t ballot(const char* name, uint32_t mask, bool predicate, Where where);

// ---- Reports of wrapped instructions ----
enum class AtomicKind : uint8_t { reads, writes, changes };

#if defined(YOTTA_CHECKED)

// The lane that runs reads, writes or changes `bytes` of shared or global memory in one access.
void note_read(const void* from, size_t bytes, Where where);
void note_write(const void* to, size_t bytes, Where where);
void note_atomic(const void* at, size_t bytes, Where where, AtomicKind kind = AtomicKind::changes);
void note_atomic(const void* at, size_t bytes, const void* return_address,
                 AtomicKind kind = AtomicKind::changes);
// One phase of an instruction of the whole warp, from its run(): lane lanes[i] reads `bytes` at
// addresses[i] of shared memory. Counted as one request.
void note_read_group(const void* const* addresses, const int* lanes, int count, size_t bytes,
                     Where where);
// Global memory that a cp.async of this lane reads: `bytes` of it, at a multiple of `whole`.
void note_copy_from(const void* from, size_t bytes, size_t whole, Where where);
// It is not what it was when the copy of this line began.
void note_copy_changed(const void* from, size_t bytes, Where where);
// Shared memory that a cp.async of this lane will fill: nobody may read or write it before the copy
// ends.
void note_copy_begins(void* to, size_t bytes, Where where);
void note_copy_ends(void* to, size_t bytes, Where where);
// One instruction of the warp, by name; floating-point operations of a line.
void count_instruction(const char* name, Where where);
void count_flops(int64_t flops, Where where);

#else

inline void note_read(const void*, size_t, Where) {}
inline void note_write(const void*, size_t, Where) {}
template <class Place>
void note_atomic(const void*, size_t, Place, AtomicKind = AtomicKind::changes) {}
inline void note_read_group(const void* const*, const int*, int, size_t, Where) {}
inline void note_copy_from(const void*, size_t, size_t, Where) {}
inline void note_copy_begins(void*, size_t, Where) {}
inline void note_copy_ends(void*, size_t, Where) {}
inline void count_instruction(const char*, Where) {}
inline void count_flops(int64_t, Where) {}

#endif

}  // namespace emulator

// An instruction of a whole warp, mma.sync or ldmatrix: all 32 lanes bring their operands (pointers
// to registers, addresses), and run() is called once, on all of them. This is the .aligned of
// mma.sync.aligned: a warp of which a lane has returned, or a block that is not a multiple of 32
// threads, is refused.
template <class Operands>
YOTTA_UNSEEN void whole_warp(const char* name, const Operands& operands,
                             void (*run)(const Operands (&lanes)[32], Where where), Where where) {
  struct Call {
    const Operands& operands;
    void (*run)(const Operands (&lanes)[32], Where where);
    const char* name;
    Where where;
  } mine{operands, run, name, where};
  emulator::warp_rendezvous(
      name, 0xffffffffu, &mine,
      [](emulator::Lanes lanes) YOTTA_UNSEEN {
        Operands all[32];
        const Call* call = nullptr;
        int present = 0;
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          call = static_cast<const Call*>(lanes[i]);
          all[i] = call->operands;
          ++present;
        }
        emulator::begin_whole_warp(call->name, present, call->where);
        call->run(all, call->where);
      },
      where);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

// The barrier of a block.
void __syncthreads(yotta::Where where = yotta::Where::current());
// The same, and tells every thread how many brought a predicate that is not zero, whether all did,
// whether any did.
int __syncthreads_count(int predicate, yotta::Where where = yotta::Where::current());
int __syncthreads_and(int predicate, yotta::Where where = yotta::Where::current());
int __syncthreads_or(int predicate, yotta::Where where = yotta::Where::current());

// Others see what this thread wrote before it no later than what it writes afterwards; here all see
// everything at once, and the checks ask for it (releases.hpp).
void __threadfence(yotta::Where where = yotta::Where::current());
void __threadfence_block(yotta::Where where = yotta::Where::current());
inline void __threadfence_system(yotta::Where where = yotta::Where::current()) {
  __threadfence(where);
}

// The lanes of the mask wait for each other, and see what the others wrote before.
void __syncwarp(unsigned mask = 0xffffffffu, yotta::Where where = yotta::Where::current());

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              yotta::Where where = yotta::Where::current()) {
  const int lane = yotta::emulator::lane_index(where);
  return yotta::emulator::shuffle("__shfl_sync()", mask, value,
                                  lane / width * width + (source & (width - 1)), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 yotta::Where where = yotta::Where::current()) {
  const int lane = yotta::emulator::lane_index(where);
  const int source = yotta::emulator::source_in_group(lane, lane - static_cast<int>(delta), width);
  return yotta::emulator::shuffle("__shfl_up_sync()", mask, value, source, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   yotta::Where where = yotta::Where::current()) {
  const int lane = yotta::emulator::lane_index(where);
  const int source = yotta::emulator::source_in_group(lane, lane + static_cast<int>(delta), width);
  return yotta::emulator::shuffle("__shfl_down_sync()", mask, value, source, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  yotta::Where where = yotta::Where::current()) {
  const int lane = yotta::emulator::lane_index(where);
  // The guide allows reads from groups below its own, not from groups above.
  const int wanted = lane ^ lane_mask;
  const int source = wanted >= lane / width * width + width ? lane : wanted;
  return yotta::emulator::shuffle("__shfl_xor_sync()", mask, value, source, where);
}

unsigned __ballot_sync(unsigned mask, int predicate, yotta::Where where = yotta::Where::current());
int __any_sync(unsigned mask, int predicate, yotta::Where where = yotta::Where::current());
// True if the predicate of every lane that takes part is not zero.
int __all_sync(unsigned mask, int predicate, yotta::Where where = yotta::Where::current());

}  // namespace YOTTA_DEVICE_BUILD

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/cuda_builtins.ipp"
#endif
#endif
