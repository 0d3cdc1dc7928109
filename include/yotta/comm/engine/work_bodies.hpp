// The bodies of work.hpp.
#pragma once

#include "yotta/comm/engine/engine.hpp"
#include "yotta/comm/work.hpp"

namespace yotta {

inline namespace YOTTA_FORM {

Work::Work(std::shared_ptr<Engine> engine, std::shared_ptr<InFlightOp> op)
    : engine_(std::move(engine)), op_(std::move(op)) {}
Work::Work(Work&& other) noexcept : engine_(std::move(other.engine_)), op_(std::move(other.op_)) {}
Work& Work::operator=(Work&& other) {
  drop();
  engine_ = std::move(other.engine_);
  op_ = std::move(other.op_);
  return *this;
}
Work::~Work() { drop(); }

void Work::wait(Where where) {
  if (!op_ || op_->seen) return;
  if (op_->error) std::rethrow_exception(op_->error);  // it failed in an earlier call
  engine_->enter(where);
  engine_->wait(*op_, where);
  see();
}
bool Work::done(Where where) {
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

void Work::see() {
  op_->seen = true;
  if (op_->finish) op_->finish();
}
void Work::drop() {
  if (op_ && !op_->seen) engine_->drop(op_);
  op_.reset();
}

}  // namespace YOTTA_FORM

}  // namespace yotta
