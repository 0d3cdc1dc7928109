#include "yotta/comm/threads/thread_transport.hpp"

#include <doctest/doctest.h>
#include <malloc.h>

#include "support/not_run.hpp"
#include "support/rank_errors.hpp"
#include "support/thread_state.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;

namespace {
struct Message : Request {
  Message(Kind its_kind, int its_owner, int its_peer, Data its_data, int64_t its_tag = 0) {
    kind = its_kind;
    owner = its_owner;
    peer = its_peer;
    data = its_data;
    tag = its_tag;
    call = &its_call;
  }
  Call its_call{"message", 0, DType::f32, -1, "", "", Where::current()};
};
constexpr auto send = Request::Kind::send;
constexpr auto recv = Request::Kind::recv;
}  // namespace

TEST_CASE("whoever comes second copies, and the stamp travels along") {
  for (const bool send_first : {true, false}) {
    ThreadWorld world(2);
    std::vector<float> x = {1, 2}, y(2);
    Message from(send, 0, 1, x), to(recv, 1, 0, y);
    from.stamp.end = 42;
    world.post(send_first ? from : to);
    CHECK_FALSE((from.done || to.done));
    world.post(send_first ? to : from);
    CHECK((from.done && to.done));
    CHECK(y == x);
    CHECK(to.stamp.end == 42);
  }
}

TEST_CASE("what is withdrawn is not delivered") {
  ThreadWorld world(2);
  std::vector<float> x = {1}, y = {0};
  Message first(send, 0, 1, x), to(recv, 1, 0, y);
  world.post(first);
  CHECK_FALSE(world.find_unreceived().empty());
  world.withdraw(first);
  CHECK(world.find_unreceived().empty());
  world.post(to);
  CHECK_FALSE(to.done);
  world.withdraw(to);
}

TEST_CASE("a rank that waits for a message sleeps") {
  run_ranks(2, [](Communicator& world) {
    for (int i = 0; i < 3; ++i) CHECK(yotta_test::sleeps_while_it_waits(world));
  });
}

TEST_CASE("what is withdrawn while it is copied is whole when that returns, or untouched") {
  std::vector<float> x(1 << 20, 1);
  for (int i = 0; i < 40; ++i) {
    ThreadWorld world(2);
    std::vector<float> y(x.size());
    Message from(send, 0, 1, x), to(recv, 1, 0, y);
    world.post(to);
    std::thread sends([&] { world.post(from); });
    std::this_thread::sleep_for(std::chrono::microseconds(10 * i));
    world.withdraw(to);
    CHECK(y == (to.done ? x : std::vector<float>(x.size())));
    sends.join();
    if (!to.done) world.withdraw(from);
  }
}

TEST_CASE("only the first failure counts") {
  ThreadWorld world(3);
  CHECK(world.first_failed() == -1);
  world.check(0, Where::current());
  world.fail(2, "first");
  world.fail(1, "second");
  CHECK(world.first_failed() == 2);
  CHECK_THROWS_WITH_AS(world.check(0, Where::current()),
                       doctest::Contains("rank 2 has failed: first"), PeerFailed);
  CHECK_THROWS_WITH_AS(world.check(2, Where::current()), doctest::Contains("failed before"),
                       CommError);
}

TEST_CASE("a rank that would sleep for ever is told at once") {
  ThreadWorld world(2);
  std::vector<float> y(1);
  Message to(recv, 0, 1, y);
  world.post(to);
  const std::vector<Waiting> strands = {{&to.its_call, Where::current(), {&to, nullptr}, -1}};
  world.sleep(0, strands, 0.001);  // rank 1 still runs: it may send
  world.returned(1);
  CHECK_THROWS_AS(world.sleep(0, strands, 0.001), Deadlock);
  world.withdraw(to);
}

TEST_CASE("communicators that are dropped leave nothing behind") {
  if (YOTTA_ASAN || YOTTA_TSAN) YOTTA_NOT_RUN("a sanitizer keeps what is freed");
  run_ranks(2, [](Communicator& world) {
    std::vector<float> x(3);
    const auto split_often = [&](int times) {
      for (int i = 0; i < times; ++i) {
        const Communicator part = world.split(i % 2 == 0 ? 0 : world.rank(), 0);
        part.all_reduce(x);
        part.all_reduce_async(x).wait();
      }
      world.barrier();
      return mallinfo2().uordblks;  // of both ranks
    };
    const size_t before = split_often(200), after = split_often(1000);
    world.barrier();
    CHECK(after < before + 1000 * 20);  // 1.5 kB a call were left
  });
}

TEST_CASE("a Work may outlive its communicator") {
  check_says(error_of<Deadlock>(2,
                                [](Communicator& world) {
                                  std::vector<float> x(3);
                                  Work work = world.split(0, 0).recv_async(x, 1 - world.rank(), 4);
                                  work.wait();
                                }),
             {"rank 0 waits for 1 waits for 0", "on the communicator of ranks 0 1"});
}

TEST_CASE("a thousand ranks" * doctest::test_suite("long")) {
  if (YOTTA_TSAN || YOTTA_ASAN) YOTTA_NOT_RUN("a sanitizer takes minutes for a thousand threads");
  constexpr int p = 1000;
  run_ranks(p, [](Communicator& world) {
    std::vector<int64_t> x = {world.rank()};
    world.all_reduce(x);
    CHECK(x[0] == p * (p - 1) / 2);
    std::vector<int64_t> mine = {world.rank()}, other = {-1};
    world.send_recv(mine, (world.rank() + 1) % p, other, (world.rank() + p - 1) % p);
    CHECK(other[0] == (world.rank() + p - 1) % p);
  });
  check_says(error_of<RankFailed>(p,
                                  [](Communicator& world) {
                                    if (world.rank() == 700)
                                      throw std::runtime_error("one of many");
                                    world.barrier();
                                  }),
             {"rank 700 failed: one of many"});
}

TEST_CASE("ten thousand runs need no more memory than one thousand" * doctest::test_suite("long")) {
  if (YOTTA_TSAN || YOTTA_ASAN) YOTTA_NOT_RUN("mallinfo2 knows nothing of a sanitizer's allocator");
  const auto run_often = [](int times) {
    for (int i = 0; i < times; ++i)
      run_ranks(3, [](Communicator& world) {
        std::vector<float> x(100);
        world.split(world.rank() % 2, 0).all_reduce(x);
        world.all_reduce_async(x).wait();
      });
    return static_cast<int64_t>(mallinfo2().uordblks);
  };
  const int64_t before = run_often(1000);
  CHECK(run_often(9000) <= before + (64 << 10));
}
