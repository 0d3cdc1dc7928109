// Options that are numbers: one that no program can mean is refused where it is given.
//
//     check_option(where, "AdamWOptions::beta1", options, &AdamWOptions::beta1, below_one);
//
//     run.cpp:12: AdamWOptions::beta1 is 1.5, expected 0 or more and below 1; by default it is 0.9
//
// NaN lies in no range. Infinity lies in those that say so: a time that never ends is a wish, a
// factor that is infinite a mistake, too.
#pragma once

#include <limits>

#include "yotta/core/error.hpp"

namespace yotta {

// Both ends are allowed unless it says otherwise.
struct NumberRange {
  double least = 0, most = std::numeric_limits<double>::infinity();
  bool with_least = true, with_most = true;

  constexpr bool holds(double x) const {
    return (with_least ? x >= least : x > least) && (with_most ? x <= most : x < most);
  }
};
// "a number from 1 to 9", "0 or more and below 1", "above 0, or infinite".
std::string describe(const NumberRange& range);

inline constexpr NumberRange zero_or_more = {.with_most = false},
                             one_or_more = {.least = 1, .with_most = false},
                             above_zero = {.with_least = false, .with_most = false},
                             below_one = {.most = 1, .with_most = false}, zero_or_endless = {},
                             above_zero_or_endless = {.with_least = false};

// Throws unless the number lies in the range. `advice` ends the message.
void check_number(Where where, const char* what, double value, const NumberRange& range,
                  const std::string& advice = "");

// The same for a member of options; the advice is its default.
template <class Options, class Owner, class Number>
void check_option(Where where, const char* option, const Options& options, Number Owner::*member,
                  const NumberRange& range) {
  const auto value = static_cast<double>(options.*member);
  if (range.holds(value)) return;
  check_number(where, option, value, range,
               fmt::format("; by default it is {}", Options().*member));
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/options.ipp"
#endif
