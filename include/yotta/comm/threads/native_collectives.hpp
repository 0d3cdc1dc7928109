// Native collectives of ranks that share one memory: nothing is sent, every rank reads and writes
// the others' buffers in place.
//
// all_reduce: rank r is responsible for chunk r of every buffer. Between two barriers it reads that
// chunk from all p buffers, sums it, and writes the sum back to all p:
//
//                    chunk 0   chunk 1   chunk 2   chunk 3
//     rank 0's data     │         │         │         │
//     rank 1's data     │         │         │         │          read down, sum, write down
//     rank 2's data     │         │         │         │
//     rank 3's data     ▼         ▼         ▼         ▼
//             done by rank 0    rank 1    rank 2    rank 3
//
// Each number is read once and written once, where a ring of messages would move it 2(p-1) times. A
// rank works in tiles that stay in the first-level cache. It sums in the ring's order, from rank r
// + 1 round to rank r, so the bits are those of all_reduce_ring.
//
// Cost: two barriers, whatever p. The ledger counts what crosses from rank to rank: a run of
// numbers read from or written to another rank is one message. all_reduce counts 2(p-1) messages
// and 2(p-1)/p N bytes per rank, as the ring does.
// Contract: as in collectives_ring.hpp; no rank returns before the others are done with its
// buffers.
#pragma once

#include <array>

#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/engine/native_traffic.hpp"
#include "yotta/comm/engine/reduce_arithmetic.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/threads/collective_rendezvous.hpp"

namespace yotta {

namespace detail {

inline constexpr int64_t tile_bytes = 1024;  // what is reduced in one step

// What one rank reduces: the runs it reads, in the order of the ring that ends at this rank, and
// the runs that get the result. All have the same length. A run may be both source and target.
struct Runs {
  std::vector<ConstData> sources;
  std::vector<Data> targets;
};

// Reduces the whole runs.
void reduce_runs(const Runs& runs, ReduceOp op);

// Reduces elements [begin, end) of what all ranks show into the targets.
inline void reduce_range(const SharedMemoryChannel& channel, int64_t begin, int64_t end,
                         ReduceOp op, std::vector<Data> targets) {
  const int p = channel.size();
  Runs runs{{}, std::move(targets)};
  for (int i = 1; i <= p; ++i)
    runs.sources.push_back(channel.in(wrap(channel.rank() + i, p)).part(begin, end));
  reduce_runs(runs, op);
}

// This rank's chunk of n elements: [begin, end).
struct Range {
  int64_t begin, end;
};
inline Range my_chunk(const SharedMemoryChannel& channel, int64_t n) {
  const int p = channel.size(), rank = channel.rank();
  return {chunk_begin(n, p, rank), chunk_begin(n, p, rank + 1)};
}

}  // namespace detail

// Every rank ends with the sum, in place.
inline void all_reduce_native(SharedMemoryChannel& channel, Data data, ReduceOp op) {
  const auto [begin, end] = detail::my_chunk(channel, data.count);
  channel.show(data, data);
  channel.meet();
  std::vector<Data> everywhere;
  for (int rank = 0; rank < channel.size(); ++rank)
    everywhere.push_back(channel.out(rank).part(begin, end));
  detail::reduce_range(channel, begin, end, op, std::move(everywhere));
  channel.meet();
  channel.count(
      all_reduce_native_traffic(channel.size(), channel.rank(), data.count, bytes_of(data.dtype)));
}

// The root ends with the sum; the others' data stays as it was. All ranks work, each on its chunk.
inline void reduce_native(SharedMemoryChannel& channel, Data data, ReduceOp op, int root) {
  const auto [begin, end] = detail::my_chunk(channel, data.count);
  channel.show(data, data);
  channel.meet();
  detail::reduce_range(channel, begin, end, op, {channel.out(root).part(begin, end)});
  channel.meet();
  channel.count(reduce_native_traffic(channel.size(), channel.rank(), data.count,
                                      bytes_of(data.dtype), root));
}

// Rank r ends with chunk r of the sum.
inline void reduce_scatter_native(SharedMemoryChannel& channel, ConstData in, Data out,
                                  ReduceOp op) {
  const auto [begin, end] = detail::my_chunk(channel, in.count);
  channel.show(in, out);
  channel.meet();
  detail::reduce_range(channel, begin, end, op, {out});
  channel.meet();
  channel.count(
      reduce_scatter_native_traffic(channel.size(), channel.rank(), in.count, bytes_of(in.dtype)));
}

// All ranks end with the root's data.
inline void broadcast_native(SharedMemoryChannel& channel, Data data, int root) {
  channel.show(data, data);
  channel.meet();
  if (channel.rank() != root) copy_data(channel.in(root), data);
  channel.meet();
  channel.count(broadcast_native_traffic(channel.size(), channel.rank(), data.count,
                                         bytes_of(data.dtype), root));
}

// All ranks end with all n elements; `in` is this rank's chunk.
inline void all_gather_native(SharedMemoryChannel& channel, ConstData in, Data out) {
  const int p = channel.size();
  channel.show(in, out);
  channel.meet();
  for (int rank = 0; rank < p; ++rank) copy_data(channel.in(rank), out.chunk(rank, p));
  channel.meet();
  channel.count(all_gather_native_traffic(p, channel.rank(), out.count, bytes_of(out.dtype)));
}

// Chunk j of `in` goes to rank j; `out` holds chunk `rank` of rank 0, of rank 1, ...
inline void all_to_all_native(SharedMemoryChannel& channel, ConstData in, Data out) {
  const int p = channel.size(), mine = channel.rank();
  channel.show(in, out);
  channel.meet();
  for (int rank = 0; rank < p; ++rank)
    copy_data(channel.in(rank).chunk(mine, p), out.chunk(rank, p));
  channel.meet();
  channel.count(all_to_all_native_traffic(p, mine, in.count, bytes_of(in.dtype)));
}

// in_counts[j] elements go to rank j, out_counts[i] come from rank i. All ranks show their counts
// first, then their data. Errors: Mismatch, where the two sides differ.
inline void all_to_all_v_native(SharedMemoryChannel& channel, ConstData in, Counts in_counts,
                                Data out, Counts out_counts, Where where = Where::current()) {
  const int p = channel.size(), self = channel.rank();
  channel.show(in_counts, {});
  channel.meet();
  std::vector<int64_t> begins;  // where this rank's numbers begin in those of each rank
  for (int rank = 0; rank < p; ++rank) {
    const auto* theirs = reinterpret_cast<const int64_t*>(channel.in(rank).bytes);
    const int64_t expected = out_counts[static_cast<size_t>(rank)];
    if (theirs[self] != expected)
      fail_as<Mismatch>(where,
                        "all_to_all_v: rank {} sends {} elements to rank {}, which expects {}",
                        rank, theirs[self], self, expected);
    begins.push_back(std::accumulate(theirs, theirs + self, int64_t{0}));
  }
  channel.meet();
  channel.show(in, out);
  channel.meet();
  for (int rank = 0; rank < p; ++rank) {
    const Data place = run_of(out, out_counts, rank);
    const int64_t begin = begins[static_cast<size_t>(rank)];
    copy_data(channel.in(rank).part(begin, begin + place.count), place);
  }
  channel.meet();
  channel.count(native_traffic(
      p, self, {Operation::all_to_all_v, in, out, ReduceOp::sum, 0, in_counts, out_counts}));
}

// The root ends with all n elements; each rank writes its chunk there. `out` is used at the root
// only.
inline void gather_native(SharedMemoryChannel& channel, ConstData in, Data out, int root) {
  channel.show(in, out);
  channel.meet();
  const Data all = channel.out(root);
  copy_data(in, all.chunk(channel.rank(), channel.size()));
  channel.meet();
  channel.count(
      gather_native_traffic(channel.size(), channel.rank(), all.count, bytes_of(in.dtype), root));
}

// Each rank ends with its chunk of the root's n elements. `in` is used at the root only.
inline void scatter_native(SharedMemoryChannel& channel, ConstData in, Data out, int root) {
  channel.show(in, out);
  channel.meet();
  const ConstData all = channel.in(root);
  copy_data(all.chunk(channel.rank(), channel.size()), out);
  channel.meet();
  channel.count(
      scatter_native_traffic(channel.size(), channel.rank(), all.count, bytes_of(out.dtype), root));
}

// No rank leaves before every rank has arrived.
inline void barrier_native(SharedMemoryChannel& channel) { channel.meet(); }

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/threads/impl/native_collectives.ipp"
#endif
