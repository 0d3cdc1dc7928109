// The ledger: what one rank has computed, moved, sent and held. Costs are counted, never estimated,
// so that a formula such as "a ring all_reduce sends 2(p-1)/p n bytes" is a test and not a remark.
//
//     ops      by name:   calls, FLOPs, bytes read, bytes written   charged once, on entry to an op
//     traffic  by label:  messages and bytes, sent and received    charged by the communicator
//     memory   by kind:   bytes live now and at the peak           charged by tensors
//
// A ledger belongs to one rank and is written by that rank's thread. Only memory may be given back
// by another thread (a tensor can outlive its rank), so those counters are atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "yotta/core/dtype.hpp"

namespace yotta {

// What one operation costs: the roofline's three numbers, and the type it computes in.
struct OpCost {
  const char* name;
  DType dtype;
  double flops;
  double bytes_read;
  double bytes_written;
};

struct OpCount {
  int64_t calls = 0;
  double flops = 0, bytes_read = 0, bytes_written = 0;
};

struct Traffic {
  int64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;

  Traffic& operator+=(const Traffic& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    return *this;
  }
};

// What memory is held for, in the words of the ZeRO paper; buffers is everything else.
enum class MemoryKind : uint8_t { parameters, gradients, optimizer, activations, buffers };
inline constexpr int memory_kinds = 5;
constexpr const char* name(MemoryKind kind) {
  constexpr const char* names[] = {"parameters", "gradients", "optimizer", "activations",
                                   "buffers"};
  return names[static_cast<int>(kind)];
}

// Live and peak bytes by kind, and the peak of their sum (which is not the sum of the peaks).
class MemoryCount {
 public:
  void add(MemoryKind kind, int64_t bytes);
  void remove(MemoryKind kind, int64_t bytes);
  int64_t live(MemoryKind kind) const { return slots_[static_cast<size_t>(kind)].live; }
  int64_t peak(MemoryKind kind) const { return slots_[static_cast<size_t>(kind)].peak; }
  int64_t live() const { return total_.live; }
  int64_t peak() const { return total_.peak; }

  // Counts of another process: live and peak of each kind, and the peak of their sum.
  void assign(std::span<const int64_t> live, std::span<const int64_t> peaks, int64_t peak);

  // Forget the past: the peaks become what is live now.
  void reset_peaks();

 private:
  struct Slot {
    std::atomic<int64_t> live = 0, peak = 0;
  };
  static void raise(std::atomic<int64_t>& peak, int64_t value);
  std::array<Slot, memory_kinds> slots_;
  Slot total_;
};

class Ledger {
 public:
  void charge(const OpCost& cost);
  void sent(std::string_view label, int64_t messages, int64_t bytes);
  void received(std::string_view label, int64_t messages, int64_t bytes);

  // What another process has counted, beside what is here.
  void charged(std::string_view name, const OpCount& more);

  // Everything counted, by name; an empty count for a name never seen.
  const std::map<std::string, OpCount, std::less<>>& ops() const { return ops_; }
  const std::map<std::string, Traffic, std::less<>>& traffic() const { return traffic_; }
  OpCount op(std::string_view name) const;
  Traffic traffic(std::string_view label) const;

  Traffic total_traffic() const;
  double total_flops() const;

  // Shared with the tensors that were counted here, which may outlive the ledger.
  const std::shared_ptr<MemoryCount>& memory() const { return memory_; }

  // Start counting again: ops and traffic from zero, memory peaks from what is live.
  void reset();

 private:
  void add(std::string_view label, const Traffic& traffic);

  std::map<std::string, OpCount, std::less<>> ops_;
  std::map<std::string, Traffic, std::less<>> traffic_;
  std::shared_ptr<MemoryCount> memory_ = std::make_shared<MemoryCount>();
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/ledger.ipp"
#endif
