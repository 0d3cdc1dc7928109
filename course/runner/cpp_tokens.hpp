// A C++ text as the compiler's preprocessor sees it: words, numbers, literals, signs; without
// comments and blanks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace runner {

struct CppToken {
  enum class Kind { word, number, literal, sign, directive };
  Kind kind;
  // A sign is one character, but for "::"; a directive is the whole line, with single blanks.
  std::string text;
  int line;
  size_t at = 0;  // in the text
};

// Lines that end in a backslash are not joined: who needs to know finds them first (joins_lines).
std::vector<CppToken> cpp_tokens(std::string_view text);

// The first line that a backslash joins to the next, or 0.
int joins_lines(std::string_view text);

}  // namespace runner
