// Work: something in flight, returned by every ..._async call.
//
//     Work work = world.all_reduce_async(gradient);   starts it and returns at once
//     compute();                                      `gradient` is not yours meanwhile
//     work.wait();                                    now it is, and it holds the sum
//
// A Work must be waited for, unless done() has returned true. One that is dropped before that
// poisons its world: the other ranks would wait for messages that never come, so the next call
// throws and names where the Work was made. A second wait() does nothing. Waiting in any order is
// fine. Under a virtual clock done() is refused.
#pragma once

#include <memory>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

class Engine;
struct InFlightOp;

inline namespace YOTTA_FORM {

class [[nodiscard]] Work {
 public:
  Work() = default;  // nothing in flight: done
  Work(std::shared_ptr<Engine> engine, std::shared_ptr<InFlightOp> op);
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other);
  ~Work();

  // Blocks until it is done; its buffers are the caller's again. Throws what went wrong in flight.
  void wait(Where where = Where::current());
  // Is it done? Makes progress on what is in flight. If it returns true, no wait() is needed.
  // Returns at once; a rank that has done nothing but ask for a whole second sleeps up to 10 ms
  // here. Throws what wait() would throw: Deadlock, Timeout, PeerFailed.
  bool done(Where where = Where::current());

 private:
  void see();
  void drop();

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<InFlightOp> op_;
};

}  // namespace YOTTA_FORM

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/work.ipp"
#endif
