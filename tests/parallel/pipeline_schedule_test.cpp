#include "yotta/parallel/pipeline_schedule.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Calls visit(schedule, p, m, v) for every kind, p <= 8, m <= 16, v <= 4.
template <class Visit>
void each_schedule(Visit visit) {
  for (int p = 1; p <= 8; ++p)
    for (int64_t m = 1; m <= 16; ++m) {
      for (const PipelineKind kind :
           {PipelineKind::naive, PipelineKind::gpipe, PipelineKind::one_f_one_b})
        visit(make_schedule(kind, p, m), p, m, 1);
      for (int v = 1; v <= 4; ++v)
        visit(make_schedule(PipelineKind::interleaved, p, m, v), p, m, v);
    }
}

}  // namespace

TEST_CASE("each rank's actions, as printed") {
  const auto actions = [](PipelineKind kind, int rank, int p, int64_t m, int v = 1) {
    return str(make_schedule(kind, p, m, v).by_rank[static_cast<size_t>(rank)]);
  };
  CHECK(actions(PipelineKind::naive, 1, 2, 2) == "1F0 1B0 1F1 1B1");
  CHECK(actions(PipelineKind::gpipe, 1, 3, 3) == "1F0 1F1 1F2 1B0 1B1 1B2");
  CHECK(actions(PipelineKind::one_f_one_b, 0, 3, 4) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(actions(PipelineKind::one_f_one_b, 2, 3, 2) == "2F0 2B0 2F1 2B1");
  CHECK(actions(PipelineKind::one_f_one_b, 0, 8, 2) == "0F0 0F1 0B0 0B1");  // m < p
  CHECK(actions(PipelineKind::interleaved, 1, 2, 2, 2) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
  CHECK(actions(PipelineKind::interleaved, 0, 2, 1, 2) == "0F0 2F0 2B0 0B0");
}

TEST_CASE("every schedule is complete and none waits forever: p <= 8, m <= 16, v <= 4") {
  int count = 0;
  each_schedule([&](const PipelineSchedule& schedule, int p, int64_t m, int v) {
    CAPTURE(schedule.name);
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(v);
    CHECK(simulate(schedule).length > 0);
    ++count;
  });
  CHECK(count == 8 * 16 * 7);
}

TEST_CASE(
    "in flight: naive 1, GPipe m, 1F1B min(p - s, m), interleaved 2(p-1-r) + (v-1)p + 1 chunks") {
  each_schedule([&](const PipelineSchedule& schedule, int p, int64_t m, int v) {
    for (int rank = 0; rank < p; ++rank) {
      CAPTURE(schedule.name);
      CAPTURE(p);
      CAPTURE(m);
      CAPTURE(rank);
      const int64_t most = most_in_flight(schedule.by_rank[static_cast<size_t>(rank)]);
      if (schedule.name == "naive") CHECK(most == 1);
      if (schedule.name == "GPipe") CHECK(most == m);
      if (schedule.name == "1F1B") CHECK(most == std::min<int64_t>(p - rank, m));
      if (v > 1 && m % p == 0) CHECK(most == in_flight_interleaved(rank, p, m, v));
      if (v > 1) CHECK(most <= in_flight_interleaved(rank, p, m + p, v));
    }
  });
}

TEST_CASE("impossible sizes are refused") {
  CHECK(contains(message_of([] { make_schedule(PipelineKind::gpipe, 2, 0); }), "0 microbatches"));
  CHECK(contains(message_of([] { make_schedule(PipelineKind::gpipe, 2, 2, 2); }),
                 "GPipe has one chunk per rank"));
}

TEST_CASE("messages: F goes down the stages, B and I go up, W is nobody's business") {
  const PipelineSchedule three = make_schedule(PipelineKind::gpipe, 3, 1);
  const PipelineMessages messages({}, three);
  const auto route = [&](int stage, PipelineOp op) {
    const PipelineMessages::Route found = messages.route({stage, op, 0});
    return std::pair{found.from, found.to};
  };
  CHECK(route(0, PipelineOp::F) == std::pair{-1, 1});
  CHECK(route(1, PipelineOp::F) == std::pair{0, 2});
  CHECK(route(2, PipelineOp::F) == std::pair{1, -1});
  for (const PipelineOp back : {PipelineOp::B, PipelineOp::I}) {
    CHECK(route(2, back) == std::pair{-1, 1});
    CHECK(route(1, back) == std::pair{2, 0});
    CHECK(route(0, back) == std::pair{1, -1});
  }
  CHECK(route(1, PipelineOp::W) == std::pair{-1, -1});
}

TEST_CASE("messages: each action gets what it needs, and what has arrived is let go") {
  // The name of a result as a number: who made it.
  const auto number = [](const PipelineAction& a) {
    return 1000.0 * a.stage + 100 * static_cast<int>(a.op) + static_cast<double>(a.microbatch);
  };
  const int64_t size = 512, m = 8;
  for (const int v : {1, 2}) {
    CAPTURE(v);
    std::vector<int64_t> peak(4);
    run_ranks(4, [&](Communicator& pp) {
      const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, 4, m, v);
      PipelineMessages messages(pp, schedule);
      for (const PipelineAction& a : schedule.by_rank[static_cast<size_t>(pp.rank())]) {
        const int from = messages.route(a).from;
        const Tensor got = messages.receive(a, {size}, DType::f64);
        CHECK(got.defined() == (from >= 0));
        if (from >= 0) CHECK(got.data<double>()[size - 1] == number({from, a.op, a.microbatch}));
        messages.send(a, Tensor::full({size}, number(a), DType::f64));
      }
      messages.finish();
      peak[static_cast<size_t>(pp.rank())] =
          context().ledger.memory()->peak(MemoryKind::activations);
    });
    // One y for each microbatch in flight, one dx, and what is in hand: far from all m of them.
    if (v == 1)
      for (int rank = 0; rank < 4; ++rank)
        CHECK(peak[static_cast<size_t>(rank)] <= (in_flight_1f1b(rank, 4, m) + 4) * size * 8);
  }
  CHECK(contains(message_of([] {
                   const PipelineSchedule two = make_schedule(PipelineKind::interleaved, 1, 1, 2);
                   PipelineMessages({}, two).receive({1, PipelineOp::F, 0}, {1}, DType::f64);
                 }),
                 "1F0 comes before what it needs"));
}
