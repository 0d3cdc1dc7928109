#include "yotta/core/context.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace yotta;

namespace {
struct Recorder : CostSink {
  double flops = 0;
  std::vector<int64_t> received;
  void op(const OpCost& cost) override { flops += cost.flops; }
  EventStamp send(const MessageCost&) override { return {}; }
  void receive(const MessageCost& message, const EventStamp&) override {
    received.push_back(message.bytes);
  }
  EventStamp now(int) override { return {}; }
  void wait(int, const EventStamp&) override {}
};
}  // namespace

TEST_CASE("each thread has its own context, and none leaks out of its scope") {
  RankContext zero, one;
  one.rank = 1;
  const ContextScope scope(zero);
  std::thread([&] {
    const ContextScope inner(one);
    CHECK(context().rank == 1);
    charge({"op", DType::f32, 5, 0, 0});
  }).join();
  charge({"op", DType::f32, 7, 0, 0});
  CHECK(zero.ledger.op("op").flops == 7);
  CHECK(one.ledger.op("op").flops == 5);
  {
    const ContextScope inner(one);
    CHECK(context().rank == 1);
  }
  CHECK(context().rank == 0);
}

TEST_CASE("costs reach the clock if there is one") {
  RankContext rank;
  Recorder clock;
  const ContextScope scope(rank);
  charge({"op", DType::f32, 5, 0, 0});
  rank.clock = &clock;
  charge({"op", DType::f32, 6, 0, 0});
  CHECK(clock.flops == 6);
  CHECK(rank.ledger.op("op").flops == 11);
}

TEST_CASE("a clock that knows no ports takes what comes at once one by one") {
  Recorder clock;
  clock.receive_all(std::vector<Arrival>{{{1, 8, -1, "x"}, {}}, {{2, 4, -1, "x"}, {}}});
  CHECK(clock.received == std::vector<int64_t>{8, 4});
}

TEST_CASE("scopes restore what they changed") {
  RankContext rank;
  const ContextScope scope(rank);
  {
    const MemoryScope memory(MemoryKind::optimizer);
    const DeviceScope device(Device::meta);
    CHECK(rank.memory_kind == MemoryKind::optimizer);
    CHECK(rank.device == Device::meta);
  }
  CHECK(rank.memory_kind == MemoryKind::activations);
  CHECK(rank.device == Device::cpu);
}

TEST_CASE("a phase ends with its scope; a forward pass within another phase is recomputation") {
  RankContext rank;
  const ContextScope scope(rank);
  {
    const PhaseScope backward(Phase::backward_input);
    CHECK(rank.phase == Phase::backward_input);
    {
      const PhaseScope again(Phase::forward);
      CHECK(rank.phase == Phase::recompute);
      const PhaseScope inner(Phase::forward);
      CHECK(rank.phase == Phase::recompute);
    }
    CHECK(rank.phase == Phase::backward_input);
  }
  CHECK(rank.phase == Phase::none);
  const PhaseScope forward(Phase::forward), inner(Phase::forward);
  CHECK(rank.phase == Phase::forward);
}

TEST_CASE("a step's number ends with its scope") {
  RankContext rank;
  const ContextScope scope(rank);
  {
    const StepScope step(3);
    CHECK(rank.step == 3);
  }
  CHECK(rank.step == -1);
}
