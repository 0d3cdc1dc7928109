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
// keep draws number i of Random(seed, name) in each lane: see core/random.hpp. A block of Philox
// has the words of four lanes, so random_words computes a quarter as many blocks as there are
// lanes.
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
  typedef Long B __attribute__((vector_size(2 * 64 / sizeof(Real))));                             \
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
  [[gnu::always_inline]] static inline U random_words(long block, unsigned key0, unsigned key1,   \
                                                      unsigned name0, unsigned name1) {           \
    B number{};                                                                                   \
    for (long i = 0; i < lanes / 4; ++i) number[i] = Long(block + i);                             \
    B c0 = number & 0xffffffffull;                                                                \
    B c1 = number >> 32;                                                                          \
    B c2 = B{} + name0;                                                                           \
    B c3 = B{} + name1;                                                                           \
    for (int round = 0; round < 10; ++round) {                                                    \
      const B a = c0 * 0xD2511F53ull;                                                             \
      const B b = c2 * 0xCD9E8D57ull;                                                             \
      c0 = (b >> 32) ^ c1 ^ (Long)key0;                                                           \
      c1 = b & 0xffffffffull;                                                                     \
      c2 = (a >> 32) ^ c3 ^ (Long)key1;                                                           \
      c3 = a & 0xffffffffull;                                                                     \
      key0 += 0x9E3779B9u;                                                                        \
      key1 += 0xBB67AE85u;                                                                        \
    }                                                                                             \
    const B first = c0 | (c1 << 32);                                                              \
    const B second = c2 | (c3 << 32);                                                             \
    Long pairs[lanes / 2];                                                                        \
    for (long i = 0; i < lanes / 4; ++i) {                                                        \
      pairs[2 * i] = first[i];                                                                    \
      pairs[2 * i + 1] = second[i];                                                               \
    }                                                                                             \
    U words;                                                                                      \
    __builtin_memcpy(&words, pairs, sizeof words);                                                \
    return words;                                                                                 \
  }                                                                                               \
  [[gnu::always_inline]] static inline V keep(long index, unsigned threshold, unsigned key0,      \
                                              unsigned key1, unsigned name0, unsigned name1) {    \
    U words = random_words(index >> 2, key0, key1, name0, name1);                                 \
    if ((index & 3) != 0) {                                                                       \
      U both[2] = {words, random_words((index >> 2) + lanes / 4, key0, key1, name0, name1)};      \
      __builtin_memcpy(&words, (const unsigned*)both + (index & 3), sizeof words);                \
    }                                                                                             \
    return __builtin_convertvector(words >= threshold ? U{} + 1u : U{}, V);                       \
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
