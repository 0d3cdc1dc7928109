// The published costs of collectives: Thakur, Rabenseifner, Gropp 2005 (TRG), Chan et al. 2007,
// Bruck et al. 1997, Patarasu & Yuan 2009. First what each formula says, then that running the
// algorithm sends exactly that: the busiest rank's messages are the factor of alpha and its bytes
// the factor of beta.
#include <doctest/doctest.h>

#include <algorithm>

#include "comm/local_ranks.hpp"
#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_tree.hpp"

using namespace yotta;
using yotta_test::LocalRanks;

namespace {

constexpr int64_t n = 1 << 10;  // f32: 4096 bytes; divides by every power of two below
constexpr double N = 4 * n;

// The factors of alpha, beta and gamma in a formula seconds(p, bytes, link).
template <class Formula>
AlphaBeta factors(Formula seconds, int p) {
  return {seconds(p, N, {1, 0, 0}), seconds(p, N, {0, 1, 0}), seconds(p, N, {0, 0, 1})};
}

void check_factors(const AlphaBeta& actual, double alpha, double beta, double gamma) {
  CHECK(actual.alpha == alpha);
  CHECK(actual.beta == beta);
  CHECK(actual.gamma == gamma);
}

// The most messages and the most bytes that any rank sends when body(rank) runs on p ranks.
template <class Body>
AlphaBeta busiest(int p, Body body) {
  AlphaBeta most;
  for (const Sent& sent : LocalRanks::run(p, [&](LocalRanks::Rank& rank) { body(rank); })) {
    most.alpha = std::max(most.alpha, static_cast<double>(sent.messages));
    most.beta = std::max(most.beta, static_cast<double>(sent.bytes));
  }
  return most;
}

void check_run(const AlphaBeta& run, const AlphaBeta& formula) {
  CHECK(run.alpha == formula.alpha);
  CHECK(run.beta == formula.beta);
}

// n numbers on every rank, and the place for them or for one chunk.
struct Arrays {
  explicit Arrays(const Channel& channel)
      : all(Tensor::zeros({n})),
        out(Tensor::zeros({n})),
        chunk(Tensor::zeros({n / channel.size()})) {}
  Tensor all, out, chunk;
};

}  // namespace

TEST_CASE("TRG table of all_reduce: ring, recursive doubling, Rabenseifner") {
  for (const int lg : {0, 1, 2, 3}) {
    const int p = 1 << lg;
    const double share = (p - 1.0) / p * N;
    const AlphaBeta ring = factors(all_reduce_ring_seconds, p);
    const AlphaBeta doubling = factors(all_reduce_recursive_doubling_seconds, p);
    const AlphaBeta rabenseifner = factors(all_reduce_rabenseifner_seconds, p);
    check_factors(ring, 2 * (p - 1), 2 * share, share);
    check_factors(doubling, lg, lg * N, lg * N);
    check_factors(rabenseifner, 2 * lg, 2 * share, share);
    const auto run = [&](auto all_reduce) {
      return busiest(p, [&](Channel& channel) {
        Arrays arrays(channel);
        all_reduce(channel, arrays.all, ReduceOp::sum);
      });
    };
    check_run(run(all_reduce_ring), ring);
    check_run(run(all_reduce_recursive_doubling), doubling);
    check_run(run(all_reduce_rabenseifner), rabenseifner);
  }
}

TEST_CASE("TRG: reduce_scatter by ring and by recursive halving") {
  for (const int lg : {0, 1, 2, 3}) {
    const int p = 1 << lg;
    const double share = (p - 1.0) / p * N;
    const AlphaBeta ring = factors(reduce_scatter_ring_seconds, p);
    const AlphaBeta halving = factors(reduce_scatter_recursive_halving_seconds, p);
    check_factors(ring, p - 1, share, share);
    check_factors(halving, lg, share, share);
    const auto run = [&](auto reduce_scatter) {
      return busiest(p, [&](Channel& channel) {
        Arrays arrays(channel);
        reduce_scatter(channel, arrays.all, arrays.chunk, ReduceOp::sum);
      });
    };
    check_run(run(reduce_scatter_ring), ring);
    check_run(run(reduce_scatter_recursive_halving), halving);
  }
}

TEST_CASE("TRG: all_gather by ring, recursive doubling and Bruck") {
  for (const int lg : {0, 1, 2, 3}) {
    const int p = 1 << lg;
    const double share = (p - 1.0) / p * N;
    const AlphaBeta ring = factors(all_gather_ring_seconds, p);
    const AlphaBeta doubling = factors(all_gather_recursive_doubling_seconds, p);
    const AlphaBeta bruck = factors(all_gather_bruck_seconds, p);
    check_factors(ring, p - 1, share, 0);
    check_factors(doubling, lg, share, 0);
    check_factors(bruck, lg, share, 0);
    const auto run = [&](auto all_gather) {
      return busiest(p, [&](Channel& channel) {
        Arrays arrays(channel);
        all_gather(channel, arrays.chunk, arrays.all);
      });
    };
    check_run(run(all_gather_ring), ring);
    check_run(run(all_gather_recursive_doubling), doubling);
    check_run(run(all_gather_bruck), bruck);
  }
}

TEST_CASE("Bruck's all_gather takes ceil(lg p) rounds and (p-1)/p N bytes for any p") {
  for (const int p : {3, 5, 6, 7}) {
    const int64_t even = 4 * p * 10;  // bytes of 10 numbers per rank
    for (int rank = 0; rank < p; ++rank)
      CHECK(all_gather_bruck_sent(p, rank, 10 * p, 4) == Sent{ceil_log2(p), even * (p - 1) / p});
  }
}

TEST_CASE("TRG: broadcast by binomial tree, and by scatter and all_gather") {
  for (const int lg : {0, 1, 2, 3}) {
    const int p = 1 << lg;
    const AlphaBeta tree = factors(broadcast_tree_seconds, p);
    const AlphaBeta split = factors(broadcast_scatter_all_gather_seconds, p);
    check_factors(tree, lg, lg * N, 0);
    check_factors(split, lg + p - 1, 2 * (p - 1.0) / p * N, 0);
    const auto run = [&](auto broadcast) {
      return busiest(p, [&](Channel& channel) {
        Arrays arrays(channel);
        broadcast(channel, arrays.all, 0);
      });
    };
    check_run(run(broadcast_tree), tree);
    check_run(run(broadcast_scatter_all_gather), split);
  }
  CHECK(factors(broadcast_tree_seconds, 5).alpha == 3);  // ceil(lg 5)
}

TEST_CASE("Chan et al.: gather, scatter and reduce by binomial trees") {
  for (const int lg : {1, 2, 3}) {
    const int p = 1 << lg;
    const double share = (p - 1.0) / p * N;
    check_factors(factors(scatter_tree_seconds, p), lg, share, 0);
    check_factors(factors(gather_tree_seconds, p), lg, share, 0);
    check_factors(factors(reduce_tree_seconds, p), lg, lg * N, lg * N);
    const AlphaBeta scatter = busiest(p, [&](Channel& channel) {
      Arrays arrays(channel);
      scatter_tree(channel, arrays.all, arrays.chunk, 0, n);
    });
    check_run(scatter, factors(scatter_tree_seconds, p));
    // Gather turns scatter's arrows: the root receives what it sent there.
    CHECK(gather_tree_sent(p, p / 2, n, 4, 0) == Sent{1, 4 * n / 2});
  }
}

TEST_CASE("pipelined chain: (p + s - 2)(alpha + N / s beta)") {
  const auto seconds = [](int p, double bytes, AlphaBeta link) {
    return broadcast_chain_seconds(p, bytes, link, 8);
  };
  check_factors(factors(seconds, 4), 10, 10 * N / 8, 0);
  const auto chain = [](Channel& channel) {
    Arrays arrays(channel);
    broadcast_chain(channel, arrays.all, 0, 8);
  };
  const AlphaBeta sent = busiest(4, chain);
  CHECK(sent.alpha == 8);  // the other p - 2 steps wait for the pipeline to fill
  CHECK(sent.beta == N);
}

TEST_CASE("Bruck et al.: all_to_all in lg p rounds of N/2 bytes; pairwise in p - 1 of N/p") {
  for (const int lg : {0, 1, 2, 3}) {
    const int p = 1 << lg;
    const AlphaBeta bruck = factors(all_to_all_bruck_seconds, p);
    const AlphaBeta pairwise = factors(all_to_all_pairwise_seconds, p);
    check_factors(bruck, lg, lg * N / 2, 0);
    check_factors(pairwise, p - 1, (p - 1.0) / p * N, 0);
    const auto run = [&](auto all_to_all) {
      return busiest(p, [&](Channel& channel) {
        Arrays arrays(channel);
        all_to_all(channel, arrays.all, arrays.out);
      });
    };
    check_run(run(all_to_all_bruck), bruck);
    check_run(run(all_to_all_pairwise), pairwise);
  }
}

TEST_CASE("dissemination barrier: ceil(lg p) alpha for any p") {
  for (const int p : {1, 2, 3, 5, 8}) {
    const AlphaBeta run = busiest(p, [](Channel& channel) { barrier_dissemination(channel); });
    CHECK(run.alpha == barrier_dissemination_seconds(p, {1, 1, 1}));
    CHECK(run.beta == 0);
  }
}

TEST_CASE("no all_reduce sends less than 2(p-1)/p N: ring and Rabenseifner reach the bound") {
  for (const int p : {2, 4, 8}) {
    const double bound = 2 * (p - 1.0) / p * N;
    const AlphaBeta bytes_only{0, 1, 0};
    CHECK(all_reduce_ring_seconds(p, N, bytes_only) == bound);
    CHECK(all_reduce_rabenseifner_seconds(p, N, bytes_only) == bound);
    CHECK(all_reduce_recursive_doubling_seconds(p, N, bytes_only) >= bound);
    CHECK(all_reduce_tree_seconds(p, N, bytes_only) >= bound);
    CHECK(all_reduce_naive_seconds(p, N, bytes_only) >= bound);
  }
}
