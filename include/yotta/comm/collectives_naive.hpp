// Naive collectives: one rank, the root, talks to all the others. The first thing one would write,
// right in every case, and what all the rest is measured against.
//
//     reduce                             broadcast
//     1 ──►┐                             ┌──► 1
//     2 ──►┼─► 0   (p-1) N bytes      0 ─┼──► 2   (p-1) N bytes
//     3 ──►┘       through one link      └──► 3   through one link
//
// The root's link carries (p-1) N bytes while the other links wait: time grows with p. Cost: p-1
// messages and (p-1) N bytes at the root for all but gather, scatter and reduce_scatter's second
// half, where each message is one chunk.
// Contract and letters: channel.hpp. If the operation has no root, rank 0 acts as one.
#pragma once

#include <vector>

#include "yotta/comm/channel.hpp"

namespace yotta {

// All ranks end with the root's data.
inline void broadcast_naive(Channel& channel, Data data, int root) {
  if (channel.rank() != root) return channel.recv(data, root);
  for (int rank = 0; rank < channel.size(); ++rank)
    if (rank != root) channel.send(data, rank);
}

// The root ends with the sum; the others' data stays as it was.
inline void reduce_naive(Channel& channel, Data data, ReduceOp op, int root) {
  if (channel.rank() != root) return channel.send(data, root);
  Tensor arriving = scratch(data.count, data);
  for (int rank = 0; rank < channel.size(); ++rank) {
    if (rank == root) continue;
    channel.recv(arriving, rank);
    reduce_into(data, Data(arriving), op);
  }
}

// Everybody has the sum: a reduce to rank 0, then a broadcast. In place.
inline void all_reduce_naive(Channel& channel, Data data, ReduceOp op) {
  reduce_naive(channel, data, op, 0);
  broadcast_naive(channel, data, 0);
}

// The root ends with all n elements; `in` is this rank's chunk. `out` is used at the root only.
inline void gather_naive(Channel& channel, ConstData in, Data out, int root) {
  const int p = channel.size();
  if (channel.rank() != root) return channel.send(in, root);
  copy_data(in, out.chunk(root, p));
  for (int rank = 0; rank < p; ++rank)
    if (rank != root) channel.recv(out.chunk(rank, p), rank);
}

// Each rank ends with its chunk of the root's n elements. `in` is used at the root only.
inline void scatter_naive(Channel& channel, ConstData in, Data out, int root) {
  const int p = channel.size();
  if (channel.rank() != root) return channel.recv(out, root);
  for (int rank = 0; rank < p; ++rank)
    if (rank != root) channel.send(in.chunk(rank, p), rank);
  copy_data(in.chunk(root, p), out);
}

// Rank r ends with chunk r of the sum.
inline void reduce_scatter_naive(Channel& channel, ConstData in, Data out, ReduceOp op) {
  const bool root = channel.rank() == 0;
  Tensor sum = scratch(root ? in.count : 0, in);
  if (root) copy_data(in, sum);
  if (root) reduce_naive(channel, sum, op, 0);
  if (!root) channel.send(in, 0);
  scatter_naive(channel, sum, out, 0);
}

// All ranks end with all n elements; `in` is this rank's chunk.
inline void all_gather_naive(Channel& channel, ConstData in, Data out) {
  gather_naive(channel, in, out, 0);
  broadcast_naive(channel, out, 0);
}

// Chunk j of `in` goes to rank j; `out` holds chunk `rank` of rank 0, of rank 1, ... Each rank in
// turn scatters while the others wait for it.
inline void all_to_all_naive(Channel& channel, ConstData in, Data out) {
  for (int root = 0; root < channel.size(); ++root)
    scatter_naive(channel, in, out.chunk(root, channel.size()), root);
}

// No rank leaves before every rank has arrived.
inline void barrier_naive(Channel& channel) {
  gather_naive(channel, ConstData(), Data(), 0);
  broadcast_naive(channel, Data(), 0);
}

// Exact costs: what rank `rank` sends.
constexpr Sent broadcast_naive_sent(int p, int rank, int64_t n, int64_t width, int root) {
  return rank == root ? Sent{p - 1, (p - 1) * n * width} : Sent{};
}
constexpr Sent reduce_naive_sent(int, int rank, int64_t n, int64_t width, int root) {
  return rank == root ? Sent{} : Sent{1, n * width};
}
constexpr Sent all_reduce_naive_sent(int p, int rank, int64_t n, int64_t width) {
  return reduce_naive_sent(p, rank, n, width, 0) + broadcast_naive_sent(p, rank, n, width, 0);
}
constexpr Sent gather_naive_sent(int p, int rank, int64_t n, int64_t width, int root) {
  return rank == root ? Sent{} : Sent{1, chunk_count(n, p, rank) * width};
}
constexpr Sent scatter_naive_sent(int p, int rank, int64_t n, int64_t width, int root) {
  return rank == root ? Sent{p - 1, (n - chunk_count(n, p, rank)) * width} : Sent{};
}
constexpr Sent reduce_scatter_naive_sent(int p, int rank, int64_t n, int64_t width) {
  return reduce_naive_sent(p, rank, n, width, 0) + scatter_naive_sent(p, rank, n, width, 0);
}
constexpr Sent all_gather_naive_sent(int p, int rank, int64_t n, int64_t width) {
  return gather_naive_sent(p, rank, n, width, 0) + broadcast_naive_sent(p, rank, n, width, 0);
}
constexpr Sent all_to_all_naive_sent(int p, int rank, int64_t n, int64_t width) {
  return scatter_naive_sent(p, rank, n, width, rank);
}
constexpr Sent barrier_naive_sent(int p, int rank) { return {rank == 0 ? p - 1 : 1, 0}; }

// The root's link is the slowest path: for any p.
constexpr double broadcast_naive_seconds(int p, double bytes, AlphaBeta link) {
  return (p - 1) * (link.alpha + bytes * link.beta);
}
constexpr double reduce_naive_seconds(int p, double bytes, AlphaBeta link) {
  return (p - 1) * (link.alpha + bytes * (link.beta + link.gamma));
}
constexpr double all_reduce_naive_seconds(int p, double bytes, AlphaBeta link) {
  return reduce_naive_seconds(p, bytes, link) + broadcast_naive_seconds(p, bytes, link);
}

}  // namespace yotta
