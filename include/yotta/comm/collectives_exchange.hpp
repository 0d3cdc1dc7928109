// Pairwise exchange: all_to_all in p - 1 steps, each byte sent once and straight to where it
// belongs.
//
//     p = 4        step 1           step 2           step 3
//     rank 0       to 1, from 3     to 2, from 2     to 3, from 1
//     rank 1       to 2, from 0     to 3, from 3     to 0, from 2
//     rank 2       to 3, from 1     to 0, from 0     to 1, from 3
//     rank 3       to 0, from 2     to 1, from 1     to 2, from 0
//
// all_to_all is a transpose. Row i is rank i's data; afterwards rank j holds column j:
//
//     rank 0   a0 a1 a2 a3            a0 b0 c0 d0
//     rank 1   b0 b1 b2 b3     ─►     a1 b1 c1 d1
//     rank 2   c0 c1 c2 c3            a2 b2 c2 d2
//     rank 3   d0 d1 d2 d3            a3 b3 c3 d3
//
// In every step each rank sends one block and receives one, so no link is used twice at once.
// Cost: p-1 messages, (p-1)/p N bytes, (p-1) a + (p-1)/p N b: for long messages; Bruck's
// (collectives_bruck.hpp) for short ones.
// Contract: any p and n. In the uneven form in_counts[j] elements go to rank j and out_counts[i]
// come from rank i, one after the other in both arrays; rank i's in_counts[j] is rank j's
// out_counts[i].
// In two hops, inside the nodes and then between them: below.
// Letters and references: channel.hpp.
#pragma once

#include <numeric>
#include <span>

#include "yotta/comm/collectives_hierarchical.hpp"

namespace yotta {

// The run of elements that lies after those of ranks 0 to i - 1: works for Data and ConstData.
template <class AnyData>
AnyData run_of(AnyData data, Counts counts, int i) {
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + i, int64_t{0});
  return data.part(begin, begin + counts[static_cast<size_t>(i)]);
}

// in_counts[j] numbers of `in` go to rank j, out_counts[j] come from it; both lie in the order of
// ranks.
inline void all_to_all_v_pairwise(Channel& channel, ConstData in, Counts in_counts, Data out,
                                  Counts out_counts) {
  const int p = channel.size(), rank = channel.rank();
  copy_data(run_of(in, in_counts, rank), run_of(out, out_counts, rank));
  for (int step = 1; step < p; ++step) {
    const int to = wrap(rank + step, p), from = wrap(rank - step, p);
    channel.send_recv(run_of(in, in_counts, to), to, run_of(out, out_counts, from), from);
  }
}

// Chunk j of `in` goes to rank j; `out` holds chunk `rank` of rank 0, of rank 1, ...: p times the
// count of chunk `rank`.
inline void all_to_all_pairwise(Channel& channel, ConstData in, Data out) {
  const int p = channel.size(), rank = channel.rank();
  copy_data(in.chunk(rank, p), out.chunk(rank, p));
  for (int step = 1; step < p; ++step) {
    const int to = wrap(rank + step, p), from = wrap(rank - step, p);
    channel.send_recv(in.chunk(to, p), to, out.chunk(from, p), from);
  }
}

// Exact costs: what rank `rank` sends.
constexpr Sent all_to_all_pairwise_sent(int p, int rank, int64_t n, int64_t width) {
  return {p - 1, (n - chunk_count(n, p, rank)) * width};
}
inline Sent all_to_all_v_pairwise_sent(int rank, Counts in_counts, int64_t width) {
  const int64_t all = std::accumulate(in_counts.begin(), in_counts.end(), int64_t{0});
  return {std::ssize(in_counts) - 1, (all - in_counts[static_cast<size_t>(rank)]) * width};
}

// Published cost, for any p that divides n.
constexpr double all_to_all_pairwise_seconds(int p, double bytes, AlphaBeta link) {
  return (p - 1) * link.alpha + (p - 1.0) / p * bytes * link.beta;
}

// ---- in two hops ----
//
// First inside the nodes, then between them: few messages leave a node. In a pairwise exchange each
// rank sends to all ranks of all other nodes, g (k-1) messages over the
// slow links; with many ranks they are short, and their latency is what takes the time. Here a rank
// first gives what goes to local rank m, of any node, to local rank m of its own node. That one
// sends a single message to each other node:
//
//                  node 0                node 1
//              rank 0     rank 1     rank 2     rank 3
//     start    0 1 2 3    0 1 2 3    0 1 2 3    0 1 2 3     bound for these ranks
//     inside   0 2  0 2   1 3  1 3   0 2  0 2   1 3  1 3    even ones to the even local rank
//     regroup  0 0  2 2   1 1  3 3   0 0  2 2   1 1  3 3    by the node that they are bound for
//     between  0 0  0 0   1 1  1 1   2 2  2 2   3 3  3 3    among equals: ranks 0 and 2, 1 and 3
//
// What ends on a rank lies in the order of the ranks that sent it.
// Cost, for N bytes per rank, equal counts, g ranks per node, k = p / g nodes, links i inside and o
// between:
//
//               messages           bytes sent               those between nodes
//     pairwise  p-1                (p-1)/p N                g(k-1) messages, (k-1)/k N bytes
//     two hops  2(g-1) + k-1       (g-1)/g N + (k-1)/k N    k-1 messages,    (k-1)/k N bytes
//
//     seconds   pairwise  (p-1) (a_o + N/p b_o): a step is as slow as its slowest pair
//               two hops  2(g-1) a_i + (g-1)/g N b_i + (k-1) a_o + (k-1)/k N b_o
//
// In addition a rank tells each of the g-1 others in its node how much it has for each node: 8 k
// bytes. The same bytes cross between the nodes; inside, most of them are sent once more.
// Contract: as all_to_all_v_pairwise; g divides p; ranks 0 to g-1 are the first node.
// Reference: Rajbhandari et al. (2022), DeepSpeed-MoE, section 5.2 (hierarchical all-to-all).

// `columns` columns of row 0, of row 1, ... -> `rows` numbers of column 0, of column 1, ...
inline std::vector<int64_t> transposed_counts(Counts counts, int rows, int columns) {
  std::vector<int64_t> result;
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) result.push_back(counts[static_cast<size_t>(r * columns + c)]);
  return result;
}

// The sum of each row.
inline std::vector<int64_t> row_sums(Counts counts, int rows) {
  const size_t columns = counts.size() / static_cast<size_t>(rows);
  std::vector<int64_t> sums;
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const Counts row = counts.subspan(r * columns, columns);
    sums.push_back(std::accumulate(row.begin(), row.end(), int64_t{0}));
  }
  return sums;
}

// The runs of `from`, counts[r * columns + c] numbers each, in the order of their transpose.
inline Tensor transposed_runs(ConstData from, Counts counts, int rows, int columns) {
  Tensor result = scratch(from.count, from);
  int64_t begin = 0;
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) {
      const ConstData run = run_of(from, counts, r * columns + c);
      copy_data(run, Data(result).part(begin, begin + run.count));
      begin += run.count;
    }
  return result;
}

// in_counts[j] numbers of `in` go to rank j, out_counts[j] come from it. g: ranks per node.
inline void all_to_all_v_hierarchical(Channel& channel, ConstData in, Counts in_counts, Data out,
                                      Counts out_counts, int g, Where where = Where::current()) {
  const int p = channel.size(), rank = channel.rank();
  expect_equal_nodes("all_to_all_v", p, g, where);
  const int k = p / g;
  ChannelSlice inside(channel, rank / g * g, 1, g), between(channel, rank % g, g, k);
  const std::vector<int64_t> to = transposed_counts(in_counts, k, g);  // by local rank, then node
  std::vector<int64_t> from(to.size());  // what each local rank has for this one to pass on
  all_to_all_pairwise(inside, to, from);
  const std::vector<int64_t> gathered = row_sums(from, g);
  Tensor passed = scratch(std::accumulate(gathered.begin(), gathered.end(), int64_t{0}), in);
  all_to_all_v_pairwise(inside, transposed_runs(in, in_counts, k, g), row_sums(to, g), passed,
                        gathered);
  all_to_all_v_pairwise(between, transposed_runs(passed, from, g, k),
                        row_sums(transposed_counts(from, g, k), k), out, row_sums(out_counts, k));
}

// Exact cost: what rank `rank` sends if rank i has counts[i * p + j] numbers for rank j.
inline Sent all_to_all_v_hierarchical_sent(int p, int rank, Counts counts, int64_t width, int g) {
  const int k = p / g, node = rank / g;
  int64_t numbers = 0;
  for (int i = 0; i < p; ++i)
    for (int j = 0; j < p; ++j) {
      const int64_t count = counts[static_cast<size_t>(i * p + j)];
      if (i == rank && j % g != rank % g) numbers += count;                       // inside
      if (i / g == node && j % g == rank % g && j / g != node) numbers += count;  // between
    }
  return {2 * (g - 1) + k - 1, numbers * width + (g - 1) * k * 8};
}

// For equal counts, `bytes` on each rank.
constexpr double all_to_all_v_hierarchical_seconds(int p, double bytes, int g, AlphaBeta inside,
                                                   AlphaBeta between) {
  const int k = p / g;
  return all_to_all_pairwise_seconds(g, 8.0 * k * g, inside) +
         all_to_all_pairwise_seconds(g, bytes, inside) +
         all_to_all_pairwise_seconds(k, bytes, between);
}

}  // namespace yotta
