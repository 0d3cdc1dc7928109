// Fault plans: what is read and what is refused; a member dies once, at its point.
#include "yotta/resilience/faults/faults.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/message_of.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

FaultPlan parsed(const std::string& text) { return parse_faults(text, "plan.json", 4, 20); }
void check_refused(const std::string& text, const std::string& words) {
  const std::string message = message_of([&] { parsed(text); });
  CAPTURE(message);
  CHECK(contains(message, "plan.json is not a fault plan for 4 ranks and 20 steps"));
  CHECK(contains(message, words));
}

// A point that throws when it is its time.
FaultPoint point_of(FaultPhase phase, int64_t step) {
  return {Fault{0, step, phase}, [] { throw RankKilled(); }};
}
// Where the point fires; -1: nowhere.
template <class Do>
int64_t fires(FaultPoint& point, int64_t steps, Do step) {
  for (int64_t i = 0; i < steps; ++i) {
    point.begin_step(i);
    try {
      step();
    } catch (const RankKilled&) {
      return i;
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("a fault plan says who dies, when and where") {
  const FaultPlan plan = parsed(R"({"faults": [
      {"rank": 3, "step": 9, "phase": "save", "back": 4}, {"rank": 3, "step": 5, "phase": "backward"},
      {"rank": 0, "step": 0, "phase": "healing"}]})");
  REQUIRE(plan.faults.size() == 3);
  CHECK(plan.faults[0] == Fault{3, 9, FaultPhase::save, 4});
  CHECK(plan.of(3) ==
        std::vector<Fault>{{3, 5, FaultPhase::backward, 0}, {3, 9, FaultPhase::save, 4}});
  CHECK(plan.of(0).size() == 1);
  CHECK(plan.of(1).empty());
  CHECK(parsed("{}").faults.empty());
}

TEST_CASE("random faults are the same for a seed, and lie in their bounds") {
  const FaultPlan plan = parsed(R"({"random": {"seed": 7, "count": 200, "first": 2, "last": 11}})");
  CHECK(plan.faults == random_faults(7, 200, 4, 2, 11).faults);
  CHECK(plan.faults != random_faults(8, 200, 4, 2, 11).faults);
  std::set<int> ranks;
  std::set<int64_t> steps;
  std::set<FaultPhase> phases;
  for (const Fault& each : plan.faults) {
    ranks.insert(each.rank);
    steps.insert(each.step);
    phases.insert(each.phase);
  }
  CHECK(ranks == std::set{0, 1, 2, 3});
  CHECK(steps.size() == 10);
  CHECK((*steps.begin() == 2 && *steps.rbegin() == 11));
  CHECK(phases.size() == 5);
  CHECK(phases.count(FaultPhase::healing) == 0);
}

TEST_CASE("what is no plan is refused, in words that say where") {
  check_refused("[]", "[] is not an object {...}");
  check_refused("{", "plan.json");
  check_refused(R"({"fault": []})", "'fault' is none of faults, random");
  check_refused(R"({"faults": {}})", "'faults' is not a list [...]");
  check_refused(R"({"faults": [3]})", "faults[0]: 3 is not an object {...}");
  check_refused(R"({"faults": [{"step": 1, "phase": "save"}]})", "faults[0]: 'rank' is missing");
  check_refused(R"({"faults": [{"rank": 4, "step": 1, "phase": "save"}]})",
                "rank is 4, expected a whole number from 0 to 3");
  check_refused(R"({"faults": [{"rank": -1, "step": 1, "phase": "save"}]})", "rank is -1");
  check_refused(R"({"faults": [{"rank": 1.5, "step": 1, "phase": "save"}]})", "rank is 1.5");
  check_refused(R"({"faults": [{"rank": 1, "step": 20, "phase": "save"}]})",
                "step is 20, expected a whole number from 0 to 19");
  check_refused(R"({"faults": [{"rank": 1, "step": 1}]})", "phase is missing, expected one of");
  check_refused(R"({"faults": [{"rank": 1, "step": 1, "phase": "lunch"}]})",
                "phase is \"lunch\", expected one of forward, backward, collective, optimizer");
  check_refused(R"({"faults": [{"rank": 1, "step": 1, "phase": "save", "at": 3}]})", "'at'");
  check_refused(R"({"random": {"seed": 1}})", "'count' is missing");
  check_refused(R"({"random": {"seed": 1, "count": 2, "first": 9, "last": 3}})", "last is 3");
  check_refused(R"({"random": {"seed": 99999999999999999999, "count": 2}})", "seed is");
}

TEST_CASE("a member dies at the first point of its phase in its step, or in a later one") {
  FaultPoint never;
  CHECK(fires(never, 5, [&] { never.at(FaultPhase::save); }) == -1);
  FaultPoint point = point_of(FaultPhase::save, 3);
  CHECK(fires(point, 9, [&] { point.at(FaultPhase::save); }) == 3);
  CHECK(fires(point, 9, [&] { point.at(FaultPhase::forward); }) == -1);
  point.begin_step(7);  // it has joined late
  CHECK_THROWS_AS(point.at(FaultPhase::save), RankKilled);
}

TEST_CASE("points in layers and hooks, and nothing of the step changes without a fault") {
  const Transformer model(gpt2_config(2, 8, 2, 4, 16));
  Tensor ids = Tensor::zeros({1, 4}, DType::i32);
  for (const FaultPhase phase : {FaultPhase::forward, FaultPhase::backward}) {
    CAPTURE(std::string(name(phase)));
    FaultPoint point = point_of(phase, 2);
    const std::vector<LayerPtr> layers = with_fault(model.stack(), point);
    CHECK(parameters(layers) == parameters(model.stack()));
    const auto step = [&] {
      Saved saved, plain;
      Tensor y = forward(layers, ids, saved);
      CHECK(forward(model.stack(), ids, plain).data<float>()[3] == y.data<float>()[3]);
      backward(layers, std::move(y), saved);
    };
    CHECK(fires(point, 5, step) == 2);
  }
  int inner = 0;
  for (const FaultPhase phase : {FaultPhase::collective, FaultPhase::optimizer}) {
    FaultPoint point = point_of(phase, 1);
    TrainHooks hooks;
    hooks.after_backward = [&] { ++inner; };
    const TrainHooks faulty = with_faults(hooks, point);
    CHECK_FALSE(faulty.run_microbatches);
    CHECK(fires(point, 3, [&] { faulty.after_backward(), faulty.before_step(); }) == 1);
  }
  CHECK(inner == 3);  // once for collective, which dies before the second; twice for optimizer
  for (const FaultPhase phase : {FaultPhase::forward, FaultPhase::backward}) {
    FaultPoint point = point_of(phase, 0);
    TrainHooks hooks;
    bool has_run = false;
    hooks.run_microbatches = [&](auto&&...) { return has_run = true, 1.0; };
    const TrainHooks faulty = with_faults(hooks, point);
    CHECK_THROWS_AS(faulty.run_microbatches({}, {}, 1), RankKilled);
    CHECK(has_run == (phase == FaultPhase::backward));
  }
}
