// What a call complains about: CHECK(contains(message_of([&] { x.rows(1, 9); }), "rows 1 to 9"));
#pragma once

#include <string>

#include "yotta/core/error.hpp"

namespace yotta_test {

std::string message_of(auto&& call) {
  try {
    call();
  } catch (const yotta::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace yotta_test
