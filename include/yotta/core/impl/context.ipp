// The bodies of context.hpp.
#pragma once

#include "yotta/core/context.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace yotta {

YOTTA_INLINE RankContext::RankContext()
    : threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

namespace detail {
// A plain pointer: thread_local objects with destructors do not survive clang-repl.
YOTTA_THREAD_LOCAL RankContext* current_context = nullptr;
}  // namespace detail

YOTTA_INLINE RankContext& context() {
  static auto* default_context =
      new RankContext;  // never destroyed: clang-repl unloads its code first
  return detail::current_context != nullptr ? *detail::current_context : *default_context;
}
YOTTA_INLINE RankContext* set_context(RankContext* context) {
  return std::exchange(detail::current_context, context);
}

YOTTA_INLINE void charge(const OpCost& cost) {
  RankContext& self = context();
  self.ledger.charge(cost);
  if (self.clock != nullptr) self.clock->op(cost);
}

YOTTA_INLINE std::string_view kept(std::string_view text) {
  static std::mutex mutex;
  static auto* texts = new std::set<std::string, std::less<>>;  // never destroyed
  const std::lock_guard lock(mutex);
  const auto found = texts->find(text);
  return found != texts->end() ? *found : *texts->emplace(text).first;
}

}  // namespace yotta
