// What every transport must do.
#include "yotta/comm/communicator.hpp"

#include <numeric>
#include <stdexcept>

#include "support/ranks_here.hpp"

using namespace yotta;
using yotta_test::enough_ranks;
using yotta_test::own_algorithm;
using yotta_test::ranks_here;

namespace {
// What rank `rank` holds at index i: small whole numbers, exact in every type.
template <class T>
std::vector<T> numbers(int rank, int64_t n) {
  std::vector<T> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    x[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>((rank + 1) * (i % 3 + 1)));
  return x;
}
template <class T>
std::vector<T> chunk_of(const std::vector<T>& x, int rank, int p) {
  const auto n = std::ssize(x);
  return {x.begin() + chunk_begin(n, p, rank), x.begin() + chunk_begin(n, p, rank + 1)};
}
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
template <class T>
std::vector<T> sum_of_all(int p, int64_t n) {
  std::vector<T> sum = numbers<T>(0, n);
  for (int r = 1; r < p; ++r) reduce_into(sum, numbers<T>(r, n), ReduceOp::sum);
  return sum;
}

// Every collective with default algorithms, blocking and asynchronous, against what it must give.
template <class T>
void check_all(Communicator& world, int64_t n, bool async) {
  const int p = world.size(), rank = world.rank(), root = p - 1;
  auto run = [&](auto blocking, auto in_flight) {
    if (async)
      in_flight().wait();
    else
      blocking();
  };
  const std::vector<T> mine = numbers<T>(rank, n), sum = sum_of_all<T>(p, n);
  const int64_t m = chunk_count(n, p, rank);

  std::vector<T> x = mine;
  run([&] { world.all_reduce(x); }, [&] { return world.all_reduce_async(x); });
  CHECK(same(x, sum));
  x = mine;
  run([&] { world.reduce(x, root); }, [&] { return world.reduce_async(x, root); });
  CHECK((rank != root || same(x, sum)));
  x = mine;
  run([&] { world.broadcast(x, root); }, [&] { return world.broadcast_async(x, root); });
  CHECK(same(x, numbers<T>(root, n)));
  std::vector<T> part(static_cast<size_t>(m)), all(static_cast<size_t>(n));
  run([&] { world.reduce_scatter(part, mine); },
      [&] { return world.reduce_scatter_async(part, mine); });
  CHECK(same(part, chunk_of(sum, rank, p)));
  run([&] { world.all_gather(all, part); }, [&] { return world.all_gather_async(all, part); });
  CHECK(same(all, sum));
  all.assign(static_cast<size_t>(n), T());
  const Data at_root = rank == root ? Data(all) : Data(nullptr, n, dtype_of<T>);
  run([&] { world.gather(at_root, part, root); },
      [&] { return world.gather_async(at_root, part, root); });
  CHECK((rank != root || same(all, sum)));
  part.assign(static_cast<size_t>(m), T());
  run([&] { world.scatter(part, at_root, root); },
      [&] { return world.scatter_async(part, at_root, root); });
  CHECK(same(part, chunk_of(sum, rank, p)));
  std::vector<T> turned(static_cast<size_t>(p * m)), expected;
  run([&] { world.all_to_all(turned, mine); },
      [&] { return world.all_to_all_async(turned, mine); });
  for (int r = 0; r < p; ++r) {
    const std::vector<T> piece = chunk_of(numbers<T>(r, n), rank, p);
    expected.insert(expected.end(), piece.begin(), piece.end());
  }
  CHECK(same(turned, expected));
  run([&] { world.barrier(); }, [&] { return world.barrier_async(); });
}
}  // namespace

TEST_CASE("every collective on 1, 2, 3, 4 and 8 ranks, sizes that do not divide") {
  for (int p : ranks_here({1, 2, 3, 4, 8}))
    for (int64_t n : {0, 1, 17})
      for (const bool async : {false, true})
        run_ranks(p, [&](Communicator& world) { check_all<float>(world, n, async); });
}

TEST_CASE("every collective in every type") {
  if (!enough_ranks(3)) return;
  run_ranks(3, [](Communicator& world) {
    check_all<double>(world, 10, false);
    check_all<bfloat16>(world, 10, true);
    check_all<float16>(world, 10, false);
    check_all<int64_t>(world, 10, true);
    check_all<int32_t>(world, 10, false);
    check_all<uint8_t>(world, 10, true);
  });
}

TEST_CASE("mean, max, min and product") {
  if (!enough_ranks(3)) return;
  run_ranks(3, [](Communicator& world) {
    auto reduced = [&](ReduceOp op) {
      std::vector<float> x = {static_cast<float>(world.rank() + 1)};
      world.all_reduce(x, op);
      return x[0];
    };
    CHECK(reduced(ReduceOp::mean) == 2);
    CHECK(reduced(ReduceOp::max) == 3);
    CHECK(reduced(ReduceOp::min) == 1);
    CHECK(reduced(ReduceOp::prod) == 6);
    std::vector<float> in = {1, 2, 3, 4}, out(world.rank() == 0 ? 2 : 1);
    world.reduce_scatter(out, in, ReduceOp::mean);
    CHECK(out.back() == (world.rank() == 0 ? 2 : world.rank() + 2));
    std::vector<float> x = {3.0f * static_cast<float>(world.rank())};
    world.reduce(x, 1, ReduceOp::mean);
    CHECK((world.rank() != 1 || x[0] == 3));
  });
}

TEST_CASE("all_to_all_v: rank i sends j + 1 numbers to rank j") {
  for (int p : ranks_here({1, 2, 4}))
    for (const Algorithm algorithm :
         {own_algorithm(), Algorithm::pairwise, Algorithm::hierarchical})
      run_ranks(p, [&](Communicator& world) {
        std::vector<int64_t> to(static_cast<size_t>(p)), from(static_cast<size_t>(p));
        std::iota(to.begin(), to.end(), 1);
        std::fill(from.begin(), from.end(), world.rank() + 1);
        std::vector<int32_t> in(static_cast<size_t>(p * (p + 1) / 2), world.rank());
        std::vector<int32_t> out(static_cast<size_t>(p * (world.rank() + 1)), -1), expected;
        for (int r = 0; r < p; ++r) expected.insert(expected.end(), world.rank() + 1, r);
        const CommOptions how{.algorithm = algorithm, .node = p == 1 ? 1 : 2};
        world.all_to_all_v(out, from, in, to, how);
        CHECK(out == expected);
        out.assign(out.size(), -1);
        world.all_to_all_v_async(out, from, in, to, how).wait();
        CHECK(out == expected);
      });
}

TEST_CASE("messages: tags, order, self, and both ways at once") {
  for (int p : ranks_here({1, 2, 3, 8}))
    for (const bool buffered : {true, false}) {
      RunOptions options;
      options.buffered_sends = buffered;
      run_ranks(
          p,
          [](Communicator& world) {
            const int size = world.size(), rank = world.rank();
            const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
            std::vector<int32_t> out = {rank, 7}, in(2);
            world.send_recv(out, next, in, previous, 5);
            CHECK(in == std::vector<int32_t>{previous, 7});
            // Three messages in flight: by tag, and in order within a tag.
            std::vector<int32_t> a = {1}, b = {2}, c = {3}, x(1), y(1), z(1);
            Work sends[] = {world.send_async(a, next, 1), world.send_async(b, next, 2),
                            world.send_async(c, next, 1)};
            world.recv(y, previous, 2);
            world.recv(x, previous, 1);
            world.recv(z, previous, 1);
            CHECK((x[0] == 1 && y[0] == 2 && z[0] == 3));
            for (Work& send : sends) send.wait();
          },
          options);
    }
}

TEST_CASE("a buffered send may be written over at once") {
  if (!enough_ranks(2)) return;
  run_ranks(2, [](Communicator& world) {
    std::vector<int32_t> x = {41}, none;
    if (world.rank() == 0) {
      world.send(x, 1);
      x[0] = 0;
      world.send(x, 1);
      world.send(none, 1);
    } else {
      std::vector<int32_t> first(1), second(1);
      world.recv(first, 0);
      world.recv(second, 0);
      world.recv(none, 0);
      CHECK(first[0] == 41);
      CHECK(second[0] == 0);
    }
  });
}

TEST_CASE("split: by color, ordered by key, then by rank") {
  for (int columns : {2, 3}) {
    if (!enough_ranks(2 * columns)) continue;
    run_ranks(2 * columns, [&](Communicator& world) {
      const int y = world.rank() / columns, x = world.rank() % columns;
      Communicator row = world.split(y, -world.rank());
      REQUIRE(row.size() == columns);
      CHECK(row.rank() == columns - 1 - x);
      for (int r = 0; r < columns; ++r)
        CHECK(row.members()[static_cast<size_t>(r)] == y * columns + columns - 1 - r);
      Communicator column = world.split(x, 0);
      CHECK(column.members() == std::vector<int>{x, x + columns});
      // Of a part, and of one.
      Communicator part = row.split(row.rank() == 0 ? 0 : 1, 0);
      CHECK(part.size() == (row.rank() == 0 ? 1 : columns - 1));
      std::vector<int64_t> ranks = {x};
      part.all_reduce(ranks);
      CHECK(ranks[0] == (row.rank() == 0 ? columns - 1 : (columns - 1) * (columns - 2) / 2));
    });
  }
}

TEST_CASE("split: a negative color is in no communicator; the same tags do not meet across them") {
  if (!enough_ranks(3)) return;
  run_ranks(3, [](Communicator& world) {
    Communicator pair = world.split(world.rank() < 2 ? 4 : -1, 0);
    CHECK(pair.is_member() == (world.rank() < 2));
    if (!pair.is_member()) return;
    std::vector<int32_t> of_world = {1}, of_pair = {2}, x(1);
    const int other = 1 - world.rank();
    world.send(of_world, other);
    pair.send(of_pair, other);
    pair.recv(x, other);
    CHECK(x[0] == 2);
    world.recv(x, other);
    CHECK(x[0] == 1);
  });
}

TEST_CASE("a collective of one's own runs on a channel, blocking or in flight") {
  if (!enough_ranks(4)) return;
  run_ranks(4, [](Communicator& world) {
    std::vector<int32_t> x = {world.rank()}, y(1);
    auto pass_on = [&](Channel& ring) {
      const int p = ring.size();
      ring.send_recv(x, (ring.rank() + 1) % p, y, (ring.rank() + p - 1) % p);
    };
    world.collective("pass_on", pass_on);
    CHECK(y[0] == (world.rank() + 3) % 4);
    y[0] = -1;
    world.collective_async("pass_on", pass_on).wait();
    CHECK(y[0] == (world.rank() + 3) % 4);
    CHECK(context().ledger.traffic("pass_on").bytes_sent == 8);
  });
}

TEST_CASE("worlds within worlds: each rank may run ranks of its own, and the outer world goes on") {
  for (int p : ranks_here({1, 2, 3}))
    for (const bool all_do : {true, false})
      run_ranks(p, [&](Communicator& outer) {
        std::vector<int32_t> ranks = {outer.rank()}, sums(3, -1);
        Work early = outer.all_reduce_async(ranks, ReduceOp::sum, {Algorithm::ring});
        if (all_do || outer.rank() == outer.size() - 1)
          run_ranks(3, [&](Communicator& inner) {
            CHECK(inner.size() == 3);
            run_ranks(1, [](Communicator& innermost) { innermost.barrier(); });
            std::vector<int32_t> x = {10 * outer.rank() + inner.rank()};
            inner.all_reduce(x);
            sums[static_cast<size_t>(inner.rank())] = x[0];
          });
        early.wait();
        outer.barrier();
        CHECK(ranks[0] == outer.size() * (outer.size() - 1) / 2);
        if (all_do) CHECK(sums == std::vector<int32_t>(3, 30 * outer.rank() + 3));
      });
}

TEST_CASE("what fails in a world within is thrown by its run_ranks, to that rank only") {
  for (int p : ranks_here({1, 2}))
    run_ranks(p, [&](Communicator& outer) {
      CHECK_THROWS_WITH_AS(run_ranks(2,
                                     [&](Communicator& inner) {
                                       if (inner.rank() == 1) throw std::runtime_error("full");
                                       inner.barrier();
                                     }),
                           doctest::Contains("rank 1 failed: full"), RankFailed);
      outer.barrier();
    });
}
