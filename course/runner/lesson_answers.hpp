// The answers of a lesson's text are folded, so that a reader thinks first. Under each item of
// "Try" and "Questions" stand
//
//     <details><summary>Answer</summary>
//
//     What is seen, and why.
//
//     </details>
//
// with these empty lines: without them Markdown shows what is inside as it is typed. The lines
// begin at the left, since quotes do. What a reader may skip is folded the same way, with words of
// its own: <details><summary>The derivation, index by index</summary>.
#pragma once

#include <string>
#include <vector>

namespace runner {

// One complaint for each item without an answer and for each answer of another form.
std::vector<std::string> compare_answers(const std::string& text);

}  // namespace runner
