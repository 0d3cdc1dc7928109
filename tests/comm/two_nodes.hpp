// Two nodes of eight H100, for tests of what happens between nodes.
#pragma once

#include "yotta/comm/channel.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/contention.hpp"

namespace yotta_test {

using namespace yotta;

inline const Cluster& two_nodes() {
  static const Cluster cluster = cluster_named("h100x16");
  return cluster;
}
inline AlphaBeta link_of_level(size_t level) {
  const Level& of = two_nodes().levels[level];
  return {of.alpha, of.beta, 0};
}
inline AlphaBeta inside_node() { return link_of_level(0); }
inline AlphaBeta between_nodes() { return link_of_level(1); }

template <class Body>
double seconds_on_two_nodes(int p, Body body) {
  return run_on(two_nodes(), p, body, {.trace = false}).seconds();
}

// Seconds of an all_reduce without data on the first p chips.
inline double seconds_of_all_reduce(int64_t bytes, CommOptions options, int p = 16) {
  return seconds_on_two_nodes(p, [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor x = Tensor::empty({bytes}, DType::u8);
    world.all_reduce(x, ReduceOp::sum, options);
  });
}

}  // namespace yotta_test
