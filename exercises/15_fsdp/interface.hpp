// What the graded cases of exercise 15 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/parallel/flat_shard.hpp"
#include "yotta/parallel/fsdp_plan.hpp"

namespace exercise {

struct FsdpChoices {
  bool prefetch = true;
  bool keep_last = false;
  std::optional<yotta::DType> gathered = {};
};

// A solution's class FsdpUnit.
class AnyUnit {
 public:
  virtual ~AnyUnit() = default;
  virtual const std::vector<yotta::ParameterShard>& shards() const = 0;
  virtual bool is_gathered() const = 0;
  virtual void prefetch() = 0;
  virtual void unshard() = 0;
  virtual void reshard() = 0;
  virtual void open_gradients() = 0;
  virtual void reduce() = 0;
  virtual void finish_reduce() = 0;
};

// A solution's class Fsdp.
class AnyFsdp {
 public:
  virtual ~AnyFsdp() = default;
  virtual yotta::Layers stack() const = 0;
  virtual void finish() = 0;
  virtual std::vector<AnyUnit*> units() = 0;
};

struct Solution {
  Call<std::unique_ptr<AnyUnit>(const std::vector<yotta::ParameterPtr>& parameters,
                                yotta::Communicator& comm, std::optional<yotta::DType> gathered)>
      make_unit;
  // One unit per layer.
  Call<std::unique_ptr<AnyFsdp>(yotta::Layers model, yotta::Communicator& comm,
                                FsdpChoices choices)>
      make_fsdp;
};
extern const Solution solution;

}  // namespace exercise
