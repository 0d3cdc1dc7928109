// What a lesson's text quotes of its program's output. A quote is a fenced block
//
//     ```output 10.ring
//     ring:  rank 0 sent 6000 bytes, rank 1 sent 6000 bytes
//     ```
//
// and its lines must stand in the output, one after the other; "... waits for 0" is the end of a
// line. Words and whole numbers are compared exactly (how many blanks stand between them does not
// matter), and numbers with a decimal point to three digits: those of a described machine too, as
// they are the same on every computer. What this computer's clock says is another number every
// time. A quote of that says so; there, numbers before a unit of time or of speed are not compared:
//
//     ```output 03.rungs measured
//
// What follows are the program's options, or another program of the course with its own:
//
//     ```output 18.many --microbatches 64
//     ```output 19.memory train --layout pp=4 --schedule zb-h2
//
// Each set of options is run once, however many quotes name it.
//
// And what it quotes of the library's headers:
//
//     ```cpp nn/norm.hpp
//     const Real r = Real{1} / std::sqrt(square + eps);
//     ```
//
// Its lines must stand in include/yotta/nn/norm.hpp, one after the other, indented or not.
//
// And the lesson's shortest program, whole, and what it prints:
//
//     ```cpp one_screen.cpp
//     ```output 13.one_screen one_screen
#pragma once

#include <string>
#include <vector>

namespace runner {

struct Quote {
  std::string name;     // "10.ring"; of a header's lines "nn/norm.hpp"
  std::string options;  // "--microbatches 64", "train --layout pp=4"; mostly empty
  int line = 0;         // of its first line in the text, from 1
  std::vector<std::string> lines;
  bool measured = false;  // by this computer's clock
};

// Throws std::runtime_error for a block that does not end, is empty, or whose name was used before.
std::vector<Quote> find_quotes(const std::string& text);

// The blocks of headers' lines; a header may be quoted several times.
std::vector<Quote> find_header_quotes(const std::string& text);

// One complaint for each that is not in its header; `library` is the folder that "nn/norm.hpp" lies
// in.
std::vector<std::string> compare_header_quotes(const std::string& text, const std::string& library);

// The blocks of whole programs: their names end with one_screen.cpp.
std::vector<Quote> find_program_quotes(const std::string& text);

// One complaint for each that is not its file line by line; `folder` is what the name is relative
// to.
std::vector<std::string> compare_program_quotes(const std::string& text, const std::string& folder);

// The text with these blocks as their files are now.
std::string refresh_program_quotes(const std::string& text, const std::string& folder);

// `measured`: but for times and speeds.
bool same_line(const std::string& quoted, const std::string& printed, bool measured = false);

// The sets of options that the text's quotes name, each once; first that without any, the lesson as
// it is.
std::vector<std::string> option_sets(const std::string& text);

// The course's programs that quotes name: "train".
std::vector<std::string> other_programs(const std::string& text);

// What runs them: the lesson's program, or for "train --steps 2" the course's program `train`. For
// "one_screen" the shortest program of the lesson, which is built beside it.
std::vector<std::string> command_of(const std::string& program, const std::string& options);

// "lessons/one_screen_13_ddp" for "lessons/lesson_13_ddp".
std::string one_screen_of(const std::string& program);

// One complaint for each quote with these options that is not in the output, with the line that is
// most like it.
std::vector<std::string> compare_quotes(const std::string& text, const std::string& output,
                                        const std::string& options = "");

// The text with every quote with these options replaced by what the program prints now, found by
// the words around the numbers. Quotes whose words have changed too are left as they are:
// compare_quotes will name them.
std::string refresh_quotes(const std::string& text, const std::string& output,
                           const std::string& options = "");

// Runs a lesson's program with each set of options that the text names, and compares; with
// `refresh` rewrites the quotes in `text` first. The complaints; a run that fails is one.
std::vector<std::string> compare_with_runs(std::string& text, const std::string& program,
                                           bool refresh = false);

// The texts of a lesson: this README.md, then the other pages of its folder.
std::vector<std::string> texts_of_lesson(const std::string& readme);

// Runs a lesson's program and compares, or with `refresh` rewrites the quotes of its output and of
// its shortest program first. Prints the complaints, those about headers' lines too; returns their
// number.
int check_lesson_text(const std::string& readme, const std::string& program, bool refresh);

}  // namespace runner
