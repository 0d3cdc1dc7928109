// Tensors with known parts, for the tests of sharded matrices.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/sharding/sharded_matrices.hpp"
#include "yotta/sharding/spreads/boxes.hpp"
#include "yotta/sharding/spreads/spread_graph.hpp"

namespace yotta_test {

using namespace yotta;

inline Tensor normal_numbers(const Shape& shape, const char* name) {
  Tensor made = Tensor::empty(shape, DType::f64);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data<double>()[i] = Random(11, name).normal(static_cast<uint64_t>(i));
  return made;
}

// What a rank holds of `whole`. Of an unreduced tensor the ranks along an axis of n hold 1, 2, ...,
// n times the same, over the sum of these weights.
inline ShardedMatrix part_of(const Tensor& whole, const Spread& spread, const AxisGroups& groups) {
  ShardedMatrix part = cut(whole, spread, groups);
  for (const char axis : spread.unreduced) {
    const double n = axis_size(groups.mesh(), axis);
    const double weight = (1 + coordinate(groups.mesh(), groups.rank(), axis)) / (n * (n + 1) / 2);
    for (double& each : part.local.span<double>()) each *= weight;
  }
  return part;
}

// Whether a rank holds what it should; and says what it holds instead.
inline void check_part(const ShardedMatrix& x, const Spread& spread, const Tensor& whole,
                       const AxisGroups& groups) {
  const ShardedMatrix expected = part_of(whole, spread, groups);
  if (x.spread != spread || x.local.shape() != expected.local.shape())
    fail(Where::current(), "rank {}: {} {} instead of {} {}", groups.rank(), str(x.spread),
         str(x.local.shape()), str(spread), str(expected.local.shape()));
  for (int64_t i = 0; i < x.local.numel(); ++i) {
    const double actual = x.local.data<double>()[i], wanted = expected.local.data<double>()[i];
    if (!(std::abs(actual - wanted) <= 1e-10))
      fail(Where::current(), "rank {}, {}: number {} is {} instead of {}", groups.rank(),
           str(spread), i, actual, wanted);
  }
}

inline std::vector<Spread> all_spreads(const char* like, const NamedMesh& mesh) {
  const Spread spread = parse_spread(like, mesh);
  const WholeTensor whole{Shape(spread.dims.size(), 8), DType::bf16};
  return SpreadGraph(spread, whole, mesh, {1e9, 0}).nodes();
}

inline std::vector<Spread> reduced_spreads(const char* like, const NamedMesh& mesh) {
  std::vector<Spread> reduced;
  for (const Spread& each : all_spreads(like, mesh))
    if (each.unreduced.empty()) reduced.push_back(each);
  return reduced;
}

}  // namespace yotta_test
