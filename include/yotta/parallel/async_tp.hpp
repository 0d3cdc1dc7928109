// Async-TP: sequence parallelism's collectives in pieces, which travel while others are multiplied.
//
// With sequence parallelism an all_gather stands before a matmul and a reduce_scatter after one.
// The matmul cannot begin before the last token has come, and the network rests while it runs:
//
//     whole     [all_gather ════════][matmul ── ── ── ──]
//     pieces    [matmul ──][matmul ──][matmul ──][matmul ──]      compute
//               [hop ═══]  [hop ═══]  [hop ═══]                   network
//
// But a row of the product needs one row of x only. So the tokens go round the ring a rank's piece
// at a time, and each rank multiplies the piece that it has while the next one comes:
//
//     all_gather, then matmul, p = 4        rank 0      rank 1      rank 2      rank 3
//     step 0: multiply, own piece leaves    x0 W0 ─►    x1 W1 ─►    x2 W2 ─►    x3 W3 ─►
//     step 1: multiply what came, pass on   x3 W0 ─►    x0 W1 ─►    x1 W2 ─►    x2 W3 ─►
//     step 2                                x2 W0 ─►    x3 W1 ─►    x0 W2 ─►    x1 W3 ─►
//     step 3                                x1 W0       x2 W1       x3 W2       x0 W3
//
//     matmul, then reduce_scatter           a sum travels: each rank multiplies its part of it
//     step 0                                s3 ─►       s0 ─►       s1 ─►       s2 ─►
//     step 1: multiply, add what came       s2 ─►       s3 ─►       s0 ─►       s1 ─►
//     step 2                                s1 ─►       s2 ─►       s3 ─►       s0 ─►
//     step 3: its own rows come home        s0          s1          s2          s3
//
// One way the right link is used. Both ways, pieces come from either neighbour, so that p - 1 hops
// take p / 2 steps, each with two pieces to multiply. A torus has a link for each neighbour; behind
// a switch both share one.
//
//     forward    x gathered, times each reader's W          y = a B summed and scattered
//     dgrad      dy A' summed and scattered                 dy gathered, times B'
//     wgrad      x gathered again, dW += dy' x by pieces    (dy is whole by now)
//
// Cost: the ring's p - 1 messages and (p-1)/p of the bytes, as of the whole collectives. A piece's
// matmul takes M, its hop H. If M >= H, a gather and its matmul take p M: what the matmul takes
// alone. M grows with the width of the rank's matrix, H does not: async_tp_hidden_width. But p
// small matmuls may be slower than one: machine/tile_waves.hpp.
// Contract: as sequence_parallel.hpp; all ranks of tp go the same way. Sums are added in one order.
// async_tp_layers.hpp has the linear layers on it.
// Letters: N tokens of all, n of a rank's piece, C width, I inputs, O outputs on a rank, p ranks.
// References: Wang et al., Overlap Communication with Dependent Computation via Decomposition
// (ASPLOS 2023); PyTorch's async tensor parallelism (2024).
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/nn/elementwise.hpp"

namespace yotta {

// How the tokens of all ranks of tp come to a matmul, and its sums to the ranks: in one collective,
// or one rank's piece at a time, while other pieces are multiplied.
enum class Pieces : uint8_t { none, one_way, both_ways };

// How many hops pieces make to the right, and to the left; together p - 1.
struct Reach {
  int right = 0, left = 0;
};
constexpr Reach reach_of(int p, Pieces pieces) {
  return pieces == Pieces::both_ways ? Reach{p / 2, (p - 1) / 2} : Reach{p - 1, 0};
}

// multiply(first, rows) gets rows (n, C) of one rank, of which the first is number `first` of all.
using WithPiece = std::function<void(int64_t first, const Tensor& rows)>;

namespace detail {

// Pieces in flight. They must not be read or written before arrive().
class Hops {
 public:
  explicit Hops(const Communicator& tp) : tp_(tp) {}
  void start(const Tensor& out, int to, const Tensor& in, int from) {
    held_.insert(held_.end(), {out, in});
    works_.push_back(tp_.recv_async(held_.back(), from));
    works_.push_back(tp_.send_async(out, to));
  }
  void arrive() {
    for (Work& work : works_) work.wait();
    works_.clear();
    held_.clear();
  }

 private:
  const Communicator& tp_;
  std::vector<Tensor> held_;
  std::vector<Work> works_;
};

// The N rows of p ranks. A rank's number may be any whole number from -p to 2p.
struct PieceRows {
  int64_t N;
  int p;

  int64_t first(int r) const { return chunk_begin(N, p, wrap(r, p)); }
  int64_t count(int r) const { return chunk_count(N, p, wrap(r, p)); }
  // Those of rank r; all (N, C).
  Tensor of(const Tensor& all, int r) const { return all.rows(first(r), first(r) + count(r)); }
  Tensor space(int r, const Tensor& like) const {
    return empty_beside(like, {count(r), like.dim(1)}, like.dtype(), Where::current());
  }
};

}  // namespace detail

// shard (n, C), this rank's -> (N, C), all. Calls `multiply` for every rank's piece, its own first.
inline Tensor all_gather_in_pieces(const Tensor& shard, int64_t N, const Communicator& tp,
                                   Pieces pieces, const WithPiece& multiply) {
  const int p = axis_size(tp), rank = axis_rank(tp);
  const int right = wrap(rank + 1, p), left = wrap(rank - 1, p);
  const Reach reach = reach_of(p, pieces);
  const detail::PieceRows rows{N, p};
  Tensor all = empty_beside(shard, {N, shard.dim(1)}, shard.dtype(), Where::current());
  const auto piece = [&](int r) { return rows.of(all, r); };
  piece(rank).copy_from(shard);
  detail::Hops hops(tp);
  for (int step = 0; step <= reach.right; ++step) {
    if (step < reach.right) hops.start(piece(rank - step), right, piece(rank - step - 1), left);
    if (step < reach.left) hops.start(piece(rank + step), left, piece(rank + step + 1), right);
    multiply(rows.first(rank - step), piece(rank - step));
    if (0 < step && step <= reach.left) multiply(rows.first(rank + step), piece(rank + step));
    hops.arrive();
  }
  return all;
}

// multiply(first, n) returns this rank's part of n rows' sums, (n, C), which will be added to.
using MakePiece = std::function<Tensor(int64_t first, int64_t n)>;
// Calls it for every rank's rows, its own last -> (n, C), the sums of this rank's rows.
inline Tensor reduce_scatter_in_pieces(int64_t N, const Communicator& tp, Pieces pieces,
                                       const MakePiece& multiply) {
  const int p = axis_size(tp), rank = axis_rank(tp);
  const int right = wrap(rank + 1, p), left = wrap(rank - 1, p);
  const Reach reach = reach_of(p, pieces);
  const detail::PieceRows rows{N, p};
  const auto part = [&](int r) { return multiply(rows.first(r), rows.count(r)); };
  detail::Hops hops(tp);
  Tensor rightward, leftward, from_left, from_right;  // sums that leave, and that come
  for (int d = reach.right; d >= 0; --d) {
    rightward = part(rank + d);
    if (0 < d && d <= reach.left) leftward = part(rank - d);
    hops.arrive();
    if (d < reach.right) add_into(rightward, from_left);
    if (d < reach.left) add_into(d > 0 ? leftward : rightward, from_right);
    if (d == 0) break;
    from_left = rows.space(rank + d - 1, rightward);
    hops.start(rightward, right, from_left, left);
    if (d > reach.left) continue;
    from_right = rows.space(rank - d + 1, leftward);
    hops.start(leftward, left, from_right, right);
  }
  return rightward;
}

// ---- cost of one gather of N rows, with its matmul ----
// What rank `rank` sends: what has come from so far away is passed on.
constexpr Sent gather_in_pieces_sent(int p, int rank, int64_t N, int64_t row_bytes, Pieces pieces) {
  const Reach reach = reach_of(p, pieces);
  int64_t rows = 0;
  for (int far = 0; far < reach.right; ++far) rows += chunk_count(N, p, wrap(rank - far, p));
  for (int far = 0; far < reach.left; ++far) rows += chunk_count(N, p, wrap(rank + far, p));
  return {p - 1, rows * row_bytes};
}

// Seconds, if a piece's matmul takes M and its hop H; both ways, if each has a link of its own.
constexpr double gather_matmul_seconds(int p, Pieces pieces, double M, double H) {
  const Reach reach = reach_of(p, pieces);
  double seconds = 0;
  for (int step = 0; step <= reach.right; ++step) {
    const double multiply = (0 < step && step <= reach.left ? 2 : 1) * M;
    seconds += step < reach.right ? std::max(multiply, H) : multiply;
  }
  return seconds;
}

// ---- the same for a sum ----
constexpr Sent scatter_in_pieces_sent(int p, int rank, int64_t N, int64_t row_bytes,
                                      Pieces pieces) {
  const Reach reach = reach_of(p, pieces);
  int64_t rows = 0;  // rows that travel this far
  for (int far = 1; far <= reach.right; ++far) rows += chunk_count(N, p, wrap(rank + far, p));
  for (int far = 1; far <= reach.left; ++far) rows += chunk_count(N, p, wrap(rank - far, p));
  return {p - 1, rows * row_bytes};
}

// Adding a piece that has arrived takes A.
constexpr double matmul_scatter_seconds(int p, Pieces pieces, double M, double H, double A) {
  const Reach reach = reach_of(p, pieces);
  double seconds = 0;
  for (int d = reach.right; d >= 0; --d) {
    const double multiply = (0 < d && d <= reach.left ? 2 : 1) * M;
    seconds += d < reach.right ? std::max(multiply, H) + (d < reach.left ? 2 : 1) * A : multiply;
  }
  return seconds;
}

// The width from which M >= H: outputs O of a gather's matmul on a rank, inputs I of a sum's. M is
// 2 n C O FLOPs and a launch; H is n C numbers and alpha. `late`: alpha less a launch; if it is 0,
// the `numbers` n C of a piece do not count.
constexpr double async_tp_hidden_width(double flops_per_second, double bytes_per_second,
                                       double bytes_each, double late = 0, double numbers = 1) {
  return flops_per_second * (bytes_each / bytes_per_second + late / numbers) / 2;
}

}  // namespace yotta
