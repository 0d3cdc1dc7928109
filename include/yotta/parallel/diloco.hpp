// DiLoCo: data parallelism over slow links. k workers, each a chip or a whole cluster, train alone
// for H steps; then they average what they have learned, and go on from there.
//
//                worker 0         worker 1         worker 2
//     start      w                w                w             the same weights
//     inner      H steps of AdamW on data of its own             no messages
//                w0               w1               w2
//                └────────── all_reduce: mean ─────┘             one mean in H steps
//     outer      g = w - mean     the outer gradient: where all of them have gone, together
//                Nesterov's step: the momentum v of the g so far, and w along it
//
// What is averaged: the weights. What each worker keeps for itself: the state of its inner
// optimizer. What all hold alike: w, where they last agreed, and v. With H = 1, inner SGD, an outer
// rate of 1 and no momentum this is DDP. With k = 1, a rate of 1 and no momentum it is one rank.
//
// Streaming: the model is cut into fragments, and each has its turn once in a round. So the peak of
// traffic falls; and a mean may be on its way for some inner steps while training goes on:
//
//     inner steps   │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │ 8 │      H = 4, 2 fragments, overlap 1
//     fragment 0            ├ sum ┤         ├ sum ┤        sent after step 2, there after step 3
//     fragment 1                    ├ sum ┤         ├ sum ┤
//
// Quantised: outer gradients travel with 8 or 4 bits (streaming_diloco.hpp), with error feedback.
//
// Cost, for N parameters of 4 bytes and the ring: a rank sends 8 (k-1)/k N bytes in H steps, where
// DDP sends them in each; memory 8 N more (w and v), and 4 N while a mean is on its way. Error
// feedback keeps 4 (1 + 1/k) N more: what is lost of its own numbers, and of its chunk of the mean.
// Contract: all ranks of `workers` make Diloco over optimizers with slots of the same sizes, and
// take steps together. A worker may be a mesh: `workers` joins the ranks with the same shard.
// Letters: k workers, H inner steps, N parameters.
// References: Douillard et al. (2023), DiLoCo; Douillard et al. (2025), Streaming DiLoCo; Stich
// (2018) and Lin et al. (2018), local SGD.
#pragma once

#include "yotta/parallel/streaming_diloco.hpp"

namespace yotta {

struct DilocoOptions {
  int64_t inner = 50;          // steps between two means of a weight (H)
  double learning_rate = 0.7;  // outer
  double momentum = 0.9;       // outer, Nesterov's
  int fragments = 1;           // that take turns; at most H
  int64_t overlap = 0;         // inner steps that a mean is on its way for; below H
  double keep = 0;             // share of a worker's own weights that stays; streaming: 0.5
  int bits = 0;                // of an outer gradient on its way: 8 or 4; 0: as the weights
  bool feedback = true;        // with bits: what rounding takes off is added the next time
  CommOptions comm = {};       // of the mean
};

// Throws unless workers can average in this way.
inline void check_options(const DilocoOptions& o, Where where = Where::current()) {
  if (o.inner < 1) fail(where, "{} inner steps; a round has one at least", o.inner);
  if (o.fragments < 1 || o.fragments > o.inner)
    fail(where, "{} fragments of {} inner steps: give 1 to {}", o.fragments, o.inner, o.inner);
  if (o.overlap < 0 || o.overlap >= o.inner)
    fail(where, "an overlap of {} steps in rounds of {}: give 0 to {}", o.overlap, o.inner,
         o.inner - 1);
  expect_outer_step(o.learning_rate, o.momentum, where);
  if (!(o.keep >= 0 && o.keep < 1))
    fail(where, "{} of a worker's own weights stay: give 0 to below 1", o.keep);
  if (o.bits != 0 && o.bits != 8 && o.bits != 4)
    fail(where, "outer gradients of {} bits; there are 8 and 4, and 0 for those of the weights",
         o.bits);
}

// Nesterov's step of one number: w the weight, v its momentum, m the mean of the workers' weights.
// With a rate of 1 and mu 0 exactly m is left.
template <class Real>
void nesterov_step(Real& w, Real& v, Real m, Real rate, Real mu) {
  const Real gradient = w - m;
  v = mu * v + gradient;
  w = m + (1 - rate) * gradient - rate * mu * v;  // = w - rate (gradient + mu v)
}

// One outer step, to `mean` (n) and beyond: changes `outer` (n) and `momentum` (n).
inline void outer_step(Tensor& outer, Tensor& momentum, const Tensor& mean,
                       const DilocoOptions& o) {
  const auto n = static_cast<double>(mean.numel()), bytes = static_cast<double>(mean.nbytes());
  charge({"outer_step", mean.dtype(), 8 * n, 3 * bytes, 2 * bytes});
  if (mean.device() == Device::meta) return;
  visit_real(mean.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    Real *const w = outer.data<Real>(), *const v = momentum.data<Real>();
    const Real* const m = mean.data<Real>();
    const auto rate = static_cast<Real>(o.learning_rate), mu = static_cast<Real>(o.momentum);
    for (int64_t i = 0; i < mean.numel(); ++i) nesterov_step(w[i], v[i], m[i], rate, mu);
  });
}

// Sequences [begin, end) of a step's batch, and their number relative to the mean over the workers.
struct WorkerShare {
  int64_t begin = 0, end = 0;
  double weight = 1;
};
// What one of k workers trains on in a step. Together the shares are the batch, each row once.
constexpr WorkerShare worker_share(int64_t batch, int k, int worker) {
  WorkerShare share;
  share.begin = chunk_begin(batch, k, worker);
  share.end = chunk_begin(batch, k, worker + 1);
  share.weight = static_cast<double>((share.end - share.begin) * k) / static_cast<double>(batch);
  return share;
}

// The fragment whose turn comes after `steps` inner steps, or -1. The turns of a round are spread
// evenly, and the last fragment's is at its end.
constexpr int fragment_due(int64_t steps, int64_t inner, int fragments) {
  int due = -1;
  for (int f = 0; f < fragments; ++f)
    if ((steps - (f + 1) * inner / fragments) % inner == 0) due = f;
  return due;
}

// x (n) becomes the mean over the ranks of `channel`, each counted with its weight. Every number
// travels twice, packed with `bits`: to the rank that averages its chunk, and from there to all.
inline void quantised_mean(Channel& channel, Tensor& x, double weight, int bits, Lost& lost) {
  const int p = channel.size(), rank = channel.rank();
  Tensor mean = Tensor::zeros({chunk_count(x.numel(), p, rank)}, x.dtype());
  double total = 0;
  for (int step = 0; step < p; ++step) {
    const int to = (rank + step) % p;
    Tensor rest = chunk_of(lost.sent, p, to);
    const Tensor sent = packed_message(chunk_of(x, p, to), weight, bits, rest);
    const Tensor come = meet_next(channel, step, sent, message_bytes(mean.numel(), bits));
    total += add_message(mean, come, bits);
  }
  combine(mean, 1 / total, mean, 0);
  Tensor packed = Tensor::empty({packed_bytes(mean.numel(), bits)}, DType::u8);
  pack_with_feedback(mean, bits, packed, lost.mean);
  for (int step = 0; step < p; ++step) {
    Tensor chunk = chunk_of(x, p, wrap(rank - step, p));
    unpack(meet_next(channel, step, packed, packed_bytes(chunk.numel(), bits)), bits, chunk);
  }
}

// Bytes that all k workers send for one mean of n numbers: of `width` bytes each, and a weight, by
// the ring; or packed.
constexpr int64_t mean_bytes_sent(int64_t k, int64_t n, int64_t width) {
  return k == 1 ? 0 : 2 * (k - 1) * (n + 1) * width;
}
constexpr int64_t packed_mean_bytes_sent(int64_t k, int64_t n, int bits) {
  int64_t bytes = 0;
  for (int64_t chunk = 0; chunk < k; ++chunk)
    bytes += (k - 1) * (message_bytes(chunk_count(n, k, chunk), bits) +
                        packed_bytes(chunk_count(n, k, chunk), bits));
  return bytes;
}

class Diloco {
 public:
  // All workers start from the weights of rank `from`. `inner` must outlive this. A new process
  // joins so: it makes this while the others call meet(), all with the same `from`.
  Diloco(Optimizer& inner, const Communicator& workers, DilocoOptions options = {}, int from = 0,
         Where where = Where::current())
      : options_(options), workers_(workers) {
    check_options(options, where);
    fragments_ = cut_into_fragments(inner.slots(), options.fragments, where);
    meet(workers, from, where);
  }
  Diloco(const Diloco&) = delete;
  Diloco& operator=(const Diloco&) = delete;

  // After each inner step. `weight`: the tokens of this worker's step, as a share of the mean
  // worker's: 1 where all have the same. Returns whether the weights have changed.
  bool after_step(double weight = 1) {
    const int64_t means = means_;
    ++steps_;
    for (OuterFragment& fragment : fragments_) {
      fragment.weight += weight;
      ++fragment.steps;
      if (fragment.left > 0 && --fragment.left == 0) arrive(fragment);
    }
    const int due = fragment_due(steps_, options_.inner, options_.fragments);
    if (due >= 0) {
      OuterFragment& fragment = fragments_[static_cast<size_t>(due)];
      send(fragment);
      fragment.left = options_.overlap;
      if (fragment.left == 0) arrive(fragment);
    }
    return means_ != means;
  }

  // For the end of a run: waits for the mean that is on its way, then averages what was trained
  // since.
  void synchronise() {
    for (OuterFragment& fragment : fragments_)
      if (fragment.left > 0) arrive(fragment);
    for (OuterFragment& fragment : fragments_) {
      if (fragment.steps > 0) send(fragment), arrive(fragment);
      fragment.set_weights(0);
    }
  }

  // Workers come or go, while no mean is on its way. All ranks of `present` call: those that are
  // new get weights and outer state from its rank `from`, which is not.
  void meet(const Communicator& present, int from, Where where = Where::current()) {
    std::vector<int64_t> at = {steps_, std::max<int64_t>(means_, 0)};
    present.broadcast(at, from, {.label = "diloco.meet"});
    const bool is_new = at[1] != means_;
    for (OuterFragment& fragment : fragments_) {
      if (fragment.left > 0)
        fail(where, "a mean is on its way: call synchronise() before workers come or go");
      if (fragment.outer.device() != Device::meta) {
        present.broadcast(fragment.outer, from, {.label = "diloco.meet"});
        present.broadcast(fragment.momentum, from, {.label = "diloco.meet"});
      }
      if (is_new) fragment.begin_again();
      if (options_.bits > 0 && options_.feedback) fragment.forget_lost(present);
    }
    steps_ = at[0], means_ = at[1];
    workers_ = present;
  }

  // For checkpoints: sets the counts of steps and means. With the fragments restored as well,
  // training goes on from there.
  std::deque<OuterFragment>& fragments() { return fragments_; }
  int64_t steps() const { return steps_; }
  int64_t means() const { return means_; }
  void go_on_from(int64_t steps, int64_t means) { steps_ = steps, means_ = means; }

 private:
  void send(OuterFragment& fragment) {
    const MemoryScope memory(MemoryKind::buffers);
    const DeviceScope device(fragment.outer.device());
    const int64_t n = fragment.size();
    fragment.moving = Tensor::zeros({options_.bits > 0 ? n : n + 1}, fragment.outer.dtype());
    start_mean(fragment, fragment.weight / static_cast<double>(fragment.steps));
    fragment.weight = 0;
    fragment.steps = 0;
  }

  // `moving` (n), or (n + 1) with a place for the weight: it is filled, and leaves.
  void start_mean(OuterFragment& fragment, double weight) {
    fragment.copy_weights(fragment.moving);
    if (options_.bits > 0) {
      combine(fragment.moving, -1, fragment.outer, 1);
      fragment.work =
          workers_.collective_async("diloco.mean", [&fragment, weight, this](Channel& c) {
            quantised_mean(c, fragment.moving, weight, options_.bits, fragment.lost);
          });
    } else {
      fragment.moving.rows(fragment.size(), fragment.size() + 1).fill(1);
      combine(fragment.moving, weight, fragment.moving, 0);
      fragment.work = workers_.all_reduce_async(fragment.moving, ReduceOp::sum,
                                                options_.comm.labelled("diloco.mean"));
    }
  }
  void arrive(OuterFragment& fragment) {
    fragment.work.wait();
    fragment.left = 0;
    take_mean(fragment);
    fragment.moving = {};
    ++means_;
  }

  // `moving` holds the sum over the workers.
  void take_mean(OuterFragment& fragment) {
    Tensor mean = fragment.moving.rows(0, fragment.size());
    if (options_.bits > 0) {
      combine(mean, -1, fragment.outer, 1);
    } else if (mean.device() != Device::meta) {
      combine(mean, 1 / fragment.moving.item({fragment.size()}), mean, 0);
    }
    outer_step(fragment.outer, fragment.momentum, mean, options_);
    fragment.set_weights(options_.keep);
  }

  DilocoOptions options_;
  Communicator workers_;
  std::deque<OuterFragment> fragments_;
  int64_t steps_ = 0;
  int64_t means_ = -1;  // that have arrived; -1: this worker has met nobody yet
};

}  // namespace yotta
