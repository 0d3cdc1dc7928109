// HSDP: hybrid sharded data parallelism. A group of ranks holds one copy of the model and runs FSDP
// on it. Other groups, the replicas, hold copies and train on other parts of the batch.
//
//                         group 0, fast links           group 1, fast links
//                    rank 0 rank 1 rank 2 rank 3   rank 4 rank 5 rank 6 rank 7
//     at rest        w...   .w..   ..w.   ...w     w...   .w..   ..w.   ...w    two copies
//     unshard        └────── all_gather ───────┘   └────── all_gather ───────┘  inside
//     reduce         └──── reduce_scatter ─────┘   └──── reduce_scatter ─────┘  inside
//     then           s...                 <─ all_reduce ─>  s...                between
//                           .s..                 <─ all_reduce ─>  .s..         and so on
//
// In each microbatch FSDP over all ranks sends whole weights twice and whole gradients once, over
// the slowest links of the machine. HSDP sends only shards of gradients over them, once a step. The
// price is memory: 16 N/p bytes, where FSDP over all ranks holds 16 N/(pR).
//
// The sum of a unit leaves for the other groups as soon as the group has it, while backward goes on
// with the units before it (F forward, B backward, g all_gather, r reduce_scatter, a all_reduce):
//
//     compute          │ F0 │ F1 │ F2 │ B2 │ B1    │ B0    │
//     inside      │ g0 │ g1 │ g2 │    │ g1 │ r2 g0 │ r1    │ r0 │
//     between                                      │  a2   │ a1    │ a0    │
//
// Two ways: naive, an all_reduce for each shard after backward; and the real one, a bucket for each
// unit (ddp.hpp), which leaves when finish_reduce has added the unit's last sum to its gradients.
// A machine of three levels (node, rack, pod) runs the all_reduce hierarchically: in the rack, then
// between racks (HsdpOptions::replicas).
//
// Cost: 16 N/p bytes held (f32, AdamW). A rank sends FSDP's trips inside, in each microbatch;
// between, an all_reduce of its shard, once a step (hsdp_elements_sent). Best p: hsdp_cost.hpp.
// Contract: all ranks make Hsdp over the same model and run the same passes; before_microbatch() is
// called before each microbatch (a step of one may leave it out), finish() before the step. The
// loss is a local sum over the tokens of the whole batch: gradients are summed.
// Letters: p ranks of a group, R replicas, N parameters, m microbatches of a step.
// References: Zhao et al. (2023), PyTorch FSDP, section 3.2.2 (hybrid sharding); Zhang et al.
// (2022), MiCS.
#pragma once

#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

namespace yotta {

// What a rank talks over.
struct HsdpRanks {
  Communicator group;     // the ranks that share one copy of the model: neighbours
  Communicator replicas;  // the ranks with the same shard, one of each group
};

// Cuts the world into groups of p neighbouring ranks. All ranks call. Errors: p does not divide.
inline HsdpRanks hsdp_ranks(const Communicator& world, int p, Where where = Where::current()) {
  HsdpRanks ranks;
  if (p < 1 || world.size() % p != 0)
    fail(where, "groups of {} ranks do not divide a world of {}", p, world.size());
  const int rank = world.rank();
  ranks.group = world.split(rank / p, rank).named("fsdp");
  ranks.replicas = world.split(rank % p, rank).named("dp");
  return ranks;
}

// Elements that a rank sends in a step, by level, if p divides each unit and R each shard of it.
struct HsdpSent {
  int64_t inside = 0, between = 0;
};
constexpr HsdpSent hsdp_elements_sent(int64_t p, int64_t R, int64_t parameters,
                                      int64_t microbatches) {
  HsdpSent sent;
  sent.inside = microbatches * fsdp_elements_sent(p, parameters, 0);
  sent.between = 2 * (R - 1) * (parameters / p / R);
  return sent;
}

// The smallest group size that divides `ranks` and leaves a rank at most `room` bytes to hold, with
// 16 bytes for each parameter; 0 if there is none.
constexpr int smallest_group(int ranks, int64_t parameters, int64_t room) {
  for (int p = 1; p <= ranks; ++p)
    if (ranks % p == 0 && 16 * parameters <= room * p) return p;
  return 0;
}

// Naive: after backward, one all_reduce for each shard of a parameter, each waited for.
inline void reduce_over_replicas(Fsdp& group, const Communicator& replicas) {
  group.finish();
  reduce_gradients(parameters(group.stack()), replicas, ReduceOp::sum);
}

// One bucket for each unit: the gradients of its shards side by side, in the order in which
// backward reduces the units. A unit of which this rank holds only padding has none.
inline std::deque<Bucket> shard_buckets(const std::deque<FsdpUnit>& units) {
  std::deque<Bucket> buckets;
  for (size_t i = units.size(); i-- > 0;) {
    Bucket bucket;
    for (const ParameterShard& shard : units[i].shards())
      bucket.parameters.push_back(shard.parameter);
    if (bucket.parameters.empty()) continue;
    flatten_gradients(bucket);
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

struct HsdpOptions {
  FsdpOptions fsdp = {};  // of the group
  bool overlap = true;    // false: sums stay in their group until finish()
  // Of the all_reduces. For racks of k groups {Algorithm::hierarchical, nullptr, k}.
  CommOptions replicas = {};
};

class Hsdp {
 public:
  Hsdp(Layers model, const HsdpRanks& ranks, HsdpOptions options = {})
      : replicas_(ranks.replicas),
        options_(options),
        fsdp_(model, ranks.group, options.fsdp),
        buckets_(
            shard_buckets(fsdp_.units()), [this](Bucket& bucket) { return launch(bucket); },
            options.overlap) {
    broadcast_parameters(parameters(fsdp_.stack()), replicas_);
    for (Bucket& bucket : buckets_.all())
      for (const ParameterPtr& shard : bucket.parameters)
        shard->on_grad_ready = [this, &bucket](Parameter&) { buckets_.on_gradient_ready(bucket); };
  }
  ~Hsdp() {
    for (Bucket& bucket : buckets_.all())
      for (const ParameterPtr& shard : bucket.parameters) shard->on_grad_ready = nullptr;
  }
  Hsdp(const Hsdp&) = delete;
  Hsdp& operator=(const Hsdp&) = delete;

  // What the training loop runs, and the shards that the optimizer steps, as Fsdp's.
  Layers stack() const { return fsdp_.stack(); }
  const std::deque<FsdpUnit>& units() { return fsdp_.units(); }

  // Before a microbatch's forward pass: only the last one of a step sends sums to other groups.
  void before_microbatch(bool last) {
    if (last) fsdp_.finish();
    buckets_.set_syncing(last);
  }

  // After backward: every gradient is the sum over all ranks.
  void finish() {
    fsdp_.finish();
    buckets_.finish();
  }

  // For clipping, after finish(): the squares of the group's shards. Every group has the same.
  double sum_of_squares(double mine) const { return fsdp_.sum_of_squares(mine); }

  int launched() const { return buckets_.launched(); }  // units that have left since finish()

 private:
  Work launch(Bucket& bucket) {
    const CommOptions options = options_.replicas.labelled("hsdp.all_reduce");
    return replicas_.all_reduce_async(bucket.flat, ReduceOp::sum, options);
  }

  Communicator replicas_;
  HsdpOptions options_;
  Fsdp fsdp_;
  GradientBuckets buckets_;
};

}  // namespace yotta
