#include "runner/handout_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "runner/page_functions.hpp"

namespace runner {
namespace {

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

template <class Of>
std::string joined(const std::vector<std::string>& parameters, Of of) {
  std::vector<std::string> all;
  for (const std::string& one : parameters) all.push_back(of(one));
  return fmt::format("{}", fmt::join(all, ", "));
}

// Without these words, which stand before what the function returns, or behind its parameters.
std::string without_words(std::string text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
      const size_t end = at + word.size();
      const bool whole =
          (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
      if (whole)
        text.erase(at, word.size());
      else
        at = end;
    }
  return trimmed(text);
}

std::string without_comments(const std::string& text) {
  std::string plain;
  for (const std::string& line : lines_of(text)) plain += line.substr(0, line.find("//")) + "\n";
  return trimmed(plain);
}

// Without [[nodiscard]] and its likes.
std::string without_attributes(std::string text) {
  for (size_t at; (at = text.find("[[")) != std::string::npos;)
    text.erase(at, text.find("]]", at) + 2 - at);
  return text;
}

// A function of a page, taken apart.
class Definition {
 public:
  Definition(const std::string& page, const PageFunction& function)
      : page_(page), function_(function) {
    const std::string before = without_attributes(part(function.head, function.called));
    is_constexpr_ = without_words(before, {"constexpr"}) != trimmed(before);
    returned_ = without_words(before, {"inline", "static", "virtual", "explicit", "constexpr"});
    parameters_ =
        split_parameters(without_comments(part(function.parameters + 1, function.behind - 1)));
  }

  // Can a library hold it?
  bool is_plain() const {
    const bool deduced = returned_ == "auto" && qualifiers().find("->") == std::string::npos;
    return function_.parameters_of_template.empty() && !deduced && !(is_constexpr_ && in_class());
  }
  bool is_constexpr() const { return is_constexpr_; }
  // Behind its class, whose members are declared there.
  bool is_declared_before() const {
    return !in_class() && function_.name.find("::") != std::string::npos;
  }

  std::string declaration() const {
    const std::string head = part(function_.begin, function_.values);
    return (in_class() ? trimmed(head) : without_words(head, {"inline"})) + ";";
  }
  // The same function outside of its class, and not inline.
  std::string outside() const {
    const std::string name = (in_class() ? function_.owner + "::" : "") +
                             (is_constexpr_ ? name_of_twin() : function_.name);
    const std::string called =
        fmt::format("{}({}){}", name, joined(parameters_, without_default), qualifiers());
    // A type that its class defines is known only behind the name.
    const std::string head = returned_.empty() ? called
                             : returned_ == "auto"
                                 ? "auto " + called
                                 : fmt::format("auto {} -> {}", called, returned_);
    return head + " " + body(function_.values) + "\n";
  }
  std::string twin_declared() const {
    return fmt::format("{} {}({});\n", returned_, name_of_twin(),
                       joined(parameters_, without_default));
  }
  std::string twin_called() const {
    return fmt::format(
        "{} {{\n  return std::is_constant_evaluated()\n             ? "
        "yotta::handed_out::only_at_run_time<{}>()\n             : handed_out::{}({});  // "
        "compiled\n}}",
        trimmed(part(function_.begin, function_.open)), returned_, name_of_twin(),
        joined(parameters_, argument));
  }
  std::string space() const { return function_.space; }
  bool returns_value() const { return function_.returns_value; }

 private:
  bool in_class() const { return !function_.owner.empty(); }
  // Another name, so that other twins' bodies call the page's function and no twin.
  std::string name_of_twin() const { return function_.name + "_body"; }
  // Behind the parameters: const, or what a function returns.
  std::string qualifiers() const {
    const std::string all =
        without_words(part(function_.behind, function_.values), {"override", "final"});
    return all.empty() ? "" : " " + all;
  }
  std::string part(size_t begin, size_t end) const { return page_.substr(begin, end - begin); }
  std::string body(size_t from) const { return part(from, function_.close + 1); }

  const std::string& page_;
  PageFunction function_;
  bool is_constexpr_ = false;
  std::string returned_;
  std::vector<std::string> parameters_;  // with their default arguments
};

// What stands in place of a piece of the page.
struct Change {
  size_t begin = 0, end = 0;
  std::string text;
};

// One page, its functions from first to last.
class Cutter {
 public:
  Cutter(const std::string& page, const std::vector<Task>& tasks, const std::vector<size_t>& again)
      : page_(page), functions_(functions_of(page)) {
    for (const Task& task : tasks) find_task(task);
    for (const size_t line : again) again_.insert(line);
    kernels_ = page.find("__global__") != std::string::npos ||
               page.find("__device__") != std::string::npos;
  }

  HandoutHeader cut() {
    for (const PageFunction& function : functions_) step(function);
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return a.begin > b.begin; });
    cut_.text = page_;
    for (const Change& one : changes_) cut_.text.replace(one.begin, one.end - one.begin, one.text);
    const std::string once = "#pragma once\n";
    if (const size_t at = cut_.text.find(once); at != std::string::npos)
      cut_.text.insert(at + once.size(), "\n#include \"yotta/handed_out.hpp\"\n");
    return cut_;
  }

 private:
  void find_task(const Task& task) {
    try {
      task_at_[find_function(functions_, task.function).open] = task.id;
    } catch (const std::runtime_error&) {  // it stands on another page of the exercise
    }
  }
  void step(const PageFunction& function) {
    const auto task = task_at_.find(function.open);
    const bool is_task = task != task_at_.end();
    if (!is_task && !holds_again(function) && !is_given_away(function)) return;
    const Definition definition(page_, function);
    if (kernels_ || !definition.is_plain()) {
      if (is_task) leave_open(function, task->second);
      return;
    }
    if (definition.is_constexpr())
      add_twin(function, definition);
    else
      declare(function, definition);
  }
  void declare(const PageFunction& function, const Definition& definition) {
    changes_.push_back({function.begin, function.close + 1,
                        definition.is_declared_before() ? "" : definition.declaration()});
    define(definition.space(), definition.outside());
  }
  void add_twin(const PageFunction& function, const Definition& definition) {
    changes_.push_back({function.begin, function.close + 1,
                        fmt::format("namespace handed_out {{\n{}}}  // namespace handed_out\n{}",
                                    definition.twin_declared(), definition.twin_called())});
    define(definition.space() + "::handed_out", definition.outside());
  }
  void define(const std::string& space, const std::string& text) {
    cut_.unit += fmt::format("namespace {} {{\n{}}}\n", space, text);
  }
  void leave_open(const PageFunction& function, const std::string& task) {
    changes_.push_back({function.open, function.close + 1,
                        fmt::format("{{\n  not_done(\"{}\");\n{}}}", task,
                                    function.returns_value ? "  return {};\n" : "")});
    cut_.open.push_back(task);
  }

  bool holds_again(const PageFunction& function) const {
    const auto line_of = [&](size_t place) {
      return static_cast<size_t>(
          std::count(page_.begin(), page_.begin() + static_cast<std::ptrdiff_t>(place), '\n'));
    };
    const auto line = again_.lower_bound(line_of(function.open));
    return line != again_.end() && *line <= line_of(function.close);
  }
  // Behind a comment that says so, up to the end of the namespace: it would answer a task.
  bool is_given_away(const PageFunction& function) const {
    const size_t said = page_.rfind("not in the exercise", function.begin);
    return said != std::string::npos && page_.find("\n}  // namespace", said) > function.begin;
  }

  const std::string& page_;
  std::vector<PageFunction> functions_;
  std::map<size_t, std::string> task_at_;  // by the place of the body
  std::set<size_t> again_;
  bool kernels_ = false;
  std::vector<Change> changes_;
  HandoutHeader cut_;
};

}  // namespace

HandoutHeader cut_for_handout(const std::string& page, const std::vector<Task>& tasks,
                              const std::vector<size_t>& again) {
  return Cutter(page, tasks, again).cut();
}

std::string handed_out_header() {
  return R"(// Functions whose bodies are exercises: the compiled library in handout/ has them.
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
