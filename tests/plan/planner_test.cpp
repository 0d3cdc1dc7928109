// The planner: it counts what it looks at, orders it, and says why the others lose.
#include "yotta/plan/planner.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

PlanRequest llama_8b_on(const char* cluster) {
  PlanRequest request;
  request.config = llama3_8b();
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named(cluster);
  request.tokens = int64_t{1} << 20, request.sequence = 8192;
  return request;
}

}  // namespace

TEST_CASE("the best are the fastest, the frontier gets faster with more memory, and all fit") {
  const PlanRequest request = llama_8b_on("h100x16");
  const Plan plan = make_plan(request);
  const double memory = request.cluster.chip.memory;
  REQUIRE(plan.best.size() == 10);
  for (size_t i = 1; i < plan.best.size(); ++i)
    CHECK(plan.best[i - 1].estimate.seconds <= plan.best[i].estimate.seconds);
  for (const PlannedLayout& each : plan.best) CHECK(each.estimate.memory.bytes() <= memory);
  REQUIRE(plan.frontier.size() > 1);
  CHECK(plan.frontier.back().estimate.seconds == plan.best[0].estimate.seconds);
  for (size_t i = 1; i < plan.frontier.size(); ++i) {
    const StepEstimate &less = plan.frontier[i - 1].estimate, &more = plan.frontier[i].estimate;
    CHECK(less.memory.bytes() < more.memory.bytes());
    CHECK(less.seconds > more.seconds);
  }
  CHECK(plan.fitting <= plan.layouts);
}

TEST_CASE("units are kept from forward to backward where memory is there, else gathered twice") {
  PlanRequest request = llama_8b_on("h100x16");
  CHECK(text_of(make_plan(request).best[0].layout) == "fsdp 16, 8 microbatches, units kept");
  request.reserve = 20e9;
  CHECK(text_of(make_plan(request).best[0].layout) == "fsdp 16, 8 microbatches");
}

TEST_CASE("ZeRO-2 is chosen for one microbatch; with eight it sums eight times, and ZeRO-1 once") {
  PlanRequest request = llama_8b_on("h100x8");
  request.sequence = request.tokens = 131072;
  const Layout best = make_plan(request).best[0].layout;
  CHECK(text_of(best) == "tp 2 async, cp 4 ring ZeRO-2, 1 microbatch, all recomputed");
  const auto seconds = [&](int64_t microbatches, int zero) {
    Layout layout = best;
    layout.microbatches = microbatches, layout.zero = zero;
    request.tokens = microbatches * request.sequence;
    return estimate_step(request.cluster, described(request, layout)).seconds;
  };
  CHECK(seconds(1, 2) < seconds(1, 1));
  CHECK(seconds(8, 2) > seconds(8, 1));
}

TEST_CASE("each mesh that is not among the best has a line that says why") {
  const Plan plan = make_plan(llama_8b_on("h100x16"));
  bool leaves_node = false, too_large = false;
  for (const RefusedLayout& each : plan.refused) {
    CHECK(!each.why.empty());
    CHECK(each.why.find('\n') == std::string::npos);
    leaves_node = leaves_node || each.why == "tp 16 leaves the node of 8 chips";
    too_large = too_large || each.why.starts_with("does not fit: ");
  }
  CHECK(leaves_node);
  CHECK(too_large);
  for (const PlannedLayout& each : plan.losers)
    CHECK(why_slower(each.estimate, plan.best[0].estimate).find("% slower: ") != std::string::npos);
}

TEST_CASE("a loser's line is in seconds, and names the part that grew most") {
  StepEstimate best, loser;
  best.seconds = 4.91, best.time.computed = 4, best.bubble = 0.25;
  loser.seconds = 5.5, loser.time.computed = 4.1, loser.bubble = 0.75;
  CHECK(why_slower(loser, best) ==
        "12% slower: 5.5 s per step, the best 4.91 s; most of it bubble, 0.75 s against 0.25 s");
}

TEST_CASE("memory that stays free is not planned with") {
  PlanRequest request = llama_8b_on("h100x16");
  const Plan all = make_plan(request);
  request.reserve = 10e9;
  const Plan less = make_plan(request);
  CHECK(less.fitting < all.fitting);
  for (const PlannedLayout& each : less.best) CHECK(each.estimate.memory.bytes() <= 70e9);
  request.reserve = 80e9;
  CHECK(message_of([&] { make_plan(request); }).find("80 GB of a chip are to stay free") !=
        std::string::npos);
}

TEST_CASE("where nothing fits, the smallest is named; where something does, none is") {
  PlanRequest request = llama_8b_on("h100x8");
  CHECK(make_plan(request).smallest.layout.empty());
  request.reserve = 75e9;
  const Plan none = make_plan(request);
  CHECK(none.fitting == 0);
  CHECK(none.smallest.why.starts_with("does not fit: "));
  const auto needs = [](const std::string& why) { return std::stod(why.substr(14)); };
  for (const RefusedLayout& each : none.refused)
    if (each.why.starts_with("does not fit: ")) CHECK(needs(none.smallest.why) <= needs(each.why));
}
