#include "yotta/parallel/async_diloco.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
constexpr LinearNetConfig net = {3, 4};
constexpr int64_t rows = 12;

// k workers and a server: each takes `inner` steps of SGD in a round, on rows of its own. Returns
// the server's weights, and the seconds on a clock.
struct Outcome {
  std::vector<double> weights;
  double seconds = 0;
};
Outcome train(int k, const std::vector<AsyncArrival>& plan, const AsyncOuterOptions& options,
              int64_t inner, const Cluster& cluster = ideal(), const Stragglers& slow = {}) {
  Outcome out;
  ClockOptions clock;
  clock.stragglers = slow;
  const Timed run = run_on(
      cluster, k + 1,
      [&](Communicator& world) {
        const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
        Sgd sgd(parameters(Layers(layers)));
        AsyncWorker worker(sgd, world);
        if (world.rank() == k) {
          AsyncOuter outer(worker.weights().clone(), options);
          serve(world, plan, outer);
          out.weights = outer.weights().values();
          return;
        }
        const BatchShard mine = batch_shard(rows, k, world.rank());
        int64_t step = 0;
        for (const AsyncArrival& each : plan) {
          if (each.worker != world.rank()) continue;
          for (int64_t i = 0; i < inner; ++i, ++step) {
            zero_gradients(layers);
            run_microbatch(layers, step, mine.begin, mine.end, net.width, mine.end - mine.begin);
            sgd.step(0.05);
          }
          worker.exchange();
        }
      },
      clock);
  out.seconds = run.seconds();
  return out;
}
}  // namespace

TEST_CASE("one worker, rate 1, no momentum: the server follows the worker") {
  const std::vector<double> seconds = {1};
  const auto plan = async_arrivals(seconds, 4);
  const Outcome out = train(1, plan, {.learning_rate = 1, .momentum = 0}, 3);
  std::vector<double> serial;
  run_ranks(1, [&](Communicator&) {
    const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
    Sgd sgd(parameters(Layers(layers)));
    for (int64_t step = 0; step < 12; ++step) {
      zero_gradients(layers);
      run_microbatch(layers, step, 0, rows, net.width, rows);
      sgd.step(0.05);
    }
    for (Optimizer::Slot& slot : sgd.slots()) append(serial, slot.weight());
  });
  check_equal(out.weights, serial, 1, "weights");
}

TEST_CASE("with n = 1 the server's step is Nesterov's; with more it waits, and moves as far") {
  const Tensor g = Tensor::full({1}, 0.5, DType::f64);
  AsyncOuter plain(Tensor::full({1}, 1, DType::f64), {});
  plain.take(g);
  CHECK(std::abs(plain.weights().item({0}) - (1 - 0.7 * (0.5 + 0.9 * 0.5))) < 1e-15);
  AsyncOuter delayed(Tensor::full({1}, 1, DType::f64), {.delay = 4});
  for (int i = 0; i < 3; ++i) delayed.take(g);
  CHECK(std::abs(delayed.weights().item({0}) - (1 - 3 * 0.7 * 0.5 / 4)) < 1e-15);
  delayed.take(g);
  CHECK(std::abs(delayed.weights().item({0}) - plain.weights().item({0})) < 1e-15);
  CHECK(delayed.taken() == 4);
  plain.take(g);  // v = 0.95
  CHECK(std::abs(plain.weights().item({0}) - (1 - 0.7 * 0.95 - 0.7 * (0.5 + 0.9 * 0.95))) < 1e-15);
  for (int i = 0; i < 4; ++i) delayed.take(g);  // and once more
  CHECK(std::abs(delayed.weights().item({0}) - plain.weights().item({0})) < 1e-15);
}

TEST_CASE("a run is the same every time, on any number of workers, whatever their speeds") {
  for (const int k : {1, 2, 3, 4, 7}) {
    std::vector<double> seconds;
    for (int i = 0; i < k; ++i) seconds.push_back(1 + 0.37 * i);
    const auto plan = async_arrivals(seconds, 3 * k);
    const AsyncOuterOptions options{.delay = k};
    CHECK(train(k, plan, options, 2).weights == train(k, plan, options, 2).weights);
  }
}

TEST_CASE("nobody waits for a slow worker") {
  // Worker 1 computes 4 times as slowly. In a plan of 4 : 1 the others' rounds go on meanwhile.
  const std::vector<double> seconds = {1, 4};
  const auto uneven = async_arrivals(seconds, 10);
  const std::vector<double> alike = {1, 1};
  const auto even = async_arrivals(alike, 10);
  const Stragglers slow{.slow_ranks = {{1, 4}}};
  const Cluster machine = ideal(3, 1e9, 1e12);
  const double plain = train(2, even, {.delay = 2}, 5, machine, slow).seconds;
  const double async = train(2, uneven, {.delay = 2}, 5, machine, slow).seconds;
  CHECK(async < 0.5 * plain);  // 2 rounds of the slow one in place of 5
}

TEST_CASE("slow workers take fewer inner steps, at least one") {
  const std::vector<double> seconds = {1, 2, 4, 1000};
  CHECK(async_inner_steps(seconds, 50) == std::vector<int64_t>{50, 25, 13, 1});
}

TEST_CASE("the server says what it has taken, after each") {
  const std::vector<double> seconds = {1, 1};
  std::vector<int64_t> taken;
  run_ranks(3, [&](Communicator& world) {
    const std::vector<LayerPtr> layers = make_linear_net(net, {1, DType::f64});
    Sgd sgd(parameters(Layers(layers)));
    AsyncWorker worker(sgd, world);
    if (world.rank() < 2) return worker.exchange(), worker.exchange();
    AsyncOuter outer(worker.weights().clone(), {});
    serve(world, async_arrivals(seconds, 4), outer, [&] { taken.push_back(outer.taken()); });
  });
  CHECK(taken == std::vector<int64_t>{1, 2, 3, 4});
}

TEST_CASE("what is no server, no workers or no round is refused, and gradients of another size") {
  const auto server = [](const AsyncOuterOptions& options) {
    return message_of([&] { AsyncOuter(Tensor::zeros({1}), options); });
  };
  CHECK(contains(server({.delay = 0}), "a delay of 0"));
  CHECK(contains(server({.learning_rate = 0}), "an outer rate of 0"));
  CHECK(contains(server({.learning_rate = 1e-320}), "above 0 and finite"));
  CHECK(contains(server({.momentum = std::nan("")}), "a momentum of nan"));
  const auto steps = [](std::vector<double> seconds, int64_t inner) {
    return message_of([&] { async_inner_steps(seconds, inner); });
  };
  CHECK(contains(steps({}, 50), "no workers"));
  CHECK(contains(steps({1, 0}, 50), "needs 0 seconds"));
  CHECK(contains(steps({1, std::nan("")}, 50), "needs nan seconds"));
  CHECK(contains(steps({1}, 0), "0 inner steps"));
  AsyncOuter outer(Tensor::zeros({2}), {});
  CHECK(contains(message_of([&] { outer.take(Tensor::zeros({3})); }), "the outer gradient"));
}
