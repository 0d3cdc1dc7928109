// A file that does not compile because of some of its parts, without them:
//
//     // exercise 10.1                       // exercise 10.1
//     ... right ...                          ... right ...
//     // end of exercise 10.1      ──►       // end of exercise 10.1
//     // exercise 10.2                       // exercise 10.2
//     for (int i = 0; i < p  i++)            not_done("10.2");
//     // end of exercise 10.2                // end of exercise 10.2
//
// So a slip in one task costs nothing of the others. That the rest compiles is the proof that the
// parts were to blame.
#pragma once

#include <string>
#include <vector>

#include "runner/compile_errors.hpp"
#include "runner/exercise.hpp"
#include "runner/solution.hpp"

namespace runner {

// The parts that the errors name, and those whose brackets do not match: what the compiler says of
// such a part stands mostly elsewhere. In their order in the file.
std::vector<std::string> suspects(const std::vector<PartErrors>& errors, const std::string& text);

// `text` with these parts as `starter` has them, and as many lines as before where that is
// possible: messages name lines.
std::string with_starter_parts(const std::string& text, const std::string& starter,
                               const std::vector<std::string>& parts);

struct Salvaged {
  std::string program;                // empty: it does not compile without its suspects either
  std::vector<std::string> left_out;  // "10.2"
};
Salvaged salvage(const Exercise& exercise, const std::string& file,
                 const std::vector<PartErrors>& errors, const RunFolder& folder);

}  // namespace runner
