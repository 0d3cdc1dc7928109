#include "yotta/comm/work.hpp"

#include <algorithm>

#include "support/rank_errors.hpp"
#include "support/ranks_here.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::enough_ranks;
using yotta_test::error_of;
using yotta_test::own_algorithm;
using yotta_test::ranks_here;

TEST_CASE("asynchronous messages, waited for in any order") {
  if (!enough_ranks(2)) return;
  run_ranks(2, [](Communicator& world) {
    std::vector<std::vector<int32_t>> boxes(10, std::vector<int32_t>(3));
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i) {
      auto& box = boxes[static_cast<size_t>(i)];
      if (world.rank() == 0) {
        std::fill(box.begin(), box.end(), i);
        works.push_back(world.send_async(box, 1, i));
      } else {
        works.push_back(world.recv_async(box, 0, i));
      }
    }
    std::reverse(works.begin(), works.end());
    for (Work& work : works) work.wait();
    for (int i = 0; i < 10; ++i) CHECK(boxes[static_cast<size_t>(i)][2] == i);
  });
}

TEST_CASE("collectives in flight on several communicators end in any order") {
  for (int p : ranks_here({1, 2, 3, 4, 8})) {
    for (const Algorithm algorithm : {Algorithm::ring, own_algorithm()}) {
      run_ranks(p, [&](Communicator& world) {
        std::vector<Communicator> groups = {world, world.split(0, -world.rank()),
                                            world.split(world.rank() % 2, 0)};
        constexpr size_t many = 12;
        std::vector<std::vector<double>> sums(many, std::vector<double>(7, 1.0));
        std::vector<Work> works;
        for (size_t i = 0; i < many; ++i)
          works.push_back(groups[i % 3].all_reduce_async(sums[i], ReduceOp::sum, {algorithm}));
        // Every rank waits in an order of its own.
        for (size_t i = 0; i < many; ++i)
          works[(i * 5 + static_cast<size_t>(world.rank())) % many].wait();
        for (size_t i = 0; i < many; ++i) CHECK(sums[i][6] == groups[i % 3].size());
      });
    }
  }
}

TEST_CASE("a collective in flight moves on in other calls, and a blocking one waits for its turn") {
  if (!enough_ranks(3)) return;
  run_ranks(3, [](Communicator& world) {
    std::vector<float> x(5, 1), y(5, 1);
    Work work = world.all_reduce_async(x);
    world.all_reduce(y);  // the same communicator: after x
    CHECK(work.done());
    CHECK(x == y);
    CHECK(x[0] == 3);
  });
}

TEST_CASE("done() does not block, and counts as waited for; wait() twice is harmless") {
  if (!enough_ranks(2)) return;
  run_ranks(2, [](Communicator& world) {
    std::vector<float> x(1, 1);
    Work work = world.all_reduce_async(x);
    while (!work.done()) std::this_thread::yield();
    work.wait();
    work.wait();
    CHECK(x[0] == 2);
    Work nothing;
    CHECK(nothing.done());
    nothing.wait();
    Work moved = world.barrier_async();
    nothing = std::move(moved);
    nothing.wait();
  });
}

TEST_CASE("done() throws what its collective has thrown, also if that was in an earlier call") {
  if (!enough_ranks(1)) return;
  run_ranks(1, [](Communicator& world) {
    Work work =
        world.collective_async("mine", [](Channel&) { throw std::runtime_error("odd one"); });
    CHECK_THROWS_AS(world.barrier(), CommError);
    CHECK_THROWS_WITH(work.done(), "odd one");
    CHECK_THROWS_WITH(work.done(), "odd one");
  });
}

TEST_CASE("a Work that is dropped unfinished poisons its world") {
  if (!enough_ranks(2)) return;
  auto run = [](auto drop, Algorithm algorithm = Algorithm::automatic) {
    return error_of<CommError>(2, [&](Communicator& world) {
      std::vector<float> x(4);
      if (world.rank() == 0) drop(world, x);
      world.all_reduce(x, ReduceOp::sum, {algorithm});
    });
  };
  check_says(run([](Communicator& w, std::vector<float>& x) { Work work = w.recv_async(x, 1); }),
             {"the Work of recv of 4 f32 at work_test.cpp:", "was dropped before it was done"});
  for (const Algorithm algorithm : {Algorithm::ring, own_algorithm()})
    check_says(run(
                   [&](Communicator& w, std::vector<float>& x) {
                     Work work = w.all_reduce_async(x, ReduceOp::sum, {algorithm});
                   },
                   algorithm),
               {"the Work of all_reduce of 4 f32", "work_test.cpp:"});
}

TEST_CASE("a Work dropped by the rank's last statement is reported all the same") {
  if (!enough_ranks(2)) return;
  check_says(error_of<CommError>(2,
                                 [](Communicator& world) {
                                   std::vector<float> x(4);
                                   if (world.rank() == 0) Work work = world.recv_async(x, 1);
                                 }),
             {"the Work of recv of 4 f32"});
}

TEST_CASE("a Work that outlives its world") {
  if (!enough_ranks(1) || !yotta_test::on_threads()) return;
  Work late;
  std::vector<float> x(4);
  check_says(error_of<CommError>(1, [&](Communicator& world) { late = world.recv_async(x, 0); }),
             {"nothing was thrown"});
  CHECK_THROWS_WITH_AS(late.wait(), doctest::Contains("world has ended"), Error);
}

TEST_CASE("many small collectives of random kinds, for several seeds") {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const int p = 2 + static_cast<int>(seed % 4);
    if (!enough_ranks(p)) continue;
    run_ranks(p, [&](Communicator& world) {
      const Random common(seed, "calls");  // the same on all ranks
      Communicator half = world.split(world.rank() % 2, 0);
      std::vector<std::vector<int64_t>> data;
      std::vector<Work> works;
      std::vector<int64_t> expected;
      data.reserve(100);
      for (uint64_t i = 0; i < 100; ++i) {
        const auto pick = static_cast<int>(common.uniform(i) * 6);
        Communicator& group = pick % 2 == 0 ? world : half;
        const Algorithm algorithm = pick < 2   ? Algorithm::ring
                                    : pick < 4 ? Algorithm::recursive_doubling
                                               : own_algorithm();
        data.emplace_back(i % 5 + 1, 1);
        expected.push_back(group.size());
        if (i % 7 == 3)
          group.all_reduce(data.back(), ReduceOp::sum, {algorithm});
        else
          works.push_back(group.all_reduce_async(data.back(), ReduceOp::sum, {algorithm}));
        if (i % 11 == 10) {  // messages in between
          std::vector<int64_t> mine = {world.rank()}, other = {-1};
          const int next = (world.rank() + 1) % p, previous = (world.rank() + p - 1) % p;
          Work recv = world.recv_async(other, previous, 3);
          world.send(mine, next, 3);
          recv.wait();
          CHECK(other[0] == previous);
        }
      }
      for (Work& work : works) work.wait();
      bool right = true;
      for (size_t i = 0; i < data.size(); ++i) right = right && data[i].back() == expected[i];
      CHECK(right);
    });
  }
}

TEST_CASE("failures while many works are in flight") {
  if (!enough_ranks(3)) return;
  for (int when = 0; when < 8; ++when) {
    check_says(
        error_of<RankFailed>(3,
                             [&](Communicator& world) {
                               std::vector<std::vector<float>> x(8, std::vector<float>(100));
                               std::vector<Work> works;
                               for (int i = 0; i < 8; ++i) {
                                 if (i == when && world.rank() == 1)
                                   throw std::runtime_error("stop");
                                 works.push_back(world.all_reduce_async(x[static_cast<size_t>(i)]));
                               }
                               for (Work& work : works) work.wait();
                             }),
        {"rank 1 failed: stop"});
  }
}
