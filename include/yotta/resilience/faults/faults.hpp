// Fault plan: which rank dies when, so that a failure is a test that can be repeated.
//
//     {"faults": [{"rank": 3, "step": 5, "phase": "backward"},
//                 {"rank": 0, "step": 9, "phase": "save", "back": 4}],
//      "random": {"seed": 7, "count": 2, "first": 2, "last": 19}}
//
//     phase       where in the step             what the others have seen of it
//     forward     between two layers            nothing of this step
//     backward    between two layers            the gradients of some layers
//     collective  all gradients are on the way  a sum that has begun and does not end
//     optimizer   all sums have ended           the whole step: they take it, this rank does not
//     save        half of a snapshot is kept    the whole step
//     healing     the rank gets its weights     nothing: it has just come
//
// "rank" is a place in the job. Whoever dies there is replaced, and the replacement is another
// member at the same place. It has the next fault that the plan holds for that place, so a step
// that is done again does not kill again. A member that is killed from outside leaves its fault to
// the next one. "back" is the number of steps that the others do before the replacement may join,
// where they go on without it. When another rank dies meanwhile it joins earlier: the next epoch
// takes whoever is ready.
//
// How a rank dies: on threads its thread ends by RankKilled, and the rank tells nobody; a process
// kills itself with SIGKILL (kill -9). Neither gets to write, send or close anything in order;
// a process leaves a mark that its fault has happened.
//
// Contract: a point is reached by calls of FaultPoint::at in the order of the step; a fault happens
// at the first point of its phase in its step or, if its member joins later, in a later one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"
#include "yotta/model/trainer.hpp"

namespace yotta {

enum class FaultPhase : uint8_t { forward, backward, collective, optimizer, save, healing };
inline constexpr int fault_phases = 6;
constexpr const char* name(FaultPhase phase) {
  constexpr const char* names[] = {"forward",   "backward", "collective",
                                   "optimizer", "save",     "healing"};
  return names[static_cast<int>(phase)];
}

struct Fault {
  int rank = 0;
  int64_t step = 0;  // the first step is 0
  FaultPhase phase = FaultPhase::forward;
  int64_t back = 0;

  bool operator==(const Fault&) const = default;
};

struct FaultPlan {
  std::vector<Fault> faults;

  // The faults of a place, by step: the i-th is that of its i-th member.
  std::vector<Fault> of(int rank) const;
};

// `count` faults at places 0 to ranks - 1 in steps `first` to `last`, drawn from a seed; of the
// first five phases.
FaultPlan random_faults(uint64_t seed, int count, int ranks, int64_t first, int64_t last);

// Reads a plan for `ranks` places and `steps` steps; `source` names it in errors. Errors: not a
// plan; a rank, a step or a name that does not exist.
FaultPlan parse_faults(const std::string& text, const std::string& source, int ranks, int64_t steps,
                       Where where = Where::current());

// The points of one member at which it may die.
class FaultPoint {
 public:
  FaultPoint() = default;  // never
  // `die` does not return.
  FaultPoint(std::optional<Fault> fault, std::function<void()> die)
      : fault_(fault), die_(std::move(die)) {}

  // Dies here, if it is time.
  void at(FaultPhase phase) const;
  // Is this its time? For what dies in the middle of something.
  bool is_due(FaultPhase phase) const {
    return fault_ && fault_->phase == phase && step_ >= fault_->step;
  }
  void die() const { die_(); }
  void begin_step(int64_t step) { step_ = step; }

 private:
  std::optional<Fault> fault_;
  std::function<void()> die_;
  int64_t step_ = 0;
};

// A stack with a layer in its middle that passes everything on, and calls these on the way:
// `forward` may change what goes through. Refers to the layers.
std::vector<LayerPtr> with_calls_midway(Layers layers, std::function<Tensor(const Tensor&)> forward,
                                        std::function<void()> backward);
// A stack with a point in its middle: `forward` and `backward`. Refers to both.
std::vector<LayerPtr> with_fault(Layers layers, const FaultPoint& point);
// Hooks with points of their own: `collective` and `optimizer`; of a pipeline, whose layers the
// trainer does not run, `forward` before its first microbatch and `backward` after its last.
TrainHooks with_faults(TrainHooks hooks, const FaultPoint& point);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/faults/impl/faults.ipp"
#endif
