// Asking: does a rank that calls done() again and again wait, or does it work in between?
//
//     while (!work.done()) {}          waits: it gets the errors that wait() throws
//     while (!work.done()) step();     works: its next step may send what another rank waits for
//
// The engine cannot see when a loop will end. A rank that has only asked for one second counts as
// waiting. A rank that has computed in between is told once a second if its Work can never be done.
// Plain data: the caller passes both clocks.
#pragma once

#include <algorithm>
#include <vector>

namespace yotta {

struct InFlightOp;

class Asking {
 public:
  enum class Manner { briefly, beside_work, waiting };
  static constexpr double patience = 1;         // seconds
  static constexpr double work = 0.5e-3;        // CPU seconds between two calls that count as work
  static constexpr double short_sleep = 10e-3;  // seconds that a waiting rank sleeps in done()

  // done() has been called for `op`. `seconds` of the engine's clock, `computed` of the thread's.
  Manner ask(InFlightOp* op, double seconds, double computed) {
    const bool is_new = std::find(asked_.begin(), asked_.end(), op) == asked_.end();
    if (is_new || computed - computed_ > work) since_ = seconds;
    if (asked_.empty()) told_ = seconds;
    if (is_new) asked_.push_back(op);
    computed_ = computed;
    if (seconds - since_ > patience) return Manner::waiting;
    if (seconds - told_ <= patience) return Manner::briefly;
    told_ = seconds;
    return Manner::beside_work;
  }
  // done() returns: what it has computed itself is not the caller's work.
  void answered(double computed) { computed_ = computed; }
  // Seconds in which the rank has done nothing but ask.
  double asked_for(double seconds) const { return asked_.empty() ? 0 : seconds - since_; }
  // All that was asked for since the rank last did something else.
  const std::vector<InFlightOp*>& asked() const { return asked_; }
  void stop() { asked_.clear(); }

 private:
  std::vector<InFlightOp*> asked_;
  double since_ = 0, told_ = 0, computed_ = 0;
};

}  // namespace yotta
