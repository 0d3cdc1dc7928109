// What the graded cases of exercise 14 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace exercise {

// What a bucket holds; undefined tensors are not held.
struct BucketView {
  yotta::Tensor weights, mine, gradients, sum, arriving;
};

// A solution's class Zero.
class AnyZero {
 public:
  virtual ~AnyZero() = default;
  virtual std::vector<yotta::ParameterPtr> shards() const = 0;
  virtual std::vector<yotta::ParameterShard> parameter_shards() const = 0;
  virtual std::vector<BucketView> buckets() const = 0;
  virtual void flush() = 0;
  virtual void finish() = 0;
  virtual void gather() = 0;
};

struct Solution {
  Call<int64_t(int stage, int64_t ranks, int64_t parameters, int64_t weights, int64_t gradients,
               int64_t optimizer)>
      bytes_held;
  Call<std::unique_ptr<AnyZero>(const std::vector<yotta::ParameterPtr>& parameters,
                                yotta::Communicator& comm, int stage, int64_t bucket_bytes)>
      make_zero;
};
extern const Solution solution;

}  // namespace exercise
