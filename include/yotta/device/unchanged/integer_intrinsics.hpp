// CUDA's functions of one thread for integers and bits, on the CPU: counting and moving bits, high
// words of products, the bits of a float as an integer and back, conversions with a rounding mode.
//
//     __popc(0b1011) == 3     __clz(1) == 31     __ffs(8) == 4 (0 for 0)     __brev(1) == 1u << 31
//     __float_as_int(1.0f) == 0x3f800000         __float2int_rd(-0.5f) == -1
//
// A float that does not fit an integer becomes the nearest integer that does; in C++ the result of
// such a cast is undefined. NaN becomes 0 if a float becomes an integer of 32 bits; else only the
// highest bit of the integer is set.
// Reference: CUDA Math API, "Integer Intrinsics", "Type Casting Intrinsics"; PTX ISA, "cvt".
#pragma once

#if !defined(__CUDACC__)

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "yotta/device/emulator/device_build.hpp"

inline namespace YOTTA_DEVICE_BUILD {

// ---- Bits ----
constexpr int __popc(unsigned x) { return std::popcount(x); }
constexpr int __popcll(unsigned long long x) { return std::popcount(x); }
constexpr int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
constexpr int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
// The lowest bit that is set, counted from 1; 0 if there is none.
constexpr int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
constexpr int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
constexpr unsigned long long __brevll(unsigned long long x) {
  unsigned long long reversed = 0;
  for (int i = 0; i < 64; ++i) reversed |= (x >> i & 1) << (63 - i);
  return reversed;
}
constexpr unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }
// Four of the eight bytes of y:x, one for each hexadecimal digit of the selector; a digit of 8 and
// more takes the sign of that byte eight times.
constexpr unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned digit = selector >> (4 * i) & 15;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (digit & 7))) & 0xff;
    if (digit >= 8) byte = byte >= 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
// The upper and the lower word of high:low, moved by up to 31 bits; ..._lc and ..._rc: up to 32.
constexpr unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << (bits & 31) >> 32);
}
constexpr unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (bits & 31));
}
constexpr unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned bits) {
  return bits >= 32 ? low : __funnelshift_l(low, high, bits);
}
constexpr unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned bits) {
  return bits >= 32 ? high : __funnelshift_r(low, high, bits);
}

// ---- Products and sums ----
constexpr int __mulhi(int a, int b) { return static_cast<int>(int64_t{a} * b >> 32); }
constexpr unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
__extension__ constexpr long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
__extension__ constexpr unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
// Of the lower 24 bits.
constexpr int __mul24(int a, int b) {
  const auto low = [](int x) {
    return int64_t{static_cast<int>(static_cast<unsigned>(x) << 8)} >> 8;
  };
  return static_cast<int>(low(a) * low(b));
}
constexpr unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
// Averages, rounded down and up; |a - b| + c.
constexpr int __hadd(int a, int b) { return static_cast<int>((int64_t{a} + b) >> 1); }
constexpr int __rhadd(int a, int b) { return static_cast<int>((int64_t{a} + b + 1) >> 1); }
constexpr unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b) >> 1);
}
constexpr unsigned __sad(int a, int b, unsigned c) {
  return static_cast<unsigned>(a < b ? int64_t{b} - a : int64_t{a} - b) + c;
}
constexpr unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return (a < b ? b - a : a - b) + c;
}
// c plus the products of four signed bytes.
constexpr int __dp4a(int a, int b, int c) {
  auto sum = static_cast<unsigned>(c);  // beyond 32 bits it begins anew
  for (int i = 0; i < 32; i += 8)
    sum += static_cast<unsigned>(static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i));
  return static_cast<int>(sum);
}
constexpr unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
  return c;
}

// ---- The same bits as another type ----
constexpr int __float_as_int(float x) { return std::bit_cast<int>(x); }
constexpr unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
constexpr float __int_as_float(int x) { return std::bit_cast<float>(x); }
constexpr float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
constexpr long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
constexpr double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
constexpr int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> 32);
}
constexpr int __double2loint(double x) { return static_cast<int>(std::bit_cast<uint64_t>(x)); }
constexpr double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(uint64_t{static_cast<unsigned>(high)} << 32 |
                               static_cast<unsigned>(low));
}

// ---- Conversions ----
}  // namespace YOTTA_DEVICE_BUILD
namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// The integer that a float is, or the nearest one that its type can hold.
template <class Integer, class Real>
Integer saturated(Real x) {
  constexpr auto least = std::numeric_limits<Integer>::min(),
                 most = std::numeric_limits<Integer>::max();
  if (std::isnan(x)) {
    if (sizeof(Real) < 8 && sizeof(Integer) < 8) return 0;
    return static_cast<Integer>(uint64_t{1} << (8 * sizeof(Integer) - 1));
  }
  if (x <= static_cast<Real>(least)) return least;
  return x >= static_cast<Real>(most) ? most : static_cast<Integer>(x);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
inline namespace YOTTA_DEVICE_BUILD {

// rn: to the nearest, ties to even; rz: towards zero; ru, rd: up and down.
#define YOTTA_TO_INTEGER(Real, name, Integer)                                                     \
  inline Integer name##_rn(Real x) {                                                              \
    return yotta::emulator::saturated<Integer>(std::nearbyint(x));                                \
  }                                                                                               \
  inline Integer name##_rz(Real x) { return yotta::emulator::saturated<Integer>(std::trunc(x)); } \
  inline Integer name##_ru(Real x) { return yotta::emulator::saturated<Integer>(std::ceil(x)); }  \
  inline Integer name##_rd(Real x) { return yotta::emulator::saturated<Integer>(std::floor(x)); }
YOTTA_TO_INTEGER(float, __float2int, int)
YOTTA_TO_INTEGER(float, __float2uint, unsigned)
YOTTA_TO_INTEGER(float, __float2ll, long long)
YOTTA_TO_INTEGER(float, __float2ull, unsigned long long)
YOTTA_TO_INTEGER(double, __double2int, int)
YOTTA_TO_INTEGER(double, __double2uint, unsigned)
YOTTA_TO_INTEGER(double, __double2ll, long long)
YOTTA_TO_INTEGER(double, __double2ull, unsigned long long)
#undef YOTTA_TO_INTEGER

constexpr float __int2float_rn(int x) { return static_cast<float>(x); }
constexpr float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
constexpr float __ll2float_rn(long long x) { return static_cast<float>(x); }
constexpr float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
constexpr double __int2double_rn(int x) { return x; }
constexpr double __uint2double_rn(unsigned x) { return x; }
constexpr double __ll2double_rn(long long x) { return static_cast<double>(x); }
constexpr double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
constexpr float __double2float_rn(double x) { return static_cast<float>(x); }

}  // namespace YOTTA_DEVICE_BUILD

#endif
