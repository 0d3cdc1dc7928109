// What a lesson's text quotes of its program's output. A quote is a fenced block
//
//     ```output 10.ring
//     ring:  rank 0 sent 6000 bytes, rank 1 sent 6000 bytes
//     ```
//
// and its lines must stand in the output, one after the other; "... waits for 0" is the end of a line.
// Words and whole numbers are compared exactly (how many blanks stand between them does not matter),
// numbers with a decimal point to three digits, and numbers before a unit of time or of speed not at all.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct Quote {
  std::string name;  // "10.ring"
  int line = 0;      // of its first line in the text, from 1
  std::vector<std::string> lines;
};

// Throws std::runtime_error for a block that does not end, is empty, or whose name was used before.
std::vector<Quote> find_quotes(const std::string& text);

bool same_line(const std::string& quoted, const std::string& printed);

// One complaint for each quote that is not in the output, with the line that is most like it.
std::vector<std::string> compare_quotes(const std::string& text, const std::string& output);

// The text with every quote replaced by what the program prints now, found by the words around the
// numbers. Quotes whose words have changed too are left as they are: compare_quotes will name them.
std::string refresh_quotes(const std::string& text, const std::string& output);

// Runs a lesson's program and compares, or with `refresh` rewrites the text first. Prints the complaints;
// returns their number.
int check_lesson_text(const std::string& readme, const std::string& program, bool refresh);

}  // namespace runner
