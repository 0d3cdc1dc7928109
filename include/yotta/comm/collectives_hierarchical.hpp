// Hierarchical all_reduce: first inside the nodes, then between them, then inside again.
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
// Contract: g divides p; ranks 0 to g-1 are the first node. Any n. All ranks end with the same
// bits.
// Letters: collectives_common.hpp; g, k as above.
// Reference: Jia et al., "Highly scalable deep learning training system with mixed-precision:
// training ImageNet in four minutes", 2018; NCCL's trees and PyTorch's HSDP follow the same idea.
#pragma once

#include "yotta/comm/collectives_ring.hpp"

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
  void send_recv(ConstData out, int to, Data in, int from, Where where) override {
    whole_.send_recv(out, of(to), in, of(from), where);
  }

 private:
  int of(int rank) const { return first_ + rank * stride_; }
  Channel& whole_;
  int first_, stride_, count_;
};

// Every rank ends with the sum of all ranks' n elements, in place. g: ranks per node.
inline void all_reduce_hierarchical(Channel& channel, Data data, ReduceOp op, int g,
                                    Where where = Where::current()) {
  const int p = channel.size(), rank = channel.rank();
  if (g < 1 || p % g != 0)
    fail(where,
         "a hierarchical all_reduce of {} ranks needs nodes of equal size; {} does not divide {}",
         p, g, p);
  ChannelSlice inside(channel, rank / g * g, 1, g), between(channel, rank % g, g, p / g);
  const Data mine = data.chunk(rank % g, g);
  reduce_scatter_ring(inside, data, mine, op);
  all_reduce_ring(between, mine, op);
  all_gather_ring(inside, mine, data);
}

// Exact cost: what rank `rank` sends.
constexpr Sent all_reduce_hierarchical_sent(int p, int rank, int64_t n, int64_t width, int g) {
  const int chunk = rank % g;
  return reduce_scatter_ring_sent(g, chunk, n, width) +
         all_reduce_ring_sent(p / g, rank / g, chunk_count(n, g, chunk), width) +
         all_gather_ring_sent(g, chunk, n, width);
}

// For n that p divides. `inside` and `between` are the links inside a node and between two.
constexpr double all_reduce_hierarchical_seconds(int p, double bytes, int g, AlphaBeta inside,
                                                 AlphaBeta between) {
  return all_reduce_ring_seconds(g, bytes, inside) +
         all_reduce_ring_seconds(p / g, bytes / g, between);
}

}  // namespace yotta
