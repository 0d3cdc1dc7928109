// The bodies of core/exercise.hpp.
#pragma once

#include "yotta/core/exercise.hpp"

namespace yotta {

[[noreturn]] YOTTA_INLINE void fail_not_done(const char* part, Where where) {
  fail_as<NotDone>(where, "exercise {} is not done yet", part);
}

}  // namespace yotta
