// The arithmetic of fused kernels on a CPU, sixteen numbers at a time: the functions that the
// expressions of device/graph.hpp call.
//
// It is needed twice: compiled into the library, where operations run one at a time, and as text at
// the top of generated source, which a system compiler compiles without our headers. So it is
// written once, inside a macro that is both. Vectors are the compilers' own extension, 64 bytes
// wide on every machine; a compiler splits them where registers are narrower. So sums have one
// order on all machines, and no loop waits for an autovectoriser. (Word and Long look as if they
// depended on Real: g++ ignores a vector_size that depends on a template's type if nothing else
// does.)
//
// exp is e^x = 2^n e^r with |r| <= ln 2 / 2 and a Taylor series for e^r: see nn/cpu/math.hpp.
// keep draws number i of Random(seed, name) in each lane: see core/random.hpp.
#pragma once

#include <cstdint>

namespace yotta {

// The text of what stands in the parentheses, and the code itself.
#define YOTTA_TEXT_OF(...) #__VA_ARGS__
#define YOTTA_LANES                                                                               \
  static constexpr long lanes = 64 / sizeof(Real);                                                \
  typedef Real V __attribute__((vector_size(64)));                                                \
  typedef decltype(V{} < V{}) Mask;                                                               \
  typedef decltype(Real{} > 0 ? 0u : 0u) Word;                                                    \
  typedef Word U __attribute__((vector_size(4 * 64 / sizeof(Real))));                             \
  typedef decltype(Real{} > 0 ? 0ull : 0ull) Long;                                                \
  typedef Long W __attribute__((vector_size(4 * 64 / sizeof(Real))));                             \
  [[gnu::always_inline]] static inline V spread(Real x) { return x - V{}; }                       \
  [[gnu::always_inline]] static inline Real first(V v) { return v[0]; }                           \
  [[gnu::always_inline]] static inline Real infinity() { return Real(__builtin_inf()); }          \
  [[gnu::always_inline]] static inline V load(const Real* from, long count) {                     \
    V v{};                                                                                        \
    if (count >= lanes)                                                                           \
      __builtin_memcpy(&v, from, sizeof v);                                                       \
    else                                                                                          \
      for (long i = 0; i < count; ++i) v[i] = from[i];                                            \
    return v;                                                                                     \
  }                                                                                               \
  [[gnu::always_inline]] static inline void store(Real* to, V v, long count) {                    \
    if (count >= lanes)                                                                           \
      __builtin_memcpy(to, &v, sizeof v);                                                         \
    else                                                                                          \
      for (long i = 0; i < count; ++i) to[i] = v[i];                                              \
  }                                                                                               \
  [[gnu::always_inline]] static inline void fetch(const Real* p) { __builtin_prefetch(p); }       \
  [[gnu::always_inline]] static inline void fetch_to_write(Real* p) { __builtin_prefetch(p, 1); } \
  [[gnu::always_inline]] static inline V among(V v, long count, V other) {                        \
    if (count < lanes)                                                                            \
      for (long i = count; i < lanes; ++i) v[i] = other[i];                                       \
    return v;                                                                                     \
  }                                                                                               \
  [[gnu::always_inline]] static inline V count_from(long c) {                                     \
    V v{};                                                                                        \
    for (long i = 0; i < lanes; ++i) v[i] = Real(i);                                              \
    return v + Real(c);                                                                           \
  }                                                                                               \
  [[gnu::always_inline]] static inline V larger(V a, V b) { return a > b ? a : b; }               \
  [[gnu::always_inline]] static inline V less(V a, V b) { return a < b ? spread(1) : spread(0); } \
  [[gnu::always_inline]] static inline V choose(V a, V b, V c) { return a != 0 ? b : c; }         \
  [[gnu::always_inline]] static inline Real fold_sum(V v) {                                       \
    for (long half = lanes / 2; half > 0; half /= 2)                                              \
      for (long i = 0; i < half; ++i) v[i] = v[i] + v[i + half];                                  \
    return v[0];                                                                                  \
  }                                                                                               \
  [[gnu::always_inline]] static inline Real fold_max(V v) {                                       \
    for (long half = lanes / 2; half > 0; half /= 2)                                              \
      for (long i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];             \
    return v[0];                                                                                  \
  }                                                                                               \
  [[gnu::always_inline]] static inline V sqrt_of(V v) {                                           \
    for (long i = 0; i < lanes; ++i)                                                              \
      v[i] = sizeof(Real) == 4 ? Real(__builtin_sqrtf(float(v[i]))) : Real(__builtin_sqrt(v[i])); \
    return v;                                                                                     \
  }                                                                                               \
  [[gnu::always_inline]] static inline V exp_of(V x) {                                            \
    constexpr bool f32 = sizeof(Real) == 4;                                                       \
    constexpr int degree = f32 ? 7 : 13;                                                          \
    constexpr int mantissa = f32 ? 23 : 52;                                                       \
    constexpr Real magic = Real(f32 ? 0x1.8p23 + 126 : 0x1.8p52 + 1022);                          \
    constexpr double factorial[] = {                                                              \
        1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800}; \
    const V lowest = spread(Real(f32 ? -87.5 : -708.5));                                          \
    const V highest = spread(Real(f32 ? 89.0 : 710.0));                                           \
    x = x < lowest ? lowest : x;                                                                  \
    x = x > highest ? highest : x;                                                                \
    const V rounded = x * Real(1.44269504088896340736) + magic;                                   \
    const V n = rounded - magic;                                                                  \
    const V r = (x - n * Real(0x1.62e4p-1)) - n * Real(1.42860682030941723212e-6);                \
    V twice = spread(Real(2 / factorial[degree]));                                                \
    for (int k = degree - 1; k >= 0; --k) twice = twice * r + Real(2 / factorial[k]);             \
    return twice * (V)((Mask)rounded << mantissa);                                                \
  }                                                                                               \
  [[gnu::always_inline]] static inline U high_word(U a, unsigned b) {                             \
    const W even = ((W)a & 0xffffffffull) * b;                                                    \
    const W odd = ((W)a >> 32) * b;                                                               \
    return (U)((even >> 32) | (odd & 0xffffffff00000000ull));                                     \
  }                                                                                               \
  [[gnu::always_inline]] static inline V keep(long index, unsigned threshold, unsigned key0,      \
                                              unsigned key1, unsigned name0, unsigned name1) {    \
    U lane{};                                                                                     \
    for (long i = 0; i < lanes; ++i) lane[i] = unsigned(i);                                       \
    const U number = lane + unsigned(index & 3);                                                  \
    const unsigned block = unsigned(index >> 2);                                                  \
    U c0 = (number >> 2) + block;                                                                 \
    U c1 = (c0 < block ? U{} + 1u : U{}) + unsigned(index >> 34);                                 \
    U c2 = U{} + name0;                                                                           \
    U c3 = U{} + name1;                                                                           \
    for (int round = 0; round < 10; ++round) {                                                    \
      const U a = high_word(c0, 0xD2511F53u);                                                     \
      const U b = high_word(c2, 0xCD9E8D57u);                                                     \
      const U low_a = c0 * 0xD2511F53u;                                                           \
      const U low_b = c2 * 0xCD9E8D57u;                                                           \
      c0 = b ^ c1 ^ key0;                                                                         \
      c1 = low_b;                                                                                 \
      c2 = a ^ c3 ^ key1;                                                                         \
      c3 = low_a;                                                                                 \
      key0 += 0x9E3779B9u;                                                                        \
      key1 += 0xBB67AE85u;                                                                        \
    }                                                                                             \
    const U word = number & 3u;                                                                   \
    const U bits = word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;                         \
    return __builtin_convertvector(bits >= threshold ? U{} + 1u : U{}, V);                        \
  }

// The functions above, for numbers of one type.
template <class Number>
struct Lanes {
  typedef Number Real;
  YOTTA_LANES
};

#define YOTTA_EXPANDED_TEXT_OF(...) YOTTA_TEXT_OF(__VA_ARGS__)
inline constexpr const char* lanes_text = YOTTA_EXPANDED_TEXT_OF(YOTTA_LANES);
#undef YOTTA_LANES
#undef YOTTA_EXPANDED_TEXT_OF
#undef YOTTA_TEXT_OF

}  // namespace yotta
