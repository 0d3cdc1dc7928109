#include "runner/cpp_tokens.hpp"

#include <algorithm>
#include <cctype>

namespace runner {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool goes_on(char c) { return starts_word(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

class TokenReader {
 public:
  explicit TokenReader(std::string_view text) : text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  std::vector<CppToken> tokens() {
    while (at_ < text_.size()) read_one();
    return std::move(tokens_);
  }

 private:
  using Kind = CppToken::Kind;

  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  bool here(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void add(Kind kind, size_t end) {
    tokens_.push_back({kind, std::string(text_.substr(at_, end - at_)), line_, at_});
    go_to(end);
    fresh_line_ = false;
  }
  void go_to(size_t end) {
    end = std::min(end, text_.size());
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<long>(at_),
                                         text_.begin() + static_cast<long>(end), '\n'));
    at_ = end;
  }
  size_t find(std::string_view what, size_t from) const {
    return std::min(text_.find(what, from), text_.size());
  }

  void read_one() {
    const char c = at(at_);
    if (c == '\n')
      go_to(at_ + 1), fresh_line_ = true;
    else if (is_blank(c))
      go_to(at_ + 1);
    else if (here("//"))
      go_to(find("\n", at_));
    else if (here("/*"))
      go_to(find("*/", at_ + 2) + 2);
    else if (c == '#' && fresh_line_)
      read_directive();
    else if (is_digit(c) || (c == '.' && is_digit(at(at_ + 1))))
      add(Kind::number, end_of_number());
    else if (starts_word(c))
      read_word();
    else if (c == '"' || c == '\'')
      add(Kind::literal, end_of_literal(at_));
    else
      add(Kind::sign, at_ + (here("::") ? 2 : 1));
  }

  size_t end_of_number() const {
    size_t end = at_ + 1;
    for (;; ++end) {
      const char c = at(end), before = at(end - 1);
      const bool exponent =
          (c == '+' || c == '-') && std::string_view("eEpP").find(before) != std::string_view::npos;
      const bool separator = c == '\'' && goes_on(at(end + 1));
      if (!goes_on(c) && c != '.' && !exponent && !separator) return end;
    }
  }

  size_t end_of_literal(size_t quote) const {
    const char mark = text_[quote];
    size_t end = quote + 1;
    while (end < text_.size() && text_[end] != mark && text_[end] != '\n')
      end += text_[end] == '\\' ? 2 : 1;
    return std::min(end + (at(end) == mark ? 1 : 0), text_.size());
  }

  // Does a literal end right here? The compiler takes the word that follows for its suffix, and
  // never for the prefix of another literal: "a"R"(b)" is "a"R and then "(b)".
  bool after_literal() const {
    return !tokens_.empty() && tokens_.back().kind == Kind::literal && at_ > 0 &&
           (text_[at_ - 1] == '"' || text_[at_ - 1] == '\'');
  }

  // A word, or the literal that it is the prefix of.
  void read_word() {
    size_t end = at_;
    while (goes_on(at(end))) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    const bool quote = (at(end) == '"' || at(end) == '\'') && !after_literal();
    const std::string_view raw = word.ends_with('R') ? word.substr(0, word.size() - 1) : "x";
    const auto is_prefix = [](std::string_view prefix) {
      return prefix == "u8" || prefix == "u" || prefix == "U" || prefix == "L";
    };
    if (quote && at(end) == '"' && (raw.empty() || is_prefix(raw)))
      add(Kind::literal, end_of_raw(end));
    else if (quote && is_prefix(word))
      add(Kind::literal, end_of_literal(end));
    else
      add(Kind::word, end);
  }

  size_t end_of_raw(size_t quote) const {
    const size_t open = find("(", quote);
    const std::string close = ")" + std::string(text_.substr(quote + 1, open - quote - 1)) + "\"";
    return find(close, open) + close.size();
  }

  void read_directive() {
    const size_t end = find("\n", at_);
    std::string line;
    for (const char c : text_.substr(at_, end - at_)) {
      if (!is_blank(c))
        line += c;
      else if (!line.ends_with(' '))
        line += ' ';
    }
    for (size_t begin; (begin = line.find(" /*")) != std::string::npos;) {
      const size_t close = line.find("*/", begin + 3);
      if (close == std::string::npos) break;  // the comment goes on: its other lines count as code
      line.erase(begin, close + 2 - begin);
    }
    line = line.substr(0, line.find("//"));
    while (line.ends_with(' ')) line.pop_back();
    if (line.starts_with("# ")) line.erase(1, 1);
    tokens_.push_back({Kind::directive, line, line_, at_});
    go_to(end);
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool fresh_line_ = true;
  std::vector<CppToken> tokens_;
};

}  // namespace

std::vector<CppToken> cpp_tokens(std::string_view text) { return TokenReader(text).tokens(); }

int joins_lines(std::string_view text) {
  int line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') continue;
    size_t last = i;
    while (last > 0 && is_blank(text[last - 1])) --last;
    if (last > 0 && text[last - 1] == '\\') return line;
    ++line;
  }
  return 0;
}

}  // namespace runner
