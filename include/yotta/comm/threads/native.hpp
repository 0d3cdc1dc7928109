// Native collectives of ranks that share one memory: nothing is sent, every rank reads and writes the
// others' buffers in place.
//
// all_reduce: rank r is responsible for chunk r of everybody. Between two meetings it reads that chunk
// from all p buffers, sums it, and writes the sum back to all p:
//
//                    chunk 0   chunk 1   chunk 2   chunk 3
//     rank 0's data     │         │         │         │
//     rank 1's data     │         │         │         │          read down, sum, write down
//     rank 2's data     │         │         │         │
//     rank 3's data     ▼         ▼         ▼         ▼
//             done by rank 0    rank 1    rank 2    rank 3
//
// Each number is read once and written once, where a ring of messages would move it 2(p-1) times. The work
// goes in tiles that stay in the first-level cache, and in the ring's order, from rank r + 1 round to
// rank r, so the bits are those of all_reduce_ring.
//
// Cost: two meetings, whatever p. On the ledger stands what crossed from rank to rank, and a run of
// numbers read from or written to another rank counts as one message: 2(p-1) messages and 2(p-1)/p N
// bytes a rank for all_reduce, as for the ring.
// Contract: as in collectives_ring.hpp; no rank returns before the others are done with its buffers.
#pragma once

#include <array>

#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/engine/reduce_ops.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/threads/shared_memory_channel.hpp"
#include "yotta/comm/engine/native_traffic.hpp"

namespace yotta {

namespace detail {

inline constexpr int64_t tile_bytes = 1024;  // what is reduced in one step

// What one rank reduces: the runs it reads, in the order of the ring that ends at this rank, and those
// that get the result. All have the same length. A run may be both source and target.
struct Runs {
  std::vector<ConstData> sources;
  std::vector<Data> targets;
};

// `count` elements from `first` on, which fit in a tile, are read from all sources, combined from the
// left and written to all targets. The first `together` sources are combined in one pass, in vector
// registers: with four ranks that is a third less time than one source after the other.
template <class T, size_t together, class Count, class Combine>
void reduce_tile(const Runs& runs, int64_t first, Count count, Combine combine) {
  T sum[tile_bytes / sizeof(T)];
  const auto source = [&](size_t s) {
    return reinterpret_cast<const T*>(runs.sources[s].bytes) + first;
  };
  std::array<const T*, together> from;
  for (size_t s = 0; s < together; ++s) from[s] = source(s);
  for (int64_t i = 0; i < count; ++i) {
    T x = from[0][i];
    for (size_t s = 1; s < together; ++s) x = combine(x, from[s][i]);
    sum[i] = x;
  }
  for (size_t s = together; s < runs.sources.size(); ++s) {
    const T* next = source(s);
    for (int64_t i = 0; i < count; ++i) sum[i] = combine(sum[i], next[i]);
  }
  for (const Data& target : runs.targets)
    std::copy_n(sum, int64_t{count}, reinterpret_cast<T*>(target.bytes) + first);
}

// Passes of one rank over more than a tile go upwards and downwards in turn: what one has touched last is
// still in the cache when the next begins. Where an array is twice the size of the second-level caches
// that is a fifth less time.
YOTTA_THREAD_LOCAL bool downwards = false;

template <class T, size_t together>
void reduce_tiles(const Runs& runs, ReduceOp op) {
  constexpr int64_t tile = tile_bytes / int64_t{sizeof(T)};
  const int64_t count = runs.sources[0].count, tiles = count / tile;
  if (tiles > 0) downwards = !downwards;
  visit_op<T>(op, [&](auto combine) {
    for (int64_t i = 0; i < tiles; ++i)
      reduce_tile<T, together>(runs, (downwards ? tiles - 1 - i : i) * tile,
                               std::integral_constant<int64_t, tile>(), combine);
    reduce_tile<T, together>(runs, tiles * tile, count % tile, combine);
  });
}

// Reduces the whole runs. Small floats and integers go one source after the other, so that not every
// type brings its own vector loops.
inline void reduce_runs(const Runs& runs, ReduceOp op) {
  visit(runs.sources[0].dtype, [&]<class T>(Type<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      if (runs.sources.size() == 2) return reduce_tiles<T, 2>(runs, op);
      if (runs.sources.size() == 3) return reduce_tiles<T, 3>(runs, op);
      if (runs.sources.size() >= 4) return reduce_tiles<T, 4>(runs, op);
    }
    reduce_tiles<T, 1>(runs, op);
  });
}

// Elements [begin, end) of what all ranks show, reduced into the targets.
inline void reduce_range(const SharedMemoryChannel& meeting, int64_t begin, int64_t end, ReduceOp op,
                         std::vector<Data> targets) {
  const int p = meeting.size();
  Runs runs{{}, std::move(targets)};
  for (int i = 1; i <= p; ++i)
    runs.sources.push_back(meeting.in(wrap(meeting.rank() + i, p)).part(begin, end));
  reduce_runs(runs, op);
}

// This rank's chunk of n elements: [begin, end).
struct Range {
  int64_t begin, end;
};
inline Range my_chunk(const SharedMemoryChannel& meeting, int64_t n) {
  const int p = meeting.size(), rank = meeting.rank();
  return {chunk_begin(n, p, rank), chunk_begin(n, p, rank + 1)};
}

}  // namespace detail

// Every rank ends with the sum, in place.
inline void all_reduce_native(SharedMemoryChannel& meeting, Data data, ReduceOp op) {
  const auto [begin, end] = detail::my_chunk(meeting, data.count);
  meeting.show(data, data);
  meeting.meet();
  std::vector<Data> everywhere;
  for (int rank = 0; rank < meeting.size(); ++rank)
    everywhere.push_back(meeting.out(rank).part(begin, end));
  detail::reduce_range(meeting, begin, end, op, std::move(everywhere));
  meeting.meet();
  meeting.count(
      all_reduce_native_traffic(meeting.size(), meeting.rank(), data.count, bytes_of(data.dtype)));
}

// The root ends with the sum; the others' data stays as it was. All ranks work, each on its chunk.
inline void reduce_native(SharedMemoryChannel& meeting, Data data, ReduceOp op, int root) {
  const auto [begin, end] = detail::my_chunk(meeting, data.count);
  meeting.show(data, data);
  meeting.meet();
  detail::reduce_range(meeting, begin, end, op, {meeting.out(root).part(begin, end)});
  meeting.meet();
  meeting.count(reduce_native_traffic(meeting.size(), meeting.rank(), data.count,
                                      bytes_of(data.dtype), root));
}

// Rank r ends with chunk r of the sum.
inline void reduce_scatter_native(SharedMemoryChannel& meeting, ConstData in, Data out, ReduceOp op) {
  const auto [begin, end] = detail::my_chunk(meeting, in.count);
  meeting.show(in, out);
  meeting.meet();
  detail::reduce_range(meeting, begin, end, op, {out});
  meeting.meet();
  meeting.count(
      reduce_scatter_native_traffic(meeting.size(), meeting.rank(), in.count, bytes_of(in.dtype)));
}

// All ranks end with the root's data.
inline void broadcast_native(SharedMemoryChannel& meeting, Data data, int root) {
  meeting.show(data, data);
  meeting.meet();
  if (meeting.rank() != root) copy_data(meeting.in(root), data);
  meeting.meet();
  meeting.count(broadcast_native_traffic(meeting.size(), meeting.rank(), data.count,
                                         bytes_of(data.dtype), root));
}

// All ranks end with all n elements; `in` is this rank's chunk.
inline void all_gather_native(SharedMemoryChannel& meeting, ConstData in, Data out) {
  const int p = meeting.size();
  meeting.show(in, out);
  meeting.meet();
  for (int rank = 0; rank < p; ++rank) copy_data(meeting.in(rank), out.chunk(rank, p));
  meeting.meet();
  meeting.count(all_gather_native_traffic(p, meeting.rank(), out.count, bytes_of(out.dtype)));
}

// Chunk j of `in` goes to rank j; `out` holds chunk `rank` of rank 0, of rank 1, ...
inline void all_to_all_native(SharedMemoryChannel& meeting, ConstData in, Data out) {
  const int p = meeting.size(), mine = meeting.rank();
  meeting.show(in, out);
  meeting.meet();
  for (int rank = 0; rank < p; ++rank)
    copy_data(meeting.in(rank).chunk(mine, p), out.chunk(rank, p));
  meeting.meet();
  meeting.count(all_to_all_native_traffic(p, mine, in.count, bytes_of(in.dtype)));
}

// in_counts[j] elements go to rank j, out_counts[i] come from rank i. All show their counts first, then
// their data. Errors: Mismatch, where the two sides differ.
inline void all_to_all_v_native(SharedMemoryChannel& meeting, ConstData in, Counts in_counts, Data out,
                                Counts out_counts, Where where = Where::current()) {
  const int p = meeting.size(), self = meeting.rank();
  meeting.show(in_counts, {});
  meeting.meet();
  std::vector<int64_t> begins;  // where this rank's numbers begin in those of each rank
  for (int rank = 0; rank < p; ++rank) {
    const auto* theirs = reinterpret_cast<const int64_t*>(meeting.in(rank).bytes);
    const int64_t expected = out_counts[static_cast<size_t>(rank)];
    if (theirs[self] != expected)
      fail_as<Mismatch>(where,
                        "all_to_all_v: rank {} sends {} elements to rank {}, which expects {}",
                        rank, theirs[self], self, expected);
    begins.push_back(std::accumulate(theirs, theirs + self, int64_t{0}));
  }
  meeting.meet();
  meeting.show(in, out);
  meeting.meet();
  for (int rank = 0; rank < p; ++rank) {
    const Data place = run_of(out, out_counts, rank);
    const int64_t begin = begins[static_cast<size_t>(rank)];
    copy_data(meeting.in(rank).part(begin, begin + place.count), place);
  }
  meeting.meet();
  meeting.count(native_traffic(
      p, self, {Operation::all_to_all_v, in, out, ReduceOp::sum, 0, in_counts, out_counts}));
}

// The root ends with all n elements; each rank writes its chunk there. `out` is used at the root only.
inline void gather_native(SharedMemoryChannel& meeting, ConstData in, Data out, int root) {
  meeting.show(in, out);
  meeting.meet();
  const Data all = meeting.out(root);
  copy_data(in, all.chunk(meeting.rank(), meeting.size()));
  meeting.meet();
  meeting.count(
      gather_native_traffic(meeting.size(), meeting.rank(), all.count, bytes_of(in.dtype), root));
}

// Each rank ends with its chunk of the root's n elements. `in` is used at the root only.
inline void scatter_native(SharedMemoryChannel& meeting, ConstData in, Data out, int root) {
  meeting.show(in, out);
  meeting.meet();
  const ConstData all = meeting.in(root);
  copy_data(all.chunk(meeting.rank(), meeting.size()), out);
  meeting.meet();
  meeting.count(
      scatter_native_traffic(meeting.size(), meeting.rank(), all.count, bytes_of(out.dtype), root));
}

// Nobody leaves before everybody has come.
inline void barrier_native(SharedMemoryChannel& meeting) { meeting.meet(); }

}  // namespace yotta
