// Cut from include/yotta. Students: write between the marks of your copy in work/.
// Authors: edit the library's header; `./yotta check NN --cut` writes this file again.
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
#include "yotta/comm/mesh.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"

namespace yotta::student {

// How many hops pieces make to the right, and to the left; together p - 1.
struct Reach {
  int right = 0, left = 0;
};
constexpr Reach reach_of(int p, Pieces pieces) {
  // exercise 22.1: warm-up, all hops one way; or half of them each way, the odd one to the right
  not_done("22.1");
  return {};
  // end of exercise 22.1
}

// multiply(first, rows) gets rows (n, C) of one rank, of which the first is number `first` of all.
using WithPiece = std::function<void(int64_t first, const Tensor& rows)>;
// shard (n, C), this rank's -> (N, C), all. Calls `multiply` for every rank's piece, its own first.
inline Tensor all_gather_in_pieces(const Tensor& shard, int64_t N, const Communicator& tp,
                                      Pieces pieces, const WithPiece& multiply);

// multiply(first, n) returns this rank's part of n rows' sums, (n, C), which will be added to.
using MakePiece = std::function<Tensor(int64_t first, int64_t n)>;
// Calls it for every rank's rows, its own last -> (n, C), the sums of this rank's rows.
inline Tensor reduce_scatter_in_pieces(int64_t N, const Communicator& tp, Pieces pieces,
                                          const MakePiece& multiply);


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

}  // namespace detail

Tensor all_gather_in_pieces(const Tensor& shard, int64_t N, const Communicator& tp, Pieces pieces,
                            const WithPiece& multiply) {
  // exercise 22.2: in each step the next hops start, what is here is multiplied, then they arrive
  not_done("22.2");
  return {};
  // end of exercise 22.2
}

Tensor reduce_scatter_in_pieces(int64_t N, const Communicator& tp, Pieces pieces,
                                const MakePiece& multiply) {
  // exercise 22.3: the sum of rank + d goes right, that of rank - d left; at d = 0 both are home
  not_done("22.3");
  return {};
  // end of exercise 22.3
}


// ---- cost of one gather of N rows, with its matmul ----
// What rank `rank` sends: what has come from so far away is passed on.
constexpr Sent gather_in_pieces_sent(int p, int rank, int64_t N, int64_t row_bytes, Pieces pieces) {
  // exercise 22.4: the rows of the pieces that leave to the right, and of those to the left
  not_done("22.4");
  return {};
  // end of exercise 22.4
}

// Seconds, if a piece's matmul takes M and its hop H; both ways, if each has a link of its own.
constexpr double gather_matmul_seconds(int p, Pieces pieces, double M, double H) {
  // exercise 22.5: add up the steps: what is multiplied in each, and what travels meanwhile
  not_done("22.5");
  return {};
  // end of exercise 22.5
}

}  // namespace yotta::student
