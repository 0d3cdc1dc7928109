// Counted numbers: a kernel that is a template of its number type, launched on Counted<float>
// instead of float, computes the same and reports its FLOPs to the profile, line by line.
//
//     template <class Real>
//     __global__ void axpy(Real a, const Real* x, Real* y) { ... y[i] = a * x[i] + y[i]; }
//
//     launch(axpy<float>, ...)             fast
//     launch(axpy<Counted<float>>, ...)    the profile says 2 FLOPs per element, at that line
//
// The hooks of the checked build see memory, not arithmetic: hence a type. An addition,
// subtraction, multiplication or division is one FLOP, a fused multiply-add two; comparisons and
// changes of sign are none. It has the size of its number, so sectors and wavefronts are the same.
// In the other builds Counted<float> is float itself.
// nvcc compiles this file too.
#pragma once

#include <cmath>
#include <compare>
#include <type_traits>

#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if !defined(YOTTA_CHECKED)

template <class T>
using Counted = T;

#else

namespace emulator {

// FLOPs of the line that calls.
YOTTA_UNSEEN YOTTA_CALLED void count_flops_here(int64_t flops);

}  // namespace emulator

#define YOTTA_COUNTED __attribute__((always_inline)) friend constexpr
#define YOTTA_COUNTED_OPERATOR(op)                                    \
  YOTTA_COUNTED Counted operator op(Counted a, Counted b) {           \
    if (!std::is_constant_evaluated()) emulator::count_flops_here(1); \
    return Counted(a.value_ op b.value_);                             \
  }                                                                   \
  YOTTA_COUNTED Counted& operator op##=(Counted& a, Counted b) {      \
    if (!std::is_constant_evaluated()) emulator::count_flops_here(1); \
    a.value_ = a.value_ op b.value_;                                  \
    return a;                                                         \
  }

template <class T>
class Counted {
 public:
  Counted() = default;
  constexpr Counted(T value) : value_(value) {}
  explicit constexpr operator T() const { return value_; }

  YOTTA_COUNTED_OPERATOR(+)
  YOTTA_COUNTED_OPERATOR(-)
  YOTTA_COUNTED_OPERATOR(*)
  YOTTA_COUNTED_OPERATOR(/)
  YOTTA_COUNTED Counted operator-(Counted a) { return Counted(-a.value_); }
  YOTTA_COUNTED auto operator<=>(Counted a, Counted b) { return a.value_ <=> b.value_; }
  YOTTA_COUNTED bool operator==(Counted a, Counted b) { return a.value_ == b.value_; }
  __attribute__((always_inline)) friend Counted fma(Counted a, Counted b, Counted c) {
    emulator::count_flops_here(2);
    return Counted(std::fma(a.value_, b.value_, c.value_));
  }

 private:
  T value_;
};

#undef YOTTA_COUNTED_OPERATOR
#undef YOTTA_COUNTED

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if defined(YOTTA_CHECKED) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/counted.ipp"
#endif
