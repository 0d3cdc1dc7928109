// Which all_reduce is fastest? It depends on the machine, the ranks and the size; so ask the clock.
//
//     seconds, 8 ranks    ╲ recursive doubling: few messages        ring: few bytes
//                           ╲______________________________╱
//                                          ╲      ╱
//     small arrays: the time of a message    ╲  ╱   large arrays: the time of a byte
//                                             ╳
//                                         crossover
//
// Each candidate is run, on meta, on the described machine, and timed: no formula is believed. A library
// such as NCCL decides in the same way, from a model of the machine that it has measured.
// Cost: a run of p threads for each candidate.
#pragma once

#include "yotta/comm/run_on.hpp"

namespace yotta {

// Seconds of one all_reduce of `bytes` bytes on the first p chips of a cluster.
inline double all_reduce_seconds(const Cluster& cluster, int p, int64_t bytes, CommOptions options,
                                 Where where = Where::current()) {
  const auto body = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor data = Tensor::empty({bytes}, DType::u8);
    world.all_reduce(data, ReduceOp::sum, options, where);
  };
  return run_on(cluster, p, body, {.trace = false}, {}, where).seconds();
}

struct AllReduceTime {
  Algorithm algorithm;
  double seconds;
};

// Every algorithm that p ranks of this cluster can run, the fastest first. Nodes are the cluster's own.
inline std::vector<AllReduceTime> all_reduce_times(const Cluster& cluster, int p, int64_t bytes,
                                                   Where where = Where::current()) {
  std::vector<AllReduceTime> times;
  const int node = std::min(p, cluster.levels[0].chips);
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::recursive_doubling, Algorithm::rabenseifner, Algorithm::tree,
        Algorithm::hierarchical, Algorithm::naive}) {
    if (algorithm == Algorithm::hierarchical && (p % node != 0 || p == node)) continue;
    times.push_back(
        {algorithm, all_reduce_seconds(cluster, p, bytes, {algorithm, nullptr, node}, where)});
  }
  std::sort(times.begin(), times.end(), [](const AllReduceTime& a, const AllReduceTime& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.algorithm < b.algorithm;
  });
  return times;
}

// From how many bytes on `large` is at least as fast as `small`, which is faster for one byte. Errors: it
// never is, up to 2^40 bytes, or it is from the start.
inline int64_t crossover(const Cluster& cluster, int p, CommOptions small, CommOptions large,
                         Where where = Where::current()) {
  const auto is_large = [&](int64_t bytes) {
    return all_reduce_seconds(cluster, p, bytes, large, where) <=
           all_reduce_seconds(cluster, p, bytes, small, where);
  };
  int64_t below = 1, above = int64_t{1} << 40;
  if (is_large(below) || !is_large(above))
    fail(where, "{} and {} do not cross on {} with {} ranks: one is always faster",
         name(small.algorithm), name(large.algorithm), cluster.name, p);
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    (is_large(middle) ? above : below) = middle;
  }
  return above;
}

}  // namespace yotta
