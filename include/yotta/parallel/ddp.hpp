// DDP: distributed data parallelism. Every rank holds the whole model and a shard of the batch;
// after backward the ranks add up their gradients, so all take the same optimizer step.
//
//                 rank 0        rank 1        rank 2        rank 3
//     batch       [ x0 ]        [ x1 ]        [ x2 ]        [ x3 ]      different
//     gradients    g0            g1            g2            g3         different
//                  └──────────────── all_reduce ─────────────┘
//     gradients    g             g             g             g          g = g0 + g1 + g2 + g3
//     weights      w             w             w             w          the same, before and after
//
// Three ways:
//     naive        one all_reduce per parameter, after backward: many messages, all waited for
//     bucketed     gradients lie side by side in a few flat buckets: one all_reduce per bucket
//     overlapped   a bucket leaves as soon as its last gradient is ready, while backward goes on
//                  (all_reduce_async returns at once; Work::wait() waits for it)
//
//     backward     │ layer 3 │ layer 2 │ layer 1 │ layer 0 │
//     bucket 0                         ├─ layers 3, 2 ─┤
//     bucket 1                                             ├─ 1, 0 ─┤   only this is waited for
//
// Cost, for gradients of G bytes on p ranks with the ring: each rank sends 2(p-1)/p G bytes a step,
// in 2(p-1) messages per bucket (naive: per parameter), and adds (p-1)/p of the gradients' numbers.
// The weights are broadcast once, by the constructor. Memory: nothing beyond the gradients, which
// are views into the buckets; while a bucket is made its gradients exist twice.
//
// Contract: all ranks of `comm` construct Ddp over the same parameters in the same order, and call
// finish() after each synchronised backward pass. Between steps gradients are set to zero in place:
// a new tensor in `grad` would no longer be a view of its bucket. Ddp outlives every backward pass
// that it listens to. The loss says which reduction is right:
//     loss = local sum / tokens of the *whole* batch    ReduceOp::sum (our trainer)
//     loss = local mean                                 ReduceOp::mean (PyTorch's DDP)
// Reference: Li et al. (2020), PyTorch Distributed (section 3.2: buckets, overlap, no_sync).
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

using Parameters = std::span<const ParameterPtr>;

// Rows [begin, end) of a batch.
struct BatchShard {
  int64_t begin = 0, end = 0;
};

// The rows that rank `rank` trains on: the rank-th of `ranks` nearly equal parts (chunk_begin is
// where a part begins, core/chunks.hpp). Together they are the batch, each row once.
constexpr BatchShard batch_shard(int64_t batch, int ranks, int rank) {
  return {chunk_begin(batch, ranks, rank), chunk_begin(batch, ranks, rank + 1)};
}

// Gives every rank the weights of rank 0, so that all start from the same model.
inline void broadcast_parameters(Parameters parameters, const Communicator& comm) {
  for (const ParameterPtr& each : parameters)
    if (each->value.device() != Device::meta)  // a model of shapes only: nothing to send
      comm.broadcast(each->value, 0, {.label = "ddp.parameters"});
}

// Naive: after backward, one all_reduce per parameter.
inline void reduce_gradients(Parameters parameters, const Communicator& comm, ReduceOp op) {
  for (const ParameterPtr& each : parameters)
    comm.all_reduce(each->gradient(), op, {.label = "ddp.gradients"});
}

// Throws if two ranks hold the same token ids: a sampler that forgot the rank trains on one shard
// of the data, p times over, and no loss curve shows it. Call it on the first batch. ids (B, T), on
// the CPU. Cost: 8 bytes from each rank.
inline void check_ranks_differ(const Tensor& ids, const Communicator& comm,
                               Where where = Where::current()) {
  const auto* text = static_cast<const char*>(ids.raw());
  const uint64_t hash = hash_name({text, static_cast<size_t>(ids.nbytes())});
  const std::vector<int64_t> mine = {static_cast<int64_t>(hash)};
  std::vector<int64_t> all(static_cast<size_t>(comm.size()));
  comm.all_gather(all, mine, {.label = "ddp.check"});
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a + 1; b < all.size(); ++b)
      if (all[a] == all[b])
        fail(where,
             "ranks {} and {} saw identical tokens: each rank must take its own shard of the batch "
             "(is the rank in the sampler's index?)",
             a, b);
}

// ---- buckets -----------------------------------------------------------------------------------

// Gradients that travel together.
struct Bucket {
  std::vector<ParameterPtr> parameters;  // in the order in which backward finishes them
  Tensor flat;      // (n), n the sum of their sizes: their gradients are views of it (DDP)
  int missing = 0;  // gradients that are not ready yet
  Work work;        // what `launch` started; waited for in finish()
};

// Bytes of the gradient of a parameter. Gradients of 16-bit weights are f32.
inline int64_t gradient_bytes(const Parameter& of) {
  return of.value.numel() * std::max<int64_t>(4, bytes_of(of.value.dtype()));
}

// Cuts the parameters, last one first (backward's order), into buckets of one dtype each. A bucket
// holds up to `bucket_bytes` of gradients, and at least one parameter.
inline std::deque<Bucket> cut_into_buckets(Parameters parameters, int64_t bucket_bytes) {
  if (bucket_bytes < 1)
    fail(Where::current(),
         "buckets of {} bytes of gradients: bucket_bytes is 1 or more (1: a bucket for each "
         "parameter), by default {}",
         bucket_bytes, 25 << 20);
  std::deque<Bucket> buckets;
  int64_t filled = 0;
  for (size_t i = parameters.size(); i-- > 0;) {
    const ParameterPtr& each = parameters[i];
    const int64_t bytes = gradient_bytes(*each);
    const bool fits = !buckets.empty() && filled + bytes <= bucket_bytes &&
                      buckets.back().parameters.front()->value.dtype() == each->value.dtype();
    if (!fits) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().parameters.push_back(each);
    filled += bytes;
  }
  return buckets;
}

// Makes the gradients of a bucket views of one flat tensor, values kept. gradient() makes one, as
// zeros, if there is none yet.
inline void flatten_gradients(Bucket& bucket) {
  const MemoryScope memory(MemoryKind::gradients);
  int64_t size = 0;
  for (const ParameterPtr& each : bucket.parameters) size += each->gradient().numel();
  bucket.flat = Tensor::zeros({size}, bucket.parameters.front()->grad.dtype());
  int64_t begin = 0;
  for (const ParameterPtr& each : bucket.parameters) {
    const int64_t end = begin + each->grad.numel();
    Tensor view = bucket.flat.rows(begin, end).reshape(each->grad.shape());
    view.copy_from(each->grad);
    each->grad = view;
    begin = end;
  }
}

// Cuts, then flattens.
inline std::deque<Bucket> make_buckets(Parameters parameters, int64_t bucket_bytes) {
  std::deque<Bucket> buckets = cut_into_buckets(parameters, bucket_bytes);
  for (Bucket& bucket : buckets) flatten_gradients(bucket);
  return buckets;
}

// The buckets of one rank, and which of them have left. `launch` starts to sum a bucket over the
// ranks: DDP by an all_reduce, ZeRO by a reduce_scatter (zero.hpp).
class GradientBuckets {
 public:
  using Launch = std::function<Work(Bucket&)>;  // starts to sum this bucket

  GradientBuckets(std::deque<Bucket> buckets, Launch launch, bool overlap = true)
      : buckets_(std::move(buckets)), launch_(std::move(launch)), overlap_(overlap) {
    for (Bucket& bucket : buckets_) bucket.missing = static_cast<int>(bucket.parameters.size());
  }

  // Backward calls this (on_grad_ready, nn/parameter.hpp) when the last layer that uses a parameter
  // of the bucket has added its part. Launches every bucket whose turn has come. Bucket k leaves
  // only after buckets 0 to k-1: all ranks must launch in the same order, but may finish gradients
  // in different orders, or on some rank not at all.
  void on_gradient_ready(Bucket& bucket) {
    if (!syncing_) return;
    if (bucket.missing == 0)
      fail(Where::current(),
           "a gradient became final twice before finish(): call finish() after each backward, or "
           "run all microbatches but the last under no_sync()");
    --bucket.missing;
    if (!overlap_) return;
    while (launched_ < std::ssize(buckets_) && next().missing == 0) launch_next();
  }

  // After backward: launches what has not left yet (a parameter that this batch did not use was
  // never ready; its zeros are added like any other), and waits for everything.
  void finish() {
    while (launched_ < std::ssize(buckets_)) launch_next();
    for (Bucket& bucket : buckets_) {
      bucket.work.wait();
      bucket.missing = static_cast<int>(bucket.parameters.size());
    }
    launched_ = 0;
  }

  // While syncing is off, gradients only add up locally.
  void set_syncing(bool on) { syncing_ = on; }
  std::deque<Bucket>& all() { return buckets_; }
  int64_t size() const { return std::ssize(buckets_); }
  int launched() const { return launched_; }  // since the last finish()

 private:
  Bucket& next() { return buckets_[static_cast<size_t>(launched_)]; }
  void launch_next() {
    next().work = launch_(next());
    ++launched_;
  }

  std::deque<Bucket> buckets_;  // a deque: callbacks hold addresses of its elements
  Launch launch_;
  bool overlap_, syncing_ = true;
  int launched_ = 0;
};

// ---- DDP ---------------------------------------------------------------------------------------

struct DdpOptions {
  int64_t bucket_bytes = 25 << 20;  // PyTorch's default
  ReduceOp op = ReduceOp::sum;
  bool overlap = true;    // false: buckets wait until finish()
  CommOptions comm = {};  // of its all_reduces: the algorithm, ranks per node
};

class Ddp {
 public:
  Ddp(std::vector<ParameterPtr> parameters, const Communicator& comm, DdpOptions options = {})
      : parameters_(std::move(parameters)),
        comm_(comm),
        options_(options),
        buckets_(
            make_buckets(parameters_, options.bucket_bytes),
            [this](Bucket& bucket) {
              return comm_.all_reduce_async(bucket.flat, options_.op,
                                            options_.comm.labelled("ddp.gradients"));
            },
            options.overlap) {
    broadcast_parameters(parameters_, comm_);
    for (Bucket& bucket : buckets_.all())
      for (const ParameterPtr& each : bucket.parameters)
        each->on_grad_ready = [this, &bucket](Parameter&) { buckets_.on_gradient_ready(bucket); };
  }
  ~Ddp() {
    for (const ParameterPtr& each : parameters_) each->on_grad_ready = nullptr;
  }
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  // While one of these lives, gradients only add up locally. A step may run its batch in several
  // parts (microbatches); hold one during all but the last.
  class NoSync {
   public:
    explicit NoSync(Ddp& ddp) : ddp_(ddp) { ddp_.buckets_.set_syncing(false); }
    ~NoSync() { ddp_.buckets_.set_syncing(true); }
    NoSync(const NoSync&) = delete;

   private:
    Ddp& ddp_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // After backward: every gradient is the sum (or mean) over the ranks.
  void finish() { buckets_.finish(); }

  int buckets() const { return static_cast<int>(buckets_.size()); }
  int launched() const { return buckets_.launched(); }  // since the last finish()

 private:
  std::vector<ParameterPtr> parameters_;
  Communicator comm_;
  DdpOptions options_;
  GradientBuckets buckets_;
};

// ---- cost --------------------------------------------------------------------------------------

// Bytes that all p ranks together send to reduce gradients of G bytes: p times 2(p-1)/p G.
constexpr int64_t ddp_bytes_sent_by_all(int64_t ranks, int64_t gradient_bytes) {
  return 2 * (ranks - 1) * gradient_bytes;
}

}  // namespace yotta
