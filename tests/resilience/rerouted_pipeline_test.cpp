// Pipelines that go on without some of their ranks: the schedule, its time, and the gradients of
// the run without failures.
#include "yotta/resilience/rerouted_pipeline.hpp"

#include <doctest/doctest.h>

#include <mutex>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/pipeline.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Dead = std::vector<StageOfReplica>;
constexpr LinearNetConfig net{8, 4};  // 8 layers: stages of different sizes where p is 3
constexpr int64_t rows = 3;

std::string describe(const PipelineReplicas& job, const Dead& dead) {
  std::string text = fmt::format("{} replicas, p = {}, m = {}, dead:", job.replicas, job.p, job.m);
  for (const StageOfReplica& each : dead) text += fmt::format(" {}.{}", each.replica, each.stage);
  return text;
}

// One dead rank of each stage, and two: of one stage, of one replica, of neither.
std::vector<Dead> losses_of(const PipelineReplicas& job) {
  std::vector<Dead> losses = {{}};
  for (int stage = 0; stage < job.p; ++stage) losses.push_back({{stage % job.replicas, stage}});
  for (int stage = 0; stage < job.p; ++stage)
    for (const StageOfReplica& second :
         Dead{{1, stage}, {0, (stage + 1) % job.p}, {1, (stage + 1) % job.p}})
      if (job.replicas > 2 || second.stage != stage) losses.push_back({{0, stage}, second});
  return losses;
}
template <class Do>
void for_each_job(Do run) {
  for (const int replicas : {2, 3, 4})
    for (const int p : {2, 3, 4})
      for (const int64_t m : {int64_t{p}, int64_t{2} * p}) {
        const PipelineReplicas job{replicas, p, m};
        for (const Dead& dead : losses_of(job)) run(job, dead);
      }
}

// ---- gradients ----

std::vector<PipelineMicrobatch> inputs(int64_t count) {
  std::vector<PipelineMicrobatch> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back({batch_rows("x", i, 0, rows, net.width), {rows, net.width}, DType::f64, {}});
  return all;
}
std::vector<LayerPtr> stage_layers(int p, int stage) {
  const StageLayers mine = layers_of_stage(net.layers, p, stage);
  return make_linear_net(net, mine.first, mine.last, {1, DType::f64});
}
std::vector<double> gradients(const std::vector<LayerPtr>& layers) {
  std::vector<double> all;
  for (const ParameterPtr& each : parameters(Layers(layers)))
    for (const double value : each->gradient().values()) all.push_back(value);
  return all;
}

struct Outcome {
  double loss = 0;
  std::vector<std::vector<double>> by_stage;  // the gradients of each
};

// One rank, all microbatches.
Outcome serial(const PipelineReplicas& job) {
  const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
  zero_gradients(layers);
  Outcome outcome;
  for (size_t i = 0; const PipelineMicrobatch& each : inputs(job.replicas * job.m)) {
    Saved saved;
    Tensor dy;
    outcome.loss += square_loss(i++, forward(layers, each.x, saved), dy);
    backward(layers, dy, saved);
  }
  const std::vector<double> all = gradients(layers);
  for (int stage = 0; stage < job.p; ++stage) {
    const StageLayers its = layers_of_stage(net.layers, job.p, stage);
    const int64_t size = net.width * net.width;
    outcome.by_stage.emplace_back(all.begin() + its.first * size, all.begin() + its.last * size);
  }
  return outcome;
}

// The ranks that are left, on threads. Every rank of a stage gets the stage's whole gradient.
void check_gradients(const PipelineReplicas& job, const Dead& dead, const Outcome& expected) {
  const ReroutedPipeline made = reroute(job, dead);
  std::mutex mutex;
  double loss = 0;
  run_ranks(static_cast<int>(made.ranks.size()), [&](Communicator& world) {
    const StageOfReplica self = made.ranks[static_cast<size_t>(world.rank())];
    const Communicator peers = world.split(self.stage, self.replica);
    const std::vector<LayerPtr> layers = stage_layers(job.p, self.stage);
    zero_gradients(layers);
    Pipeline pipeline(world, {Layers(layers)});
    const PipelineReport report =
        pipeline.run(made.schedule, inputs(job.replicas * job.m), square_loss);
    std::vector<double> mine = gradients(layers);
    peers.all_reduce(mine);
    const std::lock_guard lock(mutex);
    loss += report.loss;
    Clues clues;
    clues.what = "gradients of a stage";
    const Verdict verdict =
        compare(mine, expected.by_stage[static_cast<size_t>(self.stage)], 1e-12, clues);
    CHECK_MESSAGE(verdict.equal, verdict.text);
  });
  CHECK(loss == doctest::Approx(expected.loss).epsilon(1e-12).scale(0));
}

}  // namespace

TEST_CASE("without some of its ranks a job computes the gradients of the run without failures") {
  for_each_job([](const PipelineReplicas& job, const Dead& dead) {
    if (!long_form() && job.m != job.p) return;
    CAPTURE(describe(job, dead));
    check_gradients(job, dead, serial(job));
  });
}

TEST_CASE("each stage of each microbatch runs once; peers share what the dead leave") {
  for_each_job([](const PipelineReplicas& job, const Dead& dead) {
    CAPTURE(describe(job, dead));
    for (const int hold : {1, 2, 3}) {
      const ReroutedPipeline made = reroute(job, dead, hold);
      check_complete(made.schedule);
      REQUIRE(std::ssize(made.ranks) == job.replicas * job.p - std::ssize(dead));
      for (size_t rank = 0; rank < made.ranks.size(); ++rank) {
        const StageOfReplica self = made.ranks[rank];
        const PipelineActions& actions = made.schedule.by_rank[rank];
        const auto lost = static_cast<int>(
            std::count_if(dead.begin(), dead.end(),
                          [&](const StageOfReplica& each) { return each.stage == self.stage; }));
        const int64_t most = rerouted_load(job, lost),
                      least = job.m + lost * job.m / (job.replicas - lost);
        CHECK((std::ssize(actions) <= 2 * most && std::ssize(actions) >= 2 * least));
        CHECK(most_in_flight(actions) <= int64_t{hold} * (job.p - self.stage));
        for (const PipelineAction& each : actions) {
          CHECK(each.stage == self.stage);
          const int owner = static_cast<int>(each.microbatch / job.m);
          const bool lives =
              std::find(dead.begin(), dead.end(), StageOfReplica{owner, self.stage}) == dead.end();
          CHECK((!lives || owner == self.replica));  // who lives keeps its own
        }
      }
    }
  });
}

TEST_CASE("a step takes what the formula says, or up to three microbatches' time more") {
  constexpr PipelineCosts costs{1, 1, 1};
  for_each_job([&](const PipelineReplicas& job, const Dead& dead) {
    CAPTURE(describe(job, dead));
    const double least = rerouted_length(job, dead, costs);
    const double length = simulate(reroute(job, dead).schedule, costs).length;
    CHECK(length >= least);
    CHECK(length <= least + 9);
    const double tight = simulate(reroute(job, dead, 1).schedule, costs).length;
    CHECK(tight >= length);  // no more in flight than with 1F1B
    if (dead.empty()) CHECK((length == least && tight == least));
  });
  // The last stage has no bubble to fill: there the formula is met.
  CHECK(rerouted_length({3, 4, 6}, Dead{{1, 3}}) == 36);
  CHECK(simulate(reroute({3, 4, 6}, Dead{{1, 3}}).schedule).length == 36);
  // 3 more microbatches in the first stage cost nothing by the formula.
  CHECK(rerouted_length({3, 4, 6}, Dead{{1, 0}}) == rerouted_length({3, 4, 6}, Dead{}));
  CHECK(rerouted_load({3, 4, 6}, 1) == 9);
  CHECK(rerouted_load({4, 4, 8}, 1) == 11);  // 8 / 3, rounded up
}

TEST_CASE("nobody dead: each replica runs 1F1B") {
  for (const int p : {1, 2, 4})
    for (const int64_t m : {1, 4, 8}) {
      const ReroutedPipeline made = reroute({2, p, m}, {});
      const PipelineSchedule plain = make_schedule(PipelineKind::one_f_one_b, p, m);
      for (int rank = 0; rank < 2 * p; ++rank) {
        PipelineActions actions = plain.by_rank[static_cast<size_t>(rank % p)];
        for (PipelineAction& each : actions) each.microbatch += rank / p * m;
        CHECK(str(made.schedule.by_rank[static_cast<size_t>(rank)]) == str(actions));
      }
    }
}

TEST_CASE("on machine ideal the run takes the timeline's time, also with slow messages") {
  for (const double alpha : {0.0, 7.25})
    for (const Dead& dead : {Dead{}, Dead{{1, 0}}, Dead{{0, 1}, {2, 3}}}) {
      const PipelineReplicas job{3, 4, 6};
      CAPTURE(describe(job, dead));
      Cluster machine = ideal();
      machine.levels[0].alpha = alpha;
      const double stage = 2 * forward_flops({1, net.width}, rows);  // seconds: 1 FLOP/s
      const PipelineCosts costs{stage, stage, stage, alpha};
      const ReroutedPipeline made = reroute(job, dead, 3, costs);
      const Timed run =
          run_on(machine, static_cast<int>(made.ranks.size()), [&](Communicator& world) {
            const int its = made.ranks[static_cast<size_t>(world.rank())].stage;
            const std::vector<LayerPtr> layers = stage_layers(job.p, its);
            Pipeline(world, {Layers(layers)})
                .run(made.schedule, inputs(job.replicas * job.m), square_loss);
          });
      const double expected = simulate(made.schedule, costs).length;
      CHECK(run.seconds() == doctest::Approx(expected).epsilon(1e-12).scale(0));
    }
}

TEST_CASE("what cannot be rerouted is refused, with what would work") {
  const auto refusal = [](const PipelineReplicas& job, const Dead& dead, int hold = 3) {
    return message_of([&] { reroute(job, dead, hold); });
  };
  CHECK(contains(refusal({2, 3, 4}, {{0, 1}, {1, 1}}),
                 "stage 1 is dead in every replica: no peer has its weights"));
  CHECK(contains(refusal({1, 3, 4}, {{0, 2}}), "stage 2 is dead in every replica"));
  CHECK(contains(refusal({2, 3, 4}, {{2, 0}}),
                 "replica 2, stage 0 is said to be dead: there are 2 replicas of 3 stages"));
  CHECK(contains(refusal({2, 3, 4}, {{0, -1}}), "replica 0, stage -1"));
  CHECK(contains(refusal({2, 0, 4}, {}), "at least 1 each"));
  CHECK(contains(refusal({2, 3, 0}, {}), "at least 1 each"));
  CHECK(contains(refusal({2, 3, 4}, {}, 0), "hold 0"));
  CHECK(contains(message_of([] {
                   rerouted_length({2, 2, 4}, Dead{{0, 0}, {1, 0}});
                 }),
                 "stage 0 is dead in every replica"));
  CHECK(reroute({2, 2, 2}, Dead{{0, 0}, {0, 0}}).ranks.size() == 3);  // said twice, dead once
}
