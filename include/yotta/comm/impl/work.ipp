// The bodies of work.hpp.
#pragma once

#include "yotta/comm/work.hpp"

#include "yotta/comm/engine/engine.hpp"

namespace yotta {

inline namespace YOTTA_FORM {

YOTTA_INLINE Work::Work(std::shared_ptr<Engine> engine, std::shared_ptr<InFlightOp> op)
    : engine_(std::move(engine)), op_(std::move(op)) {}
YOTTA_INLINE Work::Work(Work&& other) noexcept
    : engine_(std::move(other.engine_)), op_(std::move(other.op_)) {}
YOTTA_INLINE Work& Work::operator=(Work&& other) {
  drop();
  engine_ = std::move(other.engine_);
  op_ = std::move(other.op_);
  return *this;
}
YOTTA_INLINE Work::~Work() { drop(); }

YOTTA_INLINE void Work::wait(Where where) {
  if (!op_ || op_->seen) return;
  if (op_->error) std::rethrow_exception(op_->error);  // it failed in an earlier call
  engine_->enter(where);
  engine_->wait(*op_, where);
  see();
}
YOTTA_INLINE bool Work::done(Where where) {
  if (!op_ || op_->seen) return true;
  if (context().clock != nullptr && context().clock->is_virtual())
    fail(where,
         "done() has no answer under a virtual clock: what has come so far depends on the threads "
         "of this computer, not on the machine described; wait() for it");
  if (op_->error) std::rethrow_exception(op_->error);
  if (!engine_->ask(*op_, where)) return false;
  wait(where);
  return true;
}

YOTTA_INLINE void Work::see() {
  op_->seen = true;
  if (op_->finish) op_->finish();
}
YOTTA_INLINE void Work::drop() {
  if (op_ && !op_->seen) engine_->drop(op_);
  op_.reset();
}

}  // namespace YOTTA_FORM

}  // namespace yotta
