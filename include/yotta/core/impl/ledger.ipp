// The bodies of core/ledger.hpp.
#pragma once

#include "yotta/core/ledger.hpp"

namespace yotta {

YOTTA_INLINE void MemoryCount::add(MemoryKind kind, int64_t bytes) {
  Slot& slot = slots_[static_cast<size_t>(kind)];
  raise(slot.peak, slot.live += bytes);
  raise(total_.peak, total_.live += bytes);
}

YOTTA_INLINE void MemoryCount::remove(MemoryKind kind, int64_t bytes) {
  slots_[static_cast<size_t>(kind)].live -= bytes;
  total_.live -= bytes;
}

YOTTA_INLINE void MemoryCount::assign(std::span<const int64_t> live, std::span<const int64_t> peaks,
                                      int64_t peak) {
  total_.live = 0;
  for (size_t kind = 0; kind < slots_.size(); ++kind) {
    slots_[kind].live = live[kind];
    slots_[kind].peak = peaks[kind];
    total_.live += live[kind];
  }
  total_.peak = peak;
}

YOTTA_INLINE void MemoryCount::reset_peaks() {
  for (Slot& slot : slots_) slot.peak = slot.live.load();
  total_.peak = total_.live.load();
}

YOTTA_INLINE void MemoryCount::raise(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak;
  while (seen < value && !peak.compare_exchange_weak(seen, value)) {
  }
}

YOTTA_INLINE void Ledger::charge(const OpCost& cost) {
  OpCount& count = ops_[cost.name];
  ++count.calls;
  count.flops += cost.flops;
  count.bytes_read += cost.bytes_read;
  count.bytes_written += cost.bytes_written;
}

YOTTA_INLINE void Ledger::sent(std::string_view label, int64_t messages, int64_t bytes) {
  add(label, {messages, bytes, 0, 0});
}

YOTTA_INLINE void Ledger::received(std::string_view label, int64_t messages, int64_t bytes) {
  add(label, {0, 0, messages, bytes});
}

YOTTA_INLINE void Ledger::charged(std::string_view name, const OpCount& more) {
  OpCount& count = ops_[std::string(name)];
  count.calls += more.calls;
  count.flops += more.flops;
  count.bytes_read += more.bytes_read;
  count.bytes_written += more.bytes_written;
}

YOTTA_INLINE OpCount Ledger::op(std::string_view name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? OpCount{} : found->second;
}

YOTTA_INLINE Traffic Ledger::traffic(std::string_view label) const {
  const auto found = traffic_.find(label);
  return found == traffic_.end() ? Traffic{} : found->second;
}

YOTTA_INLINE Traffic Ledger::total_traffic() const {
  Traffic total;
  for (const auto& [label, traffic] : traffic_) total += traffic;
  return total;
}

YOTTA_INLINE double Ledger::total_flops() const {
  double total = 0;
  for (const auto& [name, count] : ops_) total += count.flops;
  return total;
}

YOTTA_INLINE void Ledger::reset() {
  ops_.clear();
  traffic_.clear();
  memory_->reset_peaks();
}

YOTTA_INLINE void Ledger::add(std::string_view label, const Traffic& traffic) {
  const auto found = traffic_.find(label);
  (found != traffic_.end() ? found->second : traffic_[std::string(label)]) += traffic;
}

}  // namespace yotta
