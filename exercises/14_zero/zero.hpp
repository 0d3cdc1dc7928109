// Cut from include/yotta by `./yotta check NN --cut`: edit the library's header, not this file.
// ZeRO, stages 1 and 2: data parallelism in which each rank steps only its share of the weights.
//
// After DDP's all_reduce every rank holds every gradient and takes the same step on every weight, N times
// over, each with an optimizer state of its own. But each weight needs to be stepped once only:
//
//     rank 0              rank 1              rank 2              rank 3
//     [w w w w]           [w w w w]           [w w w w]           [w w w w]      weights: all
//     [g g g g]           [g g g g]           [g g g g]           [g g g g]      gradients: stage 1
//     [g . . .]           [. g . .]           [. . g .]           [. . . g]                 stage 2
//     [s . . .]           [. s . .]           [. . s .]           [. . . s]      optimizer state
//
//     backward            gradients of this rank's tokens
//     reduce_scatter      the sum of each quarter to the rank that steps it
//     step                each rank its quarter
//     all_gather          the new weights for everyone
//
// An all_reduce is a reduce_scatter and an all_gather, so this sends what DDP does; it only steps in between.
// Stage 1 keeps all gradients until backward has ended. Stage 2 sends a bucket as soon as it is full and keeps
// its part of the sum. Stage 3 cuts the weights too: fsdp.hpp.
//
// Cost: 2 P (N-1)/N elements sent a rank and step (stage 2: P (N-1)/N more for each further microbatch). Bytes
// held a parameter, with bf16 weights and gradients and AdamW's f32 master, m and v:
//
//     DDP 2 + 2 + 12        stage 1   2 + 2 + 12/N        stage 2   2 + (2 + 12)/N        stage 3   16/N
//
// Contract: the optimizer is made of shards(); around the trainer's step come flush() before each microbatch,
// finish() after backward, and gather() after the optimizer's step.
// Reference: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// SC 2020: sections 5 (stages), 7 (communication), table 1.
#pragma once

#include <deque>
#include <optional>
#include <set>

#include "yotta/comm/axis.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace yotta::student {

struct ZeroOptions {
  int stage = 1;                        // 1 or 2
  int64_t bucket_bytes = 25 << 20;      // of weights that travel together
  std::optional<DType> gradients = {};  // kept and summed in it: bf16 as the paper; none: f32
  // Parameters that other pipeline stages hold too: a bucket each, so that all stages cut them alike.
  std::set<std::string> apart = {};
};

// Bytes of each kind that training holds for one parameter.
struct StateBytes {
  int64_t weights, gradients, optimizer;
};
inline constexpr StateBytes zero_paper_bytes = {2, 2, 12};  // bf16, bf16; f32 master, m, v
inline constexpr StateBytes f32_bytes = {4, 4, 8};          // f32, f32; m, v

// Bytes that a rank holds for P parameters, a multiple of `ranks`. Stage 0 is DDP.
constexpr int64_t zero_bytes_held(int stage, int64_t ranks, int64_t P, StateBytes bytes) {
  int64_t held = 0;
  // exercise 14.1: which of the three does each stage cut among the ranks?
  not_done("14.1");
  // end of exercise 14.1
  return held;
}

// Elements that a rank sends in one step of DDP or of stage 1 or 2, for P parameters with padding.
constexpr int64_t zero_elements_sent(int64_t ranks, int64_t P) {
  return 2 * P / ranks * (ranks - 1);
}

// Parameters that travel together. N ranks, n numbers with padding.
struct ZeroBucket {
  ZeroBucket(const std::vector<ParameterPtr>& parameters, int ranks) : layout(parameters, ranks) {}

  FlatLayout layout;
  Tensor weights;             // (n): the parameters' values are views of it
  Tensor mine;                // (n/N): this rank's part of it, a view
  std::vector<ParameterShard> pieces;  // of that part: what the optimizer steps
  Tensor gradients;  // (n): stage 1 always, stage 2 from the first gradient until it is sent
  Tensor sum;        // (n/N): stage 2 always, stage 1 from finish() to gather()
  Tensor arriving;   // (n/N): what this rank gets of a microbatch's sum, on its way
  Work reducing;
  int missing = 0;  // gradients that are not final yet; stage 2: in this microbatch
};

class Zero {
 public:
  Zero(const std::vector<ParameterPtr>& parameters, Communicator& comm, ZeroOptions options = {},
       Where where = Where::current())
      : comm_(comm), options_(options) {
    if (options.stage != 1 && options.stage != 2)
      fail(where, "ZeRO stage {}: stages 1 and 2 are here, stage 3 is Fsdp, none is Ddp",
           options.stage);
    for (const std::vector<ParameterPtr>& some : cut(parameters, options)) {
      ZeroBucket& bucket = buckets_.emplace_back(some, comm.size());
      own(bucket);
      for (const FlatPlace& place : bucket.layout.places())
        place.parameter->on_grad_ready = [this, &bucket, place](Parameter&) { collect(bucket, place); };
      expect_all(bucket);
    }
  }
  ~Zero() {
    for (const ZeroBucket& bucket : buckets_)
      for (const FlatPlace& place : bucket.layout.places()) place.parameter->on_grad_ready = nullptr;
  }
  Zero(const Zero&) = delete;
  Zero& operator=(const Zero&) = delete;

  // What this rank's optimizer steps.
  std::vector<ParameterPtr> shards() const {
    std::vector<ParameterPtr> all;
    for (const ZeroBucket& bucket : buckets_)
      for (const ParameterShard& piece : bucket.pieces) all.push_back(piece.parameter);
    return all;
  }
  const std::deque<ZeroBucket>& buckets() const { return buckets_; }

  // Before each microbatch: stage 2 sends what the one before has left.
  void flush() {
    if (options_.stage == 2 && has_gradients_) reduce_all();
  }
  // After backward: the shards' gradients are the sum over all ranks and microbatches.
  void finish() {
    reduce_all();
    for (ZeroBucket& bucket : buckets_) {
      const MemoryScope memory(MemoryKind::buffers);  // an f32 copy of a bf16 sum, until gather()
      const DType dtype = real_dtype(bucket);
      const Tensor sum = bucket.sum.dtype() == dtype ? bucket.sum : bucket.sum.to(dtype);
      int64_t begin = 0;
      for (const ParameterShard& piece : bucket.pieces) {
        const int64_t end = begin + piece.parameter->value.numel();
        piece.parameter->grad = sum.rows(begin, end);
        begin = end;
      }
    }
  }
  // Over all ranks. (The trainer's own sum is 0: the layers' gradients are gone by then.)
  double sum_of_squares() { return sum_over(comm_, yotta::sum_of_squares(shards()), "zero.norm"); }
  // After the optimizer's step: everyone's new weights for everyone; gradients start from zero.
  void gather() {
    for (ZeroBucket& bucket : buckets_) {
      // exercise 14.4: the weights are all ranks' parts
      not_done("14.4");
      // end of exercise 14.4
      for (const ParameterShard& piece : bucket.pieces) piece.parameter->grad = {};
      bucket.sum = {};
      if (options_.stage == 1)
        bucket.gradients.zero();
      else
        bucket.sum = zero_gradients(bucket, bucket.layout.shard_size(), MemoryKind::gradients);
    }
  }

 private:
  // Runs of parameters of one type and up to bucket_bytes, the last parameter first, as backward goes.
  static std::vector<std::vector<ParameterPtr>> cut(const std::vector<ParameterPtr>& parameters,
                                                    const ZeroOptions& options) {
    const auto is_apart = [&](const ParameterPtr& each) {
      return options.apart.contains(each->name);
    };
    std::vector<std::vector<ParameterPtr>> runs;
    int64_t filled = 0;
    for (size_t i = parameters.size(); i-- > 0;) {
      const Tensor& value = parameters[i]->value;
      const bool fits = !runs.empty() && filled + value.nbytes() <= options.bucket_bytes &&
                        runs.back().front()->value.dtype() == value.dtype() &&
                        !is_apart(parameters[i]) && !is_apart(runs.back().front());
      if (!fits) runs.emplace_back(), filled = 0;
      runs.back().push_back(parameters[i]);
      filled += value.nbytes();
    }
    return runs;
  }

  // The weights as one flat array, and which part of it is this rank's to step.
  void own(ZeroBucket& bucket) const {
    const int64_t n = bucket.layout.size(), part = bucket.layout.shard_size();
    bucket.weights = bucket.layout.copy_part(0, n);
    bucket.layout.set_values(bucket.weights);
    // exercise 14.2: `mine`, and the pieces in it
    not_done("14.2");
    // end of exercise 14.2
    if (options_.stage == 1)
      bucket.gradients = zero_gradients(bucket, n, MemoryKind::gradients);
    else
      bucket.sum = zero_gradients(bucket, part, MemoryKind::gradients);
  }

  // A layer's gradient is final: it is added to its bucket's and freed. Stage 2 sends what is full.
  void collect(ZeroBucket& bucket, const FlatPlace& place) {
    if (options_.stage == 2 && bucket.missing == 0)
      fail(Where::current(), "{} became final twice: call flush() before each microbatch",
           place.parameter->name);
    open(bucket);
    Tensor to = bucket.gradients.rows(place.begin, place.end).reshape(place.shape);
    accumulate(to, std::exchange(place.parameter->grad, {}));
    has_gradients_ = true;
    if (options_.stage == 1) return;
    --bucket.missing;
    while (launched_ < buckets_.size() && buckets_[launched_].missing == 0) launch_next();
  }
  void open(ZeroBucket& bucket) const {
    if (!bucket.gradients.defined())
      bucket.gradients = zero_gradients(bucket, bucket.layout.size(), MemoryKind::buffers);
  }

  // Buckets leave in the same order on all ranks; one is on its way at a time.
  void launch_next() {
    settle();
    ZeroBucket& bucket = buckets_[launched_++];
    open(bucket);
    bucket.arriving = zero_gradients(bucket, bucket.layout.shard_size(), MemoryKind::buffers);
    // exercise 14.3: start to sum the gradients over the ranks; this rank's part goes to `arriving`
    not_done("14.3");
    // end of exercise 14.3
  }
  // Waits for the bucket launched last, and adds what arrives to the sum of the microbatches before.
  void settle() {
    if (launched_ == 0) return;
    ZeroBucket& bucket = buckets_[launched_ - 1];
    bucket.reducing.wait();
    if (bucket.sum.defined())
      accumulate(bucket.sum, bucket.arriving);
    else
      bucket.sum = bucket.arriving;
    bucket.arriving = {};
    if (options_.stage == 2) bucket.gradients = {};
  }
  void reduce_all() {
    while (launched_ < buckets_.size()) launch_next();
    settle();
    launched_ = 0;
    has_gradients_ = false;
    for (ZeroBucket& bucket : buckets_) expect_all(bucket);
  }

  static void expect_all(ZeroBucket& bucket) {
    bucket.missing = static_cast<int>(bucket.layout.places().size());
  }
  // The type in which layers make gradients and optimizers read them.
  static DType real_dtype(const ZeroBucket& bucket) {
    return bytes_of(bucket.layout.dtype()) < 4 ? DType::f32 : bucket.layout.dtype();
  }
  Tensor zero_gradients(const ZeroBucket& bucket, int64_t size, MemoryKind kind) const {
    const MemoryScope memory(kind);
    return Tensor::zeros({size}, options_.gradients.value_or(real_dtype(bucket)));
  }
  // to += from, summed in f32 (f64) and rounded once.
  static void accumulate(Tensor& to, const Tensor& from) {
    if (to.dtype() == from.dtype() && bytes_of(to.dtype()) >= 4) return add_into(to, from);
    Tensor sum = from.to(DType::f32);
    add_into(sum, to.to(DType::f32));
    to.copy_from(sum);
  }

  Communicator& comm_;
  ZeroOptions options_;
  std::deque<ZeroBucket> buckets_;  // a deque: callbacks hold addresses of its elements
  size_t launched_ = 0;             // buckets, in this microbatch
  bool has_gradients_ = false;      // that have not been reduced
};

}  // namespace yotta::student
