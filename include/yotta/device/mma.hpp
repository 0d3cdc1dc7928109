// The tensor core's instructions, one function each: PTX on a GPU, the exact lane maps on the CPU.
//
//     mma_m16n8k16_bf16(d, a, b, c)       d = a b + c, for the whole warp; d may be c
//
//     function               A          B         C, D            lane's registers a, b, c
//     mma_m16n8k16_f16,_bf16  (16, 16)   (16, 8)   (16, 8) f32     4, 2, 4
//     mma_m16n8k8_f16, _bf16  (16, 8)    (8, 8)    (16, 8) f32     2, 1, 4
//     mma_m16n8k8_tf32        (16, 8)    (8, 8)    (16, 8) f32     4, 2, 4
//     mma_m16n8k4_tf32        (16, 4)    (4, 8)    (16, 8) f32     2, 1, 4
//     mma_m16n8k32_s8         (16, 32)   (32, 8)   (16, 8) s32     4, 2, 4
//     mma_m16n8k32_e4m3,_e5m2 (16, 32)   (32, 8)   (16, 8) f32     4, 2, 4   compute capability 8.9
//     mma_m8n8k4_f64          (8, 4)     (4, 8)    (8, 8) f64      1, 1, 2
//     mma_m8n8k4_f16          (8, 4)     (4, 8)    (8, 8) f32, four of each: Volta's   2, 2, 8
//
// a and b are packed, 32 bits per register, the first element in the lowest bits; which element
// lies where: mma_fragments.hpp. Rounding: emulator/mma_arithmetic.hpp.
// Contract: all 32 lanes of the warp call it together (.sync.aligned): never in a branch that some
// lanes miss.
//
// Kernels read a matrix as Bf16Matrix, which is zero outside, and put two bf16 into a register with
// packed():
//
//     Bf16Matrix a = {pointer, m, k};
//     a0 = packed(a.bits(row, column), a.bits(row, column + 1));
//
// With zeros outside, a kernel needs no special cases at the edges: a tile that hangs over the
// matrix multiplies zeros, and only stores need a guard. Bits, not numbers: a kernel moves bf16 and
// leaves arithmetic to mma.
// References: PTX ISA, "Multiply-and-Accumulate Instruction: mma".
#pragma once

#include <bit>
#include <cstdint>

#include "yotta/core/dtype.hpp"
#include "yotta/device/kernel.hpp"

#if !defined(__CUDACC__)
#include "yotta/device/emulator/cuda_builtins.hpp"
#include "yotta/device/emulator/mma_arithmetic.hpp"
#endif

// Before a loop over registers: an array whose index nvcc does not know at compile time would lie
// in memory. YOTTA_UNROLL_BY(n): n rounds at a time, where all of them would take too many
// registers.
#if defined(__CUDACC__)
#define YOTTA_PRAGMA(words) _Pragma(#words)
#define YOTTA_UNROLL YOTTA_PRAGMA(unroll)
#define YOTTA_UNROLL_BY(n) YOTTA_PRAGMA(unroll n)
#else
#define YOTTA_UNROLL
#define YOTTA_UNROLL_BY(n)
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

// The macros generate functions that differ only in the name of the PTX instruction. Constraint "f"
// is a float register, "r" 32 bits, "d" a double. volatile: all lanes take part, so nvcc may move
// none of them into a branch that some lanes miss.

// a in four registers, b in two, c and d in four of type Sum.
#define YOTTA_MMA_4_2(function, Sum, constraint, ptx)                                            \
  __device__ __forceinline__ void function(Sum(&d)[4], const uint32_t(&a)[4],                    \
                                           const uint32_t(&b)[2], const Sum(&c)[4]) {            \
    asm volatile(                                                                                \
        "mma.sync.aligned." ptx " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"     \
        : "=" constraint(d[0]), "=" constraint(d[1]), "=" constraint(d[2]), "=" constraint(d[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), constraint(c[0]),    \
          constraint(c[1]), constraint(c[2]), constraint(c[3]));                                 \
  }

// Half of that: a in two registers, b in one.
#define YOTTA_MMA_2_1(function, ptx)                                                             \
  __device__ __forceinline__ void function(float(&d)[4], const uint32_t(&a)[2],                  \
                                           const uint32_t(&b)[1], const float(&c)[4]) {          \
    asm volatile("mma.sync.aligned." ptx " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"        \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])); \
  }

YOTTA_MMA_4_2(mma_m16n8k16_f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
YOTTA_MMA_4_2(mma_m16n8k16_bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
YOTTA_MMA_4_2(mma_m16n8k8_tf32, float, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
YOTTA_MMA_4_2(mma_m16n8k32_s8, int32_t, "r", "m16n8k32.row.col.s32.s8.s8.s32")
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
YOTTA_MMA_4_2(mma_m16n8k32_e4m3, float, "f", "m16n8k32.row.col.f32.e4m3.e4m3.f32")
YOTTA_MMA_4_2(mma_m16n8k32_e5m2, float, "f", "m16n8k32.row.col.f32.e5m2.e5m2.f32")
#endif
YOTTA_MMA_2_1(mma_m16n8k8_f16, "m16n8k8.row.col.f32.f16.f16.f32")
YOTTA_MMA_2_1(mma_m16n8k8_bf16, "m16n8k8.row.col.f32.bf16.bf16.f32")
YOTTA_MMA_2_1(mma_m16n8k4_tf32, "m16n8k4.row.col.f32.tf32.tf32.f32")

#undef YOTTA_MMA_4_2
#undef YOTTA_MMA_2_1

__device__ __forceinline__ void mma_m8n8k4_f64(double (&d)[2], const double (&a)[1],
                                               const double (&b)[1], const double (&c)[2]) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};"
               : "=d"(d[0]), "=d"(d[1])
               : "d"(a[0]), "d"(b[0]), "d"(c[0]), "d"(c[1]));
}

// Volta's, four products at once. Newer chips run it, slowly.
__device__ __forceinline__ void mma_m8n8k4_f16(float (&d)[8], const uint32_t (&a)[2],
                                               const uint32_t (&b)[2], const float (&c)[8]) {
  asm volatile(
      "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%12,%13,%14,%15,%16,%17,%18,%19};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
        "=f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]),
        "f"(c[4]), "f"(c[5]), "f"(c[6]), "f"(c[7]));
}

#else

// YOTTA_FOR_EACH_MMA(do) names every instruction: do(function, shape, input, registers of a,
// registers of b).
#define YOTTA_FOR_EACH_MMA(do)                                                                    \
  do                                                                                              \
  (mma_m16n8k16_f16, M16N8K16, float16, 4, 2) do(mma_m16n8k16_bf16, M16N8K16, bfloat16, 4, 2) do( \
      mma_m16n8k8_f16, M16N8K8, float16, 2,                                                       \
      1) do(mma_m16n8k8_bf16, M16N8K8, bfloat16, 2,                                               \
            1) do(mma_m16n8k8_tf32, M16N8K8Tf32, Tf32, 4,                                         \
                  2) do(mma_m16n8k4_tf32, M16N8K4Tf32, Tf32, 2,                                   \
                        1) do(mma_m16n8k32_s8, M16N8K32, int8_t, 4,                               \
                              2) do(mma_m16n8k32_e4m3, M16N8K32, float8_e4m3, 4,                  \
                                    2) do(mma_m16n8k32_e5m2, M16N8K32, float8_e5m2, 4,            \
                                          2) do(mma_m8n8k4_f64, M8N8K4F64, double, 1,             \
                                                1) do(mma_m8n8k4_f16, M8N8K4Volta, float16, 2, 2)

#define YOTTA_MMA(function, Shape, Input, a_registers, b_registers)                              \
  void function(MmaSum<Input>(&d)[Shape::c_elements], const MmaRegister<Input>(&a)[a_registers], \
                const MmaRegister<Input>(&b)[b_registers],                                       \
                const MmaSum<Input>(&c)[Shape::c_elements], Where where = Where::current());
YOTTA_FOR_EACH_MMA(YOTTA_MMA)
#undef YOTTA_MMA

#endif

// ---- What kernels on tensor cores share ----

// A bf16 matrix in global memory, row-major, with zeros around it.
struct Bf16Matrix {
  const bfloat16* data;  // (rows, columns)
  int rows, columns;

  // The 16 bits of an element; outside the matrix zero, which adds nothing to a product.
  __device__ uint32_t bits(int row, int column) const {
    if (row >= rows || column >= columns) return 0;
    return data[static_cast<int64_t>(row) * columns + column].bits;
  }
};

// Two bf16 in one register, `first` in the low half.
__host__ __device__ inline uint32_t packed(uint32_t first, uint32_t second) {
  return first | second << 16;
}

// The same of two f32, which are rounded; on a GPU by one instruction.
__device__ inline uint32_t rounded_pair(float first, float second) {
#if defined(__CUDA_ARCH__)
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
#else
  return packed(bfloat16(first).bits, bfloat16(second).bits);
#endif
}

// The bits of an f32 rounded to the nearest tf32, ties away from zero. An mma cuts the last 13 bits
// off, so without this all numbers come nearer to zero.
__device__ inline uint32_t rounded_to_tf32(float x) {
#if defined(__CUDA_ARCH__)
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  if (x != x) return 0x7fffffffu;
  const auto bits = std::bit_cast<uint32_t>(x);
  const bool infinite = (bits & 0x7fffffffu) == 0x7f800000u;
  return infinite ? bits : (bits + 0x1000u) & 0xffffe000u;
#endif
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/mma.ipp"
#endif
