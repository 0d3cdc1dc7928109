// What the compiler computes leaves no symbol: `constexpr auto t = ring_bytes_sent(4, 0, 10, 8);`
// above the student's own function of this name calls the library's. So the compiler itself says
// which function a name means.
//
//     GCC      the library's are declared again with [[deprecated]], and a warning at a line of the
//              student's is a use
//     Clang    ignores that behind a definition. So the student's lines, and no header, are read
//              with other names for these functions (a macro each): the student's own are defined
//              under the new name, the library's are not there, and an error about such a name is a
//              use
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "runner/cpp_tokens.hpp"
#include "runner/vet.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

using Kind = CppToken::Kind;
using Tokens = std::vector<CppToken>;

constexpr const char* include_folder = YOTTA_SOURCE_DIR "/include/";
constexpr const char* deprecated_as = "GRADED: ";
constexpr const char* renamed_with = "_of_the_student";

struct ConstexprFunction {
  std::string header;                   // "yotta/comm/collectives.hpp"
  std::vector<std::string> namespaces;  // "yotta", "detail"
  std::string path, name;               // "detail::sum", "sum"
  std::string declaration;              // without default arguments
  std::set<std::string> calls;          // names
};

// The names that open a namespace at this bracket; empty: it opens something else.
std::vector<std::string> opened_by(const Tokens& tokens, size_t begin, size_t brace) {
  std::vector<std::string> names;
  for (size_t i = begin; i < brace; ++i)
    if (tokens[i].kind == Kind::word && tokens[i].text != "namespace" && tokens[i].text != "inline")
      names.push_back(tokens[i].text);
  const bool is_namespace =
      begin < brace && (tokens[begin].text == "namespace" ||
                        (tokens[begin].text == "inline" && tokens[begin + 1].text == "namespace"));
  if (is_namespace && names.empty()) names.push_back("");  // one without a name
  return is_namespace ? names : std::vector<std::string>{};
}

int step_of(const std::string& sign) {
  if (sign == "(" || sign == "{" || sign == "[") return 1;
  return sign == ")" || sign == "}" || sign == "]" ? -1 : 0;
}

// Of `constexpr int f(int a, int b = 2)`: "constexpr int f(int a,int b)".
std::string declaration_of(const Tokens& tokens, size_t begin, size_t end) {
  std::string text;
  int depth = 0;
  bool skips = false;
  for (size_t i = begin; i < end; ++i) {
    const std::string& word = tokens[i].text;
    const int step = step_of(word);
    if (depth == 1 && word == "=") skips = true;
    if (depth == 1 && (word == "," || step < 0)) skips = false;
    depth += step;
    if (skips) continue;
    const bool two_words =
        tokens[i].kind != Kind::sign && i > begin && tokens[i - 1].kind != Kind::sign;
    text += (two_words ? " " : "") + word;
  }
  return text;
}

// The name of the function that these words declare, if it is constexpr, neither a template nor a
// member; else "".
std::string constexpr_name(const Tokens& tokens, size_t begin, size_t end) {
  bool computed = false;
  for (size_t i = begin; i + 1 < end; ++i) {
    const std::string& word = tokens[i].text;
    if (word == "template" || word == "operator" || word == "struct" || word == "class") return "";
    computed = computed || word == "constexpr" || word == "consteval";
    if (tokens[i].kind == Kind::word && tokens[i + 1].text == "(")
      return computed && i > begin && tokens[i - 1].text != "::" ? word : "";
  }
  return "";
}

bool is_called(const Tokens& tokens, size_t i) {
  const bool member =
      tokens[i - 1].text == "." || (tokens[i - 1].text == ">" && tokens[i - 2].text == "-");
  return tokens[i].kind == Kind::word && tokens[i + 1].text == "(" && !member;
}

std::vector<ConstexprFunction> functions_of(const std::string& header, const std::string& text) {
  Tokens tokens = cpp_tokens(text);
  std::erase_if(tokens, [](const CppToken& one) { return one.kind == Kind::directive; });
  std::vector<ConstexprFunction> functions;
  std::vector<std::vector<std::string>> opened;
  size_t begin = 0;  // of a declaration
  int parentheses = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& sign = tokens[i].text;
    parentheses += sign == "(" ? 1 : sign == ")" ? -1 : 0;
    if (parentheses > 0) continue;
    if (sign == "}" && !opened.empty()) opened.pop_back();
    if (sign == ";" || sign == "}") begin = i + 1;
    if (sign != "{") continue;
    if (const std::vector<std::string> names = opened_by(tokens, begin, i); !names.empty()) {
      opened.push_back(names), begin = i + 1;
      continue;
    }
    ConstexprFunction function{header, {}, "", constexpr_name(tokens, begin, i), "", {}};
    for (const auto& names : opened)
      function.namespaces.insert(function.namespaces.end(), names.begin(), names.end());
    for (size_t n = 1; n < function.namespaces.size(); ++n)
      function.path += function.namespaces[n] + "::";
    function.path += function.name;
    function.declaration = declaration_of(tokens, begin, i);
    for (int depth = 1; depth > 0 && ++i + 1 < tokens.size();) {
      depth += tokens[i].text == "{" ? 1 : tokens[i].text == "}" ? -1 : 0;
      if (is_called(tokens, i)) function.calls.insert(tokens[i].text);
    }
    begin = i + 1;
    const bool of_library = !function.namespaces.empty() && function.namespaces[0] == "yotta";
    if (of_library && !function.name.empty()) functions.push_back(function);
  }
  return functions;
}

// The library's headers in a compiler's list of dependencies, with their texts.
std::map<std::string, std::string> headers_in(const std::string& dependencies) {
  std::map<std::string, std::string> headers;
  std::istringstream words(dependencies);
  for (std::string word; words >> word;) {
    const size_t at = word.rfind("/include/yotta/");
    if (at == std::string::npos) continue;
    const std::string name = word.substr(at + std::string("/include/").size());
    if (fs::is_regular_file(include_folder + name))
      headers[name] = read_text(include_folder + name);
  }
  return headers;
}

// What a student may not use of these functions: what the exercise is about, and what calls it.
std::vector<ConstexprFunction> watched_of(const std::vector<ConstexprFunction>& functions,
                                          const Measure& measure) {
  std::set<std::string> own, names;  // names: of what is graded, and of what calls it
  for (const std::string& header : measure.headers) own.insert("yotta/" + header);
  std::set<const ConstexprFunction*> watched;
  for (const ConstexprFunction& one : functions) {
    if (own.count(one.header) == 0 || !is_graded(one.path, measure.graded)) continue;
    watched.insert(&one);
    if (is_graded(one.path, measure.parts)) names.insert(one.name);
  }
  for (size_t before = 0; before != watched.size();) {
    before = watched.size();
    for (const ConstexprFunction& one : functions)
      for (const std::string& call : one.calls)
        if (names.count(call) > 0 && one.name != every_name && watched.insert(&one).second)
          names.insert(one.name);
  }
  std::vector<ConstexprFunction> all;
  for (const ConstexprFunction& one : functions)
    if (watched.count(&one) > 0) all.push_back(one);
  return all;
}

std::string deprecated(const std::vector<ConstexprFunction>& functions) {
  std::string text;
  for (const ConstexprFunction& one : functions) {
    std::string opening, closing;
    for (const std::string& space : one.namespaces)
      opening += "namespace " + space + " { ", closing += " }";
    text += fmt::format("#include \"{}\"\n{}[[deprecated(\"{}yotta::{}\")]] {};{}\n", one.header,
                        opening, deprecated_as, one.path, one.declaration, closing);
  }
  return text;
}

// After all headers, which need the names as they are.
std::string renamed(const std::vector<ConstexprFunction>& functions,
                    const std::map<std::string, std::string>& headers) {
  std::string text;
  std::set<std::string> names;
  for (const auto& [header, ignored] : headers) text += "#include \"" + header + "\"\n";
  for (const ConstexprFunction& one : functions)
    if (names.insert(one.name).second)
      text += fmt::format("#define {0} {0}{1}\n", one.name, renamed_with);
  return text;
}

// "error: use of undeclared identifier 'f_of_the_student'": f; of GCC's warning: the path behind
// the mark; "": neither.
std::string used_in(const std::string& line) {
  const size_t is = line.find("is deprecated: " + std::string(deprecated_as)),
               end = line.find(renamed_with);
  if (is != std::string::npos) {
    const size_t begin = line.find(deprecated_as, is) + std::string(deprecated_as).size();
    return line.substr(begin, line.find_first_of(" \n", begin) - begin);
  }
  if (end == std::string::npos || line.find(" error: ") == std::string::npos) return "";
  const size_t begin = line.find_last_of("':", end) + 1;
  return line.substr(begin, end - begin);
}

}  // namespace

std::string header_of_constants(const Measure& measure, const std::string& dependencies,
                                Compiler compiler) {
  const std::map<std::string, std::string> headers = headers_in(dependencies);
  std::vector<ConstexprFunction> functions;
  for (const auto& [header, text] : headers)
    for (const ConstexprFunction& one : functions_of(header, text)) functions.push_back(one);
  const std::vector<ConstexprFunction> watched = watched_of(functions, measure);
  if (watched.empty()) return "";
  return compiler == Compiler::gcc ? deprecated(watched) : renamed(watched, headers);
}

std::vector<Refusal> vet_constants(const std::string& log, const std::string& file) {
  std::vector<Refusal> refusals;
  std::set<std::string> said;
  for (const std::string& line : lines_of(log)) {
    const std::string name = line.starts_with(file + ":") ? used_in(line) : "";
    if (name.empty() || !said.insert(name).second) continue;
    refusals.push_back({std::atoi(line.c_str() + file.size() + 1),
                        fmt::format("it uses {}, which this exercise is about, or calls what is: "
                                    "write your own",
                                    name)});
  }
  return refusals;
}

}  // namespace runner
