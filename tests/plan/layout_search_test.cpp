// The search: its bounds hold, what it leaves out was not asked for, and it counts alike.
#include "yotta/plan/layout_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "support/message_of.hpp"
#include "yotta/core/random.hpp"
#include "yotta/plan/planner.hpp"
#include "yotta/plan/stacks.hpp"

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
  for (const TransformerConfig& config : {llama3_8b(), small_mixture()})
    for (const bool reached : {false, true}) {  // as software reaches it: collectives slow kernels
      PlanRequest request = request_of(config, "h100x16");
      if (reached) {
        const Stack& stack = stack_named("usual");
        request.efficiency = reached_kernels(request.cluster.chip, stack);
        request.cluster = reached_cluster(request.cluster, stack);
      }
      const std::vector<Layout> all = layout_space(request).layouts;
      for (int i = 0; i < 100; ++i) {
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

TEST_CASE("larger microbatches never need less memory, so the search skips those that cannot fit") {
  PlanRequest request = request_of(llama3_8b(), "h100x16");
  request.tokens = 1 << 20;
  const Random random(4, "growing");
  const std::vector<Layout> all = layout_space(request).layouts;
  EstimateCache cache;
  int pairs = 0;
  for (uint64_t drawn = 0; pairs < 200; ++drawn) {
    const size_t i = 1 + random.below(drawn, static_cast<uint32_t>(all.size() - 1));
    Layout smaller = all[i];
    smaller.microbatches = all[i - 1].microbatches;
    if (!(smaller == all[i - 1])) continue;
    ++pairs;
    CAPTURE(text_of(all[i]));
    REQUIRE(all[i].microbatches < all[i - 1].microbatches);
    const auto bytes = [&](const Layout& layout) {
      return bound_step(request.cluster, described(request, layout), cache).memory.bytes();
    };
    REQUIRE(bytes(all[i]) >= bytes(all[i - 1]));
  }
}

TEST_CASE("GPT-2 on eight H100: microbatches of 8 sequences and more are found") {
  PlanRequest request = request_of(gpt2_124m(), "h100x8");
  request.tokens = 1 << 19, request.sequence = 1024;
  const auto seconds = [&](int64_t sequences) {
    const Layout layout{.shape = {.dp_replicate = 8}, .microbatches = 64 / sequences};
    return estimate_step(request.cluster, described(request, layout)).seconds;
  };
  CHECK(seconds(8) < 0.98 * seconds(4));
  CHECK(make_plan(request, {.best = 1}).best[0].estimate.seconds <= seconds(8));
}

TEST_CASE("70B on 128 GPUs: of the layouts that fit one in five is estimated in full") {
  PlanRequest request = request_of(llama3_70b(), "h100x128");
  request.tokens = 1 << 20, request.sequence = 8192;
  const Plan plan = make_plan(request, {.best = 5});
  CHECK(plan.fitting > 5'000);
  CHECK(5 * plan.estimated < plan.fitting);
}

TEST_CASE("405B on 16,384 GPUs: how many layouts there are, fit, and are estimated in full" *
          doctest::test_suite("long")) {
  PlanRequest request = request_of(llama3_405b(), "h100x16384");
  request.tokens = int64_t{16} << 20, request.sequence = 8192;
  const Plan plan = make_plan(request, {.best = 10});
  CHECK(plan.layouts == 206'069);
  CHECK(plan.fitting == 76'686);
  CHECK(20 * plan.estimated < plan.layouts);  // what keeps the search short
}

namespace {
// The same layouts, in the same order.
void check_same(const std::vector<PlannedLayout>& a, const std::vector<PlannedLayout>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(text_of(a[i].layout) == text_of(b[i].layout));
    CHECK(a[i].estimate.seconds == b[i].estimate.seconds);
  }
}
TransformerConfig small_latent() {
  TransformerConfig config = llama_config(6, 1024, 2048, 8, 8, 4096, 32000);
  config.latent = {256, 384, 96, 32, 96};
  return config;
}
}  // namespace

TEST_CASE("a pruned search finds what a full one finds, on any number of threads") {
  for (const TransformerConfig& config : {small_mixture(), gpt2_124m(), small_latent()}) {
    PlanRequest request = request_of(config, "h100x8");
    request.tokens = 1 << 16;
    if (config.dialect == Dialect::gpt2) request.sequence = 1024, request.tokens = 1 << 14;
    const Plan full = make_plan(request, {.best = 5, .prunes = false}),
               one = make_plan(request, {.best = 5, .threads = 1}),
               three = make_plan(request, {.best = 5, .threads = 3});
    CAPTURE(config.width);
    CHECK(one.estimated < full.estimated);
    CHECK(one.estimated == three.estimated);
    CHECK(full.estimated == full.fitting);
    for (const Plan* const pruned : {&one, &three}) {
      check_same(pruned->best, full.best);
      check_same(pruned->frontier, full.frontier);
      check_same(pruned->losers, full.losers);
    }
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

TEST_CASE("it says how far it is: memory of all layouts, then seconds of those that fit") {
  const PlanRequest request = request_of(llama3_8b(), "h100x16");
  std::vector<SearchProgress> said;
  const Plan plan =
      make_plan(request, {.on_progress = [&](const SearchProgress& at) { said.push_back(at); }});
  REQUIRE(plan.fitting > 64);
  REQUIRE(plan.fitting < plan.layouts);
  std::map<std::string, std::vector<int64_t>> done;
  for (const SearchProgress& at : said) {
    CHECK(at.total == (at.of == std::string("memory") ? plan.layouts : plan.fitting));
    done[at.of].push_back(at.done);
  }
  REQUIRE(done.size() == 2);
  for (const auto& [part, steps] : done) {
    CAPTURE(part);
    CHECK(steps.size() > 1);
    CHECK(steps.front() > 0);
    CHECK(std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) == steps.end());
    CHECK(steps.back() == (part == "memory" ? plan.layouts : plan.fitting));
  }
}

TEST_CASE("a plan of nothing is refused") {
  const PlanRequest request = request_of(llama3_8b(), "h100x8");
  CHECK(message_of([&] { make_plan(request, {.best = 0}); }).find("best 0") != std::string::npos);
  CHECK(message_of([&] { make_plan(request, {.threads = 0}); }).find("0 threads") !=
        std::string::npos);
}
