// Hierarchical collectives: first inside the nodes, then between them, then inside again.
//
// Links inside a node are some ten times as fast as those between nodes, but a ring over all ranks
// goes at the pace of its slowest link: every number crosses between nodes, again and again. Here
// each rank carries only its chunk across, 1/g of the array for g ranks per node, and all g ranks
// of a node cross at once:
//
//                     node 0                 node 1
//              rank 0      rank 1      rank 2      rank 3
//     start    a0 b0       a1 b1       a2 b2       a3 b3
//     inside   a0+a1       b0+b1       a2+a3       b2+b3    reduce_scatter in each node
//     between  a ◄─────────────────────► a                  all_reduce among equals: ranks 0 and 2
//                          b ◄─────────────────────► b      have chunk a, ranks 1 and 3 chunk b
//     inside   a b         a b         a b         a b      all_gather in each node
//
// Cost, for N bytes, g ranks per node, k = p / g nodes, links i inside and o between:
//
//     messages  2(g-1) + 2(k-1)                                              ring: 2(p-1)
//     seconds   2(g-1) a_i + 2(g-1)/g N b_i + 2(k-1) a_o + 2(k-1)/k N/g b_o  2(p-1) (a_o + N/p b_o)
//
// and N gamma (g-1)/g + N/g gamma (k-1)/k for the additions. With one node it is the ring.
//
// Its halves: a reduce_scatter inside, then between, and an all_gather between, then inside. Rank r
// has chunk r of p, so what travels inside is k chunks, one of each node's ranks, sent at once:
//
//     messages  k(g-1) + k-1                                                 ring: p-1
//     seconds   (g-1) a_i + (g-1)/g N b_i + (k-1) a_o + (k-1)/k N/g b_o      (p-1) (a_o + N/p b_o)
//
// Links inside stand idle while those between work, and the other way round: see
// collectives_pipelined.hpp for both at once.
//
// Contract: g divides p; ranks 0 to g-1 are the first node. Any n. All ranks end with the same
// bits.
// Letters: channel.hpp; g, k as above.
// Reference: Jia et al., "Highly scalable deep learning training system with mixed-precision:
// training ImageNet in four minutes", 2018; NCCL's trees and PyTorch's HSDP follow the same idea.
#pragma once

#include "yotta/comm/collectives_multi_rail.hpp"

namespace yotta {

// Every `stride`-th rank of a channel, `count` of them from `first` on, as a channel of their own.
class ChannelSlice : public Channel {
 public:
  ChannelSlice(Channel& whole, int first, int stride, int count)
      : whole_(whole), first_(first), stride_(stride), count_(count) {}
  int rank() const override { return (whole_.rank() - first_) / stride_; }
  int size() const override { return count_; }

  void send(ConstData data, int to, Where where) override { whole_.send(data, of(to), where); }
  void recv(Data data, int from, Where where) override { whole_.recv(data, of(from), where); }
  void send_recv(ConstData outgoing, int to, Data incoming, int from, Where where) override {
    whole_.send_recv(outgoing, of(to), incoming, of(from), where);
  }

 private:
  int of(int rank) const { return first_ + rank * stride_; }
  Channel& whole_;
  int first_, stride_, count_;
};

inline void expect_equal_nodes(const char* what, int p, int g, Where where) {
  if (g < 1 || p % g != 0)
    fail(where, "a hierarchical {} of {} ranks needs nodes of equal size; {} does not divide {}",
         what, p, g, p);
}

// Every rank ends with the sum of all ranks' n elements, in place. g: ranks per node.
inline void all_reduce_hierarchical(Channel& channel, Data data, ReduceOp op, int g,
                                    Where where = Where::current()) {
  const int p = channel.size(), rank = channel.rank();
  expect_equal_nodes("all_reduce", p, g, where);
  ChannelSlice inside(channel, rank / g * g, 1, g), between(channel, rank % g, g, p / g);
  const Data mine = data.chunk(rank % g, g);
  reduce_scatter_ring(inside, data, mine, op);
  all_reduce_ring(between, mine, op);
  all_gather_ring(inside, mine, data);
}

// One ring in each node for every node's chunks: ring j carries those of node j's ranks.
inline std::vector<PartRing> rings_inside(int p, int rank, int64_t n, int g) {
  std::vector<PartRing> rings;
  const int first = rank / g * g, local = rank % g;
  for (int node = 0; node < p / g; ++node) {
    rings.push_back({first + wrap(local + 1, g), first + wrap(local - 1, g), local, {}});
    for (int owner = node * g; owner < (node + 1) * g; ++owner)
      rings.back().parts.push_back({chunk_begin(n, p, owner), chunk_begin(n, p, owner + 1)});
  }
  return rings;
}

// Rank r ends with chunk r of the sum; `out` may be chunk r of `in` itself.
inline void reduce_scatter_hierarchical(Channel& channel, ConstData in, Data out, ReduceOp op,
                                        int g, Where where = Where::current()) {
  const int p = channel.size(), rank = channel.rank();
  expect_equal_nodes("reduce_scatter", p, g, where);
  const std::vector<PartRing> inside = rings_inside(p, rank, in.count, g);
  std::vector<Data> results;
  PartRing between{wrap(rank + g, p), wrap(rank - g, p), rank / g, {}};
  int64_t length = 0;
  for (const PartRing& ring : inside) {
    between.parts.push_back({length, length + ring.part(ring.position).count()});
    length = between.parts.back().end;
  }
  Tensor of_node = scratch(length, in);
  for (const ArrayPart& part : between.parts)
    results.push_back(Data(of_node).part(part.begin, part.end));
  reduce_scatter_rings(channel, inside, in, results, op);
  reduce_scatter_rings(channel, std::span(&between, 1), of_node, std::span(&out, 1), op);
}

// Every rank ends with all n elements; `in` is this rank's chunk, and may lie in its place in
// `out`.
inline void all_gather_hierarchical(Channel& channel, ConstData in, Data out, int g,
                                    Where where = Where::current()) {
  const int p = channel.size(), rank = channel.rank();
  expect_equal_nodes("all_gather", p, g, where);
  const std::vector<PartRing> inside = rings_inside(p, rank, out.count, g);
  PartRing between{wrap(rank + g, p), wrap(rank - g, p), rank / g, {}};
  for (const PartRing& ring : inside) between.parts.push_back(ring.part(ring.position));
  copy_data(in, out.chunk(rank, p));
  all_gather_rings(channel, std::span(&between, 1), out);
  all_gather_rings(channel, inside, out);
}

// Exact cost: what rank `rank` sends.
constexpr Sent all_reduce_hierarchical_sent(int p, int rank, int64_t n, int64_t width, int g) {
  const int chunk = rank % g;
  return reduce_scatter_ring_sent(g, chunk, n, width) +
         all_reduce_ring_sent(p / g, rank / g, chunk_count(n, g, chunk), width) +
         all_gather_ring_sent(g, chunk, n, width);
}

constexpr Sent reduce_scatter_hierarchical_sent(int p, int rank, int64_t n, int64_t width, int g) {
  // Inside, the chunks of all other local ranks; between, those of its own in other nodes.
  return {p / g * (g - 1) + p / g - 1, (n - chunk_count(n, p, rank)) * width};
}
constexpr Sent all_gather_hierarchical_sent(int p, int rank, int64_t n, int64_t width, int g) {
  const auto local = [=](int of) { return of % g; };
  int64_t elements = -chunk_count(n, p, wrap(rank + g, p));  // between: all but the next node's
  for (int chunk = 0; chunk < p; ++chunk) {
    if (local(chunk) == local(rank)) elements += chunk_count(n, p, chunk);
    if (local(chunk) != local(rank + 1)) elements += chunk_count(n, p, chunk);  // inside
  }
  return {p / g * (g - 1) + p / g - 1, elements * width};
}

// For n that p divides. `inside` and `between` are the links inside a node and between two.
constexpr double all_reduce_hierarchical_seconds(int p, double bytes, int g, AlphaBeta inside,
                                                 AlphaBeta between) {
  return all_reduce_ring_seconds(g, bytes, inside) +
         all_reduce_ring_seconds(p / g, bytes / g, between);
}
constexpr double reduce_scatter_hierarchical_seconds(int p, double bytes, int g, AlphaBeta inside,
                                                     AlphaBeta between) {
  return reduce_scatter_ring_seconds(g, bytes, inside) +
         reduce_scatter_ring_seconds(p / g, bytes / g, between);
}
constexpr double all_gather_hierarchical_seconds(int p, double bytes, int g, AlphaBeta inside,
                                                 AlphaBeta between) {
  return all_gather_ring_seconds(g, bytes, inside) +
         all_gather_ring_seconds(p / g, bytes / g, between);
}

}  // namespace yotta
