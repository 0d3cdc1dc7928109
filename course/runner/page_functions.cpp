#include "runner/page_functions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "runner/cpp_tokens.hpp"

namespace runner {
namespace {

using Tokens = std::vector<CppToken>;

bool is_word(const CppToken& token) { return token.kind == CppToken::Kind::word; }
bool is_any(const std::string& text, const std::set<std::string>& of) { return of.count(text) > 0; }

// Words before a name that say nothing about what the function returns.
bool is_specifier(const std::string& word) {
  return is_any(word,
                {"inline", "static", "constexpr", "consteval", "virtual", "explicit", "friend",
                 "YOTTA_HOST_DEVICE", "__global__", "__device__", "__host__", "extern"});
}

// "a::b"; one of them may be empty.
std::string within(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "::" + b;
}

// Reads a text once, from its first token to its last.
class PageReader {
 public:
  explicit PageReader(const std::string& text) : tokens_(cpp_tokens(text)) {
    std::erase_if(tokens_,
                  [](const CppToken& one) { return one.kind == CppToken::Kind::directive; });
  }

  Page page() {
    read_scope({});
    return std::move(found_);
  }

 private:
  const std::string& word(size_t i) const {
    static const std::string none;
    return i < tokens_.size() ? tokens_[i].text : none;
  }

  // Behind the bracket that closes the one at i. Only of its own kind, so that a lambda's braces
  // may stand in parentheses.
  size_t behind(size_t i, const std::string& open, const std::string& close) const {
    int depth = 0;
    for (; i < tokens_.size(); ++i) {
      depth += (word(i) == open) - (word(i) == close);
      if (depth == 0) return i + 1;
    }
    return i;
  }

  // The names around a declaration.
  struct Scope {
    std::string space, owner;
  };

  // The declarations up to the brace that closes this scope.
  void read_scope(const Scope& scope) {
    while (at_ < tokens_.size() && word(at_) != "}") read_declaration(scope);
    ++at_;
  }

  // The head of a declaration, up to its semicolon or its body.
  void read_declaration(const Scope& scope) {
    const size_t begin = at_;
    bool value = false, called = false, members = false;  // behind "=", (...), and (...) ":"
    for (; at_ < tokens_.size(); ++at_) {
      const std::string& text = word(at_);
      if (text == ";") return void(++at_);
      if (text == "}") return;  // an enum's last name, or a lone macro
      if (text == "operator") {
        at_ = std::min(find(at_ + 2, tokens_.size(), {"("}), tokens_.size()) - 1;
      } else if (text == "(") {
        at_ = behind(at_, "(", ")") - 1;
        called = true;
      } else if (text == "template" && word(at_ + 1) == "<") {
        at_ = behind(at_ + 1, "<", ">") - 1;
      } else if (text == "=") {
        value = true;
      } else if (text == ":") {
        if (is_any(word(at_ - 1), {"public", "private", "protected"})) return void(++at_);
        members = called;
      } else if (text == "{") {
        const bool first_value = value || (members && is_word(tokens_[at_ - 1]));
        if (!first_value) return read_block(begin, scope);
        at_ = behind(at_, "{", "}") - 1;
      }
    }
  }

  // What stands in braces behind tokens begin to at_: a namespace, a class, a function, or none of
  // them.
  void read_block(size_t begin, const Scope& scope) {
    const size_t open = at_, head = behind_template(begin);
    const size_t space = find(begin, open, {"namespace"});
    const size_t kind = find(head, open, {"class", "struct", "union"});
    if (space < open) return enter({within(scope.space, joined_name(space + 1, open)), ""});
    if (kind < open && find(head, open, {"("}) == open) {
      const std::string own = is_word(tokens_[kind + 1]) ? word(kind + 1) : "";
      PageClass one{scope.space, within(scope.owner, own), place(open)};
      enter({scope.space, one.path});
      one.close = place(std::min(at_, tokens_.size()) - 1);
      return found_.classes.push_back(std::move(one));
    }
    at_ = behind(open, "{", "}");
    if (find(head, open, {"enum"}) == open) add_function(begin, head, open, scope);
  }
  void enter(const Scope& scope) {
    ++at_;
    read_scope(scope);
  }

  size_t find(size_t begin, size_t end, const std::set<std::string>& words) const {
    while (begin < end && words.count(word(begin)) == 0) ++begin;
    return begin;
  }
  size_t behind_template(size_t i) const {
    while (word(i) == "template" && word(i + 1) == "<") i = behind(i + 1, "<", ">");
    return i;
  }
  // Without arguments of templates.
  std::string joined_name(size_t begin, size_t end) const {
    std::string name;
    for (; begin < end; ++begin) {
      const bool arguments = word(begin) == "<" && name.find("operator") == std::string::npos;
      if (arguments) begin = behind(begin, "<", ">");
      if (begin < end) name += word(begin);
    }
    return name;
  }

  // What may have brackets of its own in front of a function's name, and is no type.
  static bool is_attribute(const std::string& text) {
    return is_any(text, {"__attribute__", "alignas", "__launch_bounds__", "explicit", "noexcept"});
  }
  // The bracket that opens the parameters, behind the function's name.
  size_t parameters_of(size_t head, size_t open) const {
    for (size_t i = head; i < open; ++i) {
      if (word(i) != "(") continue;
      if (word(i - 1) == "operator") continue;  // operator()()
      if (!is_attribute(word(i - 1)) && word(i - 1) != "decltype") return i;
      i = behind(i, "(", ")") - 1;
    }
    return open;
  }

  void add_function(size_t begin, size_t head, size_t open, const Scope& scope) {
    const size_t parameters = parameters_of(head, open);
    if (parameters == open) return;
    const size_t name = name_before(head, parameters);
    if (name == parameters) return;
    const size_t behind_them = behind(parameters, "(", ")");
    PageFunction one{
        scope.space,          scope.owner,         joined_name(name, parameters),
        text_of(begin, head), text_of(head, open), returns_value(head, name, parameters)};
    one.begin = place(begin), one.head = place(head), one.called = place(name);
    one.parameters = place(parameters), one.behind = place(behind_them - 1) + 1;
    one.values = place(find(behind_them, open, {":"}));
    one.open = place(open), one.close = place(std::min(at_, tokens_.size()) - 1);
    found_.functions.push_back(std::move(one));
  }
  size_t place(size_t token) const { return tokens_[token].at; }

  bool returns_value(size_t head, size_t name, size_t parameters) const {
    const size_t conversion = find(head, parameters, {"operator"}) + 1;  // operator bool
    if (conversion < parameters && is_word(tokens_[conversion])) return true;
    std::string returned;
    for (size_t i = head; i < name; ++i) {
      if (word(i) == "[") i = behind(i, "[", "]");
      if (is_attribute(word(i)) && word(i + 1) == "(") i = behind(i + 1, "(", ")");
      if (i < name && !is_specifier(word(i))) returned += word(i);
    }
    return !returned.empty() && returned != "void";
  }

  // Where a function's name begins, with the classes before it; `parameters`: it has none.
  size_t name_before(size_t head, size_t parameters) const {
    size_t name = find(head, parameters, {"operator"});
    if (name == parameters) --name;
    if (name < head || name >= parameters) return parameters;
    if (name > head && word(name - 1) == "~") --name;
    while (name >= head + 2 && word(name - 1) == "::") {
      name -= 2;
      if (word(name) != ">") continue;
      for (int depth = 0; name > head; --name) {
        depth += (word(name) == ">") - (word(name) == "<");
        if (depth == 0) break;
      }
      if (name > head) --name;
    }
    return name;
  }

  // Up to the body, or to the first values of members; without comments.
  std::string text_of(size_t begin, size_t open) const {
    std::string text;
    for (size_t i = begin; i < open; ++i) {
      if (word(i) == ":") break;
      const size_t before = i > begin ? tokens_[i - 1].at + tokens_[i - 1].text.size() : 0;
      if (i > begin && tokens_[i].at > before) text += " ";
      text += word(i);
    }
    return text;
  }

  Tokens tokens_;
  size_t at_ = 0;
  Page found_;
};

std::string without_blanks(const std::string& text) {
  std::string plain;
  for (const char c : text)
    if (c != ' ' && c != '\n') plain += c;
  return plain;
}

}  // namespace

std::string PageFunction::path() const { return within(within(space, owner), name); }

Page page_of(const std::string& text) { return PageReader(text).page(); }
std::vector<PageFunction> functions_of(const std::string& text) { return page_of(text).functions; }

PageFunction find_function(const std::vector<PageFunction>& functions, const std::string& name) {
  const size_t call = name.find("operator()"), behind_it = call == name.npos ? 0 : call + 10;
  const std::string path = name.substr(0, name.find('(', behind_it)), part = without_blanks(name);
  std::vector<PageFunction> found;
  std::vector<std::string> others;
  for (const PageFunction& one : functions) {
    if (one.path() != path && !one.path().ends_with("::" + path)) continue;
    others.push_back(one.signature);
    const bool meant =
        path == name ||
        without_blanks(one.signature).find(part.substr(path.rfind(':') + 1)) != std::string::npos;
    if (meant) found.push_back(one);
  }
  if (found.size() == 1) return found[0];
  throw std::runtime_error(
      found.empty()
          ? fmt::format("there is no function '{}'{}", name,
                        others.empty() ? "" : fmt::format("; there is {}", fmt::join(others, "; ")))
          : fmt::format("'{}' may be {}: name it with its class, or with a part of its "
                        "parameters",
                        name, fmt::join(others, "; or ")));
}

}  // namespace runner
