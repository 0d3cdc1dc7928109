// Errors: every failure says what, where, expected against actual, and what to try.
//
// A public function takes the place of its caller as a last, defaulted argument
//
//     void scale(Tensor& x, double factor, Where where = Where::current());
//
// so that a wrong call is reported at the line that made it, not inside the library:
//
//     train.cpp:41: matmul: a is (8, 16) f32 and b is (32, 4) f32; the inner sizes 16 and 32 differ
//
// Nothing in the library calls exit or abort: a failure is always an exception, an Error or a class
// derived from it, so one rank can fail while the others are told why.
#pragma once

#if defined(__CUDACC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1  // {fmt} 9 thinks that nvcc has none
#endif
#include <fmt/core.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "yotta/core/system/build.hpp"

namespace yotta {

using Where = std::source_location;

// "ring.cpp:17", the file without its folders.
std::string at(Where where);

class Error : public std::runtime_error {
 public:
  Error(Where where, const std::string& message)
      : std::runtime_error(at(where) + ": " + message), where_(where) {}
  // An error that another process has sent: its text says already where it was made.
  struct Verbatim {};
  Error(Verbatim, Where where, const std::string& text) : std::runtime_error(text), where_(where) {}
  Where where() const { return where_; }

 private:
  Where where_;
};

// fail(where, "expected {} rows, got {}", 3, n) throws an Error; fail_as<Deadlock>(...) a derived
// one.
template <class Kind, class... Args>
[[noreturn]] void fail_as(Where where, fmt::format_string<Args...> message, Args&&... args) {
  throw Kind(where, fmt::format(message, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void fail(Where where, fmt::format_string<Args...> message, Args&&... args) {
  throw Error(where, fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/impl/error.ipp"
#endif
