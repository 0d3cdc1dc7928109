// What the graded cases of exercise 16 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

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
  std::pair<int64_t, int64_t> (*elements_sent)(int64_t p, int64_t R, int64_t parameters,
                                               int64_t microbatches);
  int (*smallest_group)(int ranks, int64_t parameters, int64_t room);
  Ranks (*ranks)(const yotta::Communicator& world, int p);
  void (*reduce_over_replicas)(yotta::Fsdp& group, const yotta::Communicator& replicas);
  std::deque<yotta::Bucket> (*shard_buckets)(const std::deque<yotta::FsdpUnit>& units);
  // Inside the group all collectives are rings.
  std::unique_ptr<AnyHsdp> (*make)(yotta::Layers model, const Ranks& ranks,
                                   yotta::Algorithm between);
};
extern const Solution solution;

}  // namespace exercise
