// Is what a rank holds its part of the whole model's? Values, or gradients, parameter by parameter.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/layer.hpp"

namespace yotta_test {

using ParameterPtrs = std::vector<yotta::ParameterPtr>;

inline ParameterPtrs parameters_of(yotta::Layer& layer) {
  ParameterPtrs all;
  layer.add_parameters(all);
  return all;
}

// What a layer makes of x and dy; its weights' gradients stand in its parameters.
struct Passes {
  yotta::Tensor y, dx;
};
inline Passes forward_backward(yotta::Layer& layer, const yotta::Tensor& x, const yotta::Tensor& dy,
                               const yotta::BatchPosition& position) {
  yotta::Saved saved(position);
  Passes made;
  made.y = layer.forward(x, saved);
  made.dx = layer.backward_input(dy, saved);
  layer.backward_weight(saved);
  CHECK(saved.bytes() == 0);
  return made;
}

inline void check_equal(const yotta::Tensor& actual, const yotta::Tensor& expected,
                        const std::string& what, double tolerance = 1e-12, int ranks = 1) {
  yotta::Clues clues;
  clues.what = what;
  clues.ranks = ranks;
  const yotta::Verdict verdict = yotta::compare(actual, expected, tolerance, clues);
  CHECK_MESSAGE(verdict.equal, verdict.text);
}

// This rank's tokens of a whole (B, T, C), as sequence parallelism cuts them: (its tokens, C).
inline yotta::Tensor own_tokens(const yotta::Tensor& whole, const yotta::Communicator& tp) {
  const int64_t tokens = whole.dim(0) * whole.dim(1);
  return whole.reshape({tokens, whole.dim(2)})
      .rows(yotta::chunk_begin(tokens, tp.size(), tp.rank()),
            yotta::chunk_begin(tokens, tp.size(), tp.rank() + 1));
}

// `pick` is &Parameter::value or &Parameter::grad. `whole` may hold more parameters than this rank
// does.
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
