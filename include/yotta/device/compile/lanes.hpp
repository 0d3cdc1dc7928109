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
// keep draws number i of Random(seed, name) in each lane: see core/random.hpp. A block of Philox is
// four numbers. random_words computes eight blocks at once, one in each 64 bits: of those only the
// low half is valid between rounds. `order` puts the words where a shuffle leaves them in order.
// Draws holds 16 blocks, which last for four vectors.
//
// A sum along a row takes vectors in turn into four sums: each addition would else wait for the one
// before it.
#pragma once

#include <cstdint>

namespace yotta {

// ---- what compilers have no common word for: here, and in generated source ----
typedef unsigned long long WideLanes __attribute__((vector_size(64)));

// The products, of 64 bits, of the low 32 bits of each number with m.
[[gnu::always_inline]] static inline WideLanes low_products(WideLanes a, unsigned m) {
  return (a & 0xffffffffull) * m;
}
// 64 bytes past the caches, to an address that they divide. wait_for_stores() makes all of them
// visible to other threads.
[[gnu::always_inline]] static inline void store_past_caches(void* to, WideLanes v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, static_cast<WideLanes*>(to));
#else
  __builtin_memcpy(to, &v, sizeof v);
#endif
}
static inline void wait_for_stores() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}
// A result of more than so many bytes is in no cache when it is read again. So it is stored past
// the caches, which would else read from memory what is about to be written over.
inline constexpr int64_t streamed_bytes = int64_t{32} << 20;

// The same three, as C++ for g++ too.
inline constexpr const char* processor_text = R"(
typedef unsigned long long WideLanes __attribute__((vector_size(64)));
typedef unsigned long long Half __attribute__((vector_size(32)));
typedef int Ints __attribute__((vector_size(64)));
typedef int HalfInts __attribute__((vector_size(32)));
static inline WideLanes low_products(WideLanes a, unsigned m) {
#if defined(__AVX512F__) && !defined(__clang__)
  typedef long long Signed __attribute__((vector_size(64)));
  return (WideLanes)__builtin_ia32_pmuludq512_mask((Ints)a, Ints{} + (int)m, Signed{}, -1);
#elif defined(__AVX2__) && !defined(__clang__)
  Half halves[2];
  __builtin_memcpy(halves, &a, sizeof a);
  for (Half& half : halves)
    half = (Half)__builtin_ia32_pmuludq256((HalfInts)half, HalfInts{} + (int)m);
  __builtin_memcpy(&a, halves, sizeof a);
  return a;
#else
  return (a & 0xffffffffull) * m;
#endif
}
static inline void store_past_caches(void* to, WideLanes v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, (WideLanes*)to);
#elif defined(__AVX512F__)
  typedef long long Signed __attribute__((vector_size(64)));
  __builtin_ia32_movntdq512((Signed*)to, (Signed)v);
#elif defined(__AVX__)
  typedef long long Signed __attribute__((vector_size(32)));
  Signed halves[2];
  __builtin_memcpy(halves, &v, sizeof v);
  __builtin_ia32_movntdq256((Signed*)to, halves[0]);
  __builtin_ia32_movntdq256((Signed*)to + 1, halves[1]);
#else
  __builtin_memcpy(to, &v, sizeof v);
#endif
}
static inline void wait_for_stores() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}
)";

// The text of what stands in the parentheses, and the code itself.
#define YOTTA_TEXT_OF(...) #__VA_ARGS__
#define YOTTA_LANES                                                                                \
  static constexpr long lanes = 64 / sizeof(Real);                                                 \
  typedef Real V __attribute__((vector_size(64)));                                                 \
  typedef decltype(V{} < V{}) Mask;                                                                \
  typedef decltype(Real{} > 0 ? 0u : 0u) Word;                                                     \
  typedef Word U __attribute__((vector_size(4 * 64 / sizeof(Real))));                              \
  typedef decltype(Real{} > 0 ? 0ull : 0ull) Long;                                                 \
  [[gnu::always_inline]] static inline V spread(Real x) { return x - V{}; }                        \
  [[gnu::always_inline]] static inline Real first(V v) { return v[0]; }                            \
  [[gnu::always_inline]] static inline Real infinity() { return Real(__builtin_inf()); }           \
  [[gnu::always_inline]] static inline V load(const Real* from, long count) {                      \
    V v{};                                                                                         \
    if (count >= lanes)                                                                            \
      __builtin_memcpy(&v, from, sizeof v);                                                        \
    else                                                                                           \
      for (long i = 0; i < count; ++i) v[i] = from[i];                                             \
    return v;                                                                                      \
  }                                                                                                \
  [[gnu::always_inline]] static inline void store(Real* to, V v, long count) {                     \
    if (count >= lanes)                                                                            \
      __builtin_memcpy(to, &v, sizeof v);                                                          \
    else                                                                                           \
      for (long i = 0; i < count; ++i) to[i] = v[i];                                               \
  }                                                                                                \
  [[gnu::always_inline]] static inline void stream(Real* to, V v, long count) {                    \
    if (count >= lanes && (unsigned long)to % 64 == 0)                                             \
      store_past_caches(to, (WideLanes)v);                                                         \
    else                                                                                           \
      store(to, v, count);                                                                         \
  }                                                                                                \
  [[gnu::always_inline]] static inline void fetch(const Real* p) { __builtin_prefetch(p); }        \
  [[gnu::always_inline]] static inline void fetch_to_write(Real* p) { __builtin_prefetch(p, 1); }  \
  [[gnu::always_inline]] static inline V among(V v, long count, V other) {                         \
    if (count < lanes)                                                                             \
      for (long i = count; i < lanes; ++i) v[i] = other[i];                                        \
    return v;                                                                                      \
  }                                                                                                \
  [[gnu::always_inline]] static inline V count_from(long c) {                                      \
    V v{};                                                                                         \
    for (long i = 0; i < lanes; ++i) v[i] = Real(i);                                               \
    return v + Real(c);                                                                            \
  }                                                                                                \
  [[gnu::always_inline]] static inline V larger(V a, V b) { return a > b ? a : b; }                \
  [[gnu::always_inline]] static inline V less(V a, V b) { return a < b ? spread(1) : spread(0); }  \
  [[gnu::always_inline]] static inline V choose(V a, V b, V c) { return a != 0 ? b : c; }          \
  [[gnu::always_inline]] static inline Real fold_sum(V v) {                                        \
    for (long half = lanes / 2; half > 0; half /= 2)                                               \
      for (long i = 0; i < half; ++i) v[i] = v[i] + v[i + half];                                   \
    return v[0];                                                                                   \
  }                                                                                                \
  [[gnu::always_inline]] static inline Real fold_max(V v) {                                        \
    for (long half = lanes / 2; half > 0; half /= 2)                                               \
      for (long i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];              \
    return v[0];                                                                                   \
  }                                                                                                \
  [[gnu::always_inline]] static inline Real fold_sum(const V* v) {                                 \
    return fold_sum((v[0] + v[1]) + (v[2] + v[3]));                                                \
  }                                                                                                \
  [[gnu::always_inline]] static inline Real fold_max(const V* v) {                                 \
    return fold_max(larger(larger(v[0], v[1]), larger(v[2], v[3])));                               \
  }                                                                                                \
  [[gnu::always_inline]] static inline V sqrt_of(V v) {                                            \
    for (long i = 0; i < lanes; ++i)                                                               \
      v[i] = sizeof(Real) == 4 ? Real(__builtin_sqrtf(float(v[i]))) : Real(__builtin_sqrt(v[i]));  \
    return v;                                                                                      \
  }                                                                                                \
  [[gnu::always_inline]] static inline V exp_of(V x) {                                             \
    constexpr bool f32 = sizeof(Real) == 4;                                                        \
    constexpr int degree = f32 ? 7 : 13;                                                           \
    constexpr int mantissa = f32 ? 23 : 52;                                                        \
    constexpr Real magic = Real(f32 ? 0x1.8p23 + 126 : 0x1.8p52 + 1022);                           \
    constexpr double factorial[] = {                                                               \
        1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800};  \
    const V lowest = spread(Real(f32 ? -87.5 : -708.5));                                           \
    const V highest = spread(Real(f32 ? 89.0 : 710.0));                                            \
    x = x < lowest ? lowest : x;                                                                   \
    x = x > highest ? highest : x;                                                                 \
    const V rounded = x * Real(1.44269504088896340736) + magic;                                    \
    const V n = rounded - magic;                                                                   \
    const V r = (x - n * Real(0x1.62e4p-1)) - n * Real(1.42860682030941723212e-6);                 \
    V twice = spread(Real(2 / factorial[degree]));                                                 \
    for (int k = degree - 1; k >= 0; --k) twice = twice * r + Real(2 / factorial[k]);              \
    return twice * (V)((Mask)rounded << mantissa);                                                 \
  }                                                                                                \
  struct Draws {                                                                                   \
    unsigned words[64];                                                                            \
    long begin, end;                                                                               \
    Draws() : begin(0), end(0) {}                                                                  \
  };                                                                                               \
  [[gnu::always_inline]] static inline void random_words(                                          \
      Long block, unsigned key0, unsigned key1, unsigned name0, unsigned name1, unsigned* words) { \
    const WideLanes order = {0, 4, 1, 5, 2, 6, 3, 7};                                              \
    WideLanes c0 = order + block;                                                                  \
    WideLanes c1 = c0 >> 32;                                                                       \
    WideLanes c2 = WideLanes{} + name0;                                                            \
    WideLanes c3 = WideLanes{} + name1;                                                            \
    for (int round = 0; round < 10; ++round) {                                                     \
      const WideLanes a = low_products(c0, 0xD2511F53u);                                           \
      const WideLanes b = low_products(c2, 0xCD9E8D57u);                                           \
      c0 = (b >> 32) ^ c1 ^ (Long)key0;                                                            \
      c1 = b;                                                                                      \
      c2 = (a >> 32) ^ c3 ^ (Long)key1;                                                            \
      c3 = a;                                                                                      \
      key0 += 0x9E3779B9u;                                                                         \
      key1 += 0xBB67AE85u;                                                                         \
    }                                                                                              \
    const WideLanes first = (c0 & 0xffffffffull) | (c1 << 32);                                     \
    const WideLanes second = (c2 & 0xffffffffull) | (c3 << 32);                                    \
    const WideLanes both[2] = {__builtin_shufflevector(first, second, 0, 8, 2, 10, 4, 12, 6, 14),  \
                               __builtin_shufflevector(first, second, 1, 9, 3, 11, 5, 13, 7, 15)}; \
    __builtin_memcpy(words, both, sizeof both);                                                    \
  }                                                                                                \
  [[gnu::always_inline]] static inline V keep(Draws& draws, long index, unsigned threshold,        \
                                              unsigned key0, unsigned key1, unsigned name0,        \
                                              unsigned name1) {                                    \
    if (index < draws.begin || index + lanes > draws.end) {                                        \
      const Long block = Long(index) >> 2;                                                         \
      random_words(block, key0, key1, name0, name1, draws.words);                                  \
      random_words(block + 8, key0, key1, name0, name1, draws.words + 32);                         \
      draws.begin = index & ~3l;                                                                   \
      draws.end = draws.begin + 64;                                                                \
    }                                                                                              \
    U words;                                                                                       \
    __builtin_memcpy(&words, draws.words + (index - draws.begin), sizeof words);                   \
    return __builtin_convertvector(words >= threshold ? U{} + 1u : U{}, V);                        \
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
