// The bodies of model/files/split_regex.hpp.
#pragma once

#include "yotta/model/files/split_regex.hpp"

#include <algorithm>
#include <array>

#include "yotta/core/files/json.hpp"

#ifdef YOTTA_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace yotta {

// ---- Oniguruma's words and PCRE2's --------------------------------------------------------------

namespace detail {
class PatternReader {
 public:
  PatternReader(std::string_view pattern, const std::string& place, Where where)
      : pattern_(pattern), place_(place), where_(where) {}

  std::string translate() {
    while (at_ < pattern_.size()) {
      switch (pattern_[at_]) {
        case '\\': escape(/*in_class=*/false); break;
        case '[': char_class(); break;
        case '(': group(); break;
        case '{': repeat(); break;
        case '^':
        case '$': refuse(1);
        default: take(1);
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(size_t length) const {
    fail(
        where_,
        "{}: the expression '{}' holds '{}' at byte {}, which is not among what is supported: "
        "characters, [...], groups, look-ahead and look-behind, * + ? {{n,m}}, \\s \\S \\d \\D \\r "
        "\\n \\t, and general categories as \\p{{L}}",
        place_, visible(std::string(pattern_)), visible(std::string(pattern_.substr(at_, length))),
        at_);
  }
  char next(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  bool begins(std::string_view what) const { return pattern_.substr(at_).starts_with(what); }
  void take(size_t length) {
    out_ += pattern_.substr(at_, length);
    at_ += length;
  }
  void replace(size_t length, std::string_view by) {
    out_ += by;
    at_ += length;
  }

  // \s, \p{L}, \. and their like.
  void escape(bool in_class) {
    const std::string space = "\\t-\\r\\x{85}\\p{Z}";  // Unicode's White_Space
    const char letter = next(1);
    if (letter == 's') return replace(2, in_class ? space : "[" + space + "]");
    if (letter == 'S' && !in_class) return replace(2, "[^" + space + "]");
    if (letter == 'd') return replace(2, "\\p{Nd}");
    if (letter == 'D') return replace(2, "\\P{Nd}");
    if (letter == 'p' || letter == 'P') return category();
    const std::string_view kept = "rnt";
    const auto code = static_cast<unsigned char>(letter);
    const bool sign = code >= ' ' && code < 0x7F && std::isalnum(code) == 0;
    if (!sign && kept.find(letter) == kept.npos) refuse(2);
    take(2);
  }

  void category() {
    const size_t close = pattern_.find('}', at_);
    const std::string_view name =
        next(2) == '{' && close != pattern_.npos ? pattern_.substr(at_ + 3, close - at_ - 3) : "";
    constexpr std::string_view known =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C "
        "Cc Cf Co Cn ";
    if (name.empty() || known.find(fmt::format(" {} ", name)) == known.npos)
      refuse(close == pattern_.npos ? 2 : close + 1 - at_);
    take(close + 1 - at_);
  }

  void char_class() {
    take(begins("[^") ? 2 : 1);
    if (begins("]")) refuse(1);
    while (!begins("]")) {
      if (at_ == pattern_.size()) return;  // PCRE2 says what is missing
      if (begins("[") || begins("&&")) refuse(2);
      if (begins("\\"))
        escape(/*in_class=*/true);
      else
        take(1);
    }
    take(1);
  }

  void group() {
    if (next(1) == '*') refuse(2);  // a verb
    if (next(1) != '?') return take(1);
    for (const std::string_view kind : {"(?:", "(?i:", "(?>", "(?=", "(?!", "(?<=", "(?<!"})
      if (begins(kind)) return take(kind.size());
    refuse(3);
  }

  // {2}, {2,} or {2,4}. What may follow it differs.
  void repeat() {
    size_t length = 1;
    while (std::isdigit(static_cast<unsigned char>(next(length))) != 0) ++length;
    const bool counted = length > 1;
    if (next(length) == ',') ++length;
    while (std::isdigit(static_cast<unsigned char>(next(length))) != 0) ++length;
    if (!counted || next(length) != '}') refuse(length + 1);
    const std::string_view signs = "?+*{";
    if (signs.find(next(length + 1)) != signs.npos) refuse(length + 2);
    take(length + 1);
  }

  std::string_view pattern_;
  const std::string& place_;
  Where where_;
  size_t at_ = 0;
  std::string out_;
};
}  // namespace detail

YOTTA_INLINE std::string to_pcre2(std::string_view pattern, const std::string& place, Where where) {
  return detail::PatternReader(pattern, place, where).translate();
}

// ---- matching -----------------------------------------------------------------------------------

#ifdef YOTTA_HAVE_PCRE2

YOTTA_INLINE bool has_split_regex() { return true; }

namespace detail {
// Calls PCRE2's function to free what it made.
template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* made) const {
    Free(made);
  }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, FreeWith<Free>>;

inline std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 200> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}
inline PCRE2_SPTR bytes_of_text(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

// What PCRE2 works with while it matches.
class Matcher {
 public:
  Matcher() { pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get()); }

  // The first match from `begin` on: PCRE2's status, below 0 without one.
  int match(const pcre2_code* code, std::string_view text, size_t begin) {
    constexpr size_t most_steps = 10'000'000;  // and those that a long text needs
    const size_t steps = most_steps + std::min(text.size(), size_t{1} << 31);
    pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(steps));
    return pcre2_match(code, bytes_of_text(text), text.size(), begin, PCRE2_NO_UTF_CHECK,
                       found_.get(), context_.get());
  }
  size_t begin() const { return pcre2_get_ovector_pointer(found_.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(found_.get())[1]; }

 private:
  Owned<pcre2_match_context, pcre2_match_context_free> context_{
      pcre2_match_context_create(nullptr)};
  Owned<pcre2_match_data, pcre2_match_data_free> found_{pcre2_match_data_create(1, nullptr)};
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack_{
      pcre2_jit_stack_create(1 << 15, 1 << 24, nullptr)};
};
}  // namespace detail

struct SplitRegex::Program {
  detail::Owned<pcre2_code, pcre2_code_free> code;
};

YOTTA_INLINE SplitRegex::SplitRegex(const std::string& pattern, Kind kind, std::string place,
                                    Where where)
    : place_(std::move(place)) {
  const bool literal = kind == Kind::literal;
  const std::string ours = literal ? pattern : to_pcre2(pattern, place_, where);
  const detail::Owned<pcre2_compile_context, pcre2_compile_context_free> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP);
  int error = 0;
  size_t at = 0;
  auto program = std::make_shared<Program>();
  program->code.reset(
      pcre2_compile(detail::bytes_of_text(ours), ours.size(), options, &error, &at, context.get()));
  const std::string shown = visible(pattern);
  if (!program->code)
    fail(where, "{}: the expression '{}' is not one: {}", place_, shown,
         detail::pcre2_message(error));
  uint32_t matches_nothing = 0;
  pcre2_pattern_info(program->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0)
    fail(where,
         "{}: the expression '{}' can match nothing; one that always matches a character is "
         "supported",
         place_, shown);
  pcre2_jit_compile(program->code.get(), PCRE2_JIT_COMPLETE);  // without it, it is slower
  program_ = std::move(program);
}

YOTTA_INLINE void SplitRegex::split(std::string_view text, const Visit& visit, Where where) const {
  detail::Matcher matcher;
  size_t begin = 0;  // of what is not yet given away
  while (begin < text.size()) {
    const int status = matcher.match(program_->code.get(), text, begin);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0)
      fail(where, "{}: the expression was given up at byte {} of a text of {}: {}", place_, begin,
           text.size(), detail::pcre2_message(status));
    const size_t from = matcher.begin(), to = matcher.end();  // `visit` may match as well
    if (from > begin) visit(text.substr(begin, from - begin));
    visit(text.substr(from, to - from));
    begin = to;
  }
  if (begin < text.size()) visit(text.substr(begin));
}

#else

YOTTA_INLINE bool has_split_regex() { return false; }

struct SplitRegex::Program {};

YOTTA_INLINE SplitRegex::SplitRegex(const std::string&, Kind, std::string place, Where where) {
  fail(where,
       "{}: words are cut by a regular expression, and this program was built without PCRE2, which "
       "runs it; install PCRE2 (Debian, Ubuntu: apt-get install libpcre2-dev), delete the build "
       "folder and build again",
       place);
}
YOTTA_INLINE void SplitRegex::split(std::string_view, const Visit&, Where) const {}

#endif  // YOTTA_HAVE_PCRE2

}  // namespace yotta
