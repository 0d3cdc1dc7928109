// What HSDP costs on a described machine: the time of a step, and the group size that is best.
//
// Inside the group a step takes FSDP's time (fsdp_cost.hpp). The sum of unit i leaves for the other
// groups at the moment e(i), and takes a seconds on links of its own, one unit after the other:
//
//     compute          │ F0 │ F1 │ F2 │ B2 │ B1    │ B0    │
//     inside      │ g0 │ g1 │ g2 │    │ g1 │ r2 g0 │ r1    │ r0 │
//     between                                      │  a2   │ a1    │ a0    │
//                                                  e(2)    e(1)   e(0)    end
//
// Units leave at equal intervals, except for the last two. So the step ends with the latest of
// three:
//
//     e(0) + a       between is faster than backward: only the last unit shows
//     e(1) + 2 a     the last two follow each other
//     e(L-1) + L a   between is slower than backward, and sets the pace
//
// Which group size is best depends on the machine. A small group holds much, and sends large shards
// between groups. A group that is larger than a node gathers over the slow links. Every collective
// goes the way that the engine would choose (comm/collective_choice.hpp).
//
// Contract: collectives overlap with compute, and those inside with those between; each is priced
// as if it had its links alone. In groups larger than a node both use the network cards, so a real
// step takes longer there. Letters: p ranks of a group, R replicas, N parameters, L units, n tokens
// of a rank in a microbatch; F, B, g, r, a seconds of one unit.
#pragma once

#include <cstdint>
#include <vector>

#include "yotta/comm/collective_choice.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

namespace yotta {

// Seconds of one unit: FSDP's inside the group, and an all_reduce of its shard.
struct HsdpTimes {
  FsdpTimes inside;
  double all_reduce = 0;
};

// Seconds of a step of one microbatch, `units` >= 2 equal units, with prefetch, without the loss.
constexpr double hsdp_seconds(int64_t units, const HsdpTimes& t, bool overlap = true) {
  const auto L = static_cast<double>(units);
  const FsdpTimes& in = t.inside;
  const double last = fsdp_seconds(units, in, true, false);  // e(0)
  if (!overlap) return last + L * t.all_reduce;
  const double next = last - in.reduce - in.add;  // e(1)
  const double steady = std::max(std::max(in.backward, in.reduce) + in.add, in.reduce + in.gather);
  const double first = next - (L - 2) * steady;  // e(L-1)
  return std::max({last + t.all_reduce, next + 2 * t.all_reduce, first + L * t.all_reduce});
}

// Bytes that a rank holds between steps (f32 weights and gradients, AdamW), and borrows at the peak
// for weights of `gathered` bytes and gradients of `summed` bytes per parameter.
constexpr double hsdp_bytes_held(double parameters, double p) { return 16 * parameters / p; }
constexpr double hsdp_bytes_borrowed(double unit, double p, double gathered, double summed) {
  return 2 * unit * gathered + unit * summed + unit / p * summed;
}

// A step of training.
struct HsdpWork {
  double parameters = 0;
  int64_t units = 2;
  double tokens = 0;  // of a rank in a microbatch
  int64_t microbatches = 1;
  double gathered = 2, summed = 4;  // bytes of a weight, of a gradient, as they travel
};

// What it is with groups of p ranks.
struct HsdpGroup {
  int p = 1, replicas = 1;
  HsdpTimes times;                 // of one unit
  double seconds = 0;              // of the step
  double held = 0, borrowed = 0;   // bytes of a rank
  double inside = 0, between = 0;  // bytes that a rank sends in a step
  bool fits = false;               // in the chip's memory
};

namespace detail {

inline HsdpTimes unit_times(const Cluster& cluster, int p, int R, const HsdpWork& work) {
  const double unit = work.parameters / static_cast<double>(work.units);
  const ChipAxis group{1, p}, copies{p, R};
  const auto seconds = [&](Operation operation, const ChipAxis& axis, double bytes) {
    return collective_seconds(operation, group_network(cluster, {&axis, 1}, int64_t{1} * p * R),
                              bytes);
  };
  HsdpTimes times;
  times.inside.forward = 2 * unit * work.tokens / peak(cluster.chip, DType::bf16);
  times.inside.backward = 2 * times.inside.forward;
  times.inside.gather = seconds(Operation::all_gather, group, work.gathered * unit);
  times.inside.reduce = seconds(Operation::reduce_scatter, group, work.summed * unit);
  times.all_reduce = seconds(Operation::all_reduce, copies, work.summed * unit / p);
  return times;
}

}  // namespace detail

// Groups are the first p chips of the cluster, the next p, ... All wait for the slowest: of groups
// of 6 on nodes of 8 chips the second lies on two nodes. Compute runs at the chip's bf16 peak, so
// a real step takes longer, and more of its trips hide; adding sums and the optimizer's step take
// no time. Errors: p does not divide `ranks`; fewer than 2 units or 1 microbatch.
inline HsdpGroup hsdp_group(const Cluster& cluster, int ranks, int p, const HsdpWork& work,
                            Where where = Where::current()) {
  if (p < 1 || ranks % p != 0) fail(where, "groups of {} ranks do not divide {}", p, ranks);
  if (work.units < 2 || work.microbatches < 1)
    fail(where, "{} units, {} microbatches: a step has 2 units and 1 microbatch at least",
         work.units, work.microbatches);
  const auto m = static_cast<double>(work.microbatches);
  const auto sent = [](int count, double bytes) { return bytes * (count - 1) / count; };
  HsdpGroup group;
  group.p = p, group.replicas = ranks / p;
  group.times = detail::unit_times(cluster, p, group.replicas, work);
  group.seconds = (m - 1) * fsdp_seconds(work.units, group.times.inside, true, false) +
                  hsdp_seconds(work.units, group.times);
  const double unit = work.parameters / static_cast<double>(work.units);
  group.held = hsdp_bytes_held(work.parameters, p);
  group.borrowed = hsdp_bytes_borrowed(unit, p, work.gathered, work.summed);
  group.inside = m * sent(p, work.parameters * (2 * work.gathered + work.summed));
  group.between = 2 * sent(group.replicas, work.parameters * work.summed / p);
  group.fits = group.held + group.borrowed <= static_cast<double>(cluster.chip.memory);
  return group;
}

// For every p that divides `ranks`, the smallest first.
inline std::vector<HsdpGroup> hsdp_sweep(const Cluster& cluster, int ranks, const HsdpWork& work,
                                         Where where = Where::current()) {
  std::vector<HsdpGroup> all;
  for (int p = 1; p <= ranks; ++p)
    if (ranks % p == 0) all.push_back(hsdp_group(cluster, ranks, p, work, where));
  return all;
}

// The fastest group that fits, the smallest of several. Errors: none fits.
inline HsdpGroup best_group(const std::vector<HsdpGroup>& sweep, Where where = Where::current()) {
  const HsdpGroup* best = nullptr;
  for (const HsdpGroup& group : sweep)
    if (group.fits && (best == nullptr || group.seconds < best->seconds)) best = &group;
  if (best == nullptr) fail(where, "no group of this sweep fits in a chip's memory");
  return *best;
}

}  // namespace yotta
