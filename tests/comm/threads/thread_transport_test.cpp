#include "yotta/comm/threads/thread_transport.hpp"

#include <doctest/doctest.h>

using namespace yotta;

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
