// The order of a pipeline's actions, and the two passes that stand for many microbatches.
#include "yotta/plan/pipeline_walk.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace yotta;

namespace {

const std::pair<PipelineKind, int> kinds[] = {{PipelineKind::one_f_one_b, 1},
                                              {PipelineKind::interleaved, 2},
                                              {PipelineKind::zb_h1, 1},
                                              {PipelineKind::zb_v, 1}};

double length(const PipelinePlan& plan, int p, int64_t m, const PipelineCosts& costs,
              bool unequal = false) {
  const PipelineOrder order = pipeline_order(plan, p, m);
  const std::vector<double> ends =
      play(order, {costs.message, 0}, [&](const OrderedAction& a, double begin) {
        return begin + seconds(costs, a.op) * (unequal && a.stage == 0 ? 1.3 : 1);
      });
  return *std::max_element(ends.begin(), ends.end());
}

}  // namespace

TEST_CASE("equal stages take what pipeline_timeline.hpp says") {
  const PipelineCosts costs{1, 1.2, 0.9, 0.1};
  for (const auto& [kind, chunks] : kinds)
    for (const int64_t m : {3, 8}) {
      const PipelinePlan plan{kind, chunks};
      CAPTURE(std::string(name(kind)));
      CHECK(length(plan, 4, m, costs) ==
            doctest::Approx(simulate(make_schedule(plan, 4, m), costs).length).scale(0));
    }
}

TEST_CASE("many microbatches are few, and the rest repeats") {
  const PipelineCosts costs{1, 1.2, 0.9, 0.05};
  for (const auto& [kind, chunks] : kinds)
    for (const int p : {1, 2, 4}) {
      const PipelinePlan plan{kind, chunks};
      const int64_t m = 9 * p + p / 2;
      const PassPair passes = passes_for(kind, p, m);
      CAPTURE(std::string(name(kind)));
      CAPTURE(p);
      CHECK(passes.b < m);
      const double at_a = length(plan, p, passes.a, costs, true);
      const double at_b = length(plan, p, passes.b, costs, true);
      CHECK(at_microbatch(m, passes, at_a, at_b) ==
            doctest::Approx(length(plan, p, m, costs, true)).epsilon(0.005).scale(0));
    }
  CHECK(passes_for(PipelineKind::one_f_one_b, 4, 6).b == 6);
}

TEST_CASE("messages leave a rank one after the other") {
  const PipelineOrder order = pipeline_order({}, 2, 4);
  const auto last = [&](double work) {
    const auto ends =
        play(order, {0, work}, [](const OrderedAction&, double begin) { return begin; });
    return *std::max_element(ends.begin(), ends.end());
  };
  CHECK(last(0) == 0);
  CHECK(last(1) >= 4);
}

TEST_CASE("orders are made once") {
  PipelineOrders orders;
  CHECK(orders.of({}, 4, 8) == orders.of({}, 4, 8));
  CHECK(orders.of({}, 4, 8) != orders.of({}, 4, 9));
}
