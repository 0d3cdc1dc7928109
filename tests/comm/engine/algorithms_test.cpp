#include "yotta/comm/engine/algorithms.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/comm/threads/thread_transport.hpp"

using namespace yotta;

namespace {
// How many of all algorithms an operation accepts; the others it must refuse by name.
template <class Call>
int accepted(Call call) {
  int count = 0;
  for (int a = 1; a <= static_cast<int>(Algorithm::native); ++a) {
    const auto algorithm = static_cast<Algorithm>(a);
    try {
      run_ranks(3, [&](Communicator& world) { call(world, algorithm); });
      ++count;
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(text.find(std::string("has no algorithm called ") + name(algorithm)) !=
            std::string::npos);
    }
  }
  return count;
}
using C = Communicator;
using V = std::vector<float>;
}  // namespace

TEST_CASE("each operation has these algorithms and refuses the others") {
  CHECK(accepted([](C& w, Algorithm a) {
          V x(7, 1);
          w.all_reduce(x, ReduceOp::sum, {a, nullptr, /*node=*/3});
          CHECK(x == V(7, 3));
        }) == 9);
  CHECK(accepted([](C& w, Algorithm a) {
          V x(7, static_cast<float>(w.rank()));
          w.broadcast(x, 2, {a});
          CHECK(x == V(7, 2));
        }) == 5);
  CHECK(accepted([](C& w, Algorithm a) {
          V x(7, 1);
          w.reduce(x, 1, ReduceOp::sum, {a});
          CHECK((w.rank() != 1 || x == V(7, 3)));
        }) == 3);
  CHECK(accepted([](C& w, Algorithm a) {
          V in(6, 1), out(2);
          w.reduce_scatter(out, in, ReduceOp::sum, {a, nullptr, /*node=*/3});
          CHECK(out == V(2, 3));
        }) == 6);
  CHECK(accepted([](C& w, Algorithm a) {
          V in(2, 1), out(6);
          w.all_gather(out, in, {a, nullptr, /*node=*/3});
          CHECK(out == V(6, 1));
        }) == 7);
  CHECK(accepted([](C& w, Algorithm a) {
          V in(6, 1), out(6);
          w.all_to_all(out, in, {a});
          CHECK(out == V(6, 1));
        }) == 4);
  CHECK(accepted([](C& w, Algorithm a) {
          V in(2, 1), out(6);
          w.gather(out, in, 1, {a});
          CHECK((w.rank() != 1 || out == V(6, 1)));
        }) == 3);
  CHECK(accepted([](C& w, Algorithm a) {
          V in(6, 1), out(2);
          w.scatter(out, in, 1, {a});
          CHECK(out == V(2, 1));
        }) == 3);
  CHECK(accepted([](C& w, Algorithm a) { w.barrier({a}); }) == 3);
}

TEST_CASE("automatic: native on shared memory; by size where messages must be sent") {
  struct NoClock : CostSink {
    void op(const OpCost&) override {}
    EventStamp send(const MessageCost&) override { return {}; }
    void receive(const MessageCost&, const EventStamp&) override {}
    EventStamp now(int) override { return {}; }
    void wait(int, const EventStamp&) override {}
  } clock;
  Group group;
  group.engine = std::make_shared<Engine>(
      std::make_shared<ThreadTransport>(std::make_shared<ThreadWorld>(1), 0), EngineOptions{});
  auto chosen = [&](Algorithm wanted, int64_t bytes, Device device = Device::cpu) {
    const ConstData data(nullptr, bytes, DType::u8, device);
    return choose(group, Operation::all_reduce, {wanted}, data).algorithm;
  };
  RankContext rank;
  const ContextScope scope(rank);
  CHECK(chosen(Algorithm::automatic, 8) == Algorithm::native);
  CHECK(chosen(Algorithm::bruck, 8) == Algorithm::bruck);
  CHECK(chosen(Algorithm::automatic, 8, Device::meta) == Algorithm::recursive_doubling);
  CHECK_THROWS_AS(chosen(Algorithm::native, 8, Device::meta), Error);
  rank.clock = &clock;
  CHECK(chosen(Algorithm::automatic, small_bytes - 1) == Algorithm::recursive_doubling);
  CHECK(chosen(Algorithm::automatic, small_bytes) == Algorithm::ring);
}
