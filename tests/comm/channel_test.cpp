#include "yotta/comm/channel.hpp"

#include "support/rank_errors.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;

TEST_CASE("a channel passes messages in order, and its sends are never buffered") {
  run_ranks(2, [](Communicator& world) {
    world.collective("two messages", [](Channel& channel) {
      std::vector<int32_t> a = {1}, b = {2};
      if (channel.rank() == 0) {
        channel.send(a, 1);
        channel.send(b, 1);
      } else {
        channel.recv(b, 0);
        channel.recv(a, 0);
        CHECK(b[0] == 1);
        CHECK(a[0] == 2);
      }
    });
  });
  check_says(error_of<Deadlock>(3,
                                [](Communicator& world) {
                                  world.collective("first send, then receive", [](Channel& ring) {
                                    std::vector<float> x(4), y(4);
                                    const int p = ring.size();
                                    ring.send(x, (ring.rank() + 1) % p);
                                    ring.recv(y, (ring.rank() + p - 1) % p);
                                  });
                                }),
             {"0 waits for 1 waits for 2 waits for 0", "first send, then receive at"});
}
