// What native collectives count in the ledger: the bytes that must cross, whichever transport
// carries them.
//
//   threads    a rank reads and writes the others' buffers: that is what crosses
//              (threads/native_collectives.hpp)
//   MPI, NCCL  the library sends by an algorithm of its own, which nobody sees: the same is counted
//
// So the ledger of a program does not depend on the transport. A run of numbers that goes to or
// comes from another rank is one message. N bytes over p ranks: 2(p-1)/p N each way per rank for
// all_reduce, (p-1)/p N for reduce_scatter, all_gather and all_to_all: as much as the best message
// algorithms send.
#pragma once

#include "yotta/comm/engine/transport.hpp"
#include "yotta/core/ledger.hpp"

namespace yotta {

// What crosses between rank `rank` and the others, for n elements of `width` bytes: exact, for any
// p and n.
constexpr Traffic all_reduce_native_traffic(int p, int rank, int64_t n, int64_t width) {
  const int64_t mine = chunk_count(n, p, rank);
  const int64_t bytes = (n - mine + (p - 1) * mine) * width;  // others read theirs, I write mine
  return {2 * (p - 1), bytes, 2 * (p - 1), bytes};
}
constexpr Traffic reduce_scatter_native_traffic(int p, int rank, int64_t n, int64_t width) {
  const int64_t mine = chunk_count(n, p, rank);
  return {p - 1, (n - mine) * width, p - 1, (p - 1) * mine * width};
}
constexpr Traffic all_gather_native_traffic(int p, int rank, int64_t n, int64_t width) {
  const int64_t mine = chunk_count(n, p, rank);
  return {p - 1, (p - 1) * mine * width, p - 1, (n - mine) * width};
}
constexpr Traffic all_to_all_native_traffic(int p, int rank, int64_t n, int64_t width) {
  return reduce_scatter_native_traffic(p, rank, n, width);  // the same reading, without the sum
}
constexpr Traffic broadcast_native_traffic(int p, int rank, int64_t n, int64_t width, int root) {
  if (rank == root) return {p - 1, (p - 1) * n * width, 0, 0};
  return {0, 0, 1, n * width};
}
constexpr Traffic gather_native_traffic(int p, int rank, int64_t n, int64_t width, int root) {
  const int64_t mine = chunk_count(n, p, rank);
  if (rank == root) return {0, 0, p - 1, (n - mine) * width};
  return {1, mine * width, 0, 0};
}
constexpr Traffic scatter_native_traffic(int p, int rank, int64_t n, int64_t width, int root) {
  const Traffic back = gather_native_traffic(p, rank, n, width, root);
  return {back.messages_received, back.bytes_received, back.messages_sent, back.bytes_sent};
}
inline Traffic reduce_native_traffic(int p, int rank, int64_t n, int64_t width, int root) {
  Traffic traffic = reduce_scatter_native_traffic(p, rank, n, width);
  return traffic += gather_native_traffic(p, rank, n, width, root);
}

// The same for any collective; `call` is that of rank `rank`.
inline Traffic native_traffic(int p, int rank, const NativeCall& call) {
  const int64_t in = call.in.count, out = call.out.count;
  const int64_t width = bytes_of(call.out.dtype);
  switch (call.operation) {
    case Operation::broadcast: return broadcast_native_traffic(p, rank, out, width, call.root);
    case Operation::reduce: return reduce_native_traffic(p, rank, out, width, call.root);
    case Operation::all_reduce: return all_reduce_native_traffic(p, rank, out, width);
    case Operation::reduce_scatter: return reduce_scatter_native_traffic(p, rank, in, width);
    case Operation::all_gather: return all_gather_native_traffic(p, rank, out, width);
    case Operation::all_to_all: return all_to_all_native_traffic(p, rank, in, width);
    case Operation::all_to_all_v: {
      const auto self = static_cast<size_t>(rank);
      const int64_t sent = in - call.in_counts[self], received = out - call.out_counts[self];
      return {p - 1, sent * width, p - 1, received * width};
    }
    case Operation::gather: return gather_native_traffic(p, rank, out, width, call.root);
    case Operation::scatter: return scatter_native_traffic(p, rank, in, width, call.root);
    case Operation::barrier: return {};
  }
  return {};
}

}  // namespace yotta
