// What the usual messages of a C++ compiler mean, in plain words, as g++ and clang say them.
//
//     error: 'sum' was not declared in this scope     There is no name 'sum' here: is it misspelt,
//                                                     or declared later ...
#pragma once

#include <string>

namespace runner {

// Of a message with its notes. Empty: it is none of the usual ones.
std::string meaning_of(const std::string& message);

}  // namespace runner
