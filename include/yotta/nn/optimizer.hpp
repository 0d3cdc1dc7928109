// Optimizer: what every rule that turns gradients into new weights has in common; and Schedule, the
// learning rate over a run.
//
//     parameter          value   bf16 or f32, what layers compute with
//                        grad    f32
//     optimizer state    master  f32, only if value is bf16: the weight that small steps can change
//                        ...     the rule's own tensors, f32: momentum, or Adam's m and v
//
// Why a master copy: bf16 has 8 significant bits, so 1 + 0.001 rounds back to 1 and training with
// small steps stands still. The step is taken in f32 on the master, and value gets the rounded
// result.
// Memory per parameter with Adam: f32 4 + 4 + 8 = 16 bytes; bf16 2 + 4 + 12 = 18 (16 where
// gradients are reduced in bf16, as in the ZeRO paper's table).
//
// Contract: step() reads grad and leaves it; the caller zeroes it. A parameter whose gradient was
// never made is skipped, as in PyTorch.
#pragma once

#include <string>
#include <vector>

#include "yotta/nn/parameter.hpp"

namespace yotta {

struct StepNumbers;  // nn/cpu/step_gate.hpp

class Optimizer {
 public:
  // One parameter and its state, all of one shape.
  struct Slot {
    ParameterPtr parameter;
    Tensor master;              // undefined unless the value has 16 bits
    std::vector<Tensor> state;  // one per name of state_names()

    // The weight that the step changes, in f32 or f64.
    Tensor& weight() { return master.defined() ? master : parameter->value; }
  };

  // State starts as zeros.
  Optimizer(const std::vector<ParameterPtr>& parameters, std::vector<std::string> state_names);
  virtual ~Optimizer() = default;

  // One step with this learning rate. Gradients are multiplied by `scale` on the way, which clips
  // them without a pass of its own.
  void step(double learning_rate, double scale = 1);

  // The same on Device::cuda, where `now` is in the device's memory and says whether the step is
  // taken, how far, and with which scale. Only rules that have it so.
  virtual bool steps_on_device() const { return false; }
  void step_on_device(const StepNumbers* now);
  // What `now` must hold before the next step.
  virtual void set_factors(StepNumbers& /*now*/, double /*learning_rate*/) const {}

  // For checkpoints: steps taken, and the state under names such as "exp_avg".
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  std::vector<Slot>& slots() { return slots_; }
  const std::vector<std::string>& state_names() const { return state_names_; }

 protected:
  // The rule: changes slot.weight() and slot.state.
  virtual void update(Slot& slot, double learning_rate, double scale) = 0;
  // Null: what update() is told counts.
  const StepNumbers* on_device() const { return on_device_; }

 private:
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  const StepNumbers* on_device_ = nullptr;
};

// The learning rate over a run: a warm-up, then half a cosine down to a floor.
//
//     peak ─ ─ ─  __..
//               /     ''.
//              /         '.
//             /            ''..__
//     floor  /─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ''──────
//           0   warmup            steps
//
// In the first steps Adam's running means rest on few gradients, so those steps are kept small; the
// slow end lets the weights settle. Reference: Loshchilov and Hutter, "SGDR" (2017), equation 5, no
// restarts.
struct Schedule {
  double peak = 1e-3;
  double floor = 1e-4;   // a tenth of the peak is usual
  int64_t warmup = 100;  // steps
  int64_t steps = 1000;  // of the whole run

  // The learning rate of step 0, 1, 2, ...; after the last step it stays at the floor.
  double operator()(int64_t step) const;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/optimizer.ipp"
#endif
