// Work: something in flight, returned by every ..._async call.
//
//     Work work = world.all_reduce_async(gradient);   starts it and returns at once
//     compute();                                      `gradient` is not yours meanwhile
//     work.wait();                                    now it is, and it holds the sum
//
// A Work must be waited for, or have said done(). One that is dropped before poisons its world: the other
// ranks would wait for messages that never come, so the next call throws and names where the Work was
// made. A second wait() does nothing. Waiting in any order is fine. Under a virtual clock done() is refused.
#pragma once

#include "yotta/comm/engine/engine.hpp"

namespace yotta {

class [[nodiscard]] Work {
 public:
  Work() = default;  // nothing in flight: done
  Work(std::shared_ptr<Engine> engine, std::shared_ptr<InFlightOp> job)
      : engine_(std::move(engine)), job_(std::move(job)) {}
  Work(Work&& other) noexcept : engine_(std::move(other.engine_)), job_(std::move(other.job_)) {}
  Work& operator=(Work&& other) {
    drop();
    engine_ = std::move(other.engine_);
    job_ = std::move(other.job_);
    return *this;
  }
  ~Work() { drop(); }

  // Blocks until it is done; its buffers are the caller's again. Throws what went wrong in flight.
  void wait(Where where = Where::current()) {
    if (!job_ || job_->seen) return;
    if (job_->error) std::rethrow_exception(job_->error);  // it failed in an earlier call
    engine_->enter(where);
    engine_->wait(*job_, where);
    see();
  }
  // Is it done? Never blocks; moves on what is in flight. True counts as waited for.
  bool done(Where where = Where::current()) {
    if (!job_ || job_->seen) return true;
    if (context().clock != nullptr && context().clock->is_virtual())
      fail(
          where,
          "done() has no answer under a virtual clock: what has come so far depends on the threads "
          "of this computer, not on the machine described; wait() for it");
    engine_->enter(where);
    if (!engine_->is_done(*job_)) return false;
    wait(where);
    return true;
  }

 private:
  void see() {
    job_->seen = true;
    if (job_->finish) job_->finish();
  }
  void drop() {
    if (job_ && !job_->seen) engine_->drop(job_);
    job_.reset();
  }

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<InFlightOp> job_;
};

}  // namespace yotta
