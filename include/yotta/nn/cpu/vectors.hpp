// Vectors of numbers: the few tools with which the ops of nn/ use a processor's wide registers.
//
//     x    [ 0  1  2  3 | 4  5  6  7 | 8  9 ]        4 lanes, 10 numbers
//            one full     one full     count = 2
//
// for_lanes walks over an array one register at a time and ends with what is left over. Its body is
// written once and compiled twice: for full registers (count is a compile-time constant) and for
// the rest. Each number goes through the same instructions in both, so results do not depend on
// where an array was cut, and hence not on the number of threads.
//
// The type is the compilers' own vector extension (g++ and clang): + - * / and comparisons work on
// all lanes at once, `mask ? a : b` chooses lane by lane. At -O2 g++ 12 vectorises few loops.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "yotta/core/cpu/matmul_packing.hpp"

namespace yotta {

// The widest register of the machine that is compiled for, as in matmul. bf16 is computed in f32.
template <class Number>
using Vector = typename TileShape<Computed<Number>>::Register;

// The type of a Vector's numbers; of a number its own.
template <class V>
struct ElementOfVector {
  using type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
};
template <class V>
requires std::is_arithmetic_v<V>
struct ElementOfVector<V> {
  using type = V;
};
template <class V>
using ElementOf = typename ElementOfVector<V>::type;

template <class Real>
inline constexpr int lane_count = TileShape<Real>::lanes;

template <class Real>
using FullCount = std::integral_constant<int, lane_count<Real>>;

// load(p, count): the first `count` lanes from memory, zero in the others. store: the way back.
// bf16 is widened to f32 on its way into a register, and rounded on its way out.
template <class Number, class Count>
[[gnu::always_inline]] inline Vector<Number> load(const Number* from, Count count) {
  std::conditional_t<std::is_same_v<Number, bfloat16>, Bf16Bits, Vector<Number>> v{};
  std::memcpy(&v, from, static_cast<size_t>(count) * sizeof(Number));
  if constexpr (std::is_same_v<Number, bfloat16>)
    return widened(v);
  else
    return v;
}
template <class Number, class V, class Count>
[[gnu::always_inline]] inline void store(Number* to, V v, Count count) {
  static_assert(std::is_same_v<V, Vector<Number>>);
  const size_t bytes = static_cast<size_t>(count) * sizeof(Number);
  if constexpr (std::is_same_v<Number, bfloat16>) {
    const Bf16Bits bits = rounded(v);
    std::memcpy(static_cast<void*>(to), &bits, bytes);
  } else {
    std::memcpy(to, &v, bytes);
  }
}

// The same number in every lane.
template <class Real>
[[gnu::always_inline]] inline Vector<Real> in_all_lanes(Real value) {
  return Vector<Real>{} + value;
}

// v with `other` in the lanes from `count` on.
template <class Real, class Count>
[[gnu::always_inline]] inline Vector<Real> first_lanes(Vector<Real> v, Count count,
                                                       Real other = Real{0}) {
  if constexpr (std::is_same_v<Count, FullCount<Real>>) return v;
  Vector<Real> kept = in_all_lanes(other);
  std::memcpy(&kept, &v, static_cast<size_t>(count) * sizeof(Real));
  return kept;
}

// Calls body(i, count) for i = 0, lanes, 2 lanes, ...; count is the number of lanes inside n.
template <class Real, class Body>
[[gnu::always_inline]] inline void for_lanes(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + lane_count<Real> <= n; i += lane_count<Real>) body(i, FullCount<Real>{});
  if (i < n) body(i, static_cast<int>(n - i));
}

// Folds the lanes of v in halves, in a fixed order: combine(v, v with its halves exchanged), then
// the same for quarters and so on, until each lane holds the whole.
template <int half, class V, class Combine, int... Lane>
[[gnu::always_inline]] inline V combine_halves(V v, Combine combine,
                                               std::integer_sequence<int, Lane...> lane) {
  v = combine(v, shuffled<(Lane ^ half)...>(v, v));
  if constexpr (half > 1) v = combine_halves<half / 2>(v, combine, lane);
  return v;
}
template <class Real, class Combine>
[[gnu::always_inline]] inline Real fold_lanes(Vector<Real> v, Combine combine) {
  constexpr int lanes = lane_count<Real>;
  return combine_halves<lanes / 2>(v, combine, std::make_integer_sequence<int, lanes>{})[0];
}

template <class Real>
[[gnu::always_inline]] inline Real sum_of_lanes(Vector<Real> v) {
  return fold_lanes<Real>(v, [](Vector<Real> a, Vector<Real> b) { return a + b; });
}

// The sum over i < n of term(i, count), a Vector each, where lanes from `count` on are left out.
template <class Real, class Term>
[[gnu::always_inline]] inline Real sum_lanes(int64_t n, Term&& term) {
  Vector<Real> total{};
  for_lanes<Real>(
      n, [&](int64_t i, auto count) { total += first_lanes<Real>(term(i, count), count); });
  return sum_of_lanes<Real>(total);
}

// The largest of n numbers, -infinity of none. NaNs are passed over.
template <class Number>
inline Computed<Number> largest(const Number* x, int64_t n) {
  using Real = Computed<Number>;
  constexpr Real lowest = -static_cast<Real>(__builtin_inf());
  Vector<Real> most = in_all_lanes(lowest);
  for_lanes<Real>(n, [&](int64_t i, auto count) {
    const Vector<Real> v = first_lanes<Real>(load(x + i, count), count, lowest);
    most = v > most ? v : most;
  });
  return fold_lanes<Real>(most, [](Vector<Real> a, Vector<Real> b) { return a > b ? a : b; });
}

}  // namespace yotta
