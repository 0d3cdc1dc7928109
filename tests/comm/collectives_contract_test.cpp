// What the algorithms share, and what they promise together: every algorithm through the
// communicator, blocking and asynchronous: the ledger's messages and bytes against the formulas,
// the values against the serial answer.
#include "yotta/comm/channel.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "comm/collective_cases.hpp"
#include "support/ranks_here.hpp"
#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_pipelined.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/comm/threads/native_collectives.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const std::vector<int64_t> counts = {0, 1, 2, 17, 1000};
const std::vector<int> sizes = {1, 2, 3, 4, 5, 8};

// Ranks per node of the algorithms that know nodes.
constexpr int node_of(int p) { return p % 2 == 0 ? 2 : p; }

// Runs call(world, case, options) on all ranks and compares what the ledger says under a label.
template <class Call, class Formula>
void check_ledger(Algorithm algorithm, Call call, Formula formula) {
  if (algorithm == Algorithm::native && !has_native()) return;
  for (const int p : ranks_here(sizes))
    for (const int64_t n : counts) {
      const Case c{p, n, DType::f32, ReduceOp::sum, p / 2};
      const CommOptions options{.algorithm = algorithm, .label = "measured", .node = node_of(p)};
      INFO(name(algorithm), ", ", c.text());
      std::vector<RankReport> reports;
      REQUIRE_NOTHROW(reports =
                          run_ranks(p, [&](Communicator& world) { call(world, c, options); }));
      for (int rank = 0; rank < p; ++rank) {
        CAPTURE(rank);
        const Traffic traffic = reports[static_cast<size_t>(rank)].ledger().traffic("measured");
        const Sent expected = cost(formula, c, rank);
        CHECK(traffic.messages_sent == expected.messages);
        CHECK(traffic.bytes_sent == expected.bytes);
      }
    }
}

void all_reduce(Communicator& world, const Case& c, CommOptions options) {
  Tensor data = c.input(world.rank());
  world.all_reduce_async(data, c.op, options).wait();
  expect(data, c.reduced(0, c.n), world.rank());
}
void reduce_scatter(Communicator& world, const Case& c, CommOptions options) {
  const int r = world.rank();
  Tensor in = c.input(r), out = empty(c.chunk(r), c.dtype);
  world.reduce_scatter_async(out, in, c.op, options).wait();
  expect(out, c.reduced(c.begin(r), c.begin(r + 1)), r);
}
void all_gather(Communicator& world, const Case& c, CommOptions options) {
  const int r = world.rank();
  Tensor in = c.values(0, c.begin(r), c.begin(r + 1)), out = empty(c.n, c.dtype);
  world.all_gather_async(out, in, options).wait();
  expect(out, c.input(0).values(), r);
}
void broadcast(Communicator& world, const Case& c, CommOptions options) {
  Tensor data = c.input(world.rank());
  world.broadcast(data, c.root, options);
  expect(data, c.input(c.root).values(), world.rank());
}
void reduce(Communicator& world, const Case& c, CommOptions options) {
  Tensor data = c.input(world.rank());
  world.reduce(data, c.root, c.op, options);
  if (world.rank() == c.root) expect(data, c.reduced(0, c.n), world.rank());
}
void all_to_all(Communicator& world, const Case& c, CommOptions options) {
  Tensor in = c.input(world.rank()), out = empty(c.p * c.chunk(world.rank()), c.dtype);
  world.all_to_all(out, in, options);
  expect(out, transposed(c, world.rank()), world.rank());
}
// Off the root only the count of the whole array is known.
void gather(Communicator& world, const Case& c, CommOptions options) {
  const int r = world.rank();
  Tensor in = c.values(0, c.begin(r), c.begin(r + 1));
  Tensor all = empty(r == c.root ? c.n : 0, c.dtype);
  const Data out = r == c.root ? Data(all) : Data(nullptr, c.n, c.dtype);
  world.gather(out, in, c.root, options);
  if (r == c.root) expect(all, c.input(0).values(), r);
}
void scatter(Communicator& world, const Case& c, CommOptions options) {
  const int r = world.rank();
  Tensor all = c.values(0, 0, r == c.root ? c.n : 0);
  Tensor out = empty(c.chunk(r), c.dtype);
  const ConstData in = r == c.root ? ConstData(all) : ConstData(nullptr, c.n, c.dtype);
  world.scatter(out, in, c.root, options);
  expect(out, c.values(0, c.begin(r), c.begin(r + 1)).values(), r);
}

}  // namespace

TEST_CASE("ranks stand in a circle, and rounds double") {
  CHECK(wrap(-1, 4) == 3);
  CHECK(wrap(-4, 4) == 0);
  CHECK(wrap(4, 4) == 0);
  CHECK(wrap(6, 4) == 2);
  for (int p = 1; p <= 64; ++p) {
    CAPTURE(p);
    CHECK_UNARY((1 << ceil_log2(p)) >= p);
    CHECK_UNARY(p == 1 || (1 << (ceil_log2(p) - 1)) < p);
    CHECK_UNARY(floor_power(p) <= p);
    CHECK_UNARY(2 * floor_power(p) > p);
  }
}

TEST_CASE("elements of several ranks' chunks, counted round the circle") {
  for (const int p : sizes)
    for (const int64_t n : counts)
      for (int first = 0; first < p; ++first)
        for (int many = 0; many <= p; ++many) {
          int64_t one_by_one = 0;
          for (int i = 0; i < many; ++i) one_by_one += chunk_count(n, p, wrap(first + i, p));
          CHECK(chunks_count(n, p, first, many) == one_by_one);
        }
}

TEST_CASE("scratch is counted as buffers") {
  RankContext rank;
  const ContextScope scope(rank);
  const Tensor held = scratch(10, ConstData(std::span<const double>()));
  CHECK(rank.ledger.memory()->live(MemoryKind::buffers) == 80);
  CHECK(rank.ledger.memory()->live() == 80);
}

TEST_CASE("the ledger of all_reduce, by every algorithm") {
  check_ledger(Algorithm::naive, all_reduce, all_reduce_naive_sent);
  check_ledger(Algorithm::ring, all_reduce, all_reduce_ring_sent);
  check_ledger(Algorithm::tree, all_reduce, all_reduce_tree_sent);
  check_ledger(Algorithm::recursive_doubling, all_reduce, all_reduce_recursive_doubling_sent);
  check_ledger(Algorithm::rabenseifner, all_reduce, all_reduce_rabenseifner_sent);
  check_ledger(Algorithm::native, all_reduce, sends(all_reduce_native_traffic));
}

namespace {

// Numbers whose sum depends on the order in which they are added.
std::vector<float> uneven(int rank) {
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 1 / (1 + static_cast<float>(static_cast<int>(i) * 7 % 31 + rank * 13 % 29));
  return x;
}
bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}
using Summed = std::vector<std::vector<float>>;  // of each rank

Summed on_thread_ranks(int p, void (*all_reduce)(Channel&, Data, ReduceOp)) {
  Summed all;
  for (int rank = 0; rank < p; ++rank) all.push_back(uneven(rank));
  LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
    all_reduce(rank, all[static_cast<size_t>(rank.rank())], ReduceOp::sum);
  });
  return all;
}
void check_bits(Algorithm algorithm, int p, const Summed& expected) {
  INFO(name(algorithm), ", ", p);
  run_ranks(p, [&](Communicator& world) {
    std::vector<float> x = uneven(world.rank());
    world.all_reduce(x, ReduceOp::sum, {.algorithm = algorithm});
    CHECK(same_bits(x, expected[static_cast<size_t>(world.rank())]));
  });
}

}  // namespace

TEST_CASE("all_reduce by messages has the bits that threads have, on every transport") {
  for (const int p : ranks_here({1, 2, 3, 4})) {
    const Summed ring = on_thread_ranks(p, all_reduce_ring);
    CHECK((p < 3) == same_bits(ring[0], on_thread_ranks(p, all_reduce_naive)[0]));
    check_bits(Algorithm::ring, p, ring);
    check_bits(Algorithm::naive, p, on_thread_ranks(p, all_reduce_naive));
    check_bits(Algorithm::tree, p, on_thread_ranks(p, all_reduce_tree));
    check_bits(Algorithm::rabenseifner, p, on_thread_ranks(p, all_reduce_rabenseifner));
    check_bits(Algorithm::recursive_doubling, p, on_thread_ranks(p, all_reduce_recursive_doubling));
  }
}

TEST_CASE("the ledger of all_reduce and its halves, by the algorithms that know nodes") {
  const auto rails = [](int p) { return RailRings{p, node_of(p)}; };
  check_ledger(Algorithm::hierarchical, all_reduce, [](int p, int r, int64_t n, int64_t width) {
    return all_reduce_hierarchical_sent(p, r, n, width, node_of(p));
  });
  check_ledger(Algorithm::pipelined, all_reduce, [](int p, int r, int64_t n, int64_t width) {
    return all_reduce_pipelined_sent(p, r, n, width, node_of(p), 1);
  });
  check_ledger(Algorithm::multi_rail, all_reduce, [&](int p, int r, int64_t n, int64_t width) {
    return all_reduce_multi_rail_sent(r, n, width, rails(p));
  });
  check_ledger(Algorithm::hierarchical, reduce_scatter, [](int p, int r, int64_t n, int64_t width) {
    return reduce_scatter_hierarchical_sent(p, r, n, width, node_of(p));
  });
  check_ledger(Algorithm::multi_rail, reduce_scatter, [&](int p, int r, int64_t n, int64_t width) {
    return reduce_scatter_multi_rail_sent(r, n, width, rails(p));
  });
  check_ledger(Algorithm::hierarchical, all_gather, [](int p, int r, int64_t n, int64_t width) {
    return all_gather_hierarchical_sent(p, r, n, width, node_of(p));
  });
  check_ledger(Algorithm::multi_rail, all_gather, [&](int p, int r, int64_t n, int64_t width) {
    return all_gather_multi_rail_sent(r, n, width, rails(p));
  });
}

TEST_CASE("the ledger of reduce_scatter and all_gather, by every algorithm") {
  check_ledger(Algorithm::naive, reduce_scatter, reduce_scatter_naive_sent);
  check_ledger(Algorithm::ring, reduce_scatter, reduce_scatter_ring_sent);
  check_ledger(Algorithm::recursive_halving, reduce_scatter, reduce_scatter_recursive_halving_sent);
  check_ledger(Algorithm::native, reduce_scatter, sends(reduce_scatter_native_traffic));
  check_ledger(Algorithm::naive, all_gather, all_gather_naive_sent);
  check_ledger(Algorithm::ring, all_gather, all_gather_ring_sent);
  check_ledger(Algorithm::recursive_doubling, all_gather, all_gather_recursive_doubling_sent);
  check_ledger(Algorithm::bruck, all_gather, all_gather_bruck_sent);
  check_ledger(Algorithm::native, all_gather, sends(all_gather_native_traffic));
}

TEST_CASE("the ledger of broadcast and reduce, by every algorithm") {
  check_ledger(Algorithm::naive, broadcast, broadcast_naive_sent);
  check_ledger(Algorithm::tree, broadcast, broadcast_tree_sent);
  check_ledger(Algorithm::chain, broadcast,
               [](int p, int rank, int64_t n, int64_t width, int root) {
                 return broadcast_chain_sent(p, rank, n, width, root);
               });
  check_ledger(Algorithm::scatter_all_gather, broadcast, broadcast_scatter_all_gather_sent);
  check_ledger(Algorithm::native, broadcast, sends(broadcast_native_traffic));
  check_ledger(Algorithm::naive, reduce, reduce_naive_sent);
  check_ledger(Algorithm::tree, reduce, reduce_tree_sent);
  check_ledger(Algorithm::native, reduce, sends(reduce_native_traffic));
}

TEST_CASE("the ledger of all_to_all, gather and scatter, by every algorithm") {
  check_ledger(Algorithm::naive, all_to_all, all_to_all_naive_sent);
  check_ledger(Algorithm::pairwise, all_to_all, all_to_all_pairwise_sent);
  check_ledger(Algorithm::bruck, all_to_all, all_to_all_bruck_sent);
  check_ledger(Algorithm::native, all_to_all, sends(all_to_all_native_traffic));
  check_ledger(Algorithm::naive, gather, gather_naive_sent);
  check_ledger(Algorithm::tree, gather, gather_tree_sent);
  check_ledger(Algorithm::native, gather, sends(gather_native_traffic));
  check_ledger(Algorithm::naive, scatter, scatter_naive_sent);
  check_ledger(Algorithm::tree, scatter, scatter_tree_sent);
  check_ledger(Algorithm::native, scatter, sends(scatter_native_traffic));
}

TEST_CASE("two native all_reduces of different groups in flight at once") {
  if (!enough_ranks(4)) return;
  run_ranks(4, [](Communicator& world) {
    Communicator pair = world.split(world.rank() / 2, world.rank());
    Tensor all = Tensor::full({1000}, 1), two = Tensor::full({1000}, 1);
    Work first = world.all_reduce_async(all), second = pair.all_reduce_async(two);
    second.wait();
    first.wait();
    expect(all, std::vector<double>(1000, 4), world.rank());
    expect(two, std::vector<double>(1000, 2), world.rank());
  });
  CHECK(true);  // expect() throws
}
