#include "yotta/parallel/zero_bubble.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/message_of.hpp"
#include "support/pipeline_run.hpp"
#include "support/project_file.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_picture.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr ZeroBubble both[] = {ZeroBubble::H1, ZeroBubble::H2};

// What a rank holds when it holds most; a microbatch before I weighs 1, one before W half.
HeldMicrobatches most_held(const PipelineActions& actions) {
  HeldMicrobatches now, most;
  for (const PipelineAction& each : actions) {
    if (each.op == PipelineOp::F) ++now.before_input;
    if (each.op == PipelineOp::I) --now.before_input, ++now.before_weight;
    if (each.op == PipelineOp::W) --now.before_weight;
    if (2 * now.before_input + now.before_weight > 2 * most.before_input + most.before_weight)
      most = now;
  }
  return most;
}

}  // namespace

TEST_CASE("every schedule is complete and none waits forever: p <= 8, m <= 16") {
  for (const ZeroBubble kind : both)
    for (int p = 1; p <= 8; ++p)
      for (int64_t m = 1; m <= 16; ++m)
        CHECK(simulate(zero_bubble_schedule(kind, p, m)).length >= static_cast<double>(3 * m));
}

TEST_CASE("idle time is the formula's: (p-1)(F+I-W), (p-1)(F+I-2W), and (p-1)(F+I+W) for 1F1B") {
  for (const PipelineCosts& costs :
       {PipelineCosts{1, 1, 1}, PipelineCosts{4, 4, 3}, PipelineCosts{1, 1, 0.5}})
    for (int p = 1; p <= 8; ++p) {
      const int64_t m = 3 * p;
      CAPTURE(p);
      const double work = static_cast<double>(m) * (costs.forward + costs.input + costs.weight);
      const auto idle = [&](const PipelineSchedule& schedule) {
        const double rate = bubble_rate(schedule, costs);  // idle / (idle + work)
        return work * rate / (1 - rate);
      };
      CHECK(idle(make_schedule(PipelineKind::one_f_one_b, p, m)) ==
            doctest::Approx(zero_bubble_idle(0, p, costs)));
      CHECK(idle(zero_bubble_schedule(ZeroBubble::H1, p, m)) ==
            doctest::Approx(zero_bubble_idle(1, p, costs)));
      CHECK(idle(zero_bubble_schedule(ZeroBubble::H2, p, m)) ==
            doctest::Approx(zero_bubble_idle(2, p, costs)));
    }
}

TEST_CASE(
    "memory: H1 holds 1F1B's p microbatches on the first rank, H2 2p - 1; later ranks trade M for "
    "M_W") {
  for (const ZeroBubble kind : both)
    for (int p = 1; p <= 8; ++p)
      for (int rank = 0; rank < p; ++rank) {
        CAPTURE(p);
        CAPTURE(rank);
        CHECK(most_held(zero_bubble_actions(rank, p, 3 * p, kind)) ==
              held_by_zero_bubble(kind, rank, p));
      }
  CHECK(held_by_zero_bubble(ZeroBubble::H1, 0, 8) == HeldMicrobatches{8, 0});
  CHECK(held_by_zero_bubble(ZeroBubble::H2, 0, 8) == HeldMicrobatches{15, 0});
}

TEST_CASE(
    "the executor runs them as they are: on machine ideal in the timeline's time, with 1F1B's "
    "gradients") {
  const int p = 4;
  const int64_t m = 12;
  const LinearNetConfig net{8, 4};
  std::vector<double> gradients[3];
  for (int k = 0; k <= 2; ++k) {
    const PipelineSchedule schedule = k == 0
                                          ? make_schedule(PipelineKind::one_f_one_b, p, m)
                                          : zero_bubble_schedule(static_cast<ZeroBubble>(k), p, m);
    const Timed run = run_on(ideal(), p, [&](Communicator& pp) {
      const std::vector<LayerPtr> stage =
          make_linear_net(net, 2 * pp.rank(), 2 * pp.rank() + 2, {1, DType::f64});
      Pipeline pipeline(pp, {stage});
      Tensor x = Tensor::empty({3, 4}, DType::f64);
      for (int64_t i = 0; i < 12; ++i) x.data<double>()[i] = static_cast<double>(i % 5) - 2;
      const std::vector<PipelineMicrobatch> all(m, {x, {3, 4}, DType::f64, {}});
      pipeline.run(schedule, all, [](size_t i, const Tensor& y, Tensor& dy) {
        dy = y.clone();
        dy.data<double>()[0] += static_cast<double>(i);
        return 0.0;
      });
      if (pp.rank() == 1)
        for (const ParameterPtr& each : parameters(Layers(stage)))
          for (const double g : each->grad.values()) gradients[k].push_back(g);
    });
    const double stage = forward_flops({2, net.width}, 3);
    CHECK(run.seconds() == doctest::Approx(simulate(schedule, {stage, stage, stage}).length));
  }
  CHECK(gradients[0].size() == 32);
  CHECK(gradients[1] == gradients[0]);  // the same sums in the same order
  CHECK(gradients[2] == gradients[0]);
}

TEST_CASE(
    "greedy: with equal times each microbatch more in memory saves one unit, from p to 2p - 1") {
  for (int p = 1; p <= 8; ++p)
    for (int64_t hold = p; hold < 2 * p; ++hold) {
      CAPTURE(p);
      CAPTURE(hold);
      const int64_t m = 4 * p;
      const PipelineSchedule schedule = greedy_schedule(p, m, hold, {});
      const double rate = bubble_rate(schedule, {}), work = 3.0 * static_cast<double>(m);
      CHECK(work * rate / (1 - rate) ==
            doctest::Approx(static_cast<double>(2 * p - 1 - hold)).epsilon(1e-9));
    }
}

TEST_CASE("greedy: complete and within its memory, for any times") {
  for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{1, 2, 0.5, 0.25},
                                     PipelineCosts{3, 1, 4, 1}, PipelineCosts{1, 1, 0, 9}})
    for (const int p : {1, 2, 3, 5})
      for (const int64_t m : {1, 4, 11})
        for (const int64_t hold : {1, 2, 5, 20}) {
          const PipelineSchedule schedule = greedy_schedule(p, m, hold, costs);
          CHECK(simulate(schedule, costs).length > 0);
          for (int rank = 0; rank < p; ++rank) {
            const PipelineActions& actions = schedule.by_rank[static_cast<size_t>(rank)];
            CHECK(most_in_flight(actions) <= hold);
            CHECK(most_held(actions).before_input <= may_wait_for_input(rank, p, hold));
          }
        }
  for (int rank = 0; rank < 8; ++rank)
    for (const ZeroBubble kind : both) {
      const int64_t hold = static_cast<int64_t>(kind) * 7 + 1;
      CHECK(may_wait_for_input(rank, 8, hold) == held_by_zero_bubble(kind, rank, 8).before_input);
    }
  CHECK(contains(message_of([] { greedy_schedule(2, 4, 0, {}); }), "0 held"));
}

TEST_CASE("ZB-V: complete for any p and m; nobody waits forever") {
  for (int p = 1; p <= 8; ++p)
    for (int64_t m = 1; m <= 18; ++m)
      CHECK(simulate(zb_v_schedule(p, m)).length >= static_cast<double>(6 * m));
  CHECK(contains(message_of([] { zb_v_schedule(2, 0); }), "0 microbatches"));
}

TEST_CASE("ZB-V: no bubble if F = I = W, else 2 (p-1)(I - W); every rank holds 2p half stages") {
  for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{1, 1, 0.5},
                                     PipelineCosts{2, 2.5, 1}, PipelineCosts{3, 4, 3}})
    for (int p = 1; p <= 8; ++p)
      for (const int64_t m : {2 * p - 1, 2 * p, 4 * p}) {
        CAPTURE(p);
        CAPTURE(m);
        const PipelineSchedule schedule = zb_v_schedule(p, m);
        const double rate = bubble_rate(schedule, costs);
        const double work =
            2 * static_cast<double>(m) * (costs.forward + costs.input + costs.weight);
        CHECK(work * rate / (1 - rate) == doctest::Approx(zb_v_idle(p, costs)).epsilon(1e-9));
        for (const PipelineActions& each : schedule.by_rank)
          CHECK(most_in_flight(each) == 2 * p);  // as 1F1B's first rank, p whole ones
      }
  CHECK(zb_v_idle(8, {}) == 0);
}

TEST_CASE("ZB-V on ranks with a virtual clock: the timeline's time, 1F1B's gradients") {
  for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{2, 3, 1}}) {
    const PipelineRun run = run_pipeline(zb_v_schedule(3, 7), costs);
    CHECK(run.seconds == doctest::Approx(simulate(zb_v_schedule(3, 7), costs).length));
    CHECK(run.most_saved == 6);
    CHECK(run.gradients ==
          run_pipeline(make_schedule(PipelineKind::one_f_one_b, 6, 7), costs).gradients);
  }
}

TEST_CASE("the pictures at the top of zero_bubble.hpp are these; impossible sizes are refused") {
  const std::string header = text_of("include/yotta/parallel/zero_bubble.hpp");
  for (const PipelineSchedule& schedule : {make_schedule(PipelineKind::one_f_one_b, 3, 5),
                                           zero_bubble_schedule(ZeroBubble::H1, 3, 5)}) {
    std::istringstream lines(picture(simulate(schedule)));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(contains(header, " " + line + "\n"));
    }
  }
  CHECK(contains(message_of([] { zero_bubble_schedule(ZeroBubble::H1, 0, 1); }), "0 ranks"));
}
