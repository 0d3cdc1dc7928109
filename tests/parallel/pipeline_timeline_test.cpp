#include "yotta/parallel/pipeline_timeline.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE(
    "the bubble is (p-1)/(m+p-1), interleaved (p-1)/(vm+p-1), naive (p-1)/p, however long F and B "
    "are") {
  for (const PipelineCosts& costs :
       {PipelineCosts{1, 1, 1}, PipelineCosts{1, 0.5, 0.5}, PipelineCosts{3, 1, 4}})
    for (int p = 1; p <= 8; ++p)
      for (int64_t m = 1; m <= 16; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        const double busy = 1 - bubble_of_total(p, m);
        const auto time = [&](PipelineKind kind, int v = 1) {
          return simulate(make_schedule(kind, p, m, v), costs);
        };
        CHECK(time(PipelineKind::naive).busy() == doctest::Approx(1.0 / p).epsilon(1e-12));
        CHECK(time(PipelineKind::gpipe).busy() == doctest::Approx(busy).epsilon(1e-12));
        CHECK(time(PipelineKind::one_f_one_b).busy() == doctest::Approx(busy).epsilon(1e-12));
        for (int v = 1; v <= 4 && m % p == 0; ++v)
          CHECK(time(PipelineKind::interleaved, v).busy() ==
                doctest::Approx(1 - bubble_of_total(p, m, v)).epsilon(1e-12));
      }
}

TEST_CASE("messages delay whoever needs them") {
  const PipelineTimeline timeline =
      simulate(make_schedule(PipelineKind::gpipe, 2, 1), {1, 1, 1, 0.25});
  CHECK(timeline.by_rank[1][0].begin == 1.25);  // F
  CHECK(timeline.by_rank[0][1].begin == 4.5);   // B
  CHECK(timeline.length == 6.5);
  CHECK(timeline.busy() == doctest::Approx(6 / 13.0));
}

TEST_CASE("by how many messages a step is longer: lesson 18's 88, and 254 with 8 chunks") {
  const auto waited = [](int p, int64_t m, int v) {
    const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, p, m, v);
    const double message = 1 / 1024.0;
    return (simulate(schedule, {1, 1, 1, message}).length - simulate(schedule, {1, 1, 1}).length) /
           message;
  };
  CHECK(waited(16, 32, 1) == 88);
  CHECK(waited(16, 32, 8) == 254);
  for (const int p : {2, 4, 8, 16})
    for (const int rounds : {1, 2, 4}) {
      CHECK(waited(p, p * rounds, 1) == 2 * (p - 1) * rounds + 2 * (p - 2));
      for (const int v : {2, 4}) CHECK(waited(p, p * rounds, v) == 2 * (v * p - 1));
    }
}

TEST_CASE("I and W apart: W delays nobody") {
  PipelineSchedule schedule{"by hand", 2, 2, 1, {}};
  schedule.by_rank = {{{0, PipelineOp::F, 0}, {0, PipelineOp::I, 0}, {0, PipelineOp::W, 0}},
                      {{1, PipelineOp::F, 0}, {1, PipelineOp::I, 0}, {1, PipelineOp::W, 0}}};
  CHECK(simulate(schedule).length == 5);
  CHECK(most_in_flight(schedule.by_rank[0]) == 1);
}

TEST_CASE("what is wrong with a schedule is said") {
  const auto complaint = [](const std::vector<PipelineActions>& by_rank) {
    return message_of([&] {
      simulate({"by hand", static_cast<int>(by_rank.size()), static_cast<int>(by_rank.size()), 2,
                by_rank});
    });
  };
  using Op = PipelineOp;
  const PipelineActions right = {{0, Op::F, 0}, {0, Op::B, 0}, {0, Op::F, 1}, {0, Op::B, 1}};
  CHECK(complaint({right}) == "nothing was thrown");
  CHECK(contains(complaint({{{0, Op::F, 2}}}), "0F2 does not exist: the microbatches are 0 to 1"));
  CHECK(contains(complaint({{{0, Op::F, 0}, {0, Op::B, 0}, {0, Op::F, 1}}}), "0B1 missing"));
  CHECK(contains(complaint({{{0, Op::F, 0}, {0, Op::B, 0}}}), "0F1 missing"));
  CHECK(contains(complaint({{{0, Op::F, 0}, {0, Op::I, 0}, {0, Op::W, 0}, {0, Op::F, 1}}}),
                 "0I1 and 0W1 missing"));
  CHECK(contains(complaint({{{0, Op::F, 0}, {0, Op::F, 0}}}), "0F0 comes twice"));
  CHECK(contains(complaint({{{1, Op::F, 0}}}), "1F0 is not its"));
  CHECK(contains(complaint({{{0, Op::F, 0}, {0, Op::I, 0}, {0, Op::F, 1}, {0, Op::B, 1}}}),
                 "0B0 must be one B, or one I and one W"));
  const std::string circle =
      complaint({{{0, Op::F, 0}, {0, Op::B, 0}, {0, Op::F, 1}, {0, Op::B, 1}},
                 {{1, Op::F, 1}, {1, Op::F, 0}, {1, Op::B, 1}, {1, Op::B, 0}}});
  CHECK(contains(circle, "rank 0 is at 0B0 and waits for 1B0"));
  CHECK(contains(circle, "rank 1 is at 1F1 and waits for 0F1"));
}

TEST_CASE("what can run of a schedule that cannot: up to where a rank would wait forever") {
  PipelineSchedule schedule = make_schedule(PipelineKind::one_f_one_b, 2, 2);
  CHECK(simulate_as_far(schedule).length == simulate(schedule).length);
  PipelineActions& last = schedule.by_rank[1];  // 1F0 1B0 1F1 1B1
  std::swap(last[2], last[3]);                  // 1B1 waits for 1F1, which comes later
  const PipelineTimeline part = simulate_as_far(schedule);
  CHECK(part.by_rank[1].size() == 2);
  CHECK(part.by_rank[0].size() == 3);  // 0B1 waits for 1B1
  for (const PipelineAction none :
       {PipelineAction{0, PipelineOp::F, 2}, {5, PipelineOp::F, 0}, {0, PipelineOp::F, -1}})
    schedule.by_rank[0].insert(schedule.by_rank[0].begin(), none);
  CHECK(simulate_as_far(schedule).by_rank[0].size() == 3);
}

TEST_CASE(
    "interleaving waits for 2(vp-1) messages per step, those of one microbatch's way and back") {
  for (const int p : {2, 4, 16})
    for (const int v : {2, 8})
      for (const int64_t m : {p, 4 * p}) {
        const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, p, m, v);
        const double waited =
            simulate(schedule, {1, 1, 1, 0.75}).length - simulate(schedule, {}).length;
        CHECK(waited == doctest::Approx(0.75 * 2 * (v * p - 1)).epsilon(1e-9));
      }
}

TEST_CASE("F&B begins when both can, and both results are there at its end, which is declared") {
  using Op = PipelineOp;
  // Two stages on two ranks, two microbatches; rank 1's F1 runs together with its B0.
  const PipelineSchedule schedule{
      "pair",
      2,
      2,
      2,
      {{{0, Op::F, 0}, {0, Op::F, 1}, {0, Op::B, 0}, {0, Op::B, 1}},
       {{1, Op::F, 0}, {1, Op::F, 1, true}, {1, Op::B, 0}, {1, Op::B, 1}}}};
  for (const double together : {3.0, 2.0, 1.5}) {
    const PipelineTimeline timeline = simulate(schedule, {1, 1, 1, 0, together});
    const std::vector<PipelineEvent>& pair = timeline.by_rank[1];
    CHECK(pair[1].begin == 2);
    CHECK(pair[1].end == doctest::Approx(2 + together / 3));  // drawn one after the other
    CHECK(pair[2].end == doctest::Approx(2 + together));
    CHECK(timeline.by_rank[0][2].begin == doctest::Approx(2 + together));  // its B0 waits for it
    CHECK(timeline.length == doctest::Approx(2 + together + 4));
  }
  CHECK(simulate(schedule).length == doctest::Approx(9));  // not declared: F + B
}

TEST_CASE("what is wrong with an F&B is said, and what it waits for") {
  using Op = PipelineOp;
  const auto complaint = [](const PipelineActions& second) {
    return message_of([&] {
      simulate({"by hand",
                2,
                2,
                2,
                {{{0, Op::F, 0}, {0, Op::F, 1}, {0, Op::B, 0}, {0, Op::B, 1}}, second}});
    });
  };
  const PipelineAction f0{1, Op::F, 0}, f1{1, Op::F, 1, true}, b0{1, Op::B, 0}, b1{1, Op::B, 1};
  CHECK(complaint({f0, f1, b0, b1}) == "nothing was thrown");
  CHECK(contains(complaint({f0, b0, b1, f1}), "1F1& must be an F with a B after it"));
  CHECK(contains(complaint({{1, Op::F, 0, true}, {1, Op::F, 1}, b0, b1}), "1F0& must be an F"));
  CHECK(contains(complaint({f0, f1, b1, b0}), "rank 1 is at 1F1& and waits for 1F1"));
  CHECK(contains(message_of([] {
                   simulate({"V", 2, 4, 1, {{{1, Op::F, 0}}, {}}, Placement::vee});
                 }),
                 "rank 0: 1F0 is not its: it lies on another rank"));
}
