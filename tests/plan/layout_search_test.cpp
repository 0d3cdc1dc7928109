// The search: its bounds hold, what it leaves out was not asked for, and it counts alike.
#include "yotta/plan/layout_search.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"
#include "yotta/plan/planner.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

PlanRequest request_of(const TransformerConfig& config, const char* cluster) {
  PlanRequest request;
  request.config = config;
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named(cluster);
  request.tokens = 1 << 18, request.sequence = 4096;
  return request;
}
TransformerConfig small_mixture() {
  TransformerConfig config = llama_config(8, 2048, 4096, 16, 8, 4096, 32000);
  config.mixture.experts = 8;
  return config;
}

}  // namespace

TEST_CASE("no layout is faster than its bound, and both say the same of memory") {
  const Random random(3, "bounds");
  EstimateCache cache;
  uint64_t drawn = 0;
  for (const TransformerConfig& config : {llama3_8b(), small_mixture()}) {
    const PlanRequest request = request_of(config, "h100x16");
    const std::vector<Layout> all = layout_space(request).layouts;
    for (int i = 0; i < 150; ++i) {
      const Layout& layout = all[random.below(drawn++, static_cast<uint32_t>(all.size()))];
      const DescribedStep step = described(request, layout);
      const StepBound bound = bound_step(request.cluster, step, cache);
      const StepEstimate estimate = estimate_step(request.cluster, step, cache);
      CAPTURE(text_of(layout));
      REQUIRE(bound.seconds <= estimate.seconds * (1 + 1e-12));
      REQUIRE(bound.seconds > 0);
      REQUIRE(bound.memory.bytes() == estimate.memory.bytes());
    }
  }
}

TEST_CASE("a pruned search finds what a full one finds, on any number of threads") {
  const PlanRequest request = request_of(small_mixture(), "h100x8");
  const Plan full = make_plan(request, {.best = 5, .prunes = false}),
             one = make_plan(request, {.best = 5, .threads = 1}),
             three = make_plan(request, {.best = 5, .threads = 3});
  CHECK(one.estimated < full.estimated);
  CHECK(one.estimated == three.estimated);
  CHECK(full.estimated == full.fitting);
  const auto same = [](const std::vector<PlannedLayout>& a, const std::vector<PlannedLayout>& b) {
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(text_of(a[i].layout) == text_of(b[i].layout));
      CHECK(a[i].estimate.seconds == b[i].estimate.seconds);
    }
  };
  for (const Plan* const pruned : {&one, &three}) {
    same(pruned->best, full.best);
    same(pruned->frontier, full.frontier);
    same(pruned->losers, full.losers);
  }
}

TEST_CASE("all work is done, each once; the first error of a thread is thrown where it was asked") {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> done(100);
    together(threads, done.size(), [&](size_t i) { ++done[i]; });
    for (const std::atomic<int>& each : done) CHECK(each == 1);
    const auto fails = [&] {
      together(threads, 100, [](size_t i) {
        if (i % 7 == 3) fail(Where::current(), "item failed");
      });
    };
    CHECK(message_of(fails).find("item failed") != std::string::npos);
  }
  together(2, 0, [](size_t) { FAIL("there is nothing to do"); });
}

TEST_CASE("a plan of nothing is refused") {
  const PlanRequest request = request_of(llama3_8b(), "h100x8");
  CHECK(message_of([&] { make_plan(request, {.best = 0}); }).find("best 0") != std::string::npos);
  CHECK(message_of([&] { make_plan(request, {.threads = 0}); }).find("0 threads") !=
        std::string::npos);
}
