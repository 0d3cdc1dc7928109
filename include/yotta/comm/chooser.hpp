// Which all_reduce is fastest? It depends on the machine, the ranks and the size; so ask the clock.
// The same for the two halves of one, all_gather and reduce_scatter.
//
//     seconds, 8 ranks    ╲ recursive doubling: few messages        ring: few bytes
//                           ╲______________________________╱
//                                          ╲      ╱
//     small arrays: the time of a message    ╲  ╱   large arrays: the time of a byte
//                                             ╳
//                                         crossover
//
// Each candidate is run on the described machine, without data (Device::meta), and timed. No
// formula is taken on trust. A library such as NCCL decides in the same way, from a model of the
// machine that it has measured.
// Cost: a run of p threads per candidate.
#pragma once

#include "yotta/comm/run_on.hpp"

namespace yotta {

// Seconds of one all_reduce of `bytes` bytes on the first p chips of a cluster.
double all_reduce_seconds(const Cluster& cluster, int p, int64_t bytes, CommOptions options,
                          Where where = Where::current());

struct AlgorithmTime {
  Algorithm algorithm;
  double seconds;
};
using AllReduceTime = AlgorithmTime;

// Every algorithm that p ranks of this cluster can run, the fastest first. Nodes are the cluster's
// own. bytes: of the whole array.
std::vector<AlgorithmTime> all_reduce_times(const Cluster& cluster, int p, int64_t bytes,
                                            Where where = Where::current());
std::vector<AlgorithmTime> all_gather_times(const Cluster& cluster, int p, int64_t bytes,
                                            Where where = Where::current());
std::vector<AlgorithmTime> reduce_scatter_times(const Cluster& cluster, int p, int64_t bytes,
                                                Where where = Where::current());

// Options that choose the fastest of them: DdpOptions::comm for all_reduce_times, FsdpOptions::comm
// for the others.
CommOptions fastest(const std::vector<AlgorithmTime>& times, const Cluster& cluster, int p,
                    Where where = Where::current());

// The number of bytes from which `large` is at least as fast as `small`, which is faster for one
// byte.
// Errors: it never is, up to 2^40 bytes, or it is from the start.
int64_t crossover(const Cluster& cluster, int p, CommOptions small, CommOptions large,
                  Where where = Where::current());

// The times of some all_reduces from 64 bytes to 1 GiB as text, both axes logarithmic: one letter
// per algorithm, in their order; * where two are practically equal.
std::string times_picture(const Cluster& cluster, int p, const std::vector<CommOptions>& candidates,
                          Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/chooser.ipp"
#endif
