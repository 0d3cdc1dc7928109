// The bodies of resilience/faults/faults.hpp.
#pragma once

#include "yotta/resilience/faults/faults.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "yotta/core/files/json.hpp"
#include "yotta/core/random.hpp"

namespace yotta {

YOTTA_INLINE std::vector<Fault> FaultPlan::of(int rank) const {
  const auto is_earlier = [](const Fault& a, const Fault& b) { return a.step < b.step; };
  std::vector<Fault> own;
  for (const Fault& each : faults)
    if (each.rank == rank)
      own.insert(std::upper_bound(own.begin(), own.end(), each, is_earlier), each);
  return own;
}

YOTTA_INLINE FaultPlan random_faults(uint64_t seed, int count, int ranks, int64_t first,
                                     int64_t last) {
  const Random random(seed, "faults");
  FaultPlan plan;
  for (int i = 0; i < count; ++i) {
    const auto draw = [&](int what, int64_t n) {
      const auto index = static_cast<uint64_t>(4 * i + what);
      return static_cast<int64_t>(random.below(index, static_cast<uint32_t>(n)));
    };
    plan.faults.push_back({static_cast<int>(draw(0, ranks)), first + draw(1, last - first + 1),
                           static_cast<FaultPhase>(draw(2, fault_phases - 1)), draw(3, 4)});
  }
  return plan;
}

namespace detail {
// An object of a plan: whole numbers and names, and nothing that it does not know.
class FaultObject {
 public:
  FaultObject(const nlohmann::json& json, std::vector<const char*> known) : json_(json) {
    if (!json.is_object()) throw JsonProblem(json_excerpt(json) + " is not an object {...}");
    for (const auto& [key, value] : json.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw JsonProblem(fmt::format("'{}' is none of {}", visible(key), fmt::join(known, ", ")));
  }
  int64_t number(const char* key, int64_t least, int64_t most,
                 std::optional<int64_t> usual = {}) const {
    if (!json_.contains(key) && usual) return *usual;
    if (!json_.contains(key)) throw JsonProblem(fmt::format("'{}' is missing", key));
    const nlohmann::json& value = json_.at(key);
    const bool fits = value.is_number_unsigned() && value.get<uint64_t>() < uint64_t{1} << 62 &&
                      value.get<int64_t>() >= least && value.get<int64_t>() <= most;
    if (!fits)
      throw JsonProblem(fmt::format("{} is {}, expected a whole number from {} to {}", key,
                                    json_excerpt(value), least, most));
    return value.get<int64_t>();
  }
  FaultPhase phase() const {
    std::vector<const char*> names;
    for (int i = 0; i < fault_phases; ++i) {
      const auto phase = static_cast<FaultPhase>(i);
      if (json_.contains("phase") && json_.at("phase") == name(phase)) return phase;
      names.push_back(name(phase));
    }
    throw JsonProblem(
        fmt::format("phase is {}, expected one of {}",
                    json_.contains("phase") ? json_excerpt(json_.at("phase")) : "missing",
                    fmt::join(names, ", ")));
  }

 private:
  const nlohmann::json& json_;
};

inline void add_faults(FaultPlan& plan, const nlohmann::json& list, int ranks, int64_t steps) {
  if (!list.is_array()) throw JsonProblem("'faults' is not a list [...]");
  for (size_t i = 0; i < list.size(); ++i) try {
      const FaultObject each(list[i], {"rank", "step", "phase", "back"});
      plan.faults.push_back({static_cast<int>(each.number("rank", 0, ranks - 1)),
                             each.number("step", 0, steps - 1), each.phase(),
                             each.number("back", 0, steps, 0)});
    } catch (const JsonProblem& problem) {
      throw JsonProblem(fmt::format("faults[{}]: {}", i, problem.what()));
    }
}
inline void add_random(FaultPlan& plan, const nlohmann::json& json, int ranks, int64_t steps) {
  const FaultObject random(json, {"seed", "count", "first", "last"});
  const int64_t first = random.number("first", 0, steps - 1, 0);
  const FaultPlan drawn = random_faults(static_cast<uint64_t>(random.number("seed", 0, 1LL << 53)),
                                        static_cast<int>(random.number("count", 0, 1000)), ranks,
                                        first, random.number("last", first, steps - 1, steps - 1));
  plan.faults.insert(plan.faults.end(), drawn.faults.begin(), drawn.faults.end());
}
}  // namespace detail

YOTTA_INLINE FaultPlan parse_faults(const std::string& text, const std::string& source, int ranks,
                                    int64_t steps, Where where) {
  FaultPlan plan;
  try {
    const nlohmann::json json = parse_json(text);
    const detail::FaultObject whole(json, {"faults", "random"});
    if (json.contains("faults")) detail::add_faults(plan, json.at("faults"), ranks, steps);
    if (json.contains("random")) detail::add_random(plan, json.at("random"), ranks, steps);
  } catch (const JsonProblem& problem) {
    fail(where, "{} is not a fault plan for {} ranks and {} steps: {}", source, ranks, steps,
         problem.what());
  }
  return plan;
}

YOTTA_INLINE void FaultPoint::at(FaultPhase phase) const {
  if (is_due(phase)) die_();
}

namespace detail {
class LayerMidway : public Layer {
 public:
  LayerMidway(std::function<Tensor(const Tensor&)> forward, std::function<void()> backward)
      : Layer("midway"), forward_(std::move(forward)), backward_(std::move(backward)) {}
  Tensor forward(const Tensor& x, Saved& /*saved*/) override { return forward_(x); }
  Tensor backward_input(const Tensor& dy, Saved& /*saved*/) override {
    backward_();
    return dy;
  }
  void backward_weight(Saved& /*saved*/) override {}
  void add_parameters(std::vector<ParameterPtr>& /*to*/) override {}

 private:
  std::function<Tensor(const Tensor&)> forward_;
  std::function<void()> backward_;
};
}  // namespace detail

YOTTA_INLINE std::vector<LayerPtr> with_calls_midway(Layers layers,
                                                     std::function<Tensor(const Tensor&)> forward,
                                                     std::function<void()> backward) {
  const size_t middle = layers.size() / 2;
  std::vector<LayerPtr> all;
  if (middle > 0) all.push_back(std::make_unique<Sequential>(layers.first(middle)));
  all.push_back(std::make_unique<detail::LayerMidway>(std::move(forward), std::move(backward)));
  all.push_back(std::make_unique<Sequential>(layers.subspan(middle)));
  return all;
}

YOTTA_INLINE std::vector<LayerPtr> with_fault(Layers layers, const FaultPoint& point) {
  const auto forward = [&point](const Tensor& x) {
    point.at(FaultPhase::forward);
    return x;
  };
  return with_calls_midway(layers, forward, [&point] { point.at(FaultPhase::backward); });
}

YOTTA_INLINE TrainHooks with_faults(TrainHooks hooks, const FaultPoint& point) {
  hooks.after_backward = [&point, inner = hooks.after_backward] {
    point.at(FaultPhase::collective);
    if (inner) inner();
  };
  hooks.before_step = [&point, inner = hooks.before_step] {
    point.at(FaultPhase::optimizer);
    if (inner) inner();
  };
  if (hooks.run_microbatches)
    hooks.run_microbatches = [&point, inner = hooks.run_microbatches](
                                 const BatchPosition& position, std::span<const Microbatch> batches,
                                 int64_t tokens) {
      point.at(FaultPhase::forward);
      const double loss = inner(position, batches, tokens);
      point.at(FaultPhase::backward);
      return loss;
    };
  return hooks;
}

}  // namespace yotta
