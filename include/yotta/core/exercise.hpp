// What stands in a starter file where a student is to write.
//
//     inline void all_reduce_ring(Channel& ring, Data data, ReduceOp op) {
//       // exercise 10.3: an all_reduce is two things that you have already
//       not_done("10.3");
//       // end of exercise 10.3
//     }
//
// Starters are cut from the library's own headers: see exercises/README.md.
#pragma once

#include <type_traits>

#include "yotta/core/error.hpp"

namespace yotta {

class NotDone : public Error {
 public:
  using Error::Error;
};

// Whether not_done does nothing, as in a file from which a student has deleted it. So graders find
// out which cases pass without any work.
inline bool ignore_not_done = false;

[[noreturn]] void fail_not_done(const char* part, Where where);

// Throws NotDone. Silent where the compiler computes a constant: there a throw would be a compile
// error in a file that the student has not even begun.
constexpr void not_done(const char* part, Where where = Where::current()) {
  if (!std::is_constant_evaluated() && !ignore_not_done) fail_not_done(part, where);
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/exercise.ipp"
#endif
