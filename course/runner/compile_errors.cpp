#include "runner/compile_errors.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "runner/error_meanings.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/places.hpp"

namespace runner {
namespace {

constexpr size_t most_source_lines = 3;  // under a message

bool says(const std::string& line, const char* words) {
  return line.find(words) != std::string::npos;
}
bool is_error(const std::string& line) {
  return says(line, ": error: ") || says(line, ": fatal error: ");
}
bool is_warning(const std::string& line) { return says(line, ": warning: "); }
// The lines of a program under a message: "   45 |   x = 1;".
bool is_source(const std::string& line) { return line.starts_with(" ") && says(line, "|"); }

// The number N of "FILE:N" in a line; 0: the file is not named there.
int line_in(const std::string& line, const std::string& file) {
  const size_t at = line.find(file + ":");
  return at == std::string::npos ? 0 : std::atoi(line.c_str() + at + file.size() + 1);
}

struct Error {
  int line = 0;   // of the student's file, which is to blame; 0: not known
  int match = 0;  // where a bracket was opened that nothing closes
  bool elsewhere = false;
  std::string text;
  std::string said;  // the message and its notes, without lines of the program
};

// Without what no student has written: the default arguments of templates.
std::string quieter(const std::string& line) {
  static const std::regex noise(R"(, std::allocator<[^<>]*(<[^<>]*>)?[^<>]*> ?)");
  static const std::regex text(R"(std::__cxx11::basic_string<char>)"),
      inline_name("std::__[a-z0-9]+::");
  constexpr size_t most = 2000;  // characters: longer lines are cut, which keeps the search short
  const std::string plain = std::regex_replace(line.substr(0, most), text, "std::string");
  return std::regex_replace(std::regex_replace(plain, noise, ""), inline_name, "std::");
}

// Reads a log line by line, and remembers who includes or asks for what is not the student's own.
class LogReader {
 public:
  // Of messages that `begins` is true of: errors, or warnings.
  LogReader(const std::string& file, bool (*begins)(const std::string&))
      : file_(file), begins_(begins) {}

  void read(const std::string& line) {
    const int number = line_in(line, file_);
    const bool stack = line.starts_with("In file included from ");
    if (stack) included_ = 0;
    if (stack || line.starts_with("                 from ")) {
      if (number > 0 && included_ == 0) included_ = number;
    } else if (begins_(line)) {
      begin(line, blamed(line, number));
    } else if (is_error(line) || is_warning(line)) {
      inside_ = false, asleep_ = true;
    } else if (number > 0) {
      note(line), refer(line, number);
    } else if (says(line, ": note: ")) {
      note(line), inside_ = false;
    } else if (is_source(line)) {
      add_source(line);
    } else {
      inside_ = false;
    }
  }
  const std::vector<Error>& errors() const { return errors_; }

 private:
  void begin(const std::string& line, int number) {
    const bool elsewhere = !line.starts_with(file_ + ":");
    errors_.push_back({number, 0, elsewhere, quieter(relative(line)) + "\n", quieter(line) + "\n"});
    asked_ = 0, source_lines_ = 0;
    inside_ = !elsewhere;  // no student wants the lines of other files
    asleep_ = false;
  }
  // The adapter is not the student's, and calls what the starter had.
  int blamed(const std::string& line, int number) const {
    if (line.starts_with(file_ + ":")) return number;
    if (says(line, "/adapter.cpp:")) return not_the_students;
    return asked_ > 0 ? asked_ : included_;
  }
  void note(const std::string& line) {
    constexpr size_t enough = 4000;  // characters
    if (!asleep_ && !errors_.empty() && errors_.back().said.size() < enough)
      errors_.back().said += quieter(line) + "\n";
  }
  // "... required from here" stands before its error; notes stand after it.
  void refer(const std::string& line, int number) {
    inside_ = false;
    if (!says(line, ": note: ")) {
      if (says(line, "required ") && asked_ == 0) asked_ = number;
      return;
    }
    if (errors_.empty() || asleep_) return;
    Error& error = errors_.back();
    if (error.line == 0) error.line = number;
    if (says(line, "to match this")) error.match = number;
  }
  void add_source(const std::string& line) {
    if (inside_ && ++source_lines_ <= most_source_lines) errors_.back().text += line + "\n";
  }

  static constexpr int not_the_students = -1;

  std::string file_;
  bool (*begins_)(const std::string&);
  std::vector<Error> errors_;
  int included_ = 0, asked_ = 0;
  size_t source_lines_ = 0;
  bool inside_ = false;  // in the source lines under an error
  bool asleep_ = false;  // in the notes of a message that is not asked for
};

// Where an error is: in a part, or after one.
PartErrors placed(const Error& error, const Lines& lines, const Lines& parts) {
  const auto part_at = [&](int line) {
    const auto index = static_cast<size_t>(line) - 1;
    return line > 0 && index < parts.size() ? parts[index] : std::string();
  };
  PartErrors result{part_at(error.line),   "", error.line,
                    printable(error.text), 0,  error.elsewhere,
                    meaning_of(error.said)};
  if (error.elsewhere && static_cast<size_t>(error.line) <= lines.size())
    result.text += printable(
        fmt::format("{:>5} | {}\n", error.line, lines[static_cast<size_t>(error.line) - 1]));
  if (result.part.empty()) result.part = part_at(error.match);
  if (!result.part.empty()) return result;
  for (int line = std::min(error.line, static_cast<int>(parts.size())); line > 0; --line) {
    result.after = part_at(line);
    if (!result.after.empty()) break;
  }
  return result;
}

// `usual`: only messages about the file itself whose meaning is known.
std::vector<PartErrors> messages_by_part(LogReader reader, const std::string& log,
                                         const std::string& text, bool usual = false) {
  for (const std::string& line : lines_of(log)) reader.read(line);
  const Lines lines = lines_of(text), parts = part_of_lines(text);
  std::vector<PartErrors> all;
  for (const Error& error : reader.errors()) {
    if (error.line <= 0) continue;
    const PartErrors one = placed(error, lines, parts);
    if (usual && (one.meaning.empty() || one.elsewhere)) continue;
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const PartErrors& other) { return other.part == one.part; });
    if (same == all.end())
      all.push_back(one);
    else
      ++same->more;
  }
  return all;
}

}  // namespace

std::vector<PartErrors> errors_by_part(const std::string& log, const std::string& file,
                                       const std::string& text) {
  return messages_by_part(LogReader(file, is_error), log, text);
}

std::vector<PartErrors> warnings_by_part(const std::string& log, const std::string& file,
                                         const std::string& text) {
  return messages_by_part(LogReader(file, is_warning), log, text, /*usual=*/true);
}

std::string readable_errors(const std::string& log, const std::string& file, int most) {
  std::string text;
  int errors = 0;
  bool inside = false;  // in the source lines under a message about the file
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const bool ours = line.starts_with(file + ":");
    const bool source = line.starts_with(" ") && line.find('|') != std::string::npos;
    const bool about_a_name = ours && line.find(": In ") != std::string::npos;  // "In function ..."
    if (ours && line.find(" error: ") != std::string::npos) ++errors;
    inside = (ours && !about_a_name) || (inside && source);
    if (inside && errors > 0 && errors <= most) text += relative(line) + "\n";
  }
  if (errors > most)
    text +=
        fmt::format("... and {} more {}\n", errors - most, errors - most == 1 ? "error" : "errors");
  return text;
}

std::vector<std::string> without_body(const std::string& log) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of(log))
    for (const std::string words : {"undefined reference to ", "undefined symbol: "}) {
      const size_t at = line.find(words);
      if (at == std::string::npos) continue;
      std::string name = line.substr(at + words.size());
      std::erase_if(name, [](char c) { return c == '`' || c == '\''; });
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  return names;
}

}  // namespace runner
