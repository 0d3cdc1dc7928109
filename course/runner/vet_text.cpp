#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "runner/cpp_tokens.hpp"
#include "runner/page_functions.hpp"
#include "runner/vet.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

using Kind = CppToken::Kind;
using Tokens = std::vector<CppToken>;

constexpr size_t most_refusals = 5;

// A header of the standard library or of fmt. What harms, the wall stops.
bool is_known_header(const std::string& include) {
  static const std::regex known("<(fmt/)?[a-z_]+([.]h)?");
  return std::regex_match(include, known);
}

// Words of the language's extensions and of CUDA that a graded function may use.
bool is_known_reserved(const std::string& word) {
  constexpr std::array known = {"__func__",          "__FUNCTION__",    "__PRETTY_FUNCTION__",
                                "__FILE__",          "__LINE__",        "__restrict__",
                                "__restrict",        "__int128",        "__global__",
                                "__device__",        "__host__",        "__shared__",
                                "__constant__",      "__syncthreads",   "__syncwarp",
                                "__launch_bounds__", "__ldg",           "__shfl_down_sync",
                                "__shfl_up_sync",    "__shfl_xor_sync", "__shfl_sync",
                                "__ballot_sync",     "__activemask",    "__all_sync",
                                "__any_sync"};
  return std::find(known.begin(), known.end(), word) != known.end();
}

bool is_standard_attribute(const std::string& word) {
  constexpr std::array known = {"maybe_unused", "nodiscard",  "likely",   "unlikely",
                                "fallthrough",  "deprecated", "noreturn", "no_unique_address"};
  return std::find(known.begin(), known.end(), word) != known.end();
}

// A Channel is one of these too: who casts to it counts for the library.
bool is_channel_by_memory(const std::string& word) {
  return word == "SharedMemoryChannel" || word == "Collective";
}

std::string bare_include(const std::string& directive) {
  static const std::regex include(R"(#include ?([<"])([A-Za-z0-9_/.]+)[>"])");
  std::smatch found;
  return std::regex_match(directive, found, include) ? found[1].str() + found[2].str() : "";
}

class TextVet {
 public:
  TextVet(const std::string& text, const Measure& measure)
      : measure_(measure), tokens_(cpp_tokens(text)), starter_(cpp_tokens(measure.starter)) {
    for (const CppToken& token : starter_) of_starter_.insert(token.text);
    vet_characters(text);
    for (at_ = 0; at_ < tokens_.size(); ++at_) vet_one();
  }
  std::vector<Refusal> refusals() const { return refusals_; }

 private:
  const std::string& text_at(size_t i) const {
    static const std::string none;
    return i < tokens_.size() ? tokens_[i].text : none;
  }
  bool follows(std::initializer_list<const char*> texts) const {
    size_t i = at_;
    for (const char* const text : texts)
      if (text_at(i++) != text) return false;
    return true;
  }
  void refuse(const std::string& why, int line = 0) {
    if (line == 0 && !tokens_.empty()) line = tokens_[std::min(at_, tokens_.size() - 1)].line;
    refusals_.push_back({line, why, false});
  }
  // What may be a line for the preprocessor: it could include any file, and errors would show its
  // lines.
  void refuse_at_once(const std::string& why, int line = 0) {
    refuse(why, line);
    refusals_.back().at_once = true;
  }

  void vet_characters(const std::string& text) {
    if (const int line = joins_lines(text))
      refuse_at_once("the line ends in a backslash, which joins it to the next", line);
    int line = 1;
    for (size_t i = 0; i < text.size(); ++i) {
      line += text[i] == '\n';
      const auto byte = static_cast<unsigned char>(text[i]);
      const bool line_end = text[i] == '\n' || (text[i] == '\r' && text[i + 1] == '\n');
      if (byte >= ' ' || text[i] == '\t' || line_end) continue;
      return refuse_at_once("a control character", line);
    }
  }

  void vet_one() {
    const CppToken& token = tokens_[at_];
    if (token.kind == Kind::directive)
      vet_directive(token.text);
    else if (depth_ == 0)
      vet_outside();
    else if (token.kind == Kind::word)
      vet_word(token.text);
    else if (token.kind == Kind::sign)
      vet_sign(token.text);
  }

  void vet_directive(const std::string& line) {
    const size_t before = refusals_.size();
    judge_directive(line);
    for (size_t i = before; i < refusals_.size(); ++i) refusals_[i].at_once = true;
  }
  void judge_directive(const std::string& line) {
    const std::string include = bare_include(line);
    const std::string file = include.empty() ? "" : include.substr(1);
    if (!file.empty() && depth_ > 0)
      return refuse(fmt::format("'{}': an #include stands above namespace yotta::student", line));
    if (line == "#pragma once" || of_starter_.count(line) > 0) return;
    if (is_known_header(include)) return;
    if (is_other_header(file)) return;
    if (file.empty())
      refuse(
          fmt::format("'{}': of the preprocessor's lines only #include and #pragma once may "
                      "stand here. A constant is constexpr, a macro a function",
                      line));
    else
      refuse(
          fmt::format("'{}': this header is not among those that a graded file may include", line));
  }

  // Of the library, and not one that the exercise is cut from.
  bool is_other_header(const std::string& file) const {
    const auto& own = measure_.headers;
    return file.starts_with("yotta/") && file.find("..") == std::string::npos &&
           file.find("//") == std::string::npos && file.find("/./") == std::string::npos &&
           std::find(own.begin(), own.end(), file.substr(6)) == own.end();
  }

  // Only the student's namespace may be opened here.
  void vet_outside() {
    if (follows({";"})) return;
    if (follows({"%", ":"})) refuse_at_once("a digraph: write the sign itself");
    if (follows({"namespace", "yotta", "::", "student", "{"})) {
      at_ += 4;
      depth_ = 1;
      return;
    }
    refuse(
        fmt::format("'{}' stands outside of namespace yotta::student {{ }}: code may stand only "
                    "in there",
                    tokens_[at_].text));
    at_ = tokens_.size();
  }

  void vet_word(const std::string& word) {
    const bool reserved = word.find("__") != std::string::npos ||
                          (word.size() > 1 && word[0] == '_' && word[1] >= 'A' && word[1] <= 'Z');
    const bool spaces = word.find("NAMESPACE") != std::string::npos;
    if (word == "asm")
      refuse("'asm': a graded function is C++");
    else if ((reserved || spaces) && !is_known_reserved(word) && of_starter_.count(word) == 0)
      refuse(fmt::format("'{}': such a name belongs to the compiler and its libraries", word));
    else if (word == "exercise" && names_namespace())
      refuse("'exercise': this namespace belongs to the tests");
    else if (is_channel_by_memory(word) && !is_member() && of_starter_.count(word) == 0)
      refuse(fmt::format("'{}': only the library writes what is counted; ask a Channel", word));
    else if (word == "context" && !is_member() && of_starter_.count(word) == 0)
      refuse(
          "context(): the ledger, the clock and the rank are the grader's to set; ask the channel "
          "or the communicator for its rank and size, and give a variable another name");
  }

  // "exercise::", "using namespace exercise", "namespace tests = ::exercise"; not a plain name.
  bool names_namespace() const {
    const size_t before = at_ - (text_at(at_ - 1) == "::" ? 2 : 1);
    return text_at(at_ + 1) == "::" || text_at(before) == "namespace" ||
           (text_at(before) == "=" && text_at(before - 2) == "namespace");
  }

  // Does the name at hand stand behind "." or "->"?
  bool is_member() const {
    const std::string& before = at_ > 0 ? text_at(at_ - 1) : text_at(tokens_.size());
    return before == "." || (at_ > 1 && before == ">" && text_at(at_ - 2) == "-");
  }

  void vet_sign(const std::string& sign) {
    depth_ += sign == "{" ? 1 : sign == "}" ? -1 : 0;
    if (sign == "\\" || sign == "#")
      refuse_at_once(fmt::format("'{}' outside of a text or a comment", sign));
    if (follows({"<", "%"}) || follows({"%", ">"}) || follows({"%", ":"}) || follows({"<", ":"}) ||
        follows({":", ">"}))
      refuse_at_once("a digraph: write the bracket itself");
    if (follows({"[", "["})) vet_attributes();
  }

  // All of [[nodiscard, gnu::weak]]; what stands in round brackets belongs to the attribute before
  // it.
  void vet_attributes() {
    int parentheses = 0;
    for (size_t i = at_ + 2; i < tokens_.size() && text_at(i) != "]"; ++i) {
      parentheses += text_at(i) == "(" ? 1 : text_at(i) == ")" ? -1 : 0;
      const bool is_name = parentheses == 0 && tokens_[i].kind == Kind::word;
      if (is_name && (!is_standard_attribute(text_at(i)) || text_at(i + 1) == "::"))
        return refuse(
            fmt::format("[[{}]]: this attribute is not one of the language's own", text_at(i)));
    }
  }

  const Measure& measure_;
  Tokens tokens_, starter_;
  std::set<std::string> of_starter_;
  std::vector<Refusal> refusals_;
  size_t at_ = 0;
  int depth_ = 0;
};

// The namespaces that a bracket opens: "a::b" of `namespace a::b {`; empty: it opens something
// else.
std::string namespace_of(const Tokens& tokens, size_t brace) {
  std::string name;
  for (size_t i = brace; i-- > 0;) {
    if (tokens[i].text == "namespace") return name.empty() ? "unnamed" : name;
    if (tokens[i].kind != Kind::word && tokens[i].text != "::") return "";
    name = tokens[i].text + name;
  }
  return "";
}

bool has_lower_case(const std::string& word) {
  return word.find_first_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos;
}

// The namespaces below yotta or yotta::student, as the beginning of a path: "", "detail::". A macro
// names an inline one.
std::string below_library(const std::vector<std::string>& opened) {
  std::string path;
  for (const std::string& one : opened)
    if (one != "yotta" && one != "yotta::student" && has_lower_case(one)) path += one + "::";
  return path;
}

// Does a declaration of a class or a function have its name at `i`?
bool is_defined_at(const Tokens& tokens, size_t i) {
  if (i == 0 || i + 1 >= tokens.size() || tokens[i].kind != Kind::word) return false;
  const CppToken &before = tokens[i - 1], &next = tokens[i + 1];
  if (before.text == "struct" || before.text == "class")
    return next.text == "{" || next.text == ":" || next.text == "final";
  const bool has_type =
      before.kind == Kind::word || before.text == ">" || before.text == "&" || before.text == "*";
  return has_type && next.text == "(" && has_lower_case(tokens[i].text);
}

// "detail::sum" of yotta::student::detail and sum.
std::string path_below_library(const std::string& space, const std::string& path) {
  std::vector<std::string> opened;
  for (size_t begin = 0; begin < space.size();) {
    const size_t end = std::min(space.find("::", begin), space.size());
    opened.push_back(space.substr(begin, end - begin));
    begin = end + 2;
  }
  std::erase(opened, "student");
  return below_library(opened) + path;
}

// A class or a function of a header, and the words in its brackets.
struct Body {
  std::string path;  // "detail::sum", "Ddp::finish"
  std::set<std::string> words;

  std::string name() const { return path.substr(path.rfind(':') + 1); }
};

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  for (const CppToken& token : cpp_tokens(text)) words.insert(token.text);
  return words;
}

// The functions of a page, those too that stand in their class; and its classes, with what else
// stands in these.
std::vector<Body> bodies_of_page(const std::string& text) {
  const Page page = page_of(text);
  std::vector<Body> bodies;
  std::string declared = text;
  for (const PageFunction& one : page.functions) {
    const size_t size = one.close - one.values;
    const std::string owner = one.owner.empty() ? "" : one.owner + "::";
    bodies.push_back(
        {path_below_library(one.space, owner + one.name), words_of(text.substr(one.values, size))});
    declared.replace(one.values, size, size, ' ');
  }
  for (const PageClass& one : page.classes)
    bodies.push_back({path_below_library(one.space, one.path),
                      words_of(declared.substr(one.open, one.close - one.open))});
  return bodies;
}

// "twins" of exercise.json: other headers that do the same as what is to be written.
std::vector<std::string> twins_of(const Exercise& exercise) {
  const std::string file = exercise.folder + "/exercise.json";
  if (!fs::exists(file)) return {};
  return nlohmann::json::parse(read_text(file)).value("twins", std::vector<std::string>{});
}

}  // namespace

bool at_once(const std::vector<Refusal>& refusals) {
  return std::any_of(refusals.begin(), refusals.end(),
                     [](const Refusal& one) { return one.at_once; });
}

std::string refusals_text(const std::vector<Refusal>& refusals) {
  std::string text;
  for (size_t i = 0; i < std::min(refusals.size(), most_refusals); ++i)
    text += (refusals[i].line > 0 ? fmt::format("line {}: ", refusals[i].line) : "") +
            refusals[i].why + "\n";
  if (refusals.size() > most_refusals)
    text += fmt::format("... and {} more\n", refusals.size() - most_refusals);
  return text;
}

bool is_graded(const std::string& path, const std::set<std::string>& graded) {
  for (size_t end = path.find("::");; end = path.find("::", end + 2)) {
    if (graded.count(path.substr(0, end)) > 0) return true;
    if (end == std::string::npos) return false;
  }
}

std::set<std::string> defined_names(const std::string& header) {
  const Tokens tokens = cpp_tokens(header);
  std::set<std::string> names;
  std::vector<std::string> opened;  // by brackets; empty: no namespace
  int parentheses = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text == "{") opened.push_back(namespace_of(tokens, i));
    if (text == "}" && !opened.empty()) opened.pop_back();
    const bool inside = std::find(opened.begin(), opened.end(), "") != opened.end();
    parentheses += text == "(" ? 1 : text == ")" ? -1 : 0;
    if (inside || opened.empty() || parentheses > 0 || text == every_name) continue;
    if (is_defined_at(tokens, i)) names.insert(below_library(opened) + text);
  }
  return names;
}

std::set<std::string> names_of_parts(const std::string& starter) {
  const std::vector<Body> bodies = bodies_of_page(starter);
  std::set<std::string> paths, words = {"not_done"};
  for (size_t before = 0; before != words.size();) {
    before = words.size();
    for (const Body& body : bodies) {
      const auto is_part = [&](const std::string& word) { return body.words.count(word) > 0; };
      if (body.path.empty() || std::none_of(words.begin(), words.end(), is_part)) continue;
      paths.insert(body.path);
      if (body.name() != every_name) words.insert(body.name());
    }
  }
  return paths;
}

Measure measure_of(const Exercise& exercise) {
  const std::string starter = starter_of(exercise);
  const std::string include = YOTTA_SOURCE_DIR "/include/yotta/";
  const std::string whole =
      fs::exists(include + exercise.headers.back()) ? exercise.page_text() : starter;
  Measure measure{starter, exercise.headers, defined_names(whole), names_of_parts(starter)};
  for (const std::string& twin : twins_of(exercise)) {
    measure.headers.push_back(twin);
    measure.graded.merge(defined_names(read_text(include + twin)));
  }
  return measure;
}

std::vector<Refusal> vet_text(const std::string& text, const Measure& measure) {
  return TextVet(text, measure).refusals();
}

}  // namespace runner
