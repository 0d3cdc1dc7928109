// Qi et al. (2023), Zero Bubble Pipeline Parallelism, arXiv 2401.10241: bubble rates computed from
// profiled times, and DeepSeek-V3's table of pipeline schedules. Their B is our I.
#include "yotta/parallel/zero_bubble.hpp"

#include "yotta/model/pipelined.hpp"
#include "yotta/parallel/dual_pipe.hpp"
#include "yotta/plan/mfu.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("profiled times to bubble rates, 8 stages") {
  struct Row {
    int64_t m;
    PipelineCosts milliseconds;  // T_F, T_B, T_W, T_comm
    double one_f_one_b, h1, h2;
  };
  for (const Row& row : {Row{24, {18.522, 18.086, 9.337, .601}, .2431, .1585, .1083},
                         Row{64, {18.546, 18.097, 9.321, .762}, .1240, .0674, .0444},
                         Row{32, {29.802, 29.428, 19.530, .577}, .1898, .1045, .0559}}) {
    CAPTURE(row.m);
    const auto rate = [&](const PipelineSchedule& schedule) {
      return bubble_rate(schedule, row.milliseconds);
    };
    CHECK(std::abs(rate(make_schedule(PipelineKind::one_f_one_b, 8, row.m)) - row.one_f_one_b) <=
          5.1e-5);
    CHECK(std::abs(rate(zero_bubble_schedule(ZeroBubble::H1, 8, row.m)) - row.h1) <= 5.1e-5);
    CHECK(std::abs(rate(zero_bubble_schedule(ZeroBubble::H2, 8, row.m)) - row.h2) <= 5.1e-5);
  }
}

TEST_CASE(
    "peak memory, worker i from 1: H1 (p-i+1) M_B + (i-1) M_W, H2 (2p-2i+1) M_B + (2i-2) M_W") {
  for (const int p : {2, 4, 8})
    for (int i = 1; i <= p; ++i) {
      CHECK(held_by_zero_bubble(ZeroBubble::H1, i - 1, p) == HeldMicrobatches{p - i + 1, i - 1});
      CHECK(held_by_zero_bubble(ZeroBubble::H2, i - 1, p) ==
            HeldMicrobatches{2 * p - 2 * i + 1, 2 * i - 2});
    }
}

TEST_CASE("FLOPs of a GPT layer: F sbh(24h + 4s), B sbh(24h + 8s), W 24 sbh^2") {
  for (const auto& [h, s] : {std::pair{4096, 1024}, {6144, 2048}}) {
    CAPTURE(h);
    const TokenFlops flops = forward_flops({.width = h,
                                            .heads = h / 128,
                                            .kv_heads = h / 128,
                                            .head_size = 128,
                                            .feed_forward = 4 * int64_t{h}},
                                           s, Scores::all);
    const double linear = flops.projections + flops.feed_forward;
    CHECK(linear + flops.scores == double{1} * h * (24 * h + 4 * s));
    const PipelineCosts planned = planned_costs(h, s);  // what `--schedule auto` plans with
    CHECK(h * planned.forward == linear + flops.scores);
    CHECK(h * planned.input == linear + 2 * flops.scores);  // of q k^T and of the sum over v
    CHECK(h * planned.weight == linear);
  }
}

// github.com/deepseek-ai/DualPipe: bubble, parameters and activations per device, devices. B is the
// whole backward, so ZB1P is ZB-H1. The bubble is by one clock.
TEST_CASE("DeepSeek's table, each row simulated: 1F1B, ZB1P, DualPipe, DualPipeV") {
  const double W = 0.75, F = 1, B = F + W;  // input gradients take as long as F
  struct Row {
    PipelineSchedule schedule;
    double bubble;
    int weights, activations, devices;
  };
  const auto work_of = [](const std::vector<PipelineEvent>& events) {
    double work = 0;
    for (const PipelineEvent& each : events) work += each.end - each.begin;
    return work;
  };
  for (const double pair : {F + B, 0.9 * (F + B)})
    for (const int p : {2, 4, 8}) {
      const PipelineCosts costs{F, F, W, 0, pair};
      const double dual = (p / 2 - 1) * (pair + B - 3 * W);
      for (const Row& row :
           {Row{make_schedule(PipelineKind::one_f_one_b, p, 4 * p), (p - 1) * (F + B), 1, p, p},
            Row{zero_bubble_schedule(ZeroBubble::H1, p, 4 * p), (p - 1) * (F + B - 2 * W), 1, p, p},
            Row{dual_pipe_schedule(p, 4 * p), dual, 2, p + 1, p},
            Row{dual_pipe_v_schedule(p / 2, 2 * p), dual, 2, p + 1, p / 2}}) {
        CAPTURE(row.schedule.name);
        CAPTURE(p);
        const PipelineTimeline timeline = simulate(row.schedule, costs);
        double most = 0;
        int64_t held = 0;
        for (size_t rank = 0; rank < timeline.by_rank.size(); ++rank) {
          const std::vector<PipelineEvent>& events = timeline.by_rank[rank];
          most = std::max(most, timeline.length - work_of(events));
          held = std::max(held, most_in_flight(row.schedule.by_rank[rank]));
        }
        CHECK(most == doctest::Approx(row.bubble));
        CHECK(row.schedule.chunks() == row.weights);
        CHECK(held == row.activations);
        CHECK(row.schedule.ranks == row.devices);
        CHECK(row.schedule.stages == p);
      }
    }
}

TEST_CASE("if m <= p a 1F1B step takes (m+p-1)(F+B+W)") {
  for (int p = 1; p <= 8; ++p)
    for (int64_t m = 1; m <= p; ++m)
      CHECK(simulate(make_schedule(PipelineKind::one_f_one_b, p, m), {2, 3, 1, 0}).length ==
            doctest::Approx(static_cast<double>(m + p - 1) * 6));
}
