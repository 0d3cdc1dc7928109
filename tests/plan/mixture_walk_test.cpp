// A mixture by formula: who computes what, what travels, and what is hidden behind what.
#include "yotta/plan/mixture_walk.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/collectives_exchange.hpp"

using namespace yotta;

namespace {

struct Mixture {
  Cluster cluster = cluster_named("h100x8");
  Efficiency efficiency = {};
  DescribedStep step;

  explicit Mixture(int ep, int64_t shared = 0) {
    step.config = llama_config(1, 1024, 4096, 8, 8, 2048, 1024);
    step.config.dtype = DType::bf16;
    step.config.mixture.experts = 8, step.config.mixture.top_k = 2;
    step.config.mixture.shared = shared;
    step.shape.ep = ep, step.batch = ep;
  }
  LayerFigures figures() const {
    const LayerSizes z = layer_sizes(step);
    const PlanGroups groups = plan_groups(cluster, step.shape);
    MixtureWalk walk(z, groups, StepWalk(cluster.chip, efficiency));
    walk.mixture_forward();
    walk.end_forward(walk.stream(), walk.stream());
    walk.mixture_input();
    walk.end_input();
    walk.mixture_weight();
    return walk.end_weight();
  }
  // One exchange of all rows.
  double exchange() const {
    const LayerSizes z = layer_sizes(step);
    const PlanGroups groups = plan_groups(cluster, step.shape);
    return all_to_all_pairwise_seconds(
        z.mixture.ep, static_cast<double>(z.mixture.m * z.C) * z.width, groups.ep.link);
  }
};

double ep_seconds(const PartTime& part) { return part.exposed[static_cast<size_t>(Exposed::ep)]; }

}  // namespace

TEST_CASE("a rank holds its experts and the whole router") {
  for (const int ep : {1, 2, 8}) {
    const LayerFigures found = Mixture(ep).figures();
    CHECK(found.experts() == 8 / ep * 3 * 1024 * 4096);
    CHECK(found.parameters() == found.experts() + 8 * 1024);
  }
}

TEST_CASE("alone no row travels; else two exchanges show forward, and the counts") {
  CHECK(ep_seconds(Mixture(1).figures().forward) == 0);
  const Mixture mixture(4);
  const PlanGroups groups = plan_groups(mixture.cluster, mixture.step.shape);
  const double counts = all_gather_seconds(groups.ep, 8.0 * 8 * 4);
  CHECK(ep_seconds(mixture.figures().forward) ==
        doctest::Approx(2 * mixture.exchange() + counts).scale(0));
}

TEST_CASE("a shared expert hides the first exchange, and the router a part of the last") {
  const Mixture mixture(4, 4);
  const LayerFigures found = mixture.figures(), none = Mixture(4).figures();
  CHECK(ep_seconds(found.forward) ==
        doctest::Approx(ep_seconds(none.forward) - mixture.exchange()).scale(0));
  CHECK(ep_seconds(none.input) < 2 * mixture.exchange());
  CHECK(ep_seconds(found.input) < ep_seconds(none.input));
  CHECK(found.experts() == none.experts());
}

TEST_CASE("k experts of a token: twice the rows, twice the products") {
  Mixture one(2), two(2);
  one.step.config.mixture.top_k = 1;
  const double a = one.figures().forward.computed, b = two.figures().forward.computed;
  CHECK(b > 1.6 * a);
  CHECK(b < 2 * a);
}
