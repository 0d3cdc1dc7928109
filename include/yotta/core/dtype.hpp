// Number types: what a tensor may hold, how wide it is, and how the 16- and 8-bit floats are
// rounded.
//
//              sign exponent mantissa   largest  smallest normal  used for
//     f64        1      11      52     1.8e308     2.2e-308       gradient checks
//     f32        1       8      23     3.4e38      1.2e-38        master weights, sums
//     bf16       1       8       7     3.4e38      1.2e-38        weights, activations: f32's range
//     f16        1       5      10     65504       6.1e-5         needs loss scaling
//     fp8 e5m2   1       5       2     57344       6.1e-5         gradients (storage here)
//     fp8 e4m3   1       4       3     448         1.6e-2         activations (storage here)
//
// One template describes all four small floats. Numbers are rounded to nearest, ties to even.
// Beyond the largest: infinity, or NaN for e4m3, which has no infinity.
// References: IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "yotta/core/error.hpp"

namespace yotta {

// A float of 1 sign bit, `ExponentBits` and `MantissaBits`, stored in `Bits`.
template <class Bits, int ExponentBits, int MantissaBits, bool HasInfinity = true>
struct SmallFloat {
  Bits bits = 0;

  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr int shift = 23 - MantissaBits;  // from f32's mantissa to ours
  static constexpr uint32_t sign_bit = 1u << (ExponentBits + MantissaBits);
  static constexpr uint32_t infinity = ((1u << ExponentBits) - 1) << MantissaBits;
  static constexpr uint32_t nan =
      HasInfinity ? infinity | (1u << (MantissaBits - 1)) : sign_bit - 1;
  static constexpr uint32_t overflow = HasInfinity ? infinity : nan;

  SmallFloat() = default;
  explicit constexpr SmallFloat(float value) : bits(encode(value)) {}
  explicit constexpr SmallFloat(double value) : SmallFloat(static_cast<float>(value)) {}
  explicit constexpr operator float() const { return decode(bits); }
  explicit constexpr operator double() const { return static_cast<double>(decode(bits)); }

  static constexpr Bits encode(float value) {
    const uint32_t whole = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = whole & 0x7fffffffu;
    const uint32_t sign = (whole >> 31) * sign_bit;
    const uint32_t small = magnitude > 0x7f800000u ? nan : round(magnitude);
    return static_cast<Bits>(sign | small);
  }

  static constexpr float decode(Bits stored) {
    const uint32_t magnitude = stored & (sign_bit - 1);
    const uint32_t sign = (stored & sign_bit) != 0 ? 0x80000000u : 0u;
    return std::bit_cast<float>(sign | widen(magnitude));
  }

 private:
  // f32 magnitude bits -> ours. Adding just under half a unit, plus the bit that makes ties even,
  // and dropping the low bits rounds; a carry into the exponent is the right answer.
  static constexpr uint32_t round(uint32_t magnitude) {
    if constexpr (ExponentBits == 8) return drop_low_bits(magnitude);  // same exponent as f32
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - bias) << 23;
    if (magnitude < rebias + (1u << 23)) return round_subnormal(magnitude);
    const uint32_t rounded = drop_low_bits(magnitude - rebias);
    return rounded > largest() ? overflow : rounded;
  }
  static constexpr uint32_t largest() { return HasInfinity ? infinity : nan - 1; }
  static constexpr uint32_t drop_low_bits(uint32_t x) {
    return (x + (1u << (shift - 1)) - 1 + ((x >> shift) & 1)) >> shift;
  }
  // Next to 2^(24 - bias - MantissaBits) an f32's last bit is worth our smallest subnormal, so one
  // addition in f32 rounds to it.
  static constexpr uint32_t round_subnormal(uint32_t magnitude) {
    constexpr uint32_t anchor = static_cast<uint32_t>(127 + 24 - bias - MantissaBits) << 23;
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(anchor);
    return std::bit_cast<uint32_t>(sum) - anchor;
  }
  static constexpr uint32_t widen(uint32_t magnitude) {
    if constexpr (ExponentBits == 8) return magnitude << shift;
    if (magnitude == nan || (HasInfinity && magnitude >= infinity))
      return 0x7f800000u | (HasInfinity ? (magnitude & ~infinity) << shift : 1u << 22);
    if (magnitude >= (1u << MantissaBits))
      return (magnitude << shift) + (static_cast<uint32_t>(127 - bias) << 23);
    constexpr uint32_t unit = static_cast<uint32_t>(127 + 1 - bias - MantissaBits) << 23;
    return std::bit_cast<uint32_t>(static_cast<float>(magnitude) * std::bit_cast<float>(unit));
  }
};

using bfloat16 = SmallFloat<uint16_t, 8, 7>;
using float16 = SmallFloat<uint16_t, 5, 10>;
using float8_e5m2 = SmallFloat<uint8_t, 5, 2>;
using float8_e4m3 = SmallFloat<uint8_t, 4, 3, false>;

enum class DType : uint8_t { f64, f32, bf16, f16, fp8_e5m2, fp8_e4m3, i64, i32, u8 };

struct DTypeInfo {
  const char* name;
  int64_t bytes;
  bool is_float;
};

// Name, bytes per number, and whether it is a float.
constexpr DTypeInfo info(DType dtype) {
  switch (dtype) {
    case DType::f64: return {"f64", 8, true};
    case DType::f32: return {"f32", 4, true};
    case DType::bf16: return {"bf16", 2, true};
    case DType::f16: return {"f16", 2, true};
    case DType::fp8_e5m2: return {"fp8_e5m2", 1, true};
    case DType::fp8_e4m3: return {"fp8_e4m3", 1, true};
    case DType::i64: return {"i64", 8, false};
    case DType::i32: return {"i32", 4, false};
    case DType::u8: return {"u8", 1, false};
  }
  return {"?", 0, false};
}

constexpr const char* name(DType dtype) { return info(dtype).name; }
constexpr int64_t bytes_of(DType dtype) { return info(dtype).bytes; }

// The C++ type behind a dtype and back: dtype_of<float> == DType::f32.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<float8_e5m2> {
  static constexpr DType value = DType::fp8_e5m2;
};
template <>
struct DTypeOf<float8_e4m3> {
  static constexpr DType value = DType::fp8_e4m3;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<std::remove_const_t<T>>::value;

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<T>{}) with the C++ type of a dtype:
//     visit(x.dtype(), [&]<class T>(Type<T>) { T* p = x.data<T>(); ... });
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(Type<double>{});
    case DType::f32: return f(Type<float>{});
    case DType::bf16: return f(Type<bfloat16>{});
    case DType::f16: return f(Type<float16>{});
    case DType::fp8_e5m2: return f(Type<float8_e5m2>{});
    case DType::fp8_e4m3: return f(Type<float8_e4m3>{});
    case DType::i64: return f(Type<int64_t>{});
    case DType::i32: return f(Type<int32_t>{});
    case DType::u8: break;
  }
  return f(Type<uint8_t>{});
}

// The type in which numbers are computed that are stored in another: f32 for bf16, else their own.
constexpr DType computed(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }
template <class Number>
using Computed = std::conditional_t<std::is_same_v<std::remove_const_t<Number>, bfloat16>, float,
                                    std::remove_const_t<Number>>;

// The same as visit for the types in which activations flow between layers: f64, f32 and bf16.
template <class F>
decltype(auto) visit_activation(DType dtype, Where where, F&& f) {
  if (dtype == DType::f64) return f(Type<double>{});
  if (dtype == DType::bf16) return f(Type<bfloat16>{});
  if (dtype != DType::f32)
    fail(where, "this operation computes in f32 or f64, and reads bf16, not {}; convert with .to()",
         name(dtype));
  return f(Type<float>{});
}

// The same for the two types that layers compute in, f64 and f32; anything else is the caller's
// error.
template <class F>
decltype(auto) visit_real(DType dtype, Where where, F&& f) {
  if (dtype == DType::f64) return f(Type<double>{});
  if (dtype != DType::f32)
    fail(where, "this operation computes in f32 or f64, not {}; convert with .to(DType::f32)",
         name(dtype));
  return f(Type<float>{});
}

}  // namespace yotta
