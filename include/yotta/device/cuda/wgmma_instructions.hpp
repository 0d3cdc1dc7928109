// The PTX of wgmma.hpp: for each width n one function of all types of input, since an instruction
// names each of its registers. Included for nvcc alone.
//
//     wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
//         {%0, ..., %7}, %8, %9, p, 1, 1, 0, 0;         D, A, B, whether it adds, signs, orders
//
// Reference: PTX ISA, "wgmma.mma_async".
#pragma once

#if defined(__CUDACC__)

#include <cstdint>
#include <type_traits>

#include "yotta/core/dtype.hpp"
#include "yotta/device/mbarrier.hpp"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define YOTTA_SM90A(...) __trap()
#else
#define YOTTA_SM90A(...) asm volatile(__VA_ARGS__)
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// YOTTA_R8(each): each(1) ... each(7), the registers of D but the first, as operands or as their
// places in the instruction.
#define YOTTA_R2(each) each(1)
#define YOTTA_R4(each) YOTTA_R2(each) each(2) each(3)
#define YOTTA_R6(each) YOTTA_R4(each) each(4) each(5)
#define YOTTA_R8(each) YOTTA_R6(each) each(6) each(7)
#define YOTTA_R10(each) YOTTA_R8(each) each(8) each(9)
#define YOTTA_R12(each) YOTTA_R10(each) each(10) each(11)
#define YOTTA_R14(each) YOTTA_R12(each) each(12) each(13)
#define YOTTA_R16(each) YOTTA_R14(each) each(14) each(15)
#define YOTTA_R18(each) YOTTA_R16(each) each(16) each(17)
#define YOTTA_R20(each) YOTTA_R18(each) each(18) each(19)
#define YOTTA_R22(each) YOTTA_R20(each) each(20) each(21)
#define YOTTA_R24(each) YOTTA_R22(each) each(22) each(23)
#define YOTTA_R26(each) YOTTA_R24(each) each(24) each(25)
#define YOTTA_R28(each) YOTTA_R26(each) each(26) each(27)
#define YOTTA_R30(each) YOTTA_R28(each) each(28) each(29)
#define YOTTA_R32(each) YOTTA_R30(each) each(30) each(31)
#define YOTTA_R34(each) YOTTA_R32(each) each(32) each(33)
#define YOTTA_R36(each) YOTTA_R34(each) each(34) each(35)
#define YOTTA_R38(each) YOTTA_R36(each) each(36) each(37)
#define YOTTA_R40(each) YOTTA_R38(each) each(38) each(39)
#define YOTTA_R42(each) YOTTA_R40(each) each(40) each(41)
#define YOTTA_R44(each) YOTTA_R42(each) each(42) each(43)
#define YOTTA_R46(each) YOTTA_R44(each) each(44) each(45)
#define YOTTA_R48(each) YOTTA_R46(each) each(46) each(47)
#define YOTTA_R50(each) YOTTA_R48(each) each(48) each(49)
#define YOTTA_R52(each) YOTTA_R50(each) each(50) each(51)
#define YOTTA_R54(each) YOTTA_R52(each) each(52) each(53)
#define YOTTA_R56(each) YOTTA_R54(each) each(54) each(55)
#define YOTTA_R58(each) YOTTA_R56(each) each(56) each(57)
#define YOTTA_R60(each) YOTTA_R58(each) each(58) each(59)
#define YOTTA_R62(each) YOTTA_R60(each) each(60) each(61)
#define YOTTA_R64(each) YOTTA_R62(each) each(62) each(63)
#define YOTTA_R68(each) YOTTA_R64(each) each(64) each(65) each(66) each(67)
#define YOTTA_R72(each) YOTTA_R68(each) each(68) each(69) each(70) each(71)
#define YOTTA_R76(each) YOTTA_R72(each) each(72) each(73) each(74) each(75)
#define YOTTA_R80(each) YOTTA_R76(each) each(76) each(77) each(78) each(79)
#define YOTTA_R84(each) YOTTA_R80(each) each(80) each(81) each(82) each(83)
#define YOTTA_R88(each) YOTTA_R84(each) each(84) each(85) each(86) each(87)
#define YOTTA_R92(each) YOTTA_R88(each) each(88) each(89) each(90) each(91)
#define YOTTA_R96(each) YOTTA_R92(each) each(92) each(93) each(94) each(95)
#define YOTTA_R100(each) YOTTA_R96(each) each(96) each(97) each(98) each(99)
#define YOTTA_R104(each) YOTTA_R100(each) each(100) each(101) each(102) each(103)
#define YOTTA_R108(each) YOTTA_R104(each) each(104) each(105) each(106) each(107)
#define YOTTA_R112(each) YOTTA_R108(each) each(108) each(109) each(110) each(111)
#define YOTTA_R116(each) YOTTA_R112(each) each(112) each(113) each(114) each(115)
#define YOTTA_R120(each) YOTTA_R116(each) each(116) each(117) each(118) each(119)
#define YOTTA_R124(each) YOTTA_R120(each) each(120) each(121) each(122) each(123)
#define YOTTA_R128(each) YOTTA_R124(each) each(124) each(125) each(126) each(127)
#define YOTTA_PLACE(i) ",%" #i
#define YOTTA_FLOAT(i) , "+f"(d[i])
#define YOTTA_WORD(i) , "+r"(d[i])

// One instruction: A by a descriptor (operands o0 to o4 after those of D), or in registers (o0 to
// o6). `name` is its shape and types in PTX, `end` what follows the predicate.
#define YOTTA_WGMMA_SS(name, end, R, constraint, each, o0, o1, o2)                             \
  YOTTA_SM90A("{ .reg .pred p; setp.ne.b32 p, %" #o2 ", 0; wgmma.mma_async.sync.aligned." name \
              " {%0" R(YOTTA_PLACE) "}, %" #o0 ", %" #o1 ", p" end "; }"                       \
              : constraint(d[0]) R(each)                                                       \
              : "l"(a), "l"(b), "r"(add), "n"(a_by_mn), "n"(b_by_mn)                           \
              : "memory")
#define YOTTA_WGMMA_RS(name, end, R, constraint, each, o0, o1, o2, o3, o4, o5)                     \
  YOTTA_SM90A("{ .reg .pred p; setp.ne.b32 p, %" #o5 ", 0; wgmma.mma_async.sync.aligned." name     \
              " {%0" R(YOTTA_PLACE) "}, {%" #o0 ", %" #o1 ", %" #o2 ", %" #o3 "}, %" #o4 ", p" end \
                                    "; }"                                                          \
              : constraint(d[0]) R(each)                                                           \
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(b_by_mn)         \
              : "memory")

// All types of input that have one type of sums. `way` is SS or RS, `orders` the orders of 16-bit
// numbers, and then come the places of the operands.
#define YOTTA_WGMMA_FLOATS(way, n, orders, R, ...)                                          \
  if constexpr (std::is_same_v<Input, bfloat16>)                                            \
    way("m64n" #n "k16.f32.bf16.bf16", ", 1, 1" orders, R, "+f", YOTTA_FLOAT, __VA_ARGS__); \
  else if constexpr (std::is_same_v<Input, float16>)                                        \
    way("m64n" #n "k16.f32.f16.f16", ", 1, 1" orders, R, "+f", YOTTA_FLOAT, __VA_ARGS__);   \
  else if constexpr (std::is_same_v<Input, float>)                                          \
    way("m64n" #n "k8.f32.tf32.tf32", ", 1, 1", R, "+f", YOTTA_FLOAT, __VA_ARGS__);         \
  else if constexpr (std::is_same_v<Input, float8_e4m3>)                                    \
    way("m64n" #n "k32.f32.e4m3.e4m3", ", 1, 1", R, "+f", YOTTA_FLOAT, __VA_ARGS__);        \
  else                                                                                      \
    way("m64n" #n "k32.f32.e5m2.e5m2", ", 1, 1", R, "+f", YOTTA_FLOAT, __VA_ARGS__);
#define YOTTA_WGMMA_INTEGERS(way, n, R, ...)                              \
  if constexpr (std::is_same_v<Input, int8_t>)                            \
    way("m64n" #n "k32.s32.s8.s8", "", R, "+r", YOTTA_WORD, __VA_ARGS__); \
  else                                                                    \
    way("m64n" #n "k32.s32.u8.u8", "", R, "+r", YOTTA_WORD, __VA_ARGS__);
#define YOTTA_WGMMA_HALVES(way, n, orders, R, ...)                                       \
  if constexpr (std::is_same_v<Input, float16>)                                          \
    way("m64n" #n "k16.f16.f16.f16", ", 1, 1" orders, R, "+r", YOTTA_WORD, __VA_ARGS__); \
  else if constexpr (std::is_same_v<Input, float8_e4m3>)                                 \
    way("m64n" #n "k32.f16.e4m3.e4m3", ", 1, 1", R, "+r", YOTTA_WORD, __VA_ARGS__);      \
  else                                                                                   \
    way("m64n" #n "k32.f16.e5m2.e5m2", ", 1, 1", R, "+r", YOTTA_WORD, __VA_ARGS__);

// The functions of one width, with A by its descriptor and with A in registers; the first register
// of D is 0, and the operands that follow are o0 to o6.
#define YOTTA_WGMMA_SUMS(Sum, registers, by_descriptor, by_registers)                             \
  template <class Input, int a_by_mn, int b_by_mn>                                                \
  __device__ __forceinline__ void wgmma_of(Sum(&d)[registers], uint64_t a, uint64_t b, int add) { \
    by_descriptor                                                                                 \
  }                                                                                               \
  template <class Input, int b_by_mn>                                                             \
  __device__ __forceinline__ void wgmma_of(Sum(&d)[registers], const uint32_t(&a)[4], uint64_t b, \
                                           int add) {                                             \
    by_registers                                                                                  \
  }
#define YOTTA_WGMMA_FLOAT_SUMS(n, R, o0, o1, o2, o3, o4, o5, o6)                              \
  YOTTA_WGMMA_SUMS(float, n / 2,                                                              \
                   YOTTA_WGMMA_FLOATS(YOTTA_WGMMA_SS, n, ", %" #o3 ", %" #o4, R, o0, o1, o2), \
                   YOTTA_WGMMA_FLOATS(YOTTA_WGMMA_RS, n, ", %" #o6, R, o0, o1, o2, o3, o4, o5))
#define YOTTA_WGMMA_INTEGER_SUMS(n, R, o0, o1, o2, o3, o4, o5, o6)                         \
  YOTTA_WGMMA_SUMS(int32_t, n / 2, YOTTA_WGMMA_INTEGERS(YOTTA_WGMMA_SS, n, R, o0, o1, o2), \
                   YOTTA_WGMMA_INTEGERS(YOTTA_WGMMA_RS, n, R, o0, o1, o2, o3, o4, o5))
#define YOTTA_WGMMA_HALF_SUMS(n, R, o0, o1, o2, o3, o4, o5, o6)                               \
  YOTTA_WGMMA_SUMS(uint32_t, n / 4,                                                           \
                   YOTTA_WGMMA_HALVES(YOTTA_WGMMA_SS, n, ", %" #o3 ", %" #o4, R, o0, o1, o2), \
                   YOTTA_WGMMA_HALVES(YOTTA_WGMMA_RS, n, ", %" #o6, R, o0, o1, o2, o3, o4, o5))
YOTTA_WGMMA_FLOAT_SUMS(8, YOTTA_R4, 4, 5, 6, 7, 8, 9, 10)
YOTTA_WGMMA_FLOAT_SUMS(16, YOTTA_R8, 8, 9, 10, 11, 12, 13, 14)
YOTTA_WGMMA_FLOAT_SUMS(24, YOTTA_R12, 12, 13, 14, 15, 16, 17, 18)
YOTTA_WGMMA_FLOAT_SUMS(32, YOTTA_R16, 16, 17, 18, 19, 20, 21, 22)
YOTTA_WGMMA_FLOAT_SUMS(40, YOTTA_R20, 20, 21, 22, 23, 24, 25, 26)
YOTTA_WGMMA_FLOAT_SUMS(48, YOTTA_R24, 24, 25, 26, 27, 28, 29, 30)
YOTTA_WGMMA_FLOAT_SUMS(56, YOTTA_R28, 28, 29, 30, 31, 32, 33, 34)
YOTTA_WGMMA_FLOAT_SUMS(64, YOTTA_R32, 32, 33, 34, 35, 36, 37, 38)
YOTTA_WGMMA_FLOAT_SUMS(72, YOTTA_R36, 36, 37, 38, 39, 40, 41, 42)
YOTTA_WGMMA_FLOAT_SUMS(80, YOTTA_R40, 40, 41, 42, 43, 44, 45, 46)
YOTTA_WGMMA_FLOAT_SUMS(88, YOTTA_R44, 44, 45, 46, 47, 48, 49, 50)
YOTTA_WGMMA_FLOAT_SUMS(96, YOTTA_R48, 48, 49, 50, 51, 52, 53, 54)
YOTTA_WGMMA_FLOAT_SUMS(104, YOTTA_R52, 52, 53, 54, 55, 56, 57, 58)
YOTTA_WGMMA_FLOAT_SUMS(112, YOTTA_R56, 56, 57, 58, 59, 60, 61, 62)
YOTTA_WGMMA_FLOAT_SUMS(120, YOTTA_R60, 60, 61, 62, 63, 64, 65, 66)
YOTTA_WGMMA_FLOAT_SUMS(128, YOTTA_R64, 64, 65, 66, 67, 68, 69, 70)
YOTTA_WGMMA_FLOAT_SUMS(136, YOTTA_R68, 68, 69, 70, 71, 72, 73, 74)
YOTTA_WGMMA_FLOAT_SUMS(144, YOTTA_R72, 72, 73, 74, 75, 76, 77, 78)
YOTTA_WGMMA_FLOAT_SUMS(152, YOTTA_R76, 76, 77, 78, 79, 80, 81, 82)
YOTTA_WGMMA_FLOAT_SUMS(160, YOTTA_R80, 80, 81, 82, 83, 84, 85, 86)
YOTTA_WGMMA_FLOAT_SUMS(168, YOTTA_R84, 84, 85, 86, 87, 88, 89, 90)
YOTTA_WGMMA_FLOAT_SUMS(176, YOTTA_R88, 88, 89, 90, 91, 92, 93, 94)
YOTTA_WGMMA_FLOAT_SUMS(184, YOTTA_R92, 92, 93, 94, 95, 96, 97, 98)
YOTTA_WGMMA_FLOAT_SUMS(192, YOTTA_R96, 96, 97, 98, 99, 100, 101, 102)
YOTTA_WGMMA_FLOAT_SUMS(200, YOTTA_R100, 100, 101, 102, 103, 104, 105, 106)
YOTTA_WGMMA_FLOAT_SUMS(208, YOTTA_R104, 104, 105, 106, 107, 108, 109, 110)
YOTTA_WGMMA_FLOAT_SUMS(216, YOTTA_R108, 108, 109, 110, 111, 112, 113, 114)
YOTTA_WGMMA_FLOAT_SUMS(224, YOTTA_R112, 112, 113, 114, 115, 116, 117, 118)
YOTTA_WGMMA_FLOAT_SUMS(232, YOTTA_R116, 116, 117, 118, 119, 120, 121, 122)
YOTTA_WGMMA_FLOAT_SUMS(240, YOTTA_R120, 120, 121, 122, 123, 124, 125, 126)
YOTTA_WGMMA_FLOAT_SUMS(248, YOTTA_R124, 124, 125, 126, 127, 128, 129, 130)
YOTTA_WGMMA_FLOAT_SUMS(256, YOTTA_R128, 128, 129, 130, 131, 132, 133, 134)

YOTTA_WGMMA_INTEGER_SUMS(8, YOTTA_R4, 4, 5, 6, 7, 8, 9, 10)
YOTTA_WGMMA_INTEGER_SUMS(16, YOTTA_R8, 8, 9, 10, 11, 12, 13, 14)
YOTTA_WGMMA_INTEGER_SUMS(24, YOTTA_R12, 12, 13, 14, 15, 16, 17, 18)
YOTTA_WGMMA_INTEGER_SUMS(32, YOTTA_R16, 16, 17, 18, 19, 20, 21, 22)
YOTTA_WGMMA_INTEGER_SUMS(48, YOTTA_R24, 24, 25, 26, 27, 28, 29, 30)
YOTTA_WGMMA_INTEGER_SUMS(64, YOTTA_R32, 32, 33, 34, 35, 36, 37, 38)
YOTTA_WGMMA_INTEGER_SUMS(80, YOTTA_R40, 40, 41, 42, 43, 44, 45, 46)
YOTTA_WGMMA_INTEGER_SUMS(96, YOTTA_R48, 48, 49, 50, 51, 52, 53, 54)
YOTTA_WGMMA_INTEGER_SUMS(112, YOTTA_R56, 56, 57, 58, 59, 60, 61, 62)
YOTTA_WGMMA_INTEGER_SUMS(128, YOTTA_R64, 64, 65, 66, 67, 68, 69, 70)
YOTTA_WGMMA_INTEGER_SUMS(144, YOTTA_R72, 72, 73, 74, 75, 76, 77, 78)
YOTTA_WGMMA_INTEGER_SUMS(160, YOTTA_R80, 80, 81, 82, 83, 84, 85, 86)
YOTTA_WGMMA_INTEGER_SUMS(176, YOTTA_R88, 88, 89, 90, 91, 92, 93, 94)
YOTTA_WGMMA_INTEGER_SUMS(192, YOTTA_R96, 96, 97, 98, 99, 100, 101, 102)
YOTTA_WGMMA_INTEGER_SUMS(208, YOTTA_R104, 104, 105, 106, 107, 108, 109, 110)
YOTTA_WGMMA_INTEGER_SUMS(224, YOTTA_R112, 112, 113, 114, 115, 116, 117, 118)
YOTTA_WGMMA_INTEGER_SUMS(240, YOTTA_R120, 120, 121, 122, 123, 124, 125, 126)
YOTTA_WGMMA_INTEGER_SUMS(256, YOTTA_R128, 128, 129, 130, 131, 132, 133, 134)

YOTTA_WGMMA_HALF_SUMS(8, YOTTA_R2, 2, 3, 4, 5, 6, 7, 8)
YOTTA_WGMMA_HALF_SUMS(16, YOTTA_R4, 4, 5, 6, 7, 8, 9, 10)
YOTTA_WGMMA_HALF_SUMS(24, YOTTA_R6, 6, 7, 8, 9, 10, 11, 12)
YOTTA_WGMMA_HALF_SUMS(32, YOTTA_R8, 8, 9, 10, 11, 12, 13, 14)
YOTTA_WGMMA_HALF_SUMS(40, YOTTA_R10, 10, 11, 12, 13, 14, 15, 16)
YOTTA_WGMMA_HALF_SUMS(48, YOTTA_R12, 12, 13, 14, 15, 16, 17, 18)
YOTTA_WGMMA_HALF_SUMS(56, YOTTA_R14, 14, 15, 16, 17, 18, 19, 20)
YOTTA_WGMMA_HALF_SUMS(64, YOTTA_R16, 16, 17, 18, 19, 20, 21, 22)
YOTTA_WGMMA_HALF_SUMS(72, YOTTA_R18, 18, 19, 20, 21, 22, 23, 24)
YOTTA_WGMMA_HALF_SUMS(80, YOTTA_R20, 20, 21, 22, 23, 24, 25, 26)
YOTTA_WGMMA_HALF_SUMS(88, YOTTA_R22, 22, 23, 24, 25, 26, 27, 28)
YOTTA_WGMMA_HALF_SUMS(96, YOTTA_R24, 24, 25, 26, 27, 28, 29, 30)
YOTTA_WGMMA_HALF_SUMS(104, YOTTA_R26, 26, 27, 28, 29, 30, 31, 32)
YOTTA_WGMMA_HALF_SUMS(112, YOTTA_R28, 28, 29, 30, 31, 32, 33, 34)
YOTTA_WGMMA_HALF_SUMS(120, YOTTA_R30, 30, 31, 32, 33, 34, 35, 36)
YOTTA_WGMMA_HALF_SUMS(128, YOTTA_R32, 32, 33, 34, 35, 36, 37, 38)
YOTTA_WGMMA_HALF_SUMS(136, YOTTA_R34, 34, 35, 36, 37, 38, 39, 40)
YOTTA_WGMMA_HALF_SUMS(144, YOTTA_R36, 36, 37, 38, 39, 40, 41, 42)
YOTTA_WGMMA_HALF_SUMS(152, YOTTA_R38, 38, 39, 40, 41, 42, 43, 44)
YOTTA_WGMMA_HALF_SUMS(160, YOTTA_R40, 40, 41, 42, 43, 44, 45, 46)
YOTTA_WGMMA_HALF_SUMS(168, YOTTA_R42, 42, 43, 44, 45, 46, 47, 48)
YOTTA_WGMMA_HALF_SUMS(176, YOTTA_R44, 44, 45, 46, 47, 48, 49, 50)
YOTTA_WGMMA_HALF_SUMS(184, YOTTA_R46, 46, 47, 48, 49, 50, 51, 52)
YOTTA_WGMMA_HALF_SUMS(192, YOTTA_R48, 48, 49, 50, 51, 52, 53, 54)
YOTTA_WGMMA_HALF_SUMS(200, YOTTA_R50, 50, 51, 52, 53, 54, 55, 56)
YOTTA_WGMMA_HALF_SUMS(208, YOTTA_R52, 52, 53, 54, 55, 56, 57, 58)
YOTTA_WGMMA_HALF_SUMS(216, YOTTA_R54, 54, 55, 56, 57, 58, 59, 60)
YOTTA_WGMMA_HALF_SUMS(224, YOTTA_R56, 56, 57, 58, 59, 60, 61, 62)
YOTTA_WGMMA_HALF_SUMS(232, YOTTA_R58, 58, 59, 60, 61, 62, 63, 64)
YOTTA_WGMMA_HALF_SUMS(240, YOTTA_R60, 60, 61, 62, 63, 64, 65, 66)
YOTTA_WGMMA_HALF_SUMS(248, YOTTA_R62, 62, 63, 64, 65, 66, 67, 68)
YOTTA_WGMMA_HALF_SUMS(256, YOTTA_R64, 64, 65, 66, 67, 68, 69, 70)
#undef YOTTA_WGMMA_HALF_SUMS
#undef YOTTA_WGMMA_INTEGER_SUMS
#undef YOTTA_WGMMA_FLOAT_SUMS
#undef YOTTA_WGMMA_SUMS
#undef YOTTA_WGMMA_HALVES
#undef YOTTA_WGMMA_INTEGERS
#undef YOTTA_WGMMA_FLOATS
#undef YOTTA_WGMMA_RS
#undef YOTTA_WGMMA_SS
#undef YOTTA_WORD
#undef YOTTA_FLOAT
#undef YOTTA_PLACE
#undef YOTTA_R2
#undef YOTTA_R4
#undef YOTTA_R6
#undef YOTTA_R8
#undef YOTTA_R10
#undef YOTTA_R12
#undef YOTTA_R14
#undef YOTTA_R16
#undef YOTTA_R18
#undef YOTTA_R20
#undef YOTTA_R22
#undef YOTTA_R24
#undef YOTTA_R26
#undef YOTTA_R28
#undef YOTTA_R30
#undef YOTTA_R32
#undef YOTTA_R34
#undef YOTTA_R36
#undef YOTTA_R38
#undef YOTTA_R40
#undef YOTTA_R42
#undef YOTTA_R44
#undef YOTTA_R46
#undef YOTTA_R48
#undef YOTTA_R50
#undef YOTTA_R52
#undef YOTTA_R54
#undef YOTTA_R56
#undef YOTTA_R58
#undef YOTTA_R60
#undef YOTTA_R62
#undef YOTTA_R64
#undef YOTTA_R68
#undef YOTTA_R72
#undef YOTTA_R76
#undef YOTTA_R80
#undef YOTTA_R84
#undef YOTTA_R88
#undef YOTTA_R92
#undef YOTTA_R96
#undef YOTTA_R100
#undef YOTTA_R104
#undef YOTTA_R108
#undef YOTTA_R112
#undef YOTTA_R116
#undef YOTTA_R120
#undef YOTTA_R124
#undef YOTTA_R128

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#endif
