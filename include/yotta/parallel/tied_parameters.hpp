// TiedParameters: weights that several pipeline stages hold, and that must stay equal.
//
//     GPT-2's token table:   stage 0  [ embedding ... ]      stage p-1  [ ... head ]
//     gradients                  g of its tokens       +        g of its logits
//                                └──────────── all_reduce ──────────┘
//
// Both hold the table under the same name. Each computes a part of its gradient, and the sum of the
// parts is what the whole model would have. Then both take the same step. TiedParameters finds out
// by asking which names are held twice.
//
// With FSDP, all stages must shard the table at the same places, or the owners of a part could not
// add up its gradients. So it is a unit of its own, around the unit of its slice's other weights:
//
//     stack     embedding │ layers.0 │ layers.1        layers.2 │ layers.3 │ head     two stages
//     units      table, 0       1          2               0          1      table, 2
//
// Cost: two ranks that hold a table of G bytes send G each, once per step, however many
// microbatches there are.
// Contract: all ranks of the communicator construct it, and call reduce() after the last backward
// of a step. The values become those of the lowest rank that holds them. Parameter::copies is
// raised, so that norms count them once.
// Reference: Narayanan et al. (2021), Megatron-LM: the "embedding group".
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/parallel/fsdp_plan.hpp"

namespace yotta {

namespace detail {

inline int64_t name_hash(const Parameter& each) {
  return static_cast<int64_t>(hash_name(each.name) >> 1);
}

// Hashes of the names that occur twice, in an order on which all ranks agree.
inline std::vector<int64_t> names_held_twice(const std::vector<ParameterPtr>& held,
                                             const Communicator& comm) {
  std::vector<int64_t> all;
  for (const ParameterPtr& each : held) all.push_back(name_hash(*each));
  if (axis_size(comm) > 1) {
    std::vector<int64_t> most = {std::ssize(held)};
    comm.all_reduce(most, ReduceOp::max, {.label = "tied.names"});
    std::vector<int64_t> mine(static_cast<size_t>(most[0]), -1);
    std::copy(all.begin(), all.end(), mine.begin());
    all.resize(mine.size() * static_cast<size_t>(comm.size()));
    comm.all_gather(all, mine, {.label = "tied.names"});
  }
  std::set<int64_t> once, twice;
  for (const int64_t name : all)
    if (name >= 0 && !once.insert(name).second) twice.insert(name);
  return {twice.begin(), twice.end()};
}

}  // namespace detail

class TiedParameters {
 public:
  TiedParameters(const std::vector<ParameterPtr>& held, const Communicator& comm) {
    for (const int64_t name : detail::names_held_twice(held, comm)) {
      Tied tied;
      for (const ParameterPtr& each : held)
        if (detail::name_hash(*each) == name) tied.here.push_back(each);
      if (axis_size(comm) > 1) tied.holders = comm.split(tied.here.empty() ? -1 : 0, comm.rank());
      if (!tied.here.empty()) tie(std::move(tied));
    }
  }

  // Makes each gradient the sum of all its parts, on every rank that holds it.
  void reduce() {
    for (Tied& tied : all_) {
      Tensor& sum = tied.here.front()->gradient();
      for (size_t i = 1; i < tied.here.size(); ++i) add_into(sum, tied.here[i]->gradient());
      if (axis_size(tied.holders) > 1)
        tied.holders.all_reduce(sum, ReduceOp::sum, {.label = "tied.gradients"});
      for (size_t i = 1; i < tied.here.size(); ++i) tied.here[i]->gradient().copy_from(sum);
    }
  }

  int64_t size() const { return std::ssize(all_); }

 private:
  struct Tied {
    std::vector<ParameterPtr> here;  // usually one; two if one rank holds both stages
    Communicator holders;            // empty if there is only this rank
  };
  void tie(Tied tied) {
    std::vector<int64_t> copies = {std::ssize(tied.here)};
    Tensor& value = tied.here.front()->value;
    if (axis_size(tied.holders) > 1) {
      tied.holders.all_reduce(copies, ReduceOp::sum, {.label = "tied.names"});
      tied.holders.broadcast(value, 0, {.label = "tied.values"});
    }
    for (const ParameterPtr& each : tied.here) {
      each->copies *= static_cast<int>(copies[0]);
      if (each != tied.here.front()) each->value.copy_from(value);
    }
    all_.push_back(std::move(tied));
  }

  std::deque<Tied> all_;
};

// The plan with the parameters of these names in units of their own: what is left of their slices'
// units goes inside. A unit of nothing else stays as it is.
inline FsdpPlan with_own_units(FsdpPlan plan, const std::set<std::string>& names) {
  const std::vector<std::vector<ParameterPtr>> before = std::exchange(plan.parameters, {});
  std::vector<FsdpPlan::Slice> slices = plan.slices;
  for (size_t unit = 0; unit < before.size(); ++unit) {
    std::vector<ParameterPtr> own, named;
    for (const ParameterPtr& each : before[unit])
      (names.contains(each->name) ? named : own).push_back(each);
    if (own.empty()) own.swap(named);
    for (size_t i = 0; i < slices.size(); ++i) {
      if (plan.slices[i].unit != unit) continue;
      slices[i].unit = plan.parameters.size();
      if (!named.empty()) slices[i].outer = plan.parameters.size() + 1;
    }
    plan.parameters.push_back(std::move(own));
    if (!named.empty()) plan.parameters.push_back(std::move(named));
  }
  plan.slices = std::move(slices);
  return plan;
}

}  // namespace yotta
