#include "yotta/comm/threads/native_collectives.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"
#include "yotta/comm/collectives_ring.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Bits of n numbers of rank `rank` that round differently in every order of summation.
Tensor rough(DType dtype, int64_t n, int rank) {
  Tensor x = Tensor::empty({n});
  for (int64_t i = 0; i < n; ++i)
    x.data<float>()[i] =
        static_cast<float>(Random(7, "rough").normal(static_cast<uint64_t>(rank * n + i)));
  return x.to(dtype);
}

}  // namespace

TEST_CASE("native all_reduce, reduce and reduce_scatter") {
  check_all_reduce(all_reduce_native, sends(all_reduce_native_traffic));
  check_reduce(reduce_native, sends(reduce_native_traffic));
  check_reduce_scatter(reduce_scatter_native, sends(reduce_scatter_native_traffic));
}

TEST_CASE("native broadcast, all_gather and all_to_all") {
  check_broadcast(broadcast_native, sends(broadcast_native_traffic));
  check_all_gather(all_gather_native, sends(all_gather_native_traffic));
  check_all_to_all(all_to_all_native, sends(all_to_all_native_traffic));
}

TEST_CASE("native gather, scatter and barrier") {
  const auto gather = [](SharedMemoryChannel& meeting, ConstData in, Data out, int root, int64_t) {
    gather_native(meeting, in, out, root);
  };
  const auto scatter = [](SharedMemoryChannel& meeting, ConstData in, Data out, int root, int64_t) {
    scatter_native(meeting, in, out, root);
  };
  check_gather(gather, sends(gather_native_traffic));
  check_scatter(scatter, sends(scatter_native_traffic));
  check_barrier(barrier_native, [](int, int, int64_t, int64_t) { return Sent{}; });
}

TEST_CASE("native uneven all_to_all, and counts that disagree") {
  // Rank i sends i + j numbers to rank j, each worth 10 i + j; `extra` more are expected from rank
  // 1.
  const auto exchange = [](int p, int64_t extra) {
    std::vector<std::vector<int64_t>> counts(static_cast<size_t>(p));
    for (int rank = 0; rank < p; ++rank)
      for (int other = 0; other < p; ++other)
        counts[static_cast<size_t>(rank)].push_back(rank + other);
    LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
      const std::vector<int64_t>& mine = counts[static_cast<size_t>(rank.rank())];
      std::vector<int64_t> expected_counts = mine;
      if (p > 1) expected_counts[1] += extra;
      std::vector<int32_t> in, expected;
      for (size_t other = 0; other < mine.size(); ++other) {
        const int peer = static_cast<int>(other);
        in.insert(in.end(), static_cast<size_t>(mine[other]), 10 * rank.rank() + peer);
        expected.insert(expected.end(), static_cast<size_t>(expected_counts[other]),
                        10 * peer + rank.rank());
      }
      std::vector<int32_t> out(expected.size());
      all_to_all_v_native(rank, in, mine, out, expected_counts);
      if (out != expected) fail(Where::current(), "rank {} has other numbers", rank.rank());
      const Sent sent = all_to_all_v_pairwise_sent(rank.rank(), mine, 4);
      if (rank.sent() != sent || rank.received() != sent)
        fail(Where::current(), "rank {} counted {} bytes", rank.rank(), rank.sent().bytes);
    });
  };
  for (const int p : rank_counts) CHECK_NOTHROW(exchange(p, 0));
  CHECK_THROWS_WITH_AS(exchange(2, 1),
                       doctest::Contains("rank 1 sends 1 elements to rank 0, which expects 2"),
                       Mismatch);
}

TEST_CASE("native and ring sums have the same bits, in every type and at every size") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::fp8_e4m3})
    for (const int p : {2, 3, 4, 5, 8})
      for (const int64_t n : {int64_t{17}, int64_t{5000}}) {
        CAPTURE(p);
        CAPTURE(std::string(name(dtype)));
        CHECK_NOTHROW(LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
          Tensor ring = rough(dtype, n, rank.rank()), native = ring.clone();
          all_reduce_ring(rank, ring, ReduceOp::sum);
          all_reduce_native(rank, native, ReduceOp::sum);
          if (std::memcmp(ring.raw(), native.raw(), static_cast<size_t>(ring.nbytes())) != 0)
            fail(Where::current(), "rank {}: the bits differ", rank.rank());
        }));
      }
}

TEST_CASE("native all_reduce crosses as many bytes as the ring sends") {
  for (const int p : rank_counts)
    for (const int64_t n : element_counts) {
      Sent native, ring;
      for (int rank = 0; rank < p; ++rank) {
        const Traffic traffic = all_reduce_native_traffic(p, rank, n, 4);
        const Sent sent{traffic.messages_sent, traffic.bytes_sent};
        native = native + sent;
        ring = ring + all_reduce_ring_sent(p, rank, n, 4);
        if (n % p == 0) CHECK(sent == all_reduce_ring_sent(p, rank, n, 4));
        CHECK(traffic.bytes_sent == traffic.bytes_received);
      }
      CHECK(native == ring);
    }
}
