// Replicas of a pipeline without some of their ranks train the model of a single rank: losses,
// gradient norms, the first gradients, and all weights after three steps of AdamW with clipping, in
// double.
#include "yotta/resilience/rerouted_model.hpp"

#include <doctest/doctest.h>

#include "model/layout_check.hpp"
#include "support/rank_model_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Dead = std::vector<StageOfReplica>;

// Trains on the ranks that are left.
void check_rerouted(const TransformerConfig& config, const PipelineReplicas& job, const Dead& dead,
                    const Outcome& whole, NdOptions options = {}) {
  options.microbatches = job.m;
  std::string words =
      fmt::format("{} replicas of {} stages, {} microbatches, dead:", job.replicas, job.p, job.m);
  for (const StageOfReplica& each : dead) words += fmt::format(" {}.{}", each.replica, each.stage);
  CAPTURE(words);
  RunOptions run;
  run.threads = 1;
  run_ranks(
      job.replicas * job.p - static_cast<int>(dead.size()),
      [&](Communicator& world) {
        ReroutedModel model(config, job, dead, world, options);
        AdamW optimizer(trained(model.parameters()), {.weight_decay = 0.1});
        TrainHooks hooks = model.hooks();
        std::vector<NamedTensor> gradients;  // of the first step, on rank 0
        int backwards = 0;
        hooks.sum_of_squares = [&, squares = hooks.sum_of_squares](double mine) {
          if (backwards++ == 0) gradients = gather_gradients(model);
          return squares(mine);
        };
        Trainer trainer(model.stack(), optimizer, options_of(config), hooks);
        Outcome outcome;
        for (int64_t step = 0; step < yotta_test::steps; ++step) {
          const Text text = text_of(step, config, 8);
          take(outcome, trainer.step(step, model.microbatches(text.inputs, text.targets, 0),
                                     text.inputs.numel()));
        }
        for (size_t step = 0; step < yotta_test::steps; ++step) {
          CHECK(std::abs(outcome.losses[step] - whole.losses[step]) <= 1e-11);
          CHECK(std::abs(outcome.norms[step] - whole.norms[step]) <= 1e-10);
        }
        for (const NamedTensor& each : gradients)
          check_equal(each.value, whole.gradients.at(each.name), words + ": d " + each.name, 1e-10);
        for (const NamedTensor& each : model.gather_weights())  // on rank 0
          check_equal(each.value, whole.weights.at(each.name), words + ": " + each.name, 1e-10);
      },
      run);
}

}  // namespace

TEST_CASE("whoever is dead, the ranks that are left train the model of a single rank") {
  const TransformerConfig tied = config_of(Dialect::gpt2, true);
  const TransformerConfig untied = config_of(Dialect::llama, false);
  const Outcome whole_tied = serial(tied), whole_untied = serial(untied);
  for (const Dead& dead : {Dead{}, Dead{{0, 0}}, Dead{{1, 1}}, Dead{{0, 1}, {1, 0}}}) {
    check_rerouted(tied, {2, 2, 2}, dead, whole_tied);
    check_rerouted(untied, {2, 2, 2}, dead, whole_untied);
  }
  // A tied table of which one end has lost a rank, and the other two.
  check_rerouted(tied, {3, 3, 2}, {{0, 0}, {1, 2}, {2, 2}}, whole_tied);  // shares of 3, 3 and 2
  check_rerouted(untied, {3, 4, 1}, {{0, 1}, {1, 1}, {2, 3}}, whole_untied);
  check_rerouted(untied, {4, 2, 2}, {{0, 0}, {1, 0}, {2, 0}, {0, 1}}, whole_untied);
}

TEST_CASE("with gradients reduced in each way, and with recomputation") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  const Outcome whole = serial(config);
  const Dead dead = {{1, 0}};
  check_rerouted(config, {3, 2, 2}, dead, whole, {.naive_gradients = true});
  check_rerouted(config, {3, 2, 2}, dead, whole, {.ddp = {.bucket_bytes = 2000, .overlap = false}});
  check_rerouted(config, {3, 2, 2}, dead, whole, {.ddp = {.bucket_bytes = 2000}});
  check_rerouted(config, {3, 2, 2}, dead, whole,
                 {.checkpoint = {.what = Recompute::all, .every = 1}});
}

TEST_CASE("it starts from whole weights, and the dead are those whose places are missing") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  TransformerConfig other = config;
  other.seed = 77;
  const Transformer source(other);
  const std::vector<NamedTensor> weights = named_values(parameters(source.stack()));
  const PipelineReplicas job{2, 3, 1};
  const Dead dead = dead_stages(job, std::vector<int>{0, 1, 3, 5});
  CHECK(dead == Dead{{0, 2}, {1, 1}});
  run_ranks(4, [&](Communicator& world) {
    ReroutedModel model(config, job, dead, world, {}, weights);
    for (const NamedTensor& each : model.gather_weights()) {
      const auto same = std::find_if(weights.begin(), weights.end(),
                                     [&](const auto& one) { return one.name == each.name; });
      REQUIRE(same != weights.end());
      CHECK(each.value.values() == same->value.values());
    }
  });
}

TEST_CASE("a world of the wrong size, and replicas with too few sequences, are refused") {
  const TransformerConfig config = config_of(Dialect::gpt2, true);
  const auto refusal = [&](int ranks, const Dead& dead, int64_t m, int64_t B) {
    return message_of([&] {
      run_ranks(ranks, [&](Communicator& world) {
        ReroutedModel model(config, {2, 2, m}, dead, world, {.microbatches = m});
        const Text text = text_of(0, config, B);
        model.microbatches(text.inputs, text.targets, 0);
      });
    });
  };
  CHECK(contains(refusal(4, {{0, 1}}, 1, 8), "without 1 ranks need a world of 3, not 4"));
  CHECK(contains(refusal(3, {{0, 1}}, 4, 7), "replica 1 has 3 of 7 sequences for 4 microbatches"));
  CHECK(contains(refusal(2, {{0, 1}, {1, 1}}, 1, 8), "stage 1 is dead in every replica"));
}

TEST_CASE("what a rerouted rank trains says which part of the serial model it is") {
  const TransformerConfig config = gpt2_config(3, 8, 2, 8, 11);
  const Transformer serial(config);
  run_ranks(4, [&](Communicator& world) {
    ReroutedModel model(config, {2, 2, 1}, {}, world);
    check_model(model, world, serial);
  });
}
