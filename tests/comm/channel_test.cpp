#include "yotta/comm/channel.hpp"

#include "support/rank_errors.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;
using yotta_test::here;

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
}

TEST_CASE("what is sent and what arrives may touch, but not share memory") {
  const auto exchange = [](int64_t begin) {
    return [begin](Channel& pair) {
      std::vector<float> x(8);
      const int other = 1 - pair.rank();
      pair.send_recv(Data(x).part(0, 4), other, Data(x).part(begin, begin + 4), other);
    };
  };
  run_ranks(2, [&](Communicator& world) { world.collective("apart", exchange(4)); });
  for (const int64_t begin : {0, 3})
    check_says(error_of<RankFailed>(
                   2, [&](Communicator& world) { world.collective("shared", exchange(begin)); }),
               {"channel_test.cpp:", "send_recv of 4 f32 and 4 f32 in the same memory"});
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& world) {
                                    std::vector<float> x(8);
                                    const int other = 1 - world.rank();
                                    world.send_recv(x, other, x, other);
                                  }),
             {"channel_test.cpp:", "send_recv of 8 f32 and 8 f32 in the same memory"});
}

TEST_CASE("several send_recvs at once: each arrives in its place, two to one rank in their order") {
  run_ranks(3, [](Communicator& world) {
    const auto body = [](Channel& ring) {
      const int p = ring.size(), right = (ring.rank() + 1) % p, left = (ring.rank() + p - 1) % p;
      std::vector<int32_t> out = {10 * ring.rank(), 10 * ring.rank() + 1, 10 * ring.rank() + 2};
      std::vector<int32_t> in(3);
      const auto a = [](std::vector<int32_t>& of, int i) { return Data(of).part(i, i + 1); };
      ring.exchange(std::vector<Exchange>{{a(out, 0), right, a(in, 0), left},
                                          {a(out, 1), left, a(in, 1), right},
                                          {a(out, 2), right, a(in, 2), left}});
      if (in != std::vector<int32_t>{10 * left, 10 * right + 1, 10 * left + 2})
        fail(Where::current(), "rank {} received {}, {} and {}", ring.rank(), in[0], in[1], in[2]);
    };
    world.collective("three at once", body);
    world.collective_async("three at once, in a fiber", body).wait();
  });
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& world) {
                                    world.collective("shared", [](Channel& pair) {
                                      std::vector<float> x(8);
                                      const int other = 1 - pair.rank();
                                      pair.exchange(std::vector<Exchange>{{x, other, x, other}});
                                    });
                                  }),
             {"channel_test.cpp:", "send_recv of 8 f32 and 8 f32 in the same memory"});
}

TEST_CASE("an exchange that one rank leaves out is a deadlock with both lines") {
  const auto error = error_of<Deadlock>(2, [](Communicator& world) {
    world.collective("a pair", [](Channel& pair) {
      std::vector<float> x(2), y(2);
      const Exchange each{Data(x).part(0, 1), 1 - pair.rank(), Data(y).part(0, 1), 1 - pair.rank()};
      pair.exchange(std::vector<Exchange>(static_cast<size_t>(2 - pair.rank()), each));
    });
  });
  check_says(error, {"exchange of 1 f32, a pair at channel_test.cpp:"});
}

TEST_CASE("what goes wrong in a collective of one's own is told with its own line") {
  for (const bool async : {false, true}) {
    const auto send_first = [&](Channel& ring) {
      std::vector<float> x(4), y(4);
      const int p = ring.size();
      ring.send(x, (ring.rank() + 1) % p);
      ring.recv(y, (ring.rank() + p - 1) % p);
    };
    const auto error = error_of<Deadlock>(3, [&](Communicator& world) {
      if (async) world.collective_async("a ring", send_first).wait();
      if (!async) world.collective("a ring", send_first);
    });
    check_says(error, {"0 waits for 1 waits for 2 waits for 0",
                       "in send of 4 f32, a ring at channel_test.cpp:"});
  }
  const std::string sent_at = "sends 4 f32 at " + here(4),
                    received_at = "receives 5 f32 at " + here(4);
  const auto too_long = [](Channel& pair) {
    std::vector<float> x(4), y(5);
    if (pair.rank() == 0) pair.send(x, 1);
    if (pair.rank() == 1) pair.recv(y, 0);
  };
  check_says(
      error_of<Mismatch>(2, [&](Communicator& world) { world.collective("a pair", too_long); }),
      {sent_at.c_str(), received_at.c_str()});
}
