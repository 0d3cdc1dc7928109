// ZeRO, stages 1 and 2: data parallelism in which each rank steps only its shard of the weights.
//
// After DDP's all_reduce every rank holds every gradient and takes the same step on every weight, p
// times over, each with an optimizer state of its own. But each weight needs only one rank's step:
//
//     rank 0              rank 1              rank 2              rank 3
//     [w w w w]           [w w w w]           [w w w w]           [w w w w]    weights: all
//     [g g g g]           [g g g g]           [g g g g]           [g g g g]    gradients: stage 1
//     [g . . .]           [. g . .]           [. . g .]           [. . . g]               stage 2
//     [s . . .]           [. s . .]           [. . s .]           [. . . s]    optimizer state
//
//     backward            gradients of this rank's tokens
//     reduce_scatter      the sum of each quarter to the rank that steps it
//     step                each rank its quarter
//     all_gather          the new weights for everyone
//
// An all_reduce is a reduce_scatter and an all_gather, so this sends what DDP does; it only steps
// in between. Stage 1 keeps all gradients until backward has ended. Stage 2 sends a bucket when its
// last gradient is ready, and keeps its shard of the sum. Stage 3, fsdp.hpp, shards weights too.
//
// Cost, for N parameters on p ranks: 2 N (p-1)/p elements sent per rank and step (stage 2: N
// (p-1)/p more for each further microbatch). Bytes held per parameter, with bf16 weights and
// gradients and AdamW's f32 master, m and v:
//
//     DDP 2 + 2 + 12      stage 1   2 + 2 + 12/p      stage 2   2 + (2 + 12)/p      stage 3   16/p
//
// Contract: the optimizer is made from shards(). Around the trainer's step come flush() before each
// microbatch, finish() after backward, and gather() after the optimizer's step.
// Reference: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", SC 2020: sections 5 (stages), 7 (communication), table 1.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace yotta {

struct ZeroOptions {
  int stage = 1;                        // 1 or 2
  int64_t bucket_bytes = 25 << 20;      // as DdpOptions
  std::optional<DType> gradients = {};  // kept and summed in it: bf16 as the paper; none: f32
  // Names of parameters that get a bucket each: those that other pipeline stages hold too, so that
  // all stages shard them alike (tied_parameters.hpp).
  std::set<std::string> apart = {};
};

// Bytes of each kind that training holds for one parameter.
struct StateBytes {
  int64_t weights, gradients, optimizer;
};
inline constexpr StateBytes zero_paper_bytes = {2, 2, 12};  // bf16, bf16; f32 master, m, v
inline constexpr StateBytes f32_bytes = {4, 4, 8};          // f32, f32; m, v

// Bytes that a rank holds for N parameters, a multiple of `ranks`. Stage 0 is DDP.
constexpr int64_t zero_bytes_held(int stage, int64_t ranks, int64_t N, StateBytes bytes) {
  int64_t held = 0;
  held += bytes.weights * (stage >= 3 ? N / ranks : N);
  held += bytes.gradients * (stage >= 2 ? N / ranks : N);
  held += bytes.optimizer * (stage >= 1 ? N / ranks : N);
  return held;
}

// Elements that a rank sends in one step of DDP or of stage 1 or 2, for N parameters with padding.
constexpr int64_t zero_elements_sent(int64_t ranks, int64_t N) {
  return 2 * N / ranks * (ranks - 1);
}

// Parameters that travel together: n numbers with padding.
struct ZeroBucket {
  ZeroBucket(const std::vector<ParameterPtr>& parameters, int ranks) : layout(parameters, ranks) {}

  FlatLayout layout;
  Tensor weights;                      // (n): the parameters' values are views of it
  Tensor mine;                         // (n/p): this rank's part of it, a view
  std::vector<ParameterShard> shards;  // of that part: what the optimizer steps
  Tensor gradients;  // (n): stage 1 always, stage 2 from the first gradient until it is sent
  Tensor sum;        // (n/p): stage 2 always, stage 1 from finish() to gather()
  Tensor arriving;   // (n/p): this rank's part of a microbatch's sum, on its way
};

namespace detail {

// The type in which layers make gradients and optimizers read them.
inline DType gradient_dtype(const FlatLayout& layout) { return computed(layout.dtype()); }

// to += from, summed in f32 (f64) and rounded once.
inline void accumulate(Tensor& to, const Tensor& from) {
  if (to.dtype() == from.dtype() && bytes_of(to.dtype()) >= 4) return add_into(to, from);
  const MemoryScope memory(MemoryKind::buffers);
  Tensor sum = to.to(DType::f32);
  add_into(sum, as_type(from, DType::f32));
  to.copy_from(sum);
}

}  // namespace detail

class Zero {
 public:
  Zero(const std::vector<ParameterPtr>& parameters, const Communicator& comm,
       ZeroOptions options = {}, Where where = Where::current())
      : comm_(comm),
        options_(std::move(options)),
        sums_(cut(parameters, options_),
              [this](Bucket&) { return launch(static_cast<size_t>(sums_.launched())); }) {
    if (options_.stage != 1 && options_.stage != 2)
      fail(where, "ZeRO stage {}: stages 1 and 2 are here, stage 3 is Fsdp, none is Ddp",
           options_.stage);
    sums_.set_syncing(options_.stage == 2);  // stage 1 launches nothing before finish()
    for (const Bucket& bucket : sums_.all()) {
      const size_t i = buckets_.size();
      own(buckets_.emplace_back(bucket.parameters, comm_.size()));
      for (const FlatRange& range : buckets_[i].layout.ranges())
        range.parameter->on_grad_ready = [this, i, range](Parameter&) { collect(i, range); };
    }
  }
  ~Zero() {
    for (const ZeroBucket& bucket : buckets_)
      for (const FlatRange& range : bucket.layout.ranges())
        range.parameter->on_grad_ready = nullptr;
  }
  Zero(const Zero&) = delete;
  Zero& operator=(const Zero&) = delete;

  // What this rank's optimizer steps.
  std::vector<ParameterPtr> shards() const {
    std::vector<ParameterPtr> all;
    for (const ZeroBucket& bucket : buckets_)
      for (const ParameterShard& shard : bucket.shards) all.push_back(shard.parameter);
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
      const DType dtype = detail::gradient_dtype(bucket.layout);
      const Tensor sum = bucket.sum.dtype() == dtype ? bucket.sum : bucket.sum.to(dtype);
      int64_t begin = 0;
      for (const ParameterShard& shard : bucket.shards) {
        const int64_t end = begin + shard.parameter->value.numel();
        shard.parameter->grad = sum.rows(begin, end);
        begin = end;
      }
    }
  }

  // Over all ranks. (The trainer's own sum is 0: the layers' gradients are gone by then.)
  double sum_of_squares() const {
    return sum_over(comm_, yotta::sum_of_squares(shards()), "zero.norm");
  }

  // After the optimizer's step: all ranks get all new weights; gradients start from zero.
  void gather() {
    for (ZeroBucket& bucket : buckets_) {
      comm_.all_gather(bucket.weights, bucket.mine, {.label = "zero.weights"});
      for (const ParameterShard& shard : bucket.shards) shard.parameter->grad = {};
      bucket.sum = {};
      if (options_.stage == 1)
        bucket.gradients.zero();
      else
        bucket.sum = zero_gradients(bucket, bucket.layout.shard_size(), MemoryKind::gradients);
    }
  }

 private:
  // DDP's buckets, but each parameter that is apart alone.
  static std::deque<Bucket> cut(Parameters parameters, const ZeroOptions& options) {
    std::deque<Bucket> all;
    const auto add = [&](size_t begin, size_t end) {
      for (Bucket& each :
           cut_into_buckets(parameters.subspan(begin, end - begin), options.bucket_bytes))
        all.push_back(std::move(each));
    };
    size_t end = parameters.size();
    for (size_t i = end; i-- > 0;) {
      if (!options.apart.contains(parameters[i]->name)) continue;
      add(i + 1, end);
      add(i, i + 1);
      end = i;
    }
    add(0, end);
    return all;
  }

  // The weights as one flat array, and which part of it is this rank's to step.
  void own(ZeroBucket& bucket) const {
    const int64_t n = bucket.layout.size(), part = bucket.layout.shard_size();
    bucket.weights = bucket.layout.copy_part(0, n);
    bucket.layout.set_values(bucket.weights);
    const int64_t begin = comm_.rank() * part;
    bucket.mine = bucket.weights.rows(begin, begin + part);
    bucket.shards = bucket.layout.cut_shards(bucket.mine, begin);
    if (options_.stage == 1)
      bucket.gradients = zero_gradients(bucket, n, MemoryKind::gradients);
    else
      bucket.sum = zero_gradients(bucket, part, MemoryKind::gradients);
  }

  // A layer's gradient is ready: it is added to its bucket's and freed. Stage 2 sends what is full.
  void collect(size_t i, const FlatRange& range) {
    if (options_.stage == 2 && sums_.all()[i].missing == 0)
      fail(Where::current(), "{} became final twice: call flush() before each microbatch",
           range.parameter->name);
    has_gradients_ = true;
    add_gradient(i, range);
  }
  void add_gradient(size_t i, const FlatRange& range) {
    ZeroBucket& bucket = buckets_[i];
    open(bucket);
    Tensor to = bucket.gradients.rows(range.begin, range.end).reshape(range.shape);
    detail::accumulate(to, std::exchange(range.parameter->grad, {}));
    sums_.on_gradient_ready(sums_.all()[i]);
  }

  // One bucket is on its way at a time.
  Work launch(size_t i) {
    ZeroBucket& bucket = buckets_[i];
    if (i > 0) settle(i - 1);
    open(bucket);
    bucket.arriving = zero_gradients(bucket, bucket.layout.shard_size(), MemoryKind::buffers);
    return comm_.reduce_scatter_async(bucket.arriving, bucket.gradients, ReduceOp::sum,
                                      {.label = "zero.gradients"});
  }

  // Waits for a bucket, and adds what arrives to the sum of the microbatches before.
  void settle(size_t i) {
    ZeroBucket& bucket = buckets_[i];
    sums_.all()[i].work.wait();
    if (bucket.sum.defined())
      detail::accumulate(bucket.sum, bucket.arriving);
    else
      bucket.sum = bucket.arriving;
    bucket.arriving = {};
    if (options_.stage == 2) bucket.gradients = {};
  }
  void reduce_all() {
    sums_.finish();
    if (!buckets_.empty()) settle(buckets_.size() - 1);
    has_gradients_ = false;
  }
  void open(ZeroBucket& bucket) const {
    if (!bucket.gradients.defined())
      bucket.gradients = zero_gradients(bucket, bucket.layout.size(), MemoryKind::buffers);
  }
  Tensor zero_gradients(const ZeroBucket& bucket, int64_t size, MemoryKind kind) const {
    const MemoryScope memory(kind);
    return Tensor::zeros({size},
                         options_.gradients.value_or(detail::gradient_dtype(bucket.layout)));
  }

  Communicator comm_;
  ZeroOptions options_;
  GradientBuckets sums_;            // which gradients are ready, and what has left
  std::deque<ZeroBucket> buckets_;  // the same buckets: what is held of them
  bool has_gradients_ = false;      // that have not been reduced
};

}  // namespace yotta
