#include "yotta/comm/nccl/bootstrap.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/threads/thread_transport.hpp"

using namespace yotta;

TEST_CASE("messages arrive by kind, in the order in which they were sent") {
  auto world = std::make_shared<ThreadWorld>(2);
  NcclBootstrap zero(std::make_shared<ThreadTransport>(world, 0)),
      one(std::make_shared<ThreadTransport>(world, 1));
  const Call call{"a message", 128, DType::u8, -1, "", "", Where::current()};
  for (const int i : {1, 2}) zero.send(1, 7, NcclBootstrap::pack(i), call);
  zero.send(1, 5, NcclBootstrap::pack(3), call);
  CHECK_FALSE(zero.all_sent());
  for (const auto& [kind, expected] : {std::pair{5, 3}, {7, 1}, {7, 2}}) {
    const NcclBootstrap::MessagePtr message = one.receive(0, kind, call);
    REQUIRE(one.has_arrived(*message));
    CHECK(NcclBootstrap::read<int>(message->payload) == expected);
  }
  CHECK(zero.all_sent());
}

TEST_CASE(
    "a message that has not come can be taken back, and those not taken go with their sender") {
  auto world = std::make_shared<ThreadWorld>(2);
  NcclBootstrap one(std::make_shared<ThreadTransport>(world, 1));
  const Call call{"a message", 128, DType::u8, -1, "", "", Where::current()};
  const NcclBootstrap::MessagePtr vain = one.receive(0, 1, call);
  CHECK_FALSE(one.has_arrived(*vain));
  one.cancel(*vain);
  {
    NcclBootstrap zero(std::make_shared<ThreadTransport>(world, 0));
    zero.send(1, 1, {}, call);
    CHECK(world->find_unreceived() != "");
  }
  CHECK(world->find_unreceived() == "");
  CHECK_FALSE(vain->request.done);
}
