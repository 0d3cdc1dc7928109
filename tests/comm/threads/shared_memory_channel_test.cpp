#include "yotta/comm/threads/shared_memory_channel.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

TEST_CASE("after a meeting everyone sees what the others show") {
  for (int p : {1, 2, 3, 8})
    for (const bool async : {false, true})
      run_ranks(p, [&](Communicator& world) {
        std::vector<int32_t> x = {world.rank()}, sum = {0};
        auto body = [&](Channel& channel) {
          auto& meeting = dynamic_cast<SharedMemoryChannel&>(channel);
          meeting.show(x, {});
          meeting.meet();
          for (int r = 0; r < p; ++r) reduce_into(sum, meeting.in(r), ReduceOp::sum);
          meeting.meet();
          x[0] = -1;  // nobody reads any more
          meeting.count({1, 4, 2, 8});
        };
        for (int round = 0; round < 20; ++round) {
          x[0] = world.rank();
          sum[0] = 0;
          if (async)
            world.collective_async("sum", body).wait();
          else
            world.collective("sum", body);
          CHECK(sum[0] == p * (p - 1) / 2);
        }
        CHECK(context().ledger.traffic("sum").bytes_received == 160);
      });
}
