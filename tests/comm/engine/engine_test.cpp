#include "yotta/comm/engine/engine.hpp"

#include <chrono>

#include "support/rank_errors.hpp"
#include "yotta/comm/threads/thread_transport.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;

TEST_CASE("collectives of one communicator run in order, those of two side by side") {
  run_ranks(2, [](Communicator& world) {
    Communicator other = world.split(0, world.rank());
    std::vector<int> order;
    const int peer = 1 - world.rank();
    std::vector<int32_t> x = {0}, y = {0};
    auto step = [&](int number) {
      return [&, number](Channel& channel) {
        order.push_back(number);
        channel.send_recv(x, peer, y, peer);
        order.push_back(number);
      };
    };
    Work first = world.collective_async("first", step(1));
    Work second = world.collective_async("second", step(2));
    Work third = other.collective_async("third", step(3));
    third.wait();
    second.wait();
    CHECK(first.done());
    std::vector<int> of_world;
    for (int number : order)
      if (number != 3) of_world.push_back(number);
    CHECK(of_world == std::vector<int>{1, 1, 2, 2});
    CHECK(std::count(order.begin(), order.end(), 3) == 2);
    first.wait();
  });
}

TEST_CASE("inside a collective only its channel may be used") {
  for (const bool async : {false, true})
    check_says(error_of<RankFailed>(1,
                                    [&](Communicator& world) {
                                      auto body = [&](Channel&) { world.barrier(); };
                                      if (async) world.collective_async("mine", body).wait();
                                      // On the rank's own stack it works: nothing is suspended.
                                      if (!async) world.collective("mine", body);
                                      if (!async) throw std::runtime_error("only its channel");
                                    }),
               {"only its channel"});
}

TEST_CASE("what a collective in flight throws comes out of wait()") {
  check_says(error_of<RankFailed>(2,
                                  [](Communicator& world) {
                                    Work work =
                                        world.collective_async("mine", [](Channel& channel) {
                                          if (channel.rank() == 1)
                                            throw std::runtime_error("odd one");
                                        });
                                    work.wait();
                                    world.barrier();
                                  }),
             {"rank 1 failed: odd one"});
}

TEST_CASE("a rank that sleeps is woken, however often") {
  run_ranks(8, [](Communicator& world) {  // more ranks than cores: most sleep at any time
    std::vector<int32_t> token = {0};
    const int p = world.size(), next = (world.rank() + 1) % p,
              previous = (world.rank() + p - 1) % p;
    for (int round = 0; round < 50; ++round) {
      if (world.rank() == 0) {
        token[0] = round;
        world.send(token, next);
        world.recv(token, previous);
        CHECK(token[0] == round + p - 1);
      } else {
        world.recv(token, previous);
        ++token[0];
        world.send(token, next);
      }
    }
  });
}

namespace {
// Counts how often it is asked whether a request is done.
class CountingTransport : public ThreadTransport {
 public:
  using ThreadTransport::ThreadTransport;
  bool test(Request& request) override {
    ++tests;
    return ThreadTransport::test(request);
  }
  int64_t tests = 0;
};
}  // namespace

TEST_CASE("a send tests a few of the buffered sends that are not received yet") {
  constexpr int64_t many = 20000;  // looking at all at each call: 200 million times
  const auto world = std::make_shared<ThreadWorld>(1);
  const auto transport = std::make_shared<CountingTransport>(world, 0);
  int64_t tests = -1;
  const auto body = [&](Communicator& self) {
    for (int32_t i = 0; i < many; ++i) self.send(std::vector{i}, 0, i % 2);
    tests = transport->tests;
    std::vector<int32_t> x(1);
    for (int32_t i = 0; i < many; ++i) self.recv(x, 0, i % 2);
  };
  RankReport report;
  report.context = std::make_shared<RankContext>();
  detail::run_rank(0, world, transport, body, {}, report, Where::current());
  CHECK(report.error == nullptr);
  CHECK(tests >= many);
  CHECK(tests <= 16 * many);
}

TEST_CASE("80,000 buffered sends that nobody has received yet arrive in their order") {
  constexpr int32_t many = 80000;  // looking at all at each call took 16 s and more
  run_ranks(2, [](Communicator& world) {
    std::vector<int32_t> x(1);
    const bool sends = world.rank() == 0;
    for (int32_t i = 0; sends && i < many; ++i) world.send(std::vector{i}, 1, i % 2);
    world.barrier();
    bool in_order = true;
    for (int32_t i = many; !sends && i-- > 0;) {  // tag 1 first, in the order in which they came
      world.recv(x, 0, i < many / 2 ? 0 : 1);
      in_order = in_order && x[0] == (i < many / 2 ? many - 2 - 2 * i : 2 * (many - i) - 1);
    }
    CHECK(in_order);
  });
}
