// InFlightOp: something in flight. A message needs nobody to move it on; a collective is a fiber
// that stops whenever it waits. Fibers are used again: their stack is made once, not once per
// collective.
//
//     worker    body of job 1 ... suspend ... resume ... end | idle | body of job 2 ... end | idle
#pragma once

#include <functional>
#include <memory>

#include "yotta/comm/engine/transport.hpp"
#include "yotta/core/system/fiber.hpp"

namespace yotta {

// A fiber that runs one function after the other.
class FiberWorker {
 public:
  void start(const std::function<void()>& body) {
    body_ = &body;
    error_ = nullptr;
    fiber_.resume();
  }
  void resume() { fiber_.resume(); }
  bool idle() const { return body_ == nullptr; }
  std::exception_ptr error() const { return error_; }
  ~FiberWorker() { given_up_ = true; }  // a body that has not ended is unwound

 private:
  void run() {
    for (;;) {
      try {
        (*body_)();
      } catch (...) {
        if (given_up_) throw;
        error_ = std::current_exception();
      }
      body_ = nullptr;
      Fiber::suspend();
    }
  }
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr error_;
  bool given_up_ = false;
  Fiber fiber_{[this] { run(); }};
};

struct InFlightOp {
  Call call;
  int group = 0;
  Request request;                      // of a message, or what its collective has queued
  std::function<void()> body;           // of a collective; a message has none
  std::unique_ptr<FiberWorker> worker;  // that runs it, from its start to its end
  Waiting waiting;                      // what it waits for
  bool is_queued = false;               // by the transport, when it begins
  bool ended = false;
  std::exception_ptr error;
  std::function<void()> finish;  // by the wait() that finds it done
  bool seen = false;             // the user knows that it is done
};

}  // namespace yotta
