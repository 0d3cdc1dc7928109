#include "yotta/comm/engine/collective.hpp"

#include "support/rank_errors.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;

TEST_CASE("messages of a collective do not meet those of the user") {
  run_ranks(2, [](Communicator& world) {
    std::vector<int32_t> user = {7}, x = {1}, got = {0};
    const int other = 1 - world.rank();
    Work receive = world.recv_async(got, other, 0);
    world.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
    world.send(user, other, 0);
    receive.wait();
    CHECK(x[0] == 2);
    CHECK(got[0] == 7);
  });
}

TEST_CASE("who gives up a native collective keeps its buffers until nobody reads them") {
  std::atomic<bool> reading = false, left = false;
  const std::string text = error_of<RankFailed>(3, [&](Communicator& world) {
    Communicator pair = world.split(world.rank() < 2 ? 0 : -1, 0);
    if (world.rank() == 2) {
      while (!reading) std::this_thread::yield();
      throw std::runtime_error("gone");
    }
    try {
      std::vector<int64_t> x(1000, world.rank() + 1);
      pair.collective("interrupted", [&](Channel& channel) {
        auto& meeting = dynamic_cast<SharedMemoryChannel&>(channel);
        meeting.show(x, {});
        meeting.meet();
        if (meeting.rank() == 1) {
          reading = true;
          for (int round = 0; round < 2000; ++round) {
            std::vector<int64_t> copy(1000);
            copy_data(meeting.in(0), copy);
            if (left || copy[999] != 1) FAIL("rank 0 has gone while its buffer was read");
            std::this_thread::yield();
          }
        }
        meeting.meet();
      });
    } catch (...) {
      if (world.rank() == 0) left = true;
      throw;
    }
  });
  check_says(text, {"rank 2 failed: gone"});
}
