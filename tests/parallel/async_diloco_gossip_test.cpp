#include "yotta/parallel/async_diloco.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// One weight for each worker, which begins at 0; each inner step adds `pace` of the worker.
std::vector<double> walk(int k, const GossipOptions& options, int64_t steps,
                         const std::function<double(int)>& pace) {
  std::vector<double> ends(static_cast<size_t>(k));
  run_ranks(k, [&](Communicator& world) {
    const ParameterPtr w = make_parameter("w", {1, 1}, false, zeros(), 0, DType::f64);
    Sgd sgd({w});
    GossipDiloco gossip(sgd, world, options);
    for (int64_t step = 0; step < steps; ++step) {
      w->gradient().fill(-pace(world.rank()));
      sgd.step(1);
      gossip.after_step();
    }
    ends[static_cast<size_t>(world.rank())] = w->value.item({0});
  });
  return ends;
}
}  // namespace

TEST_CASE("pairs: each worker's partner is its partner's partner; one is alone if k is odd") {
  for (const int k : {1, 2, 3, 4, 5, 8})
    for (int64_t round = 0; round < 50; ++round) {
      int alone = 0;
      for (int worker = 0; worker < k; ++worker) {
        const int partner = gossip_partner(worker, k, round, 3);
        CHECK(gossip_partner(partner, k, round, 3) == worker);
        alone += partner == worker ? 1 : 0;
      }
      CHECK(alone == k % 2);
    }
}

TEST_CASE("everybody meets everybody") {
  std::vector<int> met(8);
  for (int64_t round = 0; round < 100; ++round)
    ++met[static_cast<size_t>(gossip_partner(0, 8, round, 3))];
  for (size_t i = 1; i < 8; ++i) CHECK(met[i] >= 5);  // 14 of 100 are to be expected
}

TEST_CASE("two workers with rate 1, no momentum: the mean of both after each round") {
  const GossipOptions options{.inner = 2, .learning_rate = 1, .momentum = 0};
  const std::vector<double> ends = walk(2, options, 6, [](int rank) { return 1.0 + 2 * rank; });
  CHECK(ends == std::vector<double>{12, 12});  // 6 steps of (1 + 3) / 2
}

TEST_CASE("workers that learn different things stay together, and go as far as the mean") {
  const GossipOptions options{.inner = 1};
  for (const int k : {2, 3, 4, 8}) {
    const auto ends = walk(k, options, 400, [&](int rank) { return rank - (k - 1) / 2.0; });
    for (const double each : ends) CHECK(std::abs(each) < 8.0 * k);  // alone: up to 400 (k-1)/2
    const auto same = walk(k, options, 50, [](int) { return 1.0; });
    for (const double each : same) CHECK(std::abs(each - same[0]) < 12);
  }
}

TEST_CASE("a round is one message of two arrays, whatever k is") {
  for (const int k : {2, 4, 8}) {
    const auto reports = run_ranks(k, [](Communicator& world) {
      const std::vector<LayerPtr> layers = make_linear_net({3, 4}, {1, DType::f64});
      AdamW adamw(parameters(Layers(layers)));
      GossipDiloco gossip(adamw, world, {.inner = 5});
      context().ledger.reset();
      for (int step = 0; step < 10; ++step) gossip.after_step();
    });
    for (const RankReport& each : reports) {
      CHECK(each.ledger().total_traffic().messages_sent == 2);
      CHECK(each.ledger().total_traffic().bytes_sent == 2 * 2 * 48 * 8);
    }
  }
}

TEST_CASE("on far cities a round of gossip takes one latency, a ring 2 (k-1)") {
  const auto seconds = [](bool gossips) {
    return run_on(
               cities(4), 4,
               [&](Communicator& world) {
                 const ParameterPtr w = make_parameter("w", {1, 4}, false, zeros(), 0, DType::f32);
                 Sgd sgd({w});
                 GossipDiloco gossip(sgd, world, {.inner = 1});
                 if (gossips) gossip.after_step();
                 if (!gossips) world.all_reduce(w->value, ReduceOp::sum, {Algorithm::ring});
               })
        .seconds();
  };
  CHECK(seconds(false) - seconds(true) > 4.9 * 0.05);
}

TEST_CASE("at the end all workers get the mean; wrong options are refused") {
  run_ranks(3, [](Communicator& world) {
    const ParameterPtr w = make_parameter("w", {1, 1}, false, zeros(), 0, DType::f64);
    Sgd sgd({w});
    GossipDiloco gossip(sgd, world);
    w->value.fill(world.rank());
    gossip.mean_of_workers();
    CHECK(std::abs(w->value.item({0}) - 1) < 1e-15);
    const auto message = [&](const GossipOptions& options) {
      return message_of([&] { GossipDiloco(sgd, world, options); });
    };
    CHECK(contains(message({.inner = 0}), "0 inner steps"));
    CHECK(contains(message({.pull = 2}), "a pull of 2"));
    CHECK(contains(message({.learning_rate = std::nan("")}), "rate of nan"));
    for (const double each : {1e300, 1e-320, 0.0})
      CHECK(contains(message({.learning_rate = each}), "above 0 and finite"));
  });
}
