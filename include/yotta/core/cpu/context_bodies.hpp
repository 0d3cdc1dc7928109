// The bodies of context.hpp.
#pragma once

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "yotta/core/context.hpp"

namespace yotta {

RankContext::RankContext()
    : threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

namespace detail {
// A plain pointer: thread_local objects with destructors do not survive clang-repl.
YOTTA_THREAD_LOCAL RankContext* current_context = nullptr;
}  // namespace detail

RankContext& context() {
  static auto* default_context =
      new RankContext;  // never destroyed: clang-repl unloads its code first
  return detail::current_context != nullptr ? *detail::current_context : *default_context;
}
RankContext* set_context(RankContext* context) {
  return std::exchange(detail::current_context, context);
}

void charge(const OpCost& cost) {
  RankContext& self = context();
  self.ledger.charge(cost);
  if (self.clock != nullptr) self.clock->op(cost);
}

std::string_view kept(std::string_view text) {
  static std::mutex mutex;
  static auto* texts = new std::set<std::string, std::less<>>;  // never destroyed
  const std::lock_guard lock(mutex);
  const auto found = texts->find(text);
  return found != texts->end() ? *found : *texts->emplace(text).first;
}

}  // namespace yotta
