// DiLoCo without waiting for all (diloco.hpp): a server takes each worker's outer gradient when it
// comes, or workers meet in pairs.
//
// Asynchronous: a worker sends its outer gradient when its round is done.
//
//     worker 0   │ H steps │ H steps │ H steps │        fast
//     worker 1   │     H steps     │     H steps        slow: its gradients are 1 and 2 rounds old
//     server               w1      w2 w3       w4       a step with each that comes
//
// The server holds the weights w and a momentum. Two things go wrong when it takes Nesterov's step
// with each outer gradient g that comes: k of them arrive where one mean did, so the steps are k
// times as many; and momentum repeats what stale gradients say. Delayed Nesterov cures both: each g
// counts 1/n, and momentum joins only after n of them:
//
//     each g             w = w - rate g / n                   b = b + g
//     after n of them    v = mu v + b / n    b = 0            w = w - rate mu v
//
// With n = 1 that is Nesterov's step. With n = k workers of one speed, k arrivals move w as far as
// one synchronous round. A remedy on the workers' side: a slow one takes fewer inner steps, so that
// all rounds take the same time (async_inner_steps).
//
// Gossip: after its H inner steps a worker averages with one other, drawn anew in each round.
//
//     round 0     0 ── 2     1 ── 3         each worker sends one message, and waits for one
//     round 1     0 ── 3     1 ── 2
//     round 2     0 ── 2     1 ── 3
//
// What one worker has learned reaches its partner at once, and all after about log2(k) rounds. The
// workers never agree exactly: each has a w of its own, where it began its round. A pull towards
// the pair's mean keeps them together:
//
//     g = w - what training made of it        v = mu v + rate mean(g) + pull (w - mean(w))
//     w = w - v                               means: over the pair
//
// Cost of a round, for N parameters of 4 bytes. Asynchronous: 4 N bytes to the server and 4 N back,
// at once and with no ring. Gossip: one message of 8 N bytes (w, and what training made of it) and
// one latency, whatever k is, where a ring has 2 (k-1). An odd worker out trains on alone.
// Contract, asynchronous: the ranks of `world` are k workers and, the last one, the server. The
// order in which gradients are taken is a plan (async_arrivals in async_sgd.hpp), so a run is the
// same every time. Gossip: all workers take steps together. At the end their weights differ by a
// little: mean_of_workers averages them once.
// Letters: k workers, H inner steps, N parameters, n arrivals.
// References: Liu et al. (2024), Asynchronous Local-SGD Training for Language Modeling (algorithms
// 3 and 4: delayed Nesterov, dynamic local updates); Kolehmainen et al. (2025), NoLoCo (random
// pairs, the pull); Boyd et al. (2006), gossip.
#pragma once

#include <algorithm>
#include <functional>

#include "yotta/core/random.hpp"
#include "yotta/parallel/async_sgd.hpp"
#include "yotta/parallel/streaming_diloco.hpp"

namespace yotta {

// ---- a server ----

struct AsyncOuterOptions {
  double learning_rate = 0.7;
  double momentum = 0.9;
  int delay = 1;  // arrivals between two of momentum (n)
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
    expect_outer_step(options.learning_rate, options.momentum, where);
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

// ---- pairs ----

struct GossipOptions {
  int64_t inner = 50;          // H
  double learning_rate = 0.7;  // outer
  double momentum = 0.5;
  double pull = 1;  // towards the pair's mean
  uint64_t seed = 0;
};

// The partner of `worker` in a round; all ranks find the same pairs. The odd one out is its own
// partner.
inline int gossip_partner(int worker, int k, int64_t round, uint64_t seed) {
  const Random random(seed, "gossip");
  std::vector<std::pair<uint32_t, int>> order;  // the workers, shuffled: neighbours are pairs
  for (int i = 0; i < k; ++i)
    order.emplace_back(random.bits(static_cast<uint64_t>(round * k + i)), i);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i + 1 < order.size(); i += 2) {
    if (order[i].second == worker) return order[i + 1].second;
    if (order[i + 1].second == worker) return order[i].second;
  }
  return worker;
}

class GossipDiloco {
 public:
  // `inner` must outlive this. All workers start from worker 0's weights.
  GossipDiloco(Optimizer& inner, const Communicator& workers, GossipOptions options = {},
               Where where = Where::current())
      : options_(options),
        workers_(workers),
        fragment_(cut_into_fragments(inner.slots(), 1, where)) {
    if (options.inner < 1) fail(where, "{} inner steps; a round has one at least", options.inner);
    expect_outer_step(options.learning_rate, options.momentum, where);
    if (!(options.pull >= 0 && options.pull <= 1))
      fail(where, "a pull of {} towards the pair's mean: give 0 to 1", options.pull);
    OuterFragment& all = fragment_.front();
    if (all.outer.device() != Device::meta)
      workers_.broadcast(all.outer, 0, {.label = "gossip.start"});
    all.set_weights(0);
  }

  // After each inner step.
  void after_step() {
    if (++steps_ % options_.inner != 0) return;
    const int64_t round = steps_ / options_.inner - 1;
    meet(gossip_partner(workers_.rank(), workers_.size(), round, options_.seed));
  }

  // At the end of a run: all weights become the mean over the workers.
  void mean_of_workers() {
    OuterFragment& all = fragment_.front();
    all.copy_weights(all.outer);
    workers_.all_reduce(all.outer, ReduceOp::mean, {.label = "gossip.end"});
    all.set_weights(0);
  }

  const Tensor& outer() const { return fragment_.front().outer; }  // (n)

 private:
  void meet(int partner) {
    const MemoryScope memory(MemoryKind::buffers);
    OuterFragment& all = fragment_.front();
    const int64_t n = all.size();
    Tensor mine = Tensor::zeros({2 * n}, all.outer.dtype());  // w, and what training made of it
    Tensor trained = mine.rows(n, 2 * n);
    mine.rows(0, n).copy_from(all.outer);
    all.copy_weights(trained);
    Tensor other = mine;
    if (partner != workers_.rank()) {
      other = Tensor::empty(mine.shape(), mine.dtype());
      workers_.send_recv(mine, partner, other, partner);
    }
    if (mine.device() != Device::meta) pull_together(mine, other);
    all.set_weights(0);
  }
  void pull_together(const Tensor& mine, const Tensor& other) {
    OuterFragment& all = fragment_.front();
    const int64_t n = all.size();
    visit_real(mine.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
      const Real *const a = mine.data<Real>(), *const b = other.data<Real>();
      Real *const w = all.outer.data<Real>(), *const v = all.momentum.data<Real>();
      const auto rate = static_cast<Real>(options_.learning_rate);
      const auto mu = static_cast<Real>(options_.momentum), pull = static_cast<Real>(options_.pull);
      for (int64_t i = 0; i < n; ++i) {
        const Real mean = (a[i] + b[i]) / 2, gradient = mean - (a[n + i] + b[n + i]) / 2;
        v[i] = mu * v[i] + rate * gradient + pull * (w[i] - mean);
        w[i] -= v[i];
      }
    });
  }

  GossipOptions options_;
  Communicator workers_;
  std::deque<OuterFragment> fragment_;  // one: all weights
  int64_t steps_ = 0;
};

}  // namespace yotta
