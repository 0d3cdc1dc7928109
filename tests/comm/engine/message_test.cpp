#include "yotta/comm/engine/message.hpp"

#include <doctest/doctest.h>

#include <map>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {
// The simplest clock: a message takes alpha + bytes * beta, an operation flops seconds.
struct TestClock : CostSink {
  static constexpr double alpha = 1, beta = 0.125;
  std::map<int, double> lanes;
  void op(const OpCost& cost) override { lanes[0] += cost.flops; }
  EventStamp send(const MessageCost& m) override {
    const double begin = lanes[m.lane];
    return {begin, begin + alpha + beta * static_cast<double>(m.bytes)};
  }
  void receive(const MessageCost& m, const EventStamp& travel) override { wait(m.lane, travel); }
  EventStamp now(int lane) override { return {0, lanes[lane]}; }
  void wait(int lane, const EventStamp& done) override {
    lanes[lane] = std::max(lanes[lane], done.end);
  }
};

// Seconds of the slowest rank.
template <class Body>
double seconds(int p, Body body) {
  std::vector<TestClock> clocks(static_cast<size_t>(p));
  RunOptions options;
  options.clock = [&](int rank) { return &clocks[static_cast<size_t>(rank)]; };
  run_ranks(p, body, options);
  double last = 0;
  for (TestClock& clock : clocks) last = std::max(last, clock.now(0).end);
  return last;
}
}  // namespace

TEST_CASE("every message is on the ledger of both sides") {
  const auto reports = run_ranks(2, [](Communicator& world) {
    std::vector<float> x(5);
    std::vector<double> y(1);
    if (world.rank() == 0) {
      world.send(x, 1);
      world.recv(y, 1);
      world.send_async(x, 1).wait();
    } else {
      world.recv(x, 0);
      world.send(y, 0);
      world.recv_async(x, 0).wait();
    }
  });
  const Traffic zero = reports[0].ledger().traffic("send");
  CHECK(zero.messages_sent == 2);
  CHECK(zero.bytes_sent == 40);
  CHECK(zero.messages_received == 1);
  CHECK(zero.bytes_received == 8);
  const Traffic one = reports[1].ledger().traffic("send");
  CHECK(one.bytes_sent == 8);
  CHECK(one.bytes_received == 40);
}

TEST_CASE("a collective is on the ledger under its name or the label it was given") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::native}) {
    const auto reports = run_ranks(4, [&](Communicator& world) {
      std::vector<float> x(8);
      world.all_reduce(x, ReduceOp::sum, {algorithm});
      world.all_reduce_async(x, ReduceOp::sum, {algorithm, "gradients"}).wait();
    });
    for (const RankReport& report : reports) {
      CHECK(report.ledger().traffic("all_reduce").bytes_sent == 2 * 3 * 8);
      CHECK(report.ledger().traffic("gradients").bytes_received == 2 * 3 * 8);
    }
  }
}

TEST_CASE("a clock times the messages of a ring: 2 (p - 1) (alpha + n / p beta)") {
  for (int p : {2, 3, 4, 8}) {
    const double expected = 2 * (p - 1) * (TestClock::alpha + 16 * TestClock::beta);
    auto ring = [](Communicator& world, bool async) {
      std::vector<float> x(static_cast<size_t>(4 * world.size()));  // chunks of 16 bytes
      if (async) {
        Work work = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
        charge({"compute", DType::f32, 3, 0, 0});  // at the same time
        work.wait();
      } else {
        world.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
      }
    };
    CHECK(seconds(p, [&](Communicator& w) { ring(w, false); }) == expected);
    CHECK(seconds(p, [&](Communicator& w) { ring(w, true); }) == std::max(3.0, expected));
  }
}

TEST_CASE("two collectives in flight follow each other on the clock, whoever waits first") {
  const double one = 2 * (TestClock::alpha + 8 * TestClock::beta);
  for (const bool last_first : {false, true})
    CHECK(seconds(2, [&](Communicator& world) {
            std::vector<float> x(4), y(4);
            Work a = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
            charge({"compute", DType::f32, 1, 0, 0});
            Work b = world.all_reduce_async(y, ReduceOp::sum, {Algorithm::ring});
            (last_first ? b : a).wait();
            (last_first ? a : b).wait();
          }) == 2 * one);
}

TEST_CASE("point to point: the receiver goes on when the message has arrived") {
  CHECK(seconds(2, [](Communicator& world) {
          std::vector<float> x(2);
          if (world.rank() == 0) {
            charge({"compute", DType::f32, 5, 0, 0});
            world.send(x, 1);
          } else {
            world.recv(x, 0);
            charge({"compute", DType::f32, 3, 0, 0});
          }
        }) == 5 + TestClock::alpha + 8 * TestClock::beta + 3);
}
