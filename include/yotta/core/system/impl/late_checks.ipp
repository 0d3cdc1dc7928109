// The bodies of core/system/late_checks.hpp.
#pragma once

#include "yotta/core/system/late_checks.hpp"

#include <utility>

namespace yotta {

YOTTA_INLINE LateChecks::OfGraph::~OfGraph() {
  const std::lock_guard lock(all_.mutex_);
  std::erase_if(all_.of_graphs_, [&](const auto& each) { return each.second.graph == this; });
}

YOTTA_INLINE void LateChecks::record(const OfGraph* graph) {
  const std::lock_guard lock(mutex_);
  recorded_ = graph;
}

YOTTA_INLINE int32_t LateChecks::add(Message message, Where where) {
  const std::lock_guard lock(mutex_);
  do added_ = added_ == INT32_MAX ? 1 : added_ + 1;
  while (of_graphs_.contains(added_));
  Check& check =
      recorded_ != nullptr ? of_graphs_[added_] : checks_[static_cast<size_t>(added_) % most];
  check = {added_, std::move(message), where, recorded_};
  return added_;
}

YOTTA_INLINE const LateChecks::Check* LateChecks::find(int32_t number) const {
  if (const auto found = of_graphs_.find(number); found != of_graphs_.end()) return &found->second;
  const Check& check = checks_[static_cast<size_t>(number) % most];
  return check.number == number ? &check : nullptr;
}

YOTTA_INLINE void LateChecks::raise(LateFinding& finding) {
  const std::lock_guard lock(mutex_);  // before the look: another rank may take the same finding
  if (finding.check == 0) return;
  const LateFinding found = std::exchange(finding, {});
  const Check* const check = find(found.check);
  if (check == nullptr)
    fail(Where::current(), "a check on the device found the wrong value {} at {}", found.value,
         found.item);
  fail(check->where, "{}", check->message(found.item, found.value));
}

}  // namespace yotta
