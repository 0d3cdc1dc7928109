// Cut from include/yotta by `./yotta check NN --cut`: edit the library's header, not this file.
// DDP: distributed data parallelism. Every rank holds the whole model and a share of the batch; after
// backward the ranks add up their gradients, so all take the same optimizer step.
//
//                 rank 0        rank 1        rank 2        rank 3
//     batch       [ x0 ]        [ x1 ]        [ x2 ]        [ x3 ]      different
//     gradients    g0            g1            g2            g3         different
//                  └──────────────── all_reduce ─────────────┘
//     gradients    g             g             g             g          g = g0 + g1 + g2 + g3
//     weights      w             w             w             w          the same, before and after
//
// Three ways, each better than the last:
//     naive        one all_reduce a parameter, after backward: many small messages, all of them waited for
//     bucketed     gradients lie side by side in a few flat buckets: one all_reduce a bucket
//     overlapped   a bucket leaves as soon as its last gradient is final, while backward goes on
//
//     backward     │ layer 3 │ layer 2 │ layer 1 │ layer 0 │
//     bucket 0                ├─ 3, 2 in one bucket ─┤
//     bucket 1                                             ├─ 1, 0 ─┤   only the last one is waited for
//
// Cost, for gradients of G bytes on p ranks with the ring: 2(p-1)/p G bytes sent per rank; 2(p-1) messages
// a bucket; memory: nothing beyond the gradients, which are views into the buckets.
//
// Contract: all ranks of `comm` construct Ddp over the same parameters in the same order, and call
// finish() after each synchronised backward pass. The loss says which reduction is right:
//     loss = local sum / tokens of the *whole* batch    ReduceOp::sum, exact for uneven shares (our trainer)
//     loss = local mean                                 ReduceOp::mean, as PyTorch's DDP
//
// References: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB
// 2020 (buckets, overlap, no_sync: section 3.2).
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta::student {

using Parameters = std::span<const ParameterPtr>;

// Rows [begin, end) of a batch.
struct BatchShard {
  int64_t begin = 0, end = 0;
};

// The rows that rank `rank` trains on. Together the shares are the batch, each row once.
constexpr BatchShard share_of_batch(int64_t batch, int ranks, int rank) {
  BatchShard share;
  // exercise 13.1: cut the batch among the ranks; their shares may differ by one row
  not_done("13.1");
  // end of exercise 13.1
  return share;
}

// Rank 0's weights for everyone, so that all start from the same model. (On meta there are no weights.)
inline void broadcast_parameters(Parameters parameters, Communicator& comm) {
  for (const ParameterPtr& each : parameters)
    if (each->value.device() != Device::meta)
      comm.broadcast(each->value, 0, {.label = "ddp.parameters"});
}

// Naive: after backward, one all_reduce a parameter.
inline void reduce_gradients(Parameters parameters, Communicator& comm, ReduceOp op) {
  // exercise 13.2: reduce every gradient over the ranks of comm with the given operation
  not_done("13.2");
  // end of exercise 13.2
}

// What all ranks together send to reduce gradients of G bytes: with 2(p-1)/p G each, p of them.
constexpr int64_t ddp_bytes_sent_by_all(int64_t ranks, int64_t gradient_bytes) {
  return 2 * (ranks - 1) * gradient_bytes;
}

// Gradients that travel together.
struct Bucket {
  Tensor flat;                           // (sum of sizes): its members' gradients are views of it
  std::vector<ParameterPtr> parameters;  // in the order in which backward finishes them
  int missing = 0;                       // gradients that are not final yet
  Work work;                             // in flight from launch to finish()
};

// Cuts the parameters, last one first (backward's order), into buckets of up to `bucket_bytes` of
// gradients, one at least, and makes each gradient a view into its bucket's flat tensor.
inline std::deque<Bucket> make_buckets(Parameters parameters, int64_t bucket_bytes) {
  std::deque<Bucket> buckets;
  // exercise 13.3: fill buckets, each of one dtype, in reverse order; point the gradients into them
  not_done("13.3");
  // end of exercise 13.3
  return buckets;
}

struct DdpOptions {
  int64_t bucket_bytes = 25 << 20;  // PyTorch's default
  ReduceOp op = ReduceOp::sum;
  bool overlap = true;  // false: buckets wait until finish()
};

class Ddp {
 public:
  Ddp(std::vector<ParameterPtr> parameters, Communicator& comm, DdpOptions options = {})
      : parameters_(std::move(parameters)), comm_(comm), options_(options) {
    broadcast_parameters(parameters_, comm_);
    buckets_ = make_buckets(parameters_, options_.bucket_bytes);
    for (Bucket& bucket : buckets_) {
      bucket.missing = static_cast<int>(bucket.parameters.size());
      for (const ParameterPtr& each : bucket.parameters)
        each->on_grad_ready = [this, &bucket](Parameter&) { gradient_is_final(bucket); };
    }
  }
  ~Ddp() {
    for (const ParameterPtr& each : parameters_) each->on_grad_ready = nullptr;
  }
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  // While one of these lives, gradients only add up locally: for all microbatches but the last.
  class NoSync {
   public:
    explicit NoSync(Ddp& ddp) : ddp_(ddp) { ddp_.syncing_ = false; }
    ~NoSync() { ddp_.syncing_ = true; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Ddp& ddp_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // After backward: launches what has not left yet (a parameter that this batch did not use never
  // became final; its zeros are added like any other), and waits for everything.
  void finish() {
    // exercise 13.5: launch what is left, wait for every bucket, and be ready for the next backward
    not_done("13.5");
    // end of exercise 13.5
  }

  int buckets() const { return static_cast<int>(buckets_.size()); }
  int launched() const { return launched_; }  // since the last finish()

 private:
  // Every rank must launch the same buckets in the same order, and backward may finish them in
  // another (or, on some rank, not at all): so bucket k leaves only after buckets 0 to k-1.
  void gradient_is_final(Bucket& bucket) {
    // exercise 13.4: count the bucket's gradients down and launch every bucket whose turn has come
    not_done("13.4");
    // end of exercise 13.4
  }

  Bucket& next() { return buckets_[static_cast<size_t>(launched_)]; }
  void launch_next() {
    Bucket& bucket = next();
    bucket.work = comm_.all_reduce_async(bucket.flat, options_.op, {.label = "ddp.gradients"});
    ++launched_;
  }

  std::vector<ParameterPtr> parameters_;
  Communicator& comm_;
  DdpOptions options_;
  std::deque<Bucket> buckets_;  // a deque: callbacks hold addresses of its elements
  int launched_ = 0;
  bool syncing_ = true;
};

// Throws if two ranks hold the same token ids: a sampler that forgot the rank trains on one share of the
// data, p times over, and no loss curve shows it.
inline void check_ranks_differ(const Tensor& ids, Communicator& comm,
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
             "ranks {} and {} saw identical tokens: each rank must take its own share of the batch "
             "(is the rank in the sampler's index?)",
             a, b);
}

}  // namespace yotta::student
