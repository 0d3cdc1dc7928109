// What the graded cases of exercise 16 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/fsdp_cost.hpp"

namespace exercise {

// A solution's class Hsdp.
class AnyHsdp {
 public:
  virtual ~AnyHsdp() = default;
  virtual yotta::Layers stack() const = 0;
  virtual const std::deque<yotta::FsdpUnit>& units() = 0;
  virtual void before_microbatch(bool last) = 0;
  virtual void finish() = 0;
  virtual int launched() const = 0;
};

// A solution's HsdpRanks.
struct Ranks {
  yotta::Communicator group, replicas;
};

struct Solution {
  // Inside the group, between groups.
  Call<std::pair<int64_t, int64_t>(int64_t p, int64_t R, int64_t parameters, int64_t microbatches)>
      elements_sent;
  Call<int(int ranks, int64_t parameters, int64_t room)> smallest_group;
  Call<Ranks(const yotta::Communicator& world, int p)> ranks;
  Call<void(yotta::Fsdp& group, const yotta::Communicator& replicas)> reduce_over_replicas;
  Call<std::deque<yotta::Bucket>(const std::deque<yotta::FsdpUnit>& units)> shard_buckets;
  // Inside the group all collectives are rings.
  Call<std::unique_ptr<AnyHsdp>(yotta::Layers model, const Ranks& ranks, yotta::Algorithm between)>
      make;
};
extern const Solution solution;

}  // namespace exercise
