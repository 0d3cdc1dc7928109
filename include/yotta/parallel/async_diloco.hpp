// Asynchronous DiLoCo: a worker sends its outer gradient when its round is done, and no worker
// waits for another.
//
//     worker 0   │ H steps │ H steps │ H steps │        fast
//     worker 1   │     H steps     │     H steps        slow: its gradients are 1 and 2 rounds old
//     server               w1      w2 w3       w4       a step with each that comes
//
// The server holds the weights w and a momentum. Two things go wrong when it takes Nesterov's step
// with each outer gradient g that comes: k of them arrive where one mean did, so the steps are k
// times as many; and momentum repeats what stale gradients say. Delayed Nesterov cures both: each g
// counts 1/N, and momentum joins only after N of them:
//
//     each g             w = w - rate g / N                   b = b + g
//     after N of them    v = mu v + b / N    b = 0            w = w - rate mu v
//
// With N = 1 that is Nesterov's step. With N = k workers of one speed, k arrivals move w as far as
// one synchronous round. A remedy on the workers' side: a slow one takes fewer inner steps, so that
// all rounds take the same time (async_inner_steps).
//
// Cost of a round: 4 P bytes to the server and 4 P back, at once and with no ring.
// Contract: the ranks of `world` are k workers and, the last one, the server. The order in which
// gradients are taken is a plan (async_arrivals in async_sgd.hpp), so a run is the same every time.
// Letters: k workers, H inner steps, P parameters, N arrivals.
// Reference: Liu et al. (2024), Asynchronous Local-SGD Training for Language Modeling (algorithms 3
// and 4: delayed Nesterov, dynamic local updates).
#pragma once

#include <functional>

#include "yotta/parallel/async_sgd.hpp"
#include "yotta/parallel/outer_fragments.hpp"
#include "yotta/parallel/outer_gradients.hpp"

namespace yotta {

struct AsyncOuterOptions {
  double learning_rate = 0.7;
  double momentum = 0.9;
  int delay = 1;  // arrivals between two of momentum (N)
};

// The server's rule.
class AsyncOuter {
 public:
  // Starts from these weights (n), f32 or f64, which it changes. Errors: a rate that is not above
  // 0; a momentum outside 0 to below 1; a delay below 1.
  AsyncOuter(Tensor weights, AsyncOuterOptions options, Where where = Where::current())
      : options_(options), weights_(std::move(weights)) {
    if (options.delay < 1)
      fail(where, "a delay of {}; momentum joins after 1 or more", options.delay);
    if (!is_outer_rate(options.learning_rate) || !(options.momentum >= 0 && options.momentum < 1))
      fail(where,
           "an outer rate of {} and a momentum of {}: the rate is above 0 and finite, the momentum "
           "from 0 to "
           "below 1",
           options.learning_rate, options.momentum);
    const MemoryScope memory(MemoryKind::optimizer);
    momentum_ = Tensor::zeros(weights_.shape(), weights_.dtype());
    sum_ = Tensor::zeros(weights_.shape(), weights_.dtype());
  }

  // One outer gradient (n) has come.
  void take(const Tensor& gradient) {
    expect_shape("AsyncOuter", "the outer gradient", gradient, weights_.shape());
    ++taken_;
    const auto n = static_cast<double>(gradient.numel()),
               bytes = static_cast<double>(gradient.nbytes());
    charge({"async_outer", gradient.dtype(), 8 * n, 4 * bytes, 3 * bytes});
    if (gradient.device() == Device::meta) return;
    combine(weights_, 1, gradient, -options_.learning_rate / options_.delay);
    combine(sum_, 1, gradient, 1);
    if (taken_ % options_.delay != 0) return;
    combine(momentum_, options_.momentum, sum_, 1.0 / options_.delay);
    combine(weights_, 1, momentum_, -options_.learning_rate * options_.momentum);
    sum_.zero();
  }

  const Tensor& weights() const { return weights_; }
  int64_t taken() const { return taken_; }

 private:
  AsyncOuterOptions options_;
  Tensor weights_, momentum_, sum_;  // (n)
  int64_t taken_ = 0;
};

// Inner steps of each worker, so that all rounds take as long as H steps of the fastest one: 1 at
// least. `seconds`: of an inner step, by worker. Errors: no workers; a time that is not above 0; H
// below 1.
inline std::vector<int64_t> async_inner_steps(std::span<const double> seconds, int64_t inner,
                                              Where where = Where::current()) {
  expect_worker_seconds(seconds, where);
  if (inner < 1) fail(where, "{} inner steps; a round has one at least", inner);
  const double fastest = *std::min_element(seconds.begin(), seconds.end());
  std::vector<int64_t> steps;
  for (const double each : seconds)
    steps.push_back(
        std::max<int64_t>(1, std::llround(static_cast<double>(inner) * fastest / each)));
  return steps;
}

// The last rank's part: takes what comes in the order of the plan, and answers with the weights.
// Calls taken() after each, before it answers.
inline void serve(
    const Communicator& world, const std::vector<AsyncArrival>& plan, AsyncOuter& outer,
    const std::function<void()>& taken = [] {}) {
  const MemoryScope memory(MemoryKind::buffers);
  Tensor gradient = Tensor::empty(outer.weights().shape(), outer.weights().dtype());
  for (const AsyncArrival& each : plan) {
    world.recv(gradient, each.worker);
    outer.take(gradient);
    taken();
    world.send(outer.weights(), each.worker);
  }
}

// A worker's part.
class AsyncWorker {
 public:
  // `inner` must outlive this. Its weights are those that the server starts from.
  AsyncWorker(Optimizer& inner, const Communicator& world)
      : world_(world), fragment_(cut_into_fragments(inner.slots(), 1)) {}

  // At the end of a round: sends the outer gradient, and goes on from the server's weights.
  void exchange() {
    const MemoryScope memory(MemoryKind::buffers);
    OuterFragment& all = fragment_.front();
    const int server = world_.size() - 1;
    Tensor gradient = Tensor::zeros(all.outer.shape(), all.outer.dtype());
    all.copy_weights(gradient);
    combine(gradient, -1, all.outer, 1);
    world_.send(gradient, server);
    world_.recv(all.outer, server);
    all.set_weights(0);
  }

  const Tensor& weights() const { return fragment_.front().outer; }  // (n): as it last fetched them

 private:
  Communicator world_;
  std::deque<OuterFragment> fragment_;  // one: all weights
};

}  // namespace yotta
