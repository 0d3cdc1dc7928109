// The bodies of device/unchanged/source_step.hpp.
#pragma once

#include "yotta/device/unchanged/source_step.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "yotta/core/system/build.hpp"

namespace yotta {

// A token of C++. Two of the kind `edge` enclose the body of a macro; the first is its name.
struct SourceToken {
  enum Kind { word, number, literal, mark, edge } kind = edge;
  size_t begin = 0, end = 0;
};

// #if, #else and the like, or #endif: before this token.
struct SourceBranch {
  enum Kind { begin, other, end } kind = begin;
  size_t token = 0;
};

// Cuts a text into tokens. Comments are none, and neither are preprocessor lines other than the
// bodies of macros.
class SourceTokens {
 public:
  explicit SourceTokens(const std::string& text) : text_(text) {
    while (at_ < text_.size()) step();
  }
  std::vector<SourceToken> take() { return std::move(tokens_); }
  std::vector<SourceBranch> take_branches() { return std::move(branches_); }

 private:
  char look(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool comes(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }
  static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  void step() {
    const char c = look();
    if (c == '\n') return end_of_line();
    if (comes("//")) return skip_line();
    if (comes("/*")) return skip_past("*/", 2);
    if (c == '#' && fresh_line_) return directive();
    if (std::isspace(static_cast<unsigned char>(c)) || c == '\\') return static_cast<void>(++at_);
    fresh_line_ = false;
    if (c == '"' || c == '\'') return quoted(at_);
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    if (in_word(c)) return word();
    punctuation();
  }

  void add(SourceToken::Kind kind, size_t begin) { tokens_.push_back({kind, begin, at_}); }
  // A line ends; with it a macro, unless a backslash stands before.
  void end_of_line() {
    size_t last = at_;
    if (last > 0 && text_[last - 1] == '\r') --last;
    const bool continued = last > 0 && text_[last - 1] == '\\';
    if (in_macro_ && !continued) {
      add(SourceToken::edge, at_);
      in_macro_ = false;
    }
    if (!continued) fresh_line_ = true;
    ++at_;
  }
  void skip_past(std::string_view end, size_t from) {
    const size_t found = text_.find(end, at_ + from);
    at_ = found == std::string::npos ? text_.size() : found + end.size();
  }
  // To the end of the line, which a backslash continues.
  void skip_line() {
    while (at_ < text_.size() && (look() != '\n' || text_[at_ - 1] == '\\')) ++at_;
  }
  void directive() {
    size_t name = at_ + 1;
    while (name < text_.size() && (text_[name] == ' ' || text_[name] == '\t')) ++name;
    const auto called = [&](std::string_view what) {
      return text_.compare(name, what.size(), what) == 0;
    };
    if (called("if")) branches_.push_back({SourceBranch::begin, tokens_.size()});
    if (called("el")) branches_.push_back({SourceBranch::other, tokens_.size()});
    if (called("endif")) branches_.push_back({SourceBranch::end, tokens_.size()});
    if (!called("define")) return skip_line();
    at_ = name + 6;
    while (look() == ' ' || look() == '\t') ++at_;
    const size_t begin = at_;
    while (in_word(look())) ++at_;
    add(SourceToken::edge, begin);
    if (look() == '(')
      while (at_ < text_.size() && look() != ')' && look() != '\n') ++at_;
    if (look() == ')') ++at_;
    in_macro_ = true;
    fresh_line_ = false;
  }
  void quoted(size_t begin) {
    const char quote = look();
    for (++at_; at_ < text_.size() && look() != quote && look() != '\n'; ++at_)
      if (look() == '\\') ++at_;
    if (look() == quote) ++at_;
    add(SourceToken::literal, begin);
  }
  // R"delimiter(text)delimiter".
  void raw_string(size_t begin) {
    const size_t open = text_.find('(', at_);
    if (open == std::string::npos) return quoted(begin);
    const std::string end = ")" + text_.substr(at_ + 1, open - at_ - 1) + "\"";
    skip_past(end, 0);
    add(SourceToken::literal, begin);
  }
  void number() {
    const size_t begin = at_;
    while (in_word(look()) || look() == '.' || (look() == '\'' && in_word(look(1))) ||
           ((look() == '+' || look() == '-') && text_[at_ - 1] == 'e' && text_[begin] != '0'))
      ++at_;
    add(SourceToken::number, begin);
  }
  void word() {
    const size_t begin = at_;
    while (in_word(look())) ++at_;
    if (look() == '"' && text_[at_ - 1] == 'R') return raw_string(begin);
    if (look() == '"' && at_ - begin <= 2) return quoted(begin);
    add(SourceToken::word, begin);
  }
  void punctuation() {
    const size_t begin = at_;
    for (const std::string_view each : {"<<<", ">>>", "<<", ">>", "->", "::", "<=", ">=", "##"})
      if (comes(each)) {
        at_ += each.size();
        return add(SourceToken::mark, begin);
      }
    ++at_;
    add(SourceToken::mark, begin);
  }

  const std::string& text_;
  size_t at_ = 0;
  bool fresh_line_ = true, in_macro_ = false;
  std::vector<SourceToken> tokens_;
  std::vector<SourceBranch> branches_;
};

// The rewriting of one text.
class SourceStep {
 public:
  SourceStep(const std::string& text, SourceNames& names) : text_(text), names_(names) {
    SourceTokens tokens(text);
    tokens_ = tokens.take();
    branches_ = tokens.take_branches();
  }

  std::string run() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_variable(i)) names_.variables.emplace(text(i));
      if (tokens_[i].kind == SourceToken::edge) names_.macros.emplace(text(i));
    }
    for (size_t i = 0; i < tokens_.size(); ++i) {
      follow_branches(i);
      follow_braces(i);
      follow_sizes(i);
      if (is(i, "<<<")) launch(i);
      if (tokens_[i].kind == SourceToken::word) word(i);
    }
    return edited();
  }

 private:
  // ---- Tokens ----
  std::string_view text(size_t i) const {
    if (i >= tokens_.size()) return {};
    return std::string_view(text_).substr(tokens_[i].begin, tokens_[i].end - tokens_[i].begin);
  }
  bool is(size_t i, std::string_view what) const { return text(i) == what; }
  bool is_one_of(size_t i, std::initializer_list<std::string_view> some) const {
    return std::find(some.begin(), some.end(), text(i)) != some.end();
  }
  bool is_word(size_t i) const {
    return i < tokens_.size() && tokens_[i].kind == SourceToken::word;
  }
  bool opens(size_t i) const { return is_one_of(i, {"(", "[", "{"}); }
  bool closes(size_t i) const { return is_one_of(i, {")", "]", "}"}); }
  // The token that closes the bracket at i; npos if there is none.
  size_t closing(size_t i) const {
    int depth = 0;
    for (; i < tokens_.size(); ++i) {
      depth += opens(i) - closes(i);
      if (depth == 0) return i;
    }
    return npos;
  }
  size_t opening(size_t i) const {
    int depth = 0;
    for (;; --i) {
      depth += closes(i) - opens(i);
      if (depth == 0) return i;
      if (i == 0) return npos;
    }
  }
  // The "<" of the ">" at i.
  size_t opening_angle(size_t i) const {
    int depth = 0;
    for (;; --i) {
      if (tokens_[i].kind == SourceToken::edge) return npos;
      if (closes(i)) i = opening(i);
      if (i == npos) return npos;
      if (is_one_of(i, {">", ">>", ">>>"})) depth += static_cast<int>(text(i).size());
      if (is(i, "<")) --depth;
      if (depth == 0) return i;
      if (i == 0 || is_one_of(i, {";", "{", "}"})) return npos;
    }
  }

  // ---- Edits ----
  void replace(size_t begin, size_t end, std::string by) {
    edits_.push_back({begin, end, std::move(by)});
  }
  void replace_token(size_t i, std::string by) {
    replace(tokens_[i].begin, tokens_[i].end, std::move(by));
  }
  // The line breaks that the text between has, those of a macro with their backslashes.
  std::string line_breaks(size_t begin, size_t end) const {
    std::string breaks;
    for (size_t at = text_.find('\n', begin); at < end; at = text_.find('\n', at + 1)) {
      const bool continued = text_[at - 1] == '\\' || text_.compare(at - 2, 2, "\\\r") == 0;
      breaks += continued ? "\\\n" : "\n";
    }
    return breaks;
  }
  std::string edited() {
    std::sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::string result;
    size_t done = 0;
    for (const Edit& each : edits_) {
      if (each.begin < done) continue;  // within one that was made
      result.append(text_, done, each.begin - done).append(each.by);
      done = each.end;
    }
    return result.append(text_, done, std::string::npos);
  }

  // ---- Launches ----
  void launch(size_t at) {
    if (at == 0) return;
    const size_t begin = callee(at - 1), end = end_of_shape(at);
    if (begin == npos || end == npos) return;
    const size_t from = tokens_[begin].begin;
    const LaunchArguments arguments = without_nulls(end + 1);
    const std::string lambda = "(" + arguments.parameters + ") { ",
                      call = "(" + arguments.call + "); }, ::yotta::emulator::LaunchShape(";
    if (is_value(begin, at)) {
      replace(from, from, "::yotta::emulator::launch_call([yotta_kernel = ");
      replace_token(at, "]" + lambda + "yotta_kernel" + call);
    } else {
      replace(from, from, "::yotta::emulator::launch_call([=]" + lambda);
      replace_token(at, call);
    }
    replace_token(end, "))");
  }
  // Whether the expression has a value that may be another one later, unlike a kernel's name.
  bool is_value(size_t begin, size_t end) const {
    if (is_one_of(end - 1, {")", "]"})) return names_.macros.count(std::string(text(begin))) == 0;
    if (!is_word(end - 1) || is(end - 2, "template")) return false;
    if (end - begin == 1)
      return names_.variables.count(std::string(text(begin))) > 0 &&
             names_.kernels.count(std::string(text(begin))) == 0 && !in_macro_;
    return is_one_of(end - 2, {".", "->"});
  }
  // kernel = f;  kernel;  (*kernel)(
  bool is_variable(size_t i) const {
    if (i == 0 || !is_word(i)) return false;
    if (is(i - 1, "*") && is(i - 2, "(")) return is(i + 1, ")") && is(i + 2, "(");
    const bool declared = is_word(i - 1) || is_one_of(i - 1, {">", "*", "&"});
    return declared && is_one_of(i + 1, {";", "=", "{"}) &&
           !is_one_of(i - 1, {"return", "class", "struct", "union", "enum", "namespace", "goto"});
  }
  struct LaunchArguments {
    std::string parameters = "auto... yotta_0", call = "yotta_0...";
  };
  // The comma or bracket before it, and the one behind.
  struct Argument {
    size_t before, end;
  };
  bool is_null(const Argument& its) const {
    return its.end == its.before + 2 && is_one_of(its.before + 1, {"0", "NULL"});
  }
  // Takes 0 and NULL out of the arguments that begin here, and puts them into the kernel's call.
  // The last of the others in a row become a pack, since a macro may stand there for several.
  LaunchArguments without_nulls(size_t open) {
    const std::vector<Argument> all = arguments_of(open);
    size_t end = all.size();
    while (end > 0 && is_null(all[end - 1])) --end;
    size_t pack = end;
    while (pack > 0 && !is_null(all[pack - 1])) --pack;
    for (size_t k = 0; k < pack; ++k)
      if (is_one_of(all[k].end - 1, {".", "__VA_ARGS__"})) return {};  // of an unknown number
    LaunchArguments result{"", ""};
    for (size_t k = 0; k < all.size(); ++k) {
      if (pack < k && k < end) continue;
      if (k > 0) result.call += ", ";
      if (is_null(all[k]))
        move_null(all[k], result);
      else
        pass_on(all[k], "yotta_" + std::to_string(k), k == pack ? "..." : "", result);
    }
    return result;
  }
  void move_null(const Argument& its, LaunchArguments& to) {
    to.call += text(its.before + 1);
    if (is(its.before, ",")) replace_token(its.before, "");
    replace_token(its.before + 1, "");
  }
  void pass_on(const Argument& its, const std::string& name, const std::string& dots,
               LaunchArguments& to) {
    const bool first = to.parameters.empty();
    to.parameters += (first ? "auto" : ", auto") + dots + " " + name;
    to.call += name + dots;
    if (!first || !is(its.before, ",")) return;
    replace_token(its.before, "");
    if (is(its.before + 1, "##")) replace_token(its.before + 1, "");  // , ##__VA_ARGS__
  }
  // Of the call whose bracket is `open`.
  std::vector<Argument> arguments_of(size_t open) const {
    std::vector<Argument> all;
    const size_t last = closing(open);
    size_t before = open;
    for (size_t i = open + 1; last != npos && i <= last; ++i) {
      if (is(i, ",") || i == last) all.push_back({std::exchange(before, i), i});
      if (is(i, "<")) i = closing_angle(i);
      if (i < last && opens(i)) i = closing(i);
    }
    return all;
  }
  // Of f<a, b>(...) and the like; else the "<" itself.
  size_t closing_angle(size_t at) const {
    for (size_t i = at + 1; i < tokens_.size() && !closes(i) && !is(i, ";"); ++i) {
      if (opens(i)) i = closing(i);
      if (i == npos) return at;
      if (is_one_of(i, {">", ">>"}) && opening_angle(i) == at)
        return is_one_of(i + 1, {"(", "{", "::", ",", ")"}) ? i : at;
    }
    return at;
  }
  // Where the expression that ends at i begins: kernel, n::kernel<T, 4>, kernels[k].
  size_t callee(size_t i) const {
    for (;;) {
      if (is_one_of(i, {">", ">>", ">>>"})) {
        const size_t open = opening_angle(i);
        if (open == npos || open == 0 || !is_word(open - 1)) return npos;
        i = open - 1;
      }
      if (is_one_of(i, {")", "]"})) {
        const size_t open = opening(i);
        if (open == npos || open == 0) return open;
        if (!is_word(open - 1) && !is_one_of(open - 1, {")", "]", ">"})) return open;
        i = open - 1;
        continue;
      }
      if (!is_word(i)) return npos;
      if (i == 0) return i;
      if (is(i - 1, "##") && i >= 2 && is_word(i - 2)) {
        i -= 2;
        continue;
      }
      if (is(i - 1, "template")) --i;
      if (!is_one_of(i - 1, {"::", ".", "->"})) return i;
      const bool leads = i >= 2 && (is_word(i - 2) || is_one_of(i - 2, {">", ")", "]"})) &&
                         !is_one_of(i - 2, {"return", "else", "do"});
      if (!leads) return i - 1;
      i -= 2;
    }
  }
  // The ">>>" of the "<<<" at i, if "(" follows.
  size_t end_of_shape(size_t i) const {
    for (++i; i < tokens_.size(); ++i) {
      if (closes(i) || is(i, ";") || tokens_[i].kind == SourceToken::edge) return npos;
      if (opens(i)) i = closing(i);
      if (i == npos) return npos;
      if (is(i, ">>>")) return is(i + 1, "(") ? i : npos;
    }
    return npos;
  }

  // ---- Words ----
  void word(size_t i) {
    if (is(i, "__global__")) return kernel(i);
    const std::string name(text(i));
    if (names_.kernel_macros.count(name) > 0) return kernel_body(i);
    if (names_.shared_arrays.count(name) > 0 && is_operand(i))
      return replace_token(i, "::yotta::emulator::decayed(" + name + ")");
    if (const auto found = names_.own_sizes.find(name); found != names_.own_sizes.end())
      if (state_.functions == 0 && state_.round == 0 && qualifies_function(i))
        for (const std::string& each : found->second)
          state_.own_sizes.try_emplace(each, depth() + 1);
    if (is(i, "__shared__") && is_extern(i)) return dynamic_arrays(i);
    if (is(i, "__shared__") && is(i + 1, "alignas")) replace_token(i + 1, "__align__");
    if (is_one_of(i, {"__shared__", "__constant__"})) return without_static(i);
    if (is(i, "__noinline__")) return replace_token(i, "__attribute__((noinline))");
    if (is(i, "__forceinline__")) return force_inline(i);
    if (is_one_of(i, {"asm", "__asm__", "__asm"})) return assembly(i);
    if (takes_kernel(i) && is(i + 1, "(")) without_casts(i + 1);
  }
  // Class::f(, Class::Inner::f<T>(, Class::~Class(, Class::operator+(
  bool qualifies_function(size_t i) const {
    if (!is(i + 1, "::")) return false;
    while (is(i + 1, "::")) i += 2;
    if (is(i, "operator")) return true;
    if (is(i, "~")) ++i;
    return is(is(i + 1, "<") ? closing_angle(i + 1) + 1 : i + 1, "(");
  }
  void kernel(size_t i) {
    replace_token(i, "__global__ __attribute__((noinline))");
    if (i >= 2 && is(i - 2, "extern") && is(i - 1, "\"C\"")) {  // names of kernels have tags
      replace_token(i - 2, "");
      replace_token(i - 1, "");
    }
    for (const Linkage& each : state_.linkages) replace_token(each.literal, "\"C++\"");
    kernel_body(i);
  }
  // Some write the first words of all kernels as a macro.
  void kernel_body(size_t i) {
    std::vector<std::pair<size_t, size_t>> attributes;  // the first and the last token of each
    size_t parameters = npos;
    for (const size_t first = i++; i < tokens_.size() && !is(i, ";"); ++i) {
      if (tokens_[i].kind == SourceToken::edge) return add_kernel_macro(first);
      if (is(i, "{")) {
        const size_t at = tokens_[i].end;
        return replace(at, at, kernel_question(attributes, parameters));
      }
      if (const size_t end = end_of_attribute(i); end != npos) {
        const size_t from = tokens_[i].begin, to = tokens_[end].end;
        if (is(i, "__cluster_dims__")) replace(from, to, line_breaks(from, to));
        attributes.emplace_back(i, end);
      }
      if (is(i, "(") && is_word(i - 1)) names_.kernels.emplace(text(i - 1));
      if (is(i, "(") && !text(i - 1).starts_with("__")) parameters = i;
      if (opens(i)) i = closing(i);
      if (i == npos) return;
    }
  }
  // __launch_bounds__(...), __cluster_dims__(...)
  size_t end_of_attribute(size_t i) const {
    const bool is_attribute = is_one_of(i, {"__launch_bounds__", "__cluster_dims__"});
    return is_attribute && is(i + 1, "(") ? closing(i + 1) : npos;
  }
  // What a kernel's body begins with. A parameter hides what an attribute means by its name.
  std::string kernel_question(const std::vector<std::pair<size_t, size_t>>& attributes,
                              size_t parameters) const {
    std::string its;
    for (const auto& [begin, end] : attributes) {
      const bool is_cluster = is(begin, "__cluster_dims__");
      if (names_parameter(begin, end, parameters)) {
        if (!is_cluster) continue;
        return " static_assert(false, \"the emulator reads __cluster_dims__ in the kernel, where a "
               "parameter has the name of a constant in it: rename one of the two\");";
      }
      its += is_cluster ? ".cluster_dims" : ".launch_bounds";
      for (size_t i = begin + 1; i <= end; ++i) its.append(text(i)).append(i < end ? " " : "");
    }
    if (!its.empty()) its = "::yotta::emulator::KernelAttributes()" + its;
    return " if (::yotta::emulator::kernel_is_asked(" + its + ")) return;";
  }
  // Whether one of these tokens is the name of a parameter; the list of those opens at `open`.
  bool names_parameter(size_t begin, size_t end, size_t open) const {
    const size_t last = open == npos ? npos : closing(open);
    if (last == npos) return false;
    int angles = 0;  // Array<float, n> x
    for (size_t i = open + 1; i < last; ++i) {
      angles += is(i, "<") - is(i, ">") - 2 * is(i, ">>");
      if (angles > 0 || !is_word(i) || !is_one_of(i + 1, {",", ")", "[", "="})) continue;
      for (size_t each = begin; each < end; ++each)
        if (text(each) == text(i) && !is(each - 1, "::")) return true;
    }
    return false;
  }
  void add_kernel_macro(size_t i) {
    while (i > 0 && tokens_[i].kind != SourceToken::edge) --i;
    names_.kernel_macros.emplace(text(i));
  }
  // The first of the words in a row that this one belongs to.
  size_t first_word(size_t i) const {
    while (i > 0 && is_word(i - 1)) --i;
    return i;
  }
  void without_static(size_t i) {
    for (size_t each = first_word(i); is_word(each); ++each) {
      if (is(each, "static")) replace_token(each, "");
      if (is(each, "extern"))
        replace_token(each,
                      "static_assert(false, \"the emulator keeps a __constant__ or __shared__ "
                      "variable in its own file: define it there, without extern\");");
    }
  }
  // "inline" must not stand there twice.
  void force_inline(size_t i) {
    const auto also = [&](size_t each) { return is_one_of(each, {"inline", "__inline__"}); };
    bool has = false;
    for (size_t each = i - 1; each < i && is_word(each); --each) has = has || also(each);
    for (size_t each = i + 1; is_word(each); ++each) has = has || also(each);
    replace_token(i,
                  has ? "__attribute__((always_inline))" : "inline __attribute__((always_inline))");
  }
  void assembly(size_t i) {
    const size_t begin = i++;
    while (is_one_of(i, {"volatile", "__volatile__", "goto"})) ++i;
    const size_t end = is(i, "(") ? closing(i) : npos;
    if (end == npos || is(i + 1, "\"\"")) return;  // a fence of the compiler is no instruction
    const size_t from = tokens_[begin].begin, to = tokens_[end].end;
    replace(
        from, to,
        "static_assert(false, \"the emulator runs no PTX: use CUDA's own function, or those of "
        "yotta/device/mma.hpp, ldmatrix.hpp and cp_async.hpp, which are that PTX under nvcc\")" +
            line_breaks(from, to));
  }
  bool takes_kernel(size_t i) const {
    return is_one_of(
        i, {"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelExC",
            "cudaFuncSetAttribute", "cudaFuncGetAttributes", "cudaFuncSetCacheConfig",
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxPotentialBlockSize"});
  }
  // Of each argument of the call that opens here.
  void without_casts(size_t open) {
    const size_t last = closing(open);
    for (size_t i = open; last != npos && i < last; ++i) {
      if (i == open || is(i, ",")) without_cast(i + 1);
      if (i > open && opens(i)) i = closing(i);
    }
  }
  // Drops (void*), (const void*), reinterpret_cast<void*>.
  void without_cast(size_t i) {
    const bool named = is_one_of(i, {"reinterpret_cast", "static_cast"});
    if (!named && !is(i, "(")) return;
    const size_t end = past_pointer_to_void(named ? i + 2 : i + 1);
    if (is(end, named ? ">" : ")")) replace(tokens_[i].begin, tokens_[end].end, "");
  }
  size_t past_pointer_to_void(size_t i) const {
    if (is(i, "const")) ++i;
    if (!is(i++, "void")) return npos;
    if (is(i, "const")) ++i;
    return is(i, "*") ? i + 1 : npos;
  }

  // ---- Dynamic shared memory ----
  // Past alignas(16), __align__(16), __attribute__((...)).
  size_t past_attributes(size_t i) const {
    while (is_one_of(i, {"alignas", "__align__", "__attribute__"}) && is(i + 1, "("))
      i = closing(i + 1) + 1;
    return i;
  }
  // Whether one of the words in a row that this one belongs to is extern.
  bool is_extern(size_t i) const {
    for (size_t each = first_word(i); is_word(each); ++each)
      if (is(each, "extern")) return true;
    return false;
  }
  // extern __shared__ T a[], b[][32]; extern may stand elsewhere among the first words.
  void dynamic_arrays(size_t shared) {
    const size_t first = first_word(shared);
    size_t bracket = shared;
    while (bracket < tokens_.size() && !is_one_of(bracket, {"[", ";", "{"})) ++bracket;
    if (bracket < shared + 3) return;
    const std::string type = type_of_elements(first, bracket - 1);
    std::string objects;
    for (;;) {
      if (!is(bracket, "[") || !is(bracket + 1, "]")) return;
      size_t end = bracket + 2;
      while (is(end, "[")) end = closing(end) + 1;
      std::string of = type;
      for (size_t i = bracket + 2; i < end; ++i) of += text(i);
      objects += (objects.empty() ? "" : "; ") + dynamic_array(of, std::string(text(bracket - 1)));
      end = past_attributes(end);
      bracket = end + 2;
      if (is(end, ",")) continue;
      const size_t from = tokens_[first].begin;
      if (!is(end, ";")) return;
      const size_t to = tokens_[end].begin;
      return replace(from, to, objects + line_breaks(from, to));
    }
  }
  std::string dynamic_array(const std::string& of, const std::string& name) {
    if (state_.functions > 0)
      return "[[maybe_unused]] auto* const " + name + " = ::yotta::dynamic_shared<" + of + ">()";
    if (!in_macro_) names_.shared_arrays.insert(name);
    return "static constexpr ::yotta::emulator::DynamicArray<" + of + "> " + name + "{}";
  }
  // Whether it stands alone, as an argument or an initial value.
  bool is_operand(size_t i) const {
    if (!is_one_of(i + 1, {")", ",", ";"}) || is(i - 2, "decltype")) return false;
    return is_one_of(i - 1, {"(", "="}) || (is(i - 1, ",") && state_.round > 0 && !in_capture(i));
  }
  // [a, b, c]
  bool in_capture(size_t i) const {
    while (i > 0 && i != npos && !opens(--i))
      if (closes(i)) i = opening(i);
    return is(i, "[");
  }
  // The words of a type, without attributes between them and those that are no part of it.
  std::string type_of_elements(size_t begin, size_t end) const {
    std::string type;
    for (size_t i = begin; i < end; ++i) {
      i = past_attributes(i);
      if (i >= end) break;
      if (is_one_of(i, {"extern", "static", "__shared__", "__device__"})) continue;
      type.append(type.empty() ? "" : " ").append(text(i));
    }
    return type;
  }

  // ---- Variables of the host by the names of threadIdx and its like ----
  // Those words are macros here, so such a variable gets another name in its scope.
  // The members of a class are known from its beginning on, and in its functions elsewhere.
  void follow_sizes(size_t i) {
    const int here = depth();
    const bool ends = is_one_of(i, {"}", ";"});  // a scope; a declaration with parameters
    if (ends) std::erase_if(state_.own_sizes, [=](const auto& each) { return each.second > here; });
    if (is(i, "{")) find_members(i);
    if (!is_size(i)) return;
    const std::string name(text(i));
    if (is_declared_by(i)) state_.own_sizes.try_emplace(name, here + (state_.round > 0));
    if (state_.own_sizes.count(name) > 0 || is_one_of(i - 1, {".", "->", "::"}))
      replace_token(i, "yotta_" + name);
  }
  bool is_size(size_t i) const {
    return is_one_of(i, {"gridDim", "blockDim", "blockIdx", "threadIdx"});
  }
  void find_members(size_t open) {
    const size_t name = class_that_opens(open), last = closing(open);
    if (name == npos || last == npos) return;
    for (size_t i = open + 1; i < last; ++i) {
      if (is_size(i) && is_declared_by(i)) {
        state_.own_sizes.try_emplace(std::string(text(i)), depth());
        names_.own_sizes[std::string(text(name))].emplace(text(i));
      }
      if (opens(i)) i = closing(i);
    }
  }
  // The name of the class whose members "{" begins, or "{" if it has none; npos if it is no class.
  size_t class_that_opens(size_t open) const {
    for (size_t i = open; i-- > 0 && !is_one_of(i, {";", "{", "}", ")"});)
      if (is_one_of(i, {"struct", "class", "union"}) && !is_one_of(i - 1, {"<", ",", "enum"}))
        return i + 1;
    return npos;
  }
  // dim3 gridDim, int blockDim; dim3 a(1), gridDim(2).
  bool is_declared_by(size_t i) const {
    if (i == 0) return false;
    if (is_word(i - 1)) return !is_one_of(i - 1, {"return", "else", "case", "do", "throw"});
    if (!is(i - 1, ",")) return false;
    for (size_t at = i - 1; at > 0; --at) {
      if (closes(at)) {
        at = opening(at);
        if (at == npos) return false;
        continue;
      }
      if (opens(at) || is(at, ";")) return false;
      if (is(at, "dim3")) return is_word(at + 1) && !is(at - 1, ",");
    }
    return false;
  }

  // Whether what follows stands in a function (or class), or in namespaces alone.
  void follow_braces(size_t i) {
    auto& [functions, namespaces, round, linkages, own_sizes] = state_;
    round += is(i, "(") - is(i, ")");
    if (is(i, "{")) {
      if (i >= 2 && is(i - 1, "\"C\"") && is(i - 2, "extern"))
        linkages.push_back({i - 1, namespaces});
      const bool is_namespace = functions == 0 && opens_namespace(i);
      (is_namespace ? namespaces : functions) += 1;
    } else if (is(i, "}")) {
      (functions > 0 ? functions : namespaces) -= 1;
      if (!linkages.empty() && functions == 0 && linkages.back().depth == namespaces)
        linkages.pop_back();
    }
  }
  // Each branch begins where the #if stands; the first that leads elsewhere is followed. A macro
  // opens and closes nothing where it is defined.
  void follow_branches(size_t i) {
    for (; next_branch_ < branches_.size() && branches_[next_branch_].token <= i; ++next_branch_) {
      const auto kind = branches_[next_branch_].kind;
      if (kind == SourceBranch::begin) taken_.push_back({state_, state_});
      if (kind == SourceBranch::begin || taken_.empty()) continue;
      Taken& now = taken_.back();
      if (now.after == now.before) now.after = state_;
      state_ = kind == SourceBranch::other ? now.before : now.after;
      if (kind == SourceBranch::end) taken_.pop_back();
    }
    if (tokens_[i].kind != SourceToken::edge) return;
    in_macro_ = !in_macro_;
    if (in_macro_)
      before_macro_ = state_;
    else
      state_ = before_macro_;
  }
  // namespace a::b {, extern "C" {
  bool opens_namespace(size_t i) const {
    while (i > 0) {
      --i;
      if (is(i, "namespace")) return true;
      if (tokens_[i].kind == SourceToken::literal) return i > 0 && is(i - 1, "extern");
      if (!is_word(i) && !is(i, "::")) return false;
    }
    return false;
  }

  static constexpr size_t npos = std::string::npos;
  struct Edit {
    size_t begin, end;
    std::string by;
  };
  struct Linkage {  // extern "C" {
    size_t literal;
    int depth;  // of namespaces around it
    bool operator==(const Linkage&) const = default;
  };
  // How deep a place lies: in braces of functions and classes, of namespaces, in round brackets.
  struct State {
    int functions = 0, namespaces = 0, round = 0;
    std::vector<Linkage> linkages;
    std::map<std::string, int> own_sizes;  // and how deep in braces their scope lies
    bool operator==(const State&) const = default;
  };
  int depth() const { return state_.functions + state_.namespaces; }
  struct Taken {  // of #if ... #endif
    State before, after;
  };
  const std::string& text_;
  SourceNames& names_;
  std::vector<SourceToken> tokens_;
  std::vector<SourceBranch> branches_;
  std::vector<Edit> edits_;
  State state_, before_macro_;
  std::vector<Taken> taken_;
  size_t next_branch_ = 0;
  bool in_macro_ = false;
};

YOTTA_INLINE std::string emulator_source(const std::string& text, SourceNames& names) {
  return SourceStep(text, names).run();
}
YOTTA_INLINE std::string emulator_source(const std::string& text) {
  SourceNames names;
  return emulator_source(text, names);
}

YOTTA_INLINE QuotedInclude next_quoted_include(const std::string& text, size_t from) {
  for (size_t line = from; line < text.size();) {
    size_t at = text.find_first_not_of(" \t", line);
    if (at != std::string::npos && text[at] == '#') {
      at = text.find_first_not_of(" \t", at + 1);
      if (at != std::string::npos && text.compare(at, 7, "include") == 0) {
        const size_t open = text.find_first_not_of(" \t", at + 7);
        const size_t close = open == std::string::npos ? open : text.find('"', open + 1);
        if (close != std::string::npos && text[open] == '"') return {open + 1, close};
      }
    }
    const size_t end = text.find('\n', line);
    line = end == std::string::npos ? text.size() : end + 1;
  }
  return {};
}

}  // namespace yotta
