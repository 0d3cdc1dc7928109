// DiLoCo by gossip: after its H inner steps a worker averages with one other, drawn anew in each
// round. No worker waits for all the others.
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
// Cost of a round, for P parameters of 4 bytes: one message of 8 P bytes (w and g), whatever k is;
// one latency, where a ring has 2 (k-1). An odd worker out trains on alone.
// Contract: all workers take steps together. At the end the workers' weights differ by a little:
// mean_of_workers averages them once.
// Letters: k workers, H inner steps, P parameters.
// References: Kolehmainen et al. (2025), NoLoCo (random pairs, the pull); Boyd et al. (2006),
// gossip.
#pragma once

#include <algorithm>

#include "yotta/core/random.hpp"
#include "yotta/parallel/outer_fragments.hpp"

namespace yotta {

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
    if (!is_outer_rate(options.learning_rate) || !(options.momentum >= 0 && options.momentum < 1) ||
        !(options.pull >= 0 && options.pull <= 1))
      fail(where,
           "an outer rate of {}, a momentum of {}, a pull of {}: the rate is above 0 and finite, "
           "the "
           "momentum from 0 to below 1, the pull from 0 to 1",
           options.learning_rate, options.momentum, options.pull);
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
