// Long broadcasts: the pipelined chain, and scatter + all_gather. A tree sends all N bytes lg p
// times in a row; the chain takes little more than the time of N bytes, and scatter + all_gather
// that of 2 N, for any p.
//
// Chain: the ranks stand in a line from the root and the data is cut into s segments. A rank passes
// on segment i while segment i + 1 arrives, so all links work once the pipeline has filled.
//
//     p = 4, s = 3     time ─►   1    2    3    4    5
//     root ──► 1                 A    B    C
//        1 ──► 2                      A    B    C
//        2 ──► 3                           A    B    C          p + s - 2 steps
//
// Each step costs a + N b / s. Few segments: the pipeline fills slowly. Many: each pays a latency.
// The best s is sqrt((p-2) N b / a).
//
// Scatter + all_gather (van de Geijn): the root scatters chunks down a tree, then the ring brings
// them all to all.
//
//                             messages (root / next)    bytes sent    seconds
//     chain                   s                         N             (p+s-2) (a + N/s b)
//     scatter + all_gather    lg p + p-1                2(p-1)/p N    (lg p + p-1) a + 2(p-1)/p N b
//
// Contract: any p, n, root, and any s above 0, also more segments than elements.
// References: collectives_common.hpp; the chain is NCCL's ring broadcast.
#pragma once

#include <cmath>

#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"

namespace yotta {

// The number of segments that makes a chain broadcast fastest on a link.
inline int64_t best_segments(int p, double bytes, AlphaBeta link) {
  if (p <= 2 || link.alpha <= 0) return 1;
  return std::max<int64_t>(1, std::llround(std::sqrt((p - 2) * bytes * link.beta / link.alpha)));
}

// All ranks end with the root's data.
inline void broadcast_chain(Channel& channel, Data data, int root, int64_t segments = 16) {
  const int p = channel.size(), place = wrap(channel.rank() - root, p);
  const int next = wrap(channel.rank() + 1, p), previous = wrap(channel.rank() - 1, p);
  for (int64_t step = 0; step <= segments; ++step) {
    const bool arrives = place > 0 && step < segments;
    const bool leaves = place < p - 1 && step > 0;
    if (arrives && leaves)
      channel.send_recv(data.chunk(step - 1, segments), next, data.chunk(step, segments), previous);
    else if (arrives)
      channel.recv(data.chunk(step, segments), previous);
    else if (leaves)
      channel.send(data.chunk(step - 1, segments), next);
  }
}

// All ranks end with the root's data.
inline void broadcast_scatter_all_gather(Channel& channel, Data data, int root) {
  const Data mine = data.chunk(channel.rank(), channel.size());
  scatter_tree(channel, data, mine, root, data.count);
  all_gather_ring(channel, mine, data);
}

// Exact costs: what rank `rank` sends.
constexpr Sent broadcast_chain_sent(int p, int rank, int64_t n, int64_t width, int root,
                                    int64_t segments = 16) {
  const bool last = wrap(rank - root, p) == p - 1;
  return last ? Sent{} : Sent{segments, n * width};
}
constexpr Sent broadcast_scatter_all_gather_sent(int p, int rank, int64_t n, int64_t width,
                                                 int root) {
  return scatter_tree_sent(p, rank, n, width, root) + all_gather_ring_sent(p, rank, n, width);
}

// Published costs (scatter + all_gather: p a power of two, or it throws).
constexpr double broadcast_chain_seconds(int p, double bytes, AlphaBeta link,
                                         int64_t segments = 16) {
  if (p == 1) return 0;
  const auto s = static_cast<double>(segments);
  return (p + s - 2) * (link.alpha + bytes / s * link.beta);
}
constexpr double broadcast_scatter_all_gather_seconds(int p, double bytes, AlphaBeta link) {
  return scatter_tree_seconds(p, bytes, link) + all_gather_ring_seconds(p, bytes, link);
}

}  // namespace yotta
