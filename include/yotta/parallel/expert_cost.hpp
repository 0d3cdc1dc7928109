// What expert parallelism costs: bytes and messages of its exchanges, and what hot experts do.
//
// A row of C numbers leaves its rank unless its expert is held there. Of the n k rows of a rank
// this is known exactly once the routers have chosen; if all experts are chosen equally often,
// (ep-1)/ep of the rows leave:
//
//                         rows of a rank                   leave, of 2048
//     ep = 8, k = 2       n k = 2 x 1024 = 2048            7/8: 1792
//
// A block has four exchanges, two forward (dispatch, combine) and two backward, each of those rows.
// Each sends ep - 1 messages from a rank, or 2 (g-1) + ep/g - 1 by two hops for nodes of g ranks
// (comm/collectives_exchange.hpp).
//
// Experts compute 6 C F FLOPs per row with swiglu, forward, and the row travels twice. So the FLOPs
// take as long as the exchanges from this F on, whatever n, C and k:
//
//     F = (2 (ep-1)/ep width / W) / (6 / peak)       W: bytes/s of a rank, width: bytes per number
//
// Unequal loads: a rank computes for all rows that come to it, and combine waits for the last rank.
// So the layer takes max / mean times as long as with equal loads (load_factor).
// Letters: n tokens of a rank, k experts of a token, C width, F hidden width of an expert, ep
// ranks, g ranks in a node.
#pragma once

#include <algorithm>
#include <numeric>

#include "yotta/comm/comm_options.hpp"

namespace yotta {

// Rows of a plan that leave rank `rank`: of plan.to in dispatch, of plan.from in combine.
inline int64_t rows_leaving(Counts rows, int rank) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0}) - rows[static_cast<size_t>(rank)];
}
// What it sends for them in one exchange.
inline int64_t expert_bytes_sent(Counts rows, int rank, int64_t C, int64_t width) {
  return rows_leaving(rows, rank) * C * width;
}
// The same if all experts are chosen equally often, and ep divides n k.
constexpr int64_t uniform_expert_bytes_sent(int64_t n, int64_t k, int64_t C, int64_t ep,
                                            int64_t width) {
  return n * k * (ep - 1) / ep * C * width;
}

// Messages of a rank in one exchange; node: ranks in a node for two hops, 0: straight to each rank.
constexpr int expert_messages(int ep, int node = 0) {
  return node == 0 ? ep - 1 : 2 * (node - 1) + ep / node - 1;
}

// The F from which the FLOPs of uniform experts take as long as dispatch and combine, at `peak`
// FLOP/s and `bandwidth` bytes/s.
constexpr double expert_hidden_width(double peak, double bandwidth, double ep, double width) {
  return 2 * (ep - 1) / ep * width / bandwidth * peak / 6;
}

// The largest of some loads, over their mean: rows of experts, or of ranks.
inline double load_factor(Counts loads) {
  const auto all = static_cast<double>(std::accumulate(loads.begin(), loads.end(), int64_t{0}));
  const auto most = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
  return all == 0 ? 1 : most / (all / static_cast<double>(loads.size()));
}

}  // namespace yotta
