// Is what a rank holds its part of the whole model's? Values, or gradients, parameter by parameter.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "yotta/core/compare.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta_test {

using ParameterPtrs = std::vector<yotta::ParameterPtr>;

inline void check_equal(const yotta::Tensor& actual, const yotta::Tensor& expected,
                        const std::string& what, double tolerance = 1e-12, int ranks = 1) {
  yotta::Clues clues;
  clues.what = what;
  clues.ranks = ranks;
  const yotta::Verdict verdict = yotta::compare(actual, expected, tolerance, clues);
  CHECK_MESSAGE(verdict.equal, verdict.text);
}

// `pick` is &Parameter::value or &Parameter::grad. `whole` may hold more parameters than this rank does.
inline void check_parts(const ParameterPtrs& parts, const ParameterPtrs& whole,
                        yotta::Tensor yotta::Parameter::*pick, int ranks,
                        double tolerance = 1e-12) {
  CHECK(parts.size() > 0);
  for (const yotta::ParameterPtr& part : parts) {
    const auto same = std::find_if(whole.begin(), whole.end(),
                                   [&](const auto& each) { return each->name == part->name; });
    CAPTURE(part->name);
    REQUIRE(same != whole.end());
    yotta::Tensor expected = (*part.*pick).clone();
    yotta::take_shard(**same.*pick, part->range, expected);
    check_equal(*part.*pick, expected, part->name, tolerance, ranks);
  }
}

}  // namespace yotta_test
