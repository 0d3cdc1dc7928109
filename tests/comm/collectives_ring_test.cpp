#include "yotta/comm/collectives_ring.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("ring all_reduce: values, messages and bytes") {
  check_all_reduce(all_reduce_ring, all_reduce_ring_sent);
}

TEST_CASE("ring reduce_scatter: values, messages and bytes") {
  check_reduce_scatter(reduce_scatter_ring, reduce_scatter_ring_sent);
}

TEST_CASE("ring all_gather: values, messages and bytes") {
  check_all_gather(all_gather_ring, all_gather_ring_sent);
}

TEST_CASE("a ring may work in place") {
  LocalRanks::run(3, [](LocalRanks::Rank& rank) {
    const Case c{3, 17};
    Tensor data = c.input(rank.rank());
    const Data all(data), mine = all.chunk(rank.rank(), 3);
    reduce_scatter_ring(rank, all, mine, ReduceOp::sum);
    all_gather_ring(rank, mine, all);
    expect(data, c.reduced(0, 17), rank.rank());
  });
  CHECK(true);  // expect() throws
}

TEST_CASE("chunk c is summed from rank c + 1 round to rank c, and all ranks get those bits") {
  const int p = 4;
  const auto x = [](int rank) { return 1.0f / static_cast<float>(3 + rank); };
  std::vector<Tensor> results(p);
  LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
    Tensor data = Tensor::full({p}, x(rank.rank()));
    all_reduce_ring(rank, data, ReduceOp::sum);
    results[static_cast<size_t>(rank.rank())] = data;
  });
  for (int64_t chunk = 0; chunk < p; ++chunk) {
    const int c = static_cast<int>(chunk);
    float sum = x((c + 1) % p);
    for (int i = 2; i <= p; ++i) sum += x((c + i) % p);
    for (const Tensor& result : results) CHECK(result.data<float>()[chunk] == sum);
  }
}

TEST_CASE("scratch is two chunks, on the ledger as buffers, and given back") {
  LocalRanks::run(4, [](LocalRanks::Rank& rank) {
    Tensor data = Tensor::zeros({1000});
    all_reduce_ring(rank, data, ReduceOp::sum);
    const MemoryCount& memory = *context().ledger.memory();
    if (memory.peak(MemoryKind::buffers) != 2 * 250 * 4 || memory.live(MemoryKind::buffers) != 0)
      fail(Where::current(), "peak {}, live {}", memory.peak(MemoryKind::buffers),
           memory.live(MemoryKind::buffers));
  });
  CHECK(true);
}

TEST_CASE("bytes over all ranks are 2 (p-1) N for any n") {
  for (const int p : rank_counts)
    for (const int64_t n : element_counts) {
      int64_t bytes = 0;
      for (int rank = 0; rank < p; ++rank) bytes += ring_bytes_sent(p, rank, n, 4);
      CHECK(bytes == 2 * (p - 1) * n * 4);
    }
}
