#include "runner/handout_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runner/exercise.hpp"

namespace runner {
namespace {

// A definition that begins at the left edge with "inline" or "constexpr".
struct Definition {
  size_t end = 0;         // behind its last line
  std::string specifier;  // "inline"
  std::string result, name;
  std::vector<std::string> parameters;  // with their default arguments
};

// Reads code and skips comments and literals.
class Scanner {
 public:
  // The character, if it is code; else 0.
  char code(char c) {
    const char before = before_;
    before_ = c;
    if (c == '\n') return comment_ = false, quote_ = 0, c;
    if (comment_) return 0;
    if (quote_ != 0) return literal(c, before);
    if (c == '/' && before == '/') return comment_ = true, '\0';
    if (c == '"' || (c == '\'' && std::isalnum(static_cast<unsigned char>(before)) == 0))
      return quote_ = c, '\0';
    return c;
  }

 private:
  char literal(char c, char before) {
    if (c == quote_ && before != '\\') quote_ = 0;
    if (c == '\\' && before == '\\') before_ = 0;  // a backslash that is a character
    return 0;
  }
  bool comment_ = false;
  char quote_ = 0, before_ = 0;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "int p, Pair<int, int> x = {1, 2}" -> two.
std::vector<std::string> split_parameters(const std::string& text) {
  std::vector<std::string> all;
  std::string one;
  int depth = 0;
  for (const char c : text) {
    depth += c == '<' || c == '(' || c == '{' || c == '[';
    depth -= c == '>' || c == ')' || c == '}' || c == ']';
    if (c == ',' && depth == 0)
      all.push_back(trimmed(one)), one.clear();
    else
      one += c;
  }
  if (!trimmed(one).empty()) all.push_back(trimmed(one));
  return all;
}

std::string without_default(const std::string& parameter) {
  return trimmed(parameter.substr(0, parameter.find(" = ")));
}

// "const std::vector<float>& x = {}" -> "x", or how it is handed on.
std::string argument(const std::string& parameter) {
  const std::string plain = without_default(parameter);
  size_t begin = plain.size();
  while (begin > 0 && is_word(plain[begin - 1])) --begin;
  const std::string name = plain.substr(begin);
  return plain.find("&&") == std::string::npos ? name : fmt::format("std::move({})", name);
}

// The code from here to the end of the block that opens first, and where its last line ends.
struct Block {
  std::string head;  // what stands before the block
  size_t end = 0;
  bool whole = false;
};
Block block_at(const Lines& lines, size_t begin) {
  Block block;
  Scanner scanner;
  int braces = 0, others = 0;
  bool opened = false;
  for (size_t i = begin; i < lines.size(); ++i) {
    for (const char each : lines[i] + "\n") {
      const char c = scanner.code(each);
      others += (c == '(') - (c == ')');
      if (!opened && c == '{' && others == 0) opened = true;
      if (!opened && c == ';') return block;
      if (!opened && c != 0) block.head += c;
      if (opened) braces += (c == '{') - (c == '}');
    }
    if (opened && braces == 0) return block.end = i + 1, block.whole = true, block;
  }
  return block;
}

std::optional<Definition> definition_at(const Lines& lines, size_t begin) {
  Definition found;
  for (const char* specifier : {"inline", "constexpr"})
    if (lines[begin].starts_with(specifier + std::string(" "))) found.specifier = specifier;
  if (found.specifier.empty()) return {};
  const Block block = block_at(lines, begin);
  const size_t open = block.head.find('('), close = block.head.rfind(')');
  if (!block.whole || open == std::string::npos || close == std::string::npos) return {};
  size_t name = open;
  while (name > 0 && is_word(block.head[name - 1])) --name;
  found.end = block.end;
  found.name = block.head.substr(name, open - name);
  const size_t after = found.specifier.size();
  found.result = trimmed(block.head.substr(after, name - after));
  found.parameters = split_parameters(block.head.substr(open + 1, close - open - 1));
  const bool plain =
      trimmed(block.head.substr(close + 1)).empty() && block.head.find("...") == std::string::npos;
  const bool named = !found.name.empty() && !found.result.empty() && found.result != "auto";
  return plain && named ? std::optional(found) : std::nullopt;
}

template <class Of>
std::string joined(const std::vector<std::string>& parameters, Of of) {
  std::vector<std::string> all;
  for (const std::string& one : parameters) all.push_back(of(one));
  return fmt::format("{}", fmt::join(all, ", "));
}

// The function's type and name in the library, without a body.
std::string twin(const Definition& f) {
  return fmt::format("{} {}({})", f.result, f.name, joined(f.parameters, without_default));
}

std::string for_students(const Definition& f) {
  const std::string call =
      fmt::format("handed_out::{}({})", f.name, joined(f.parameters, argument));
  const std::string body =
      f.specifier == "inline"
          ? call
          : fmt::format("std::is_constant_evaluated() ? handed_out::only_at_run_time<{}>() : {}",
                        f.result, call);
  return fmt::format(
      "namespace handed_out {{\n{};\n}}  // namespace handed_out\n{} {} {}({}) {{\n  return {};  "
      "// compiled\n}}\n",
      twin(f), f.specifier, f.result, f.name,
      joined(f.parameters, [](const std::string& text) { return text; }), body);
}

std::string in_library(const Definition& f) {
  return fmt::format("{} {{\n  return yotta::{}({});\n}}\n", twin(f), f.name,
                     joined(f.parameters, argument));
}

bool begins_bodies(const std::string& line) { return line.starts_with("#if YOTTA_BODIES_OF("); }
bool ends_bodies(const std::string& line) { return line == "#endif  // YOTTA_BODIES"; }

// One header, read from its first line to its last.
class Cutter {
 public:
  Cutter(const std::string& header, const std::vector<size_t>& again)
      : lines_(lines_of(header)), parts_(part_of_lines(header)), secret_(lines_.size()) {
    for (size_t i = 0; i < lines_.size(); ++i) secret_[i] = !parts_[i].empty();
    for (const size_t line : again) secret_.at(line) = true;
    kernels_ = header.find("__global__") != std::string::npos ||
               header.find("__device__") != std::string::npos;
  }

  HandoutHeader cut() {
    while (at_ < lines_.size()) step();
    if (!cut_.unit.empty())
      cut_.unit =
          "namespace yotta::handed_out {\n" + cut_.unit + "}  // namespace yotta::handed_out\n";
    return cut_;
  }

 private:
  void step() {
    const std::string& line = lines_[at_];
    if (line.starts_with("// ") && line.find("not in the exercise") != std::string::npos)
      given_away_ = true;  // what follows would answer a task
    if (begins_bodies(line)) return skip_bodies();
    if (const auto f = definition_at(lines_, at_);
        f && !kernels_ && (given_away_ || is_secret(at_, f->end))) {
      cut_.text += for_students(*f), cut_.unit += in_library(*f);
      at_ = f->end;
      return;
    }
    if (!parts_[at_].empty()) return leave_open();
    cut_.text += line + "\n";
    if (!included_ && line == "#pragma once") {
      included_ = true;
      cut_.text += "\n#include \"yotta/handed_out.hpp\"\n";
    }
    ++at_;
  }
  void skip_bodies() {
    while (at_ < lines_.size() && !ends_bodies(lines_[at_])) ++at_;
    ++at_;
  }
  // The marks stay, with not_done between them.
  void leave_open() {
    const std::string part = parts_[at_], indent(lines_[at_].find_first_not_of(' '), ' ');
    cut_.text += lines_[at_] + "\n" + fmt::format("{}not_done(\"{}\");\n", indent, part);
    cut_.open.push_back(part);
    size_t last = at_;
    while (last + 1 < lines_.size() && parts_[last + 1] == part) ++last;
    cut_.text += lines_[last] + "\n";
    at_ = last + 1;
  }
  bool is_secret(size_t begin, size_t end) const {
    return std::find(secret_.begin() + static_cast<std::ptrdiff_t>(begin),
                     secret_.begin() + static_cast<std::ptrdiff_t>(end),
                     true) != secret_.begin() + static_cast<std::ptrdiff_t>(end);
  }

  Lines lines_;
  std::vector<std::string> parts_;
  std::vector<bool> secret_;
  HandoutHeader cut_;
  size_t at_ = 0;
  bool given_away_ = false, included_ = false;
  bool kernels_ = false;  // compiled in two forms, of which a library holds one: no twins
};

}  // namespace

HandoutHeader cut_for_handout(const std::string& header, const std::vector<size_t>& again) {
  marked_parts(header);
  return Cutter(header, again).cut();
}

std::string handed_out_header() {
  return R"(// Functions whose bodies are exercises: the compiled library in handout/ has them, in
// namespace yotta::handed_out.
#pragma once

#include <type_traits>
#include <utility>

#include "yotta/core/exercise.hpp"

namespace yotta::handed_out {

// What a constant would need while it is compiled is in a library: compute it at run time.
template <class T>
constexpr T only_at_run_time() {
  throw "this function is compiled: no constant can be made of it";
}

}  // namespace yotta::handed_out
)";
}

}  // namespace runner
