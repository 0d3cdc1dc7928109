// Cut from include/yotta. Students: write between the marks of your copy in work/.
// Authors: edit the library's header; `./yotta check NN --cut` writes this file again.
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
// price is memory: 16 P/p bytes, where FSDP over all ranks holds 16 P/(pR).
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
// Cost, for P parameters and m microbatches: 16 P/p bytes held (f32, AdamW); elements that a rank
// sends in a step: 3 m P (p-1)/p inside, 2 P/p (R-1)/R between. Time and the best p: hsdp_cost.hpp.
// Contract: all ranks make Hsdp over the same model and run the same passes; before_microbatch() is
// called before each microbatch (a step of one may leave it out), finish() before the step. The
// loss is a local sum over the tokens of the whole batch: gradients are summed.
// Letters: p ranks of a group, R replicas, P parameters, m microbatches of a step.
// References: Zhao et al. (2023), PyTorch FSDP, section 3.2.2 (hybrid sharding); Zhang et al.
// (2022), MiCS.
#pragma once

#include "yotta/core/exercise.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

namespace yotta::student {

// What a rank talks over.
struct HsdpRanks {
  Communicator group;     // the ranks that share one copy of the model: neighbours
  Communicator replicas;  // the ranks with the same shard, one of each group
};

// Cuts the world into groups of p neighbouring ranks. All ranks call. Errors: p does not divide.
inline HsdpRanks hsdp_ranks(const Communicator& world, int p, Where where = Where::current());

// Elements that a rank sends in a step, by level, if p divides each unit and R each shard of it.
struct HsdpSent {
  int64_t inside = 0, between = 0;
};
constexpr HsdpSent hsdp_elements_sent(int64_t p, int64_t R, int64_t parameters,
                                      int64_t microbatches) {
  // exercise 16.1: which trips does each microbatch make inside, and what crosses once a step?
  not_done("16.1");
  return {};
  // end of exercise 16.1
}

// The smallest group size that divides `ranks` and leaves a rank at most `room` bytes to hold, with
// 16 bytes for each parameter; 0 if there is none.
constexpr int smallest_group(int ranks, int64_t parameters, int64_t room) {
  // exercise 16.2: the smallest divisor p of `ranks` for which 16 P/p bytes fit
  not_done("16.2");
  return {};
  // end of exercise 16.2
}

// Naive: after backward, one all_reduce for each shard of a parameter, each waited for.
inline void reduce_over_replicas(Fsdp& group, const Communicator& replicas);

// One bucket for each unit: the gradients of its shards side by side, in the order in which
// backward reduces the units. A unit of which this rank holds only padding has none.
inline std::deque<Bucket> shard_buckets(const std::deque<FsdpUnit>& units);

struct HsdpOptions {
  FsdpOptions fsdp = {};  // of the group
  bool overlap = true;    // false: sums stay in their group until finish()
  // Of the all_reduces. For racks of k groups {Algorithm::hierarchical, nullptr, k}.
  CommOptions replicas = {};
};

class Hsdp {
 public:
  inline Hsdp(Layers model, const HsdpRanks& ranks, HsdpOptions options = {});
  inline ~Hsdp();
  Hsdp(const Hsdp&) = delete;
  Hsdp& operator=(const Hsdp&) = delete;

  // What the training loop runs, and the shards that the optimizer steps, as Fsdp's.
  Layers stack() const { return fsdp_.stack(); }
  const std::deque<FsdpUnit>& units() { return fsdp_.units(); }

  // Before a microbatch's forward pass: only the last one of a step sends sums to other groups.
  inline void before_microbatch(bool last);
  // After backward: every gradient is the sum over all ranks.
  inline void finish();

  // For clipping, after finish(): the squares of the group's shards. Every group has the same.
  double sum_of_squares(double mine) const { return fsdp_.sum_of_squares(mine); }

  int launched() const { return buckets_.launched(); }  // units that have left since finish()

 private:
  inline Work launch(Bucket& bucket);

  Communicator replicas_;
  HsdpOptions options_;
  Fsdp fsdp_;
  GradientBuckets buckets_;
};

HsdpRanks hsdp_ranks(const Communicator& world, int p, Where where) {
  // exercise 16.3: split the world twice: neighbours share a copy; who holds the same shard?
  not_done("16.3");
  return {};
  // end of exercise 16.3
}

void reduce_over_replicas(Fsdp& group, const Communicator& replicas) {
  // exercise 16.4: warm-up, wait for the group's sums, then sum each shard's gradient over replicas
  not_done("16.4");
  // end of exercise 16.4
}

std::deque<Bucket> shard_buckets(const std::deque<FsdpUnit>& units) {
  // exercise 16.5: a bucket for each unit that has shards here, the last unit first, gradients flat
  not_done("16.5");
  return {};
  // end of exercise 16.5
}

Hsdp::Hsdp(Layers model, const HsdpRanks& ranks, HsdpOptions options)
    : replicas_(ranks.replicas),
      options_(options),
      fsdp_(model, ranks.group, options.fsdp),
      buckets_(
          shard_buckets(fsdp_.units()), [this](Bucket& bucket) { return launch(bucket); },
          options.overlap) {
  // exercise 16.6: all groups start from the same shards; each ready gradient tells its bucket
  not_done("16.6");
  // end of exercise 16.6
}
Hsdp::~Hsdp() {
  for (Bucket& bucket : buckets_.all())
    for (const ParameterPtr& shard : bucket.parameters) shard->on_grad_ready = nullptr;
}

Work Hsdp::launch(Bucket& bucket) {
  // exercise 16.7: start to sum the group's sum of this unit over the replicas
  not_done("16.7");
  return {};
  // end of exercise 16.7
}

void Hsdp::before_microbatch(bool last) {
  // exercise 16.8: a reduction of the microbatch before may be under way; it is not the last one
  not_done("16.8");
  // end of exercise 16.8
}

void Hsdp::finish() {
  // exercise 16.9: first the sums inside the group, then those between groups
  not_done("16.9");
  // end of exercise 16.9
}

}  // namespace yotta::student
