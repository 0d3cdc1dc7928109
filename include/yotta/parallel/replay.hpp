// Replay: a slice of layers that is reversed by a schedule (revolve.hpp), with as few checkpoints
// as there is room for.
//
//     keep     what flows into the next layer becomes a checkpoint
//     restore  a checkpoint flows again
//     drop     a checkpoint is freed
//     run      the next layer goes forward, and keeps nothing
//     reverse  a layer's F, keeping all, then its I and W
//
// forward plays the schedule up to the reversal of the last layer, backward_input the rest.
// Contract: backward_input does both halves, I and W; backward_weight has nothing left to do.
#pragma once

#include <string>

#include "yotta/nn/layer.hpp"
#include "yotta/parallel/revolve.hpp"

namespace yotta {

// y = layer(x), keeping nothing.
inline Tensor run_and_forget(Layer& layer, const Tensor& x, const BatchPosition& place) {
  const PhaseScope phase(Phase::forward);
  Saved dropped(place, layer.name());
  return layer.forward(x, dropped);
}

// A slice that is reversed by a schedule: revolve_schedule or restart_schedule of its layers.
// forward plays it up to the last layer, of which it keeps Saved; backward_input plays the rest.
// Checkpoints live in Saved.
class Replay : public Sequential {
 public:
  Replay(Layers layers, ReplayActions actions) : Sequential(layers), actions_(std::move(actions)) {
    while (turn_ < actions_.size() && actions_[turn_].kind != ReplayAction::Kind::reverse) ++turn_;
  }
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor flows = x;
    for (size_t i = 0; i < turn_; ++i) play(actions_[i], flows, saved);
    return turn_ == actions_.size() ? flows : run(layer(actions_[turn_]), flows, saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dx = dy, flows;
    for (size_t i = turn_; i < actions_.size(); ++i) {
      if (actions_[i].kind != ReplayAction::Kind::reverse) {
        play(actions_[i], flows, saved);
        continue;
      }
      Layer& reversed = layer(actions_[i]);
      if (i > turn_) run(reversed, std::exchange(flows, {}), saved);
      dx = run_back(reversed, dx, saved);
      run_weight(reversed, saved);
    }
    return dx;
  }
  void backward_weight(Saved&) override {}

 private:
  Layer& layer(const ReplayAction& action) const {
    return *layers()[static_cast<size_t>(action.layer)];
  }

  // Plays any action but a reversal. `flows` is what flows into the next layer.
  void play(const ReplayAction& action, Tensor& flows, Saved& saved) const {
    const std::string slot = "checkpoint " + std::to_string(action.layer);
    switch (action.kind) {
      case ReplayAction::Kind::keep: return saved.keep(slot, flows);
      case ReplayAction::Kind::restore: flows = saved.get(slot); return;
      case ReplayAction::Kind::drop: saved.take(slot); return;
      case ReplayAction::Kind::run:
        flows = run_and_forget(layer(action), flows, saved.position());
        return;
      case ReplayAction::Kind::reverse: return;
    }
  }

  ReplayActions actions_;
  size_t turn_ = 0;  // where forward ends and backward begins: the last layer's reversal
};

}  // namespace yotta
