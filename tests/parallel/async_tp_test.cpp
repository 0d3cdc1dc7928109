#include "yotta/parallel/async_tp.hpp"

#include <doctest/doctest.h>

#include "support/parts_check.hpp"
#include "yotta/comm/failures.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr Pieces both_kinds[] = {Pieces::one_way, Pieces::both_ways};

Tensor run_of(const Tensor& all, int p, int rank) {
  return all.rows(chunk_begin(all.dim(0), p, rank), chunk_begin(all.dim(0), p, rank + 1));
}

}  // namespace

TEST_CASE("a gather in pieces multiplies each rank's rows once, its own first, and gathers all") {
  for (const Pieces pieces : both_kinds)
    for (const int p : {1, 2, 3, 4, 5, 8})
      for (const int64_t N : {int64_t{p}, int64_t{13 + p}, int64_t{4 * p}}) {
        const Tensor x = random_tensor({N, 3}, "x"), w = random_tensor({5, 3}, "w");
        const Tensor y = linear(x, w);
        const auto reports = run_ranks(p, [&](Communicator& tp) {
          Tensor own = Tensor::zeros({N, 5}, DType::f64);
          int pieces_seen = 0;
          const Tensor all = all_gather_in_pieces(
              run_of(x, p, tp.rank()), N, tp, pieces, [&](int64_t first, const Tensor& rows) {
                if (pieces_seen++ == 0) CHECK(first == chunk_begin(N, p, tp.rank()));
                own.rows(first, first + rows.dim(0)).copy_from(linear(rows, w));
              });
          CHECK(pieces_seen == p);
          check_equal(all, x, "gathered", 0, p);
          check_equal(own, y, "products", 1e-14, p);
        });
        for (int rank = 0; rank < p; ++rank) {
          const Traffic sent = reports[static_cast<size_t>(rank)].ledger().total_traffic();
          const Sent formula = gather_in_pieces_sent(p, rank, N, 3 * 8, pieces);
          CHECK(sent.messages_sent == formula.messages);
          CHECK(sent.bytes_sent == formula.bytes);
        }
      }
}

TEST_CASE("a reduce_scatter in pieces adds every rank's part once and leaves each its own rows") {
  for (const Pieces pieces : both_kinds)
    for (const int p : {1, 2, 3, 4, 5, 8})
      for (const int64_t N : {int64_t{p}, int64_t{13 + p}, int64_t{4 * p}}) {
        Tensor whole = Tensor::zeros({N, 5}, DType::f64);  // the sum over ranks of x_r w_r'
        std::vector<Tensor> xs, ws;
        for (int r = 0; r < p; ++r) {
          xs.push_back(random_tensor({N, 3}, fmt::format("x{}", r)));
          ws.push_back(random_tensor({5, 3}, fmt::format("w{}", r)));
          add_into(whole, linear(xs.back(), ws.back()));
        }
        const auto reports = run_ranks(p, [&](Communicator& tp) {
          const auto r = static_cast<size_t>(tp.rank());
          int64_t last = -1;
          const Tensor own = reduce_scatter_in_pieces(N, tp, pieces, [&](int64_t first, int64_t n) {
            last = first;
            return linear(xs[r].rows(first, first + n), ws[r]);
          });
          CHECK(last == chunk_begin(N, p, tp.rank()));
          check_equal(own, run_of(whole, p, tp.rank()), "sums", 1e-13, p);
        });
        for (int rank = 0; rank < p; ++rank) {
          const Traffic sent = reports[static_cast<size_t>(rank)].ledger().total_traffic();
          const Sent formula = scatter_in_pieces_sent(p, rank, N, 5 * 8, pieces);
          CHECK(sent.messages_sent == formula.messages);
          CHECK(sent.bytes_sent == formula.bytes);
        }
      }
}

TEST_CASE("fewer rows than ranks: some pieces are empty, and hop all the same") {
  constexpr int p = 5;
  for (const Pieces pieces : both_kinds)
    for (const int64_t N : {1, 3}) {
      const Tensor x = random_tensor({N, 3}, "x");
      run_ranks(p, [&](Communicator& tp) {
        check_equal(all_gather_in_pieces(run_of(x, p, tp.rank()), N, tp, pieces,
                                         [](int64_t, const Tensor&) {}),
                    x, "gathered", 0, p);
        const Tensor own = reduce_scatter_in_pieces(N, tp, pieces, [&](int64_t first, int64_t n) {
          return x.rows(first, first + n).clone();
        });
        check_equal(own, scale(run_of(x, p, tp.rank()), p), "sums", 1e-14, p);
      });
    }
}

TEST_CASE("ranks that go different ways are told of a deadlock") {
  const Tensor x = random_tensor({6, 2}, "x");
  CHECK_THROWS_AS(run_ranks(3,
                            [&](Communicator& tp) {
                              all_gather_in_pieces(
                                  run_of(x, 3, tp.rank()), 6, tp,
                                  tp.rank() == 0 ? Pieces::one_way : Pieces::both_ways,
                                  [](int64_t, const Tensor&) {});
                            }),
                  Deadlock);
}

TEST_CASE(
    "sums are added in the ring's order, so they have the bits of the ring's reduce_scatter") {
  constexpr int p = 4;
  run_ranks(p, [&](Communicator& tp) {
    const Tensor part = random_tensor({12, 3}, fmt::format("part{}", tp.rank()));
    Tensor ring = Tensor::empty({3, 3}, DType::f64);
    tp.reduce_scatter(ring, part, ReduceOp::sum, {.algorithm = Algorithm::ring});
    const Tensor own = reduce_scatter_in_pieces(
        12, tp, Pieces::one_way,
        [&](int64_t first, int64_t n) { return part.rows(first, first + n).clone(); });
    CHECK(own.values() == ring.values());
  });
}

TEST_CASE("where the rows divide, as many bytes and messages as the ring's collectives") {
  for (const int p : {2, 4, 8})
    for (const Pieces pieces : both_kinds)
      for (int rank = 0; rank < p; ++rank) {
        const Sent gather = gather_in_pieces_sent(p, rank, 64, 10, pieces);
        CHECK(gather.messages == p - 1);
        CHECK(gather.bytes * p == sequence_parallel_bytes_sent_by_all(p, 64, 10, 1));
        CHECK(scatter_in_pieces_sent(p, rank, 64, 10, pieces).bytes == gather.bytes);
      }
}

// ---- the virtual clock -------------------------------------------------------------------------

namespace {

struct Sizes {
  int p;
  int64_t n, C, width;  // rows of a piece; width: outputs of a gather's matmul, inputs of a sum's
};

// Seconds of a gather with its matmul, and of a matmul with its scatter, in bf16.
double gather_seconds(const Cluster& cluster, const Sizes& s, Pieces pieces) {
  return run_on(cluster, s.p,
                [&](Communicator& tp) {
                  const DeviceScope meta(Device::meta);
                  const Tensor w = Tensor::empty({s.width, s.C}, DType::bf16);
                  all_gather_in_pieces(Tensor::empty({s.n, s.C}, DType::bf16), s.p * s.n, tp,
                                       pieces,
                                       [&](int64_t, const Tensor& rows) { linear(rows, w); });
                })
      .seconds();
}
double scatter_seconds(const Cluster& cluster, const Sizes& s, Pieces pieces) {
  return run_on(cluster, s.p,
                [&](Communicator& tp) {
                  const DeviceScope meta(Device::meta);
                  const Tensor w = Tensor::empty({s.C, s.width}, DType::bf16);
                  const Tensor x = Tensor::empty({s.p * s.n, s.width}, DType::bf16);
                  reduce_scatter_in_pieces(s.p * s.n, tp, pieces, [&](int64_t first, int64_t n) {
                    return linear(x.rows(first, first + n), w);
                  });
                })
      .seconds();
}

double matmul_seconds(const Chip& chip, int64_t m, int64_t n, int64_t k) {
  return op_seconds(chip, linear_cost("linear", DType::bf16, m, n, k));
}
double add_seconds(const Chip& chip, int64_t numbers) {
  return op_seconds(chip, elementwise_cost("add", DType::bf16, numbers, 1, 2, 1));
}

}  // namespace

TEST_CASE("seconds are the formula's, where the matmul hides the hop and where it does not") {
  for (const char* machine : {"h100x8", "v5px64"}) {
    const Cluster cluster = cluster_named(machine);
    for (const int p : {2, 3, 4, 8})
      for (const int64_t width : {256, 1024, 16384}) {
        const Sizes s{p, 512, 2048, width};
        CAPTURE(machine);
        CAPTURE(p);
        CAPTURE(width);
        if (machine[0] == 'v' && p != 2 && p != 4) continue;  // a row of that torus has 4 chips
        const Link link = cluster.link(0, 1);
        const double M = matmul_seconds(cluster.chip, s.n, width, s.C);
        const double H = link.seconds(2.0 * static_cast<double>(s.n * s.C));
        const double A = add_seconds(cluster.chip, s.n * s.C);
        CHECK(gather_seconds(cluster, s, Pieces::one_way) ==
              doctest::Approx(gather_matmul_seconds(p, Pieces::one_way, M, H)).epsilon(1e-12));
        CHECK(scatter_seconds(cluster, s, Pieces::one_way) ==
              doctest::Approx(matmul_scatter_seconds(p, Pieces::one_way, M, H, A)).epsilon(1e-12));
        if (p == 4 && machine[0] == 'v') {
          CHECK(gather_seconds(cluster, s, Pieces::both_ways) ==
                doctest::Approx(gather_matmul_seconds(p, Pieces::both_ways, M, H)).epsilon(1e-12));
          CHECK(scatter_seconds(cluster, s, Pieces::both_ways) ==
                doctest::Approx(matmul_scatter_seconds(p, Pieces::both_ways, M, H, A))
                    .epsilon(1e-12));
        }
      }
  }
}

TEST_CASE("at the width of the formula communication disappears, a little below it does not") {
  const double flops = 1e12, bandwidth = 1e10;
  const auto width = static_cast<int64_t>(async_tp_hidden_width(flops, bandwidth, 2));
  CHECK(width == 100);
  const Cluster cluster = ideal(8, flops, bandwidth);
  for (const int p : {2, 3, 4, 8})
    for (const int64_t C : {64, 256}) {
      const auto alone = [&](int64_t w) { return p * matmul_seconds(cluster.chip, 32, w, C); };
      CHECK(gather_seconds(cluster, {p, 32, C, width}, Pieces::one_way) ==
            doctest::Approx(alone(width)).epsilon(1e-12));
      CHECK(gather_seconds(cluster, {p, 32, C, width - 1}, Pieces::one_way) >
            alone(width - 1) * 1.0005);
    }
}

TEST_CASE("with latency and launches the width depends on the piece: both sides of the formula") {
  const Cluster cluster = cluster_named("h100x8");
  const Link link = cluster.link(0, 1);
  const double late = link.alpha - cluster.chip.launch_overhead;
  for (const int64_t n : {1024, 4096}) {
    const int64_t C = 4096;
    const double width = async_tp_hidden_width(cluster.chip.bf16, 1 / link.beta, 2, late,
                                               static_cast<double>(n * C));
    const auto waits = [&](int64_t w) {
      return gather_seconds(cluster, {4, n, C, w}, Pieces::one_way) /
                 (4 * matmul_seconds(cluster.chip, n, w, C)) -
             1;
    };
    CHECK(waits(static_cast<int64_t>(width) + 1) == doctest::Approx(0).epsilon(1e-12));
    CHECK(waits(static_cast<int64_t>(width)) > 1e-9);
  }
  CHECK(async_tp_hidden_width(cluster.chip.bf16, 1 / link.beta, 2) ==
        doctest::Approx(2198.67).epsilon(1e-5));
}
