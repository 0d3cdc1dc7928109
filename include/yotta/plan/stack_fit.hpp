// Stack fit: the five numbers of a stack from measured rows, of several models and clusters.
//
//     minimised     mean of log(predicted / measured)^2 + a price for each step away from where it
//                   began: numbers that no row depends on stay as they are
//     bounds        no link faster than its description, no op in less than one pass
//     said          the error before, after, and on rows that were left out: a tenth of them, in
//                   turn, while the others are fitted
//
// Contract: rows that estimate_row can take. Letters: none.
#pragma once

#include "yotta/plan/measured_rows.hpp"

namespace yotta {

// Software of which nothing is known: its kernels and links reach what public tables say, it passes
// over its numbers once, and half of what a collective may take from kernels is taken.
inline constexpr Stack fresh_stack = {"fresh", 1, 1, 1, 0.5, 1};

// The numbers alone. Errors: no row.
Stack fitted_stack(const std::vector<MeasuredRow>& rows, const Stack& from,
                   Where where = Where::current());

struct StackFit {
  Stack stack;
  double before = 0, after = 0;             // means of |predicted / measured - 1|
  double left_out = 0, worst_left_out = 0;  // of rows that had no part in the fit
};
// Errors: fewer than two rows.
StackFit fit_stack(const std::vector<MeasuredRow>& rows, const Stack& from,
                   Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/stack_fit.ipp"
#endif
