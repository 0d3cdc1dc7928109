// What the compiler says about a student's file, by the parts of the exercise:
//
//     /w/ring.hpp:45:3: error: 'x' was not declared        45 lies between the marks of 10.1
//        45 |   x = 1;
//     /w/ring.hpp:47:1: error: ...                          one more in 10.1
//     /w/ring.hpp:90:5: error: ...                          10.3
//
// Files that the student's includes have errors too: those count for the line that includes them,
// or that asks for the template in them.
#pragma once

#include <string>
#include <vector>

namespace runner {

// The first error in a part, and how many come after it.
struct PartErrors {
  std::string part;   // "10.1"; empty: outside of all parts
  std::string after;  // then the last part that ends before it; empty: none
  int line = 0;       // of the student's file
  std::string text;   // the compiler's message with its source lines
  int more = 0;
  bool elsewhere = false;    // the message is about another file, and `line` is why
  std::string meaning = {};  // in plain words; empty: it is none of the usual ones
};

// The errors that a student's file (its path and its text) has caused, in the order of the
// compiler's first messages. Empty when no error has to do with it.
std::vector<PartErrors> errors_by_part(const std::string& log, const std::string& file,
                                       const std::string& text);

// The same of warnings in the file itself, those whose meaning is known: that a value is missing
// where a function ends.
std::vector<PartErrors> warnings_by_part(const std::string& log, const std::string& file,
                                         const std::string& text);

// What a compiler said, without what is not about `file`: its errors with their source lines, at
// most `most` of them; paths begin at the project's root. Empty when no error is about the file.
std::string readable_errors(const std::string& log, const std::string& file, int most = 3);

// Functions that are declared and used, and have no body, from what a linker said; each once.
std::vector<std::string> without_body(const std::string& log);

}  // namespace runner
