// The rank context: what the code running on this thread may take for granted.
//
//     thread of rank 0        thread of rank 1             main thread, no ranks
//     ┌──────────────┐        ┌──────────────┐             ┌──────────────────┐
//     │ RankContext  │        │ RankContext  │             │ default context  │
//     │  rank 0 of 2 │        │  rank 1 of 2 │             │  rank 0 of 1     │
//     │  ledger      │        │  ledger      │             │  ledger          │
//     │  clock?      │        │  clock?      │             │                  │
//     └──────────────┘        └──────────────┘             └──────────────────┘
//
// Ops charge their cost here once, on entry, on the rank's own thread: to the ledger always, and to
// a clock if a machine is described. core/ knows the clock only as a CostSink.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "yotta/core/ledger.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

// What can happen side by side on one rank has lanes: 0 computes. Those above are one per peer and
// direction; those below are one per communicator, for its collectives.
inline constexpr int compute_lane = 0;
constexpr int message_lane(int peer, bool receives) { return 1 + 2 * peer + (receives ? 1 : 0); }

// What a training step computes. A clock notes it with every op.
//
//     forward                          F
//     backward_input, backward_weight  I and W: dgrad and wgrad (nn/layer.hpp)
//     recompute                        F within a backward pass, of what was dropped
//     optimizer                        the norm of the gradients, and the new weights
enum class Phase : uint8_t { none, forward, backward_input, backward_weight, recompute, optimizer };
constexpr const char* name(Phase phase) {
  constexpr const char* names[] = {"",          "forward",  "backward_input", "backward_weight",
                                   "recompute", "optimizer"};
  return names[static_cast<int>(phase)];
}

// What a message is a part of. `collective` is every other one: reduce, gather, barrier, split, the
// user's own.
enum class Communication : uint8_t {
  none,
  message,
  broadcast,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  collective
};
constexpr const char* name(Communication kind) {
  constexpr const char* names[] = {"",           "send, recv",      "broadcast",
                                   "all_reduce", "reduce_scatter",  "all_gather",
                                   "all_to_all", "other collective"};
  return names[static_cast<int>(kind)];
}

// One message between two ranks as a clock sees it.
struct MessageCost {
  int peer;  // rank in the world, or a number of the sink's own
  int64_t bytes;
  int lane;
  std::string_view label;              // as in the ledger
  std::string_view communicator = {};  // its name, kept: "world", "tp"
  Communication communication = Communication::none;
};

// The same text, kept until the program ends: for names that events and messages refer to.
std::string_view kept(std::string_view text);

// A time span of a run, in seconds since its start, and the event that took it. A message carries
// one.
struct EventStamp {
  double begin = 0, end = 0;
  int rank = -1, event = -1;  // -1: none

  bool operator==(const EventStamp&) const = default;
};

// A message that has come, and when it travelled.
struct Arrival {
  MessageCost message;
  EventStamp travel;
};

// What a group of ranks sees of a described cluster (machine/group_network.hpp).
struct GroupNetwork;

// Turns costs into time.
class CostSink {
 public:
  virtual ~CostSink() = default;
  virtual void op(const OpCost& cost) = 0;                  // on the compute lane
  virtual EventStamp send(const MessageCost& message) = 0;  // when it travels
  virtual void receive(const MessageCost& message,
                       const EventStamp& travel) = 0;  // its lane goes on after
  // Messages of one lane that were received at once, all of them: the lane goes on after the last.
  virtual void receive_all(std::span<const Arrival> arrivals) {
    for (const auto& [message, travel] : arrivals) receive(message, travel);
  }
  virtual EventStamp now(int lane) = 0;  // how far a lane has come, and by what
  virtual void wait(int lane,
                    const EventStamp& done) = 0;  // a lane does nothing before that has ended
  // May this rank stand for those at these chips?
  virtual void mirror(std::span<const int> /*chips*/, Where) {}
  // What the ranks of a group, given as MessageCost::peer, see of the machine; null: none is
  // described.
  virtual std::shared_ptr<const GroupNetwork> network(std::span<const int> /*peers*/) {
    return nullptr;
  }
  // Bytes were added to others, on this lane.
  virtual void reduce(int /*lane*/, int64_t /*bytes*/) {}
  // True: its times are those of a described machine. False: those of this computer, where
  // Work::done() has an answer.
  virtual bool is_virtual() const { return true; }
};

// cpu computes; meta has shapes and costs but no data, so a model of any size fits.
enum class Device : uint8_t { cpu, meta, cuda };
constexpr const char* name(Device device) {
  constexpr const char* names[] = {"cpu", "meta", "cuda"};
  return names[static_cast<int>(device)];
}

inline namespace YOTTA_FORM {

struct RankContext {
  int rank = 0;  // in the world
  int size = 1;
  int threads;                                       // in this rank; at first one per core
  Device device = Device::cpu;                       // where new tensors live
  MemoryKind memory_kind = MemoryKind::activations;  // what new tensors are counted as
  Ledger ledger;
  CostSink* clock = nullptr;
  int lane = compute_lane;    // of the clock: where the code that runs now is charged
  Phase phase = Phase::none;  // of the step that computes now
  int64_t step = -1;          // its number; -1: none

  RankContext();
};

}  // namespace YOTTA_FORM

// The context of the rank that runs on this thread.
RankContext& context();

// Sets it; null: the thread's default. Returns what it was, null for the default.
RankContext* set_context(RankContext* context);

// Makes a context current on this thread for as long as it lives.
class ContextScope {
 public:
  explicit ContextScope(RankContext& context) : before_(set_context(&context)) {}
  ~ContextScope() { set_context(before_); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  RankContext* before_;
};

// New tensors are counted as `kind`, or live on `device`, until the end of the scope.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryKind kind) : before_(context().memory_kind) {
    context().memory_kind = kind;
  }
  ~MemoryScope() { context().memory_kind = before_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryKind before_;
};

class DeviceScope {
 public:
  explicit DeviceScope(Device device) : before_(context().device) { context().device = device; }
  ~DeviceScope() { context().device = before_; }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device before_;
};

// What runs until the end of the scope is charged to this lane of the clock.
class LaneScope {
 public:
  explicit LaneScope(int lane) : before_(context().lane) { context().lane = lane; }
  ~LaneScope() { context().lane = before_; }
  LaneScope(const LaneScope&) = delete;
  LaneScope& operator=(const LaneScope&) = delete;

 private:
  int before_;
};

// What is computed until the end of the scope is of this phase; a forward pass within a backward
// pass is recomputation.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase) : before_(context().phase) {
    const bool again = phase == Phase::forward && before_ != Phase::none && before_ != phase;
    context().phase = again ? Phase::recompute : phase;
  }
  ~PhaseScope() { context().phase = before_; }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase before_;
};

// What is computed until the end of the scope is of this training step: 0, 1, 2, ...
class StepScope {
 public:
  explicit StepScope(int64_t step) : before_(std::exchange(context().step, step)) {}
  ~StepScope() { context().step = before_; }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  int64_t before_;
};

// Charge an operation to this rank: charge({"gelu", DType::f32, 8.0 * n, 4.0 * n, 4.0 * n}).
void charge(const OpCost& cost);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/context.ipp"
#endif
