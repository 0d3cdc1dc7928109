// Times of collectives on a torus, by formula: what a plan over sharded matrices is judged by.
//
//     a ring of p chips, both directions at once, W bytes/s for the two together
//
//         ──►──►──►──►          all_gather      a byte passes half of the ring each way: N / W
//        0   1   2   3  (0)     reduce_scatter  the same                                 N / W
//         ◄──◄──◄──◄──          all_reduce      both, one behind the other             2 N / W
//                               all_to_all      a block goes the shorter way             N / 4W
//
//     several axes at once: each carries a part of N, so `axes` times as fast
//     a message needs T_min for each hop, and goes half round each ring: T_min p / 2
//
// N is what a chip holds of the array that is not cut over these axes. In all:
// T = max(T_min x sum of p / 2, N / (W axes)).
//
// The N / W is rounded up: an all_gather of p chips moves (p-1)/p N. The lines of rings below count
// hop by hop and give the exact factor; a line is what an axis is without its wrap-around link.
// A layer is compute-bound if its products take longer than its collectives. Each threshold below
// solves that inequality for the batch or for a width.
// Reference: Austin et al. (2025), How to scale your model, "Sharded matrices" and "Training".
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta {

// Of one axis: W of both directions together, and T_min of a hop.
struct TorusLinks {
  double both_ways = 0, hop = 0;
};
// A TPU's. No datasheet has the time of a hop: 1 us is an assumption.
constexpr TorusLinks links_of(const Chip& chip) { return {2 * chip.link, 1e-6}; }
inline void expect_links(TorusLinks links, Where where) {
  if (!(links.both_ways > 0) || !(links.hop >= 0))
    fail(where, "links of {} bytes/s and {} s a hop: expected more than 0, and 0 or more",
         links.both_ways, links.hop);
}

// An all_gather, or a reduce_scatter. sizes: chips along each of the axes that take part. bytes: N.
// Errors, of all three: links that carry nothing.
inline double torus_gather_seconds(TorusLinks links, const std::vector<int>& sizes, double bytes,
                                   Where where = Where::current()) {
  expect_links(links, where);
  double hops = 0, busy = 0;  // half round every ring; axes that have another chip
  for (const int size : sizes) {
    if (size > 1) hops += size / 2.0, busy += 1;
  }
  return busy > 0 ? std::max(links.hop * hops, bytes / (links.both_ways * busy)) : 0;
}
inline double torus_all_reduce_seconds(TorusLinks links, const std::vector<int>& sizes,
                                       double bytes, Where where = Where::current()) {
  return 2 * torus_gather_seconds(links, sizes, bytes, where);
}
// Along one axis; bytes: what an all_gather over it would leave on a chip.
inline double torus_all_to_all_seconds(TorusLinks links, int size, double bytes,
                                       Where where = Where::current()) {
  expect_links(links, where);
  return size > 1 ? std::max(links.hop * size / 2.0, bytes / links.both_ways / 4) : 0;
}

// ---- hop by hop ----

// Bytes that the busiest link of a ring carries in its one direction, of N in all, without the
// formula's rounding. directions: 1 or 2.
constexpr double ring_gather_link_bytes(int p, int directions, double bytes) {
  return (p - 1.0) / p * bytes / directions;
}
// Chip i sends N/p^2 to every other. The block for the chip `distance` ahead uses `distance` links;
// with two directions it goes the shorter way, and half of it each way if both are equally long.
constexpr double ring_all_to_all_link_bytes(int p, int directions, double bytes) {
  double hops = 0;  // of all blocks of a chip in one direction: what each link carries
  for (int distance = 1; distance < p; ++distance) {
    if (directions == 1 || 2 * distance < p) hops += distance;
    if (directions == 2 && 2 * distance == p) hops += distance / 2.0;
  }
  return hops * bytes / (static_cast<double>(p) * p);
}
// An all_gather on a line of p chips: the end's neighbour link carries all parts but one, one way.
constexpr double line_gather_seconds(int p, double bytes, double one_way) {
  return (p - 1.0) / p * bytes / one_way;
}

// ---- compute-bound if ----

// FLOPs that a chip does while it sends a byte along so many axes. FSDP or data parallelism: tokens
// per chip, B/X, must be more than this. (A weight of 2 bytes is sent for 2 FLOPs per token.)
constexpr double flops_per_sent_byte(double flops, double both_ways, int axes = 1) {
  return flops / (both_ways * axes);
}
// Tensor parallelism: at most so many chips, F / (FLOP/s / W axes).
constexpr double most_tensor_parallel(double F, double flops, double both_ways, int axes = 1) {
  return F / flops_per_sent_byte(flops, both_ways, axes);
}
// FSDP over X chips and tensor parallelism over p / X: the X that sends least, for a batch of B
// tokens on M_X and M_Y axes; and the B / p above which that is compute-bound.
inline double best_fsdp_part(double B, double F, double p, double axes_x, double axes_y) {
  return std::sqrt(B / F * (axes_x / axes_y) * p);
}
constexpr double least_tokens_mixed(double flops, double both_ways, double F, double axes_x,
                                    double axes_y) {
  const double per_byte = flops_per_sent_byte(flops, both_ways);
  return 4 * per_byte * per_byte / (axes_x * axes_y * F);
}
// Two chips that hold A[I, D_X] and B[D_X, K] in bf16 and swap their partial sums at `one_way`
// bytes/s: compute-bound if D is more than this. 2 I D K / 2 FLOPs per chip, 2 I K bytes each way.
constexpr double least_width_of_two(double flops, double one_way) { return 2 * flops / one_way; }

}  // namespace yotta
