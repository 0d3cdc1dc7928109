// Binomial trees: broadcast, reduce, gather and scatter in ceil(lg p) rounds instead of p - 1.
//
// Whoever has the data passes it on, so the number of ranks that have it doubles in every round.
// Ranks are counted from the root: v = rank - root, going round. In binary, v's parent is v with
// its lowest 1 made 0, and v's subtree is the next `span` ranks, where span is the value of that 1.
//
//     p = 8, root 0        v:  0       1       2       3       4       5       6       7
//     round 1                  0 ──────────────────────────────►4
//     round 2                  0 ──────────────►2               4 ──────────────►6
//     round 3                  0 ──────►1       2 ──────►3      4 ──────►5       6 ──────►7
//
// reduce and gather are the same picture with arrows turned and rounds in reverse. A subtree is a
// run of neighbours, so gather and scatter move each chunk as part of one contiguous block.
//
//                 messages (root / others)    bytes sent                 seconds
//     broadcast   ceil(lg p) / fewer          N per message              ceil(lg p) (a + N b)
//     reduce      0 / 1                       N                          ceil(lg p) (a + N (b + g))
//     gather      0 / 1                       its subtree's chunks       lg p a + (p-1)/p N b
//     scatter     ceil(lg p) / fewer          its children's subtrees    lg p a + (p-1)/p N b
//
// Contract: any p, n and root. Ranks other than the root keep their data in a reduce.
// Broadcasts of long arrays have two better ways, below: the chain, and scatter + all_gather.
// Letters and references: channel.hpp.
#pragma once

#include <cmath>

#include "yotta/comm/collectives_ring.hpp"

namespace yotta {

// Where a rank stands in the binomial tree of a root.
struct TreePlace {
  int p, root;
  int v;     // this rank, counted from the root
  int span;  // ranks in its subtree if p were a power of two

  constexpr TreePlace(int p_, int rank, int root_)
      : p(p_), root(root_), v(wrap(rank - root_, p_)), span(v == 0 ? 1 << ceil_log2(p_) : v & -v) {}

  constexpr bool has_child(int distance) const { return v + distance < p; }
  constexpr int child(int distance) const { return wrap(root + v + distance, p); }
  constexpr int parent() const { return wrap(root + v - span, p); }
  constexpr bool is_root() const { return v == 0; }

  // Elements in the chunks of the subtree of rank v + distance; 0 for this rank's own.
  constexpr int64_t subtree_count(int64_t n, int distance = 0) const {
    const int ranks = distance == 0 ? span : distance;
    const int first = v + distance;
    return chunks_count(n, p, wrap(root + first, p), std::min(ranks, p - first));
  }
};

// All ranks end with the root's data.
inline void broadcast_tree(Channel& channel, Data data, int root) {
  const TreePlace place(channel.size(), channel.rank(), root);
  if (!place.is_root()) channel.recv(data, place.parent());
  for (int distance = place.span / 2; distance > 0; distance /= 2)
    if (place.has_child(distance)) channel.send(data, place.child(distance));
}

// The root ends with the sum; the others' data stays as it was.
inline void reduce_tree(Channel& channel, Data data, ReduceOp op, int root) {
  const TreePlace place(channel.size(), channel.rank(), root);
  const bool parent = place.span > 1 && place.has_child(1);
  Tensor arriving = scratch(parent ? data.count : 0, data);
  Tensor copy = scratch(parent && !place.is_root() ? data.count : 0, data);
  Data sum = data;
  if (parent && !place.is_root()) copy_data(data, sum = copy);
  for (int distance = 1; distance < place.span && place.has_child(distance); distance *= 2) {
    channel.recv(arriving, place.child(distance));
    reduce_into(sum, Data(arriving), op);
  }
  if (!place.is_root()) channel.send(sum, place.parent());
}

// Everybody has the sum: up the tree to rank 0, and down again. In place.
inline void all_reduce_tree(Channel& channel, Data data, ReduceOp op) {
  reduce_tree(channel, data, op, 0);
  broadcast_tree(channel, data, 0);
}

// The root ends with all n elements; `in` is this rank's chunk. `out` is used at the root only.
inline void gather_tree(Channel& channel, ConstData in, Data out, int root, int64_t n) {
  const TreePlace place(channel.size(), channel.rank(), root);
  Tensor buffer = scratch(place.subtree_count(n), in);  // chunks of v, v + 1, ...
  const Data block = buffer;
  copy_data(in, block.part(0, in.count));
  int64_t have = in.count;
  for (int distance = 1; distance < place.span && place.has_child(distance); distance *= 2) {
    const int64_t count = place.subtree_count(n, distance);
    channel.recv(block.part(have, have + count), place.child(distance));
    have += count;
  }
  if (!place.is_root()) return channel.send(block, place.parent());
  const int64_t before = chunk_begin(n, place.p, root);  // the block starts at the root's chunk
  copy_data(block.part(0, n - before), out.part(before, n));
  copy_data(block.part(n - before, n), out.part(0, before));
}

// Each rank ends with its chunk of the root's n elements. `in` is used at the root only.
inline void scatter_tree(Channel& channel, ConstData in, Data out, int root, int64_t n) {
  const TreePlace place(channel.size(), channel.rank(), root);
  Tensor buffer = scratch(place.subtree_count(n), out);  // chunks of v, v + 1, ...
  const Data block = buffer;
  if (place.is_root()) {
    const int64_t before = chunk_begin(n, place.p, root);
    copy_data(in.part(before, n), block.part(0, n - before));
    copy_data(in.part(0, before), block.part(n - before, n));
  } else {
    channel.recv(block, place.parent());
  }
  int64_t have = block.count;
  for (int distance = place.span / 2; distance > 0; distance /= 2) {
    if (!place.has_child(distance)) continue;
    const int64_t count = place.subtree_count(n, distance);
    channel.send(block.part(have - count, have), place.child(distance));
    have -= count;
  }
  copy_data(block.part(0, have), out);
}

// Exact costs: what rank `rank` sends.
constexpr Sent broadcast_tree_sent(int p, int rank, int64_t n, int64_t width, int root) {
  const TreePlace place(p, rank, root);
  int64_t children = 0;
  for (int distance = 1; distance < place.span; distance *= 2)
    children += place.has_child(distance);
  return {children, children * n * width};
}
constexpr Sent reduce_tree_sent(int, int rank, int64_t n, int64_t width, int root) {
  return rank == root ? Sent{} : Sent{1, n * width};
}
constexpr Sent all_reduce_tree_sent(int p, int rank, int64_t n, int64_t width) {
  return reduce_tree_sent(p, rank, n, width, 0) + broadcast_tree_sent(p, rank, n, width, 0);
}
constexpr Sent gather_tree_sent(int p, int rank, int64_t n, int64_t width, int root) {
  return rank == root ? Sent{} : Sent{1, TreePlace(p, rank, root).subtree_count(n) * width};
}
constexpr Sent scatter_tree_sent(int p, int rank, int64_t n, int64_t width, int root) {
  const int64_t passed_on = TreePlace(p, rank, root).subtree_count(n) - chunk_count(n, p, rank);
  return {broadcast_tree_sent(p, rank, 0, 0, root).messages, passed_on * width};
}

// Published costs, for any p (gather and scatter: p a power of two, or they throw).
constexpr double broadcast_tree_seconds(int p, double bytes, AlphaBeta link) {
  return ceil_log2(p) * (link.alpha + bytes * link.beta);
}
constexpr double reduce_tree_seconds(int p, double bytes, AlphaBeta link) {
  return ceil_log2(p) * (link.alpha + bytes * (link.beta + link.gamma));
}
constexpr double all_reduce_tree_seconds(int p, double bytes, AlphaBeta link) {
  return reduce_tree_seconds(p, bytes, link) + broadcast_tree_seconds(p, bytes, link);
}
constexpr double gather_tree_seconds(int p, double bytes, AlphaBeta link) {
  return log2_of_ranks("gather_tree", p) * link.alpha + (p - 1.0) / p * bytes * link.beta;
}
constexpr double scatter_tree_seconds(int p, double bytes, AlphaBeta link) {
  return gather_tree_seconds(p, bytes, link);
}

// ---- long broadcasts ----
//
// A tree sends all N bytes lg p times in a row. The chain takes little more than the time of N
// bytes, and scatter + all_gather that of 2 N, for any p.
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
// Reference: the chain is NCCL's ring broadcast.

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
