// What papers and lectures say of pipelines: Narayanan et al. (2021), Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM, section 2.2 (bubbles), and the
// lectures' pictures.
#include <doctest/doctest.h>

#include <cmath>

#include "yotta/parallel/pipeline_timeline.hpp"

using namespace yotta;

namespace {

// Idle time and ideal time, measured on the timeline.
struct Bubble {
  double of_ideal, of_total;
};
Bubble measured(PipelineKind kind, int p, int64_t m, int v = 1) {
  const PipelineCosts stage{1.0 / v, 1.0 / v, 1.0 / v, 0};  // a chunk is 1/v of a stage
  const double total = simulate(make_schedule(kind, p, m, v), stage).length;
  const double ideal = 3.0 * static_cast<double>(m);
  return {(total - ideal) / ideal, (total - ideal) / total};
}

}  // namespace

TEST_CASE(
    "Megatron-LM, section 2.2: the bubble is (p-1)/m of the ideal time, (p-1)/(vm) interleaved") {
  for (const int p : {2, 4, 8, 16})
    for (const int64_t m : {p, 2 * p, 8 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const double share = static_cast<double>(p - 1) / static_cast<double>(m);
      for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b})
        CHECK(measured(kind, p, m).of_ideal == doctest::Approx(share).epsilon(1e-12));
      CHECK(bubble_of_work(p, m) == doctest::Approx(share).epsilon(1e-15));
      for (const int v : {2, 3, 4}) {
        const Bubble bubble = measured(PipelineKind::interleaved, p, m, v);
        CHECK(bubble.of_ideal == doctest::Approx(share / v).epsilon(1e-12));
        CHECK(bubble.of_total ==
              doctest::Approx((p - 1.0) / static_cast<double>(v * m + p - 1)).epsilon(1e-12));
        CHECK(bubble_of_work(p, m, v) == doctest::Approx(share / v).epsilon(1e-15));
      }
    }
}

TEST_CASE("Megatron-LM, section 2.2: GPipe holds m microbatches, 1F1B at most p") {
  for (const int p : {2, 4, 8})
    for (const int64_t m : {1, 8, 64}) {
      int64_t gpipe = 0, one_f_one_b = 0;
      for (int rank = 0; rank < p; ++rank) {
        gpipe = std::max(gpipe, most_in_flight(gpipe_actions(rank, p, m)));
        one_f_one_b = std::max(one_f_one_b, most_in_flight(one_f_one_b_actions(rank, p, m)));
      }
      CHECK(gpipe == m);
      CHECK(one_f_one_b == std::min<int64_t>(p, m));
    }
}

TEST_CASE("lectures: 4 stages and 4 microbatches are 57% busy, 8 stages one after another 12.5%") {
  CHECK(std::lround(100 * simulate(make_schedule(PipelineKind::gpipe, 4, 4)).busy()) == 57);
  CHECK(simulate(make_schedule(PipelineKind::naive, 8, 4)).busy() == doctest::Approx(0.125));
}

TEST_CASE(
    "lectures: more stages on the same GPUs and batch, m = p: the bubble is 33, 43, 47, 48%") {
  const long printed[] = {33, 43, 47, 48};
  for (int i = 0; i < 4; ++i) {
    const int p = 2 << i;
    CHECK(std::lround(100 * measured(PipelineKind::one_f_one_b, p, p).of_total) == printed[i]);
  }
}

TEST_CASE("a slide's p/(p+m) for the idle share is not exact: it is (p-1)/(m+p-1)") {
  CHECK(measured(PipelineKind::gpipe, 4, 4).of_total == doctest::Approx(3 / 7.0));
  CHECK(measured(PipelineKind::gpipe, 4, 4).of_total < 4 / 8.0);
  CHECK(measured(PipelineKind::gpipe, 1, 4).of_total == 0);  // where the slide's says 1/5
}
