// What the graded cases of exercise 13 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/parameter.hpp"

namespace exercise {

using ParameterPtrs = std::vector<yotta::ParameterPtr>;

struct BucketView {
  yotta::Tensor flat;
  ParameterPtrs parameters;
};

// A solution's class Ddp.
class AnyDdp {
 public:
  virtual ~AnyDdp() = default;
  virtual void finish() = 0;
  virtual int buckets() const = 0;
  virtual int launched() const = 0;
  virtual std::shared_ptr<void> no_sync() = 0;  // until it is destroyed
};

struct Solution {
  Call<std::pair<int64_t, int64_t>(int64_t batch, int ranks, int rank)> batch_shard;
  Call<void(std::span<const yotta::ParameterPtr> parameters, const yotta::Communicator& comm,
            yotta::ReduceOp op)>
      reduce_gradients;
  Call<std::vector<ParameterPtrs>(std::span<const yotta::ParameterPtr> parameters,
                                  int64_t bucket_bytes)>
      cut_into_buckets;
  Call<std::vector<BucketView>(std::span<const yotta::ParameterPtr> parameters,
                               int64_t bucket_bytes)>
      make_buckets;
  Call<std::unique_ptr<AnyDdp>(ParameterPtrs parameters, const yotta::Communicator& comm,
                               int64_t bucket_bytes, yotta::ReduceOp op, bool overlap)>
      make_ddp;
};
extern const Solution solution;

}  // namespace exercise
