// The closed forms of FSDP's time against its own code, run on a described machine.
#include "yotta/parallel/fsdp_cost.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/parallel/fsdp.hpp"

using namespace yotta;

namespace {

constexpr int64_t width = 48, rows = 6;  // 18 KiB per layer: every collective is a ring
constexpr int64_t layer = width * width;

double measured(int ranks, int64_t layers, double bandwidth, const FsdpOptions& options) {
  return run_on(ideal(ranks, 1, bandwidth), ranks,
                [&](Communicator& world) {
                  const std::vector<LayerPtr> model =
                      make_linear_net({layers, width}, {1, DType::f64});
                  Fsdp fsdp(model, world, options);
                  yotta_test::run_microbatch(fsdp.stack(), 0, 0, rows, width, rows);
                  fsdp.finish();
                })
      .seconds();
}

FsdpTimes times(int ranks, double bandwidth) {
  const double flops = 2.0 * layer * rows, bytes = 8.0 * layer;
  const double trip = bytes / ranks * (ranks - 1) / bandwidth;
  return {flops, 2 * flops, trip, trip, static_cast<double>(layer) / ranks};
}

void check_seconds(int ranks, int64_t layers, double bandwidth) {
  CAPTURE(ranks);
  CAPTURE(layers);
  CAPTURE(bandwidth);
  for (const bool prefetch : {true, false})
    for (const bool keep_last : {true, false}) {
      const double seconds =
          measured(ranks, layers, bandwidth, {.prefetch = prefetch, .keep_last = keep_last});
      const double formula = fsdp_seconds(layers, times(ranks, bandwidth), prefetch, keep_last);
      CHECK(std::abs(seconds - formula) <= 1e-12 * formula);
    }
}

}  // namespace

TEST_CASE("the time of a step is the closed form, with prefetch and without, whatever is slower") {
  for (const int ranks : {2, 3, 4})
    for (const int64_t layers : {2, 3, 6})
      for (const double bandwidth : {10.0, 1.5, 0.7, 0.25, 0.05})
        check_seconds(ranks, layers, bandwidth);
}

TEST_CASE("a network that is fast enough is hidden behind compute but for three trips") {
  const int64_t L = 6;
  const FsdpTimes t = times(4, 2);
  REQUIRE(t.forward >= t.gather);
  REQUIRE(t.backward >= t.gather + t.reduce);
  const double compute = static_cast<double>(L) * (t.forward + t.backward + t.add);
  CHECK(fsdp_seconds(L, t, true, false) ==
        doctest::Approx(compute + 2 * t.gather + t.reduce).scale(0));
  CHECK(fsdp_seconds(L, t, true, true) == doctest::Approx(compute + t.gather + t.reduce).scale(0));
  CHECK(fsdp_seconds(L, t, false, false) ==
        doctest::Approx(compute + static_cast<double>(L) * (2 * t.gather + t.reduce)));
  CHECK(std::abs(measured(4, L, 2, {}) - fsdp_seconds(L, t, true, false)) <= 1e-9);
}

TEST_CASE("FSDP sends half as much again as DDP") {
  CHECK(fsdp_elements_sent(4, 1000, 0) == 2250);
  CHECK(fsdp_elements_sent(4, 1000, 1000) == 1500);  // all stays whole: DDP's 2 N (p-1)/p
  CHECK(fsdp_elements_sent(1, 1000, 0) == 0);
}
