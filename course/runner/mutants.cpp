#include "runner/mutants.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "runner/cpp_tokens.hpp"

namespace runner {
namespace {

using Kind = CppToken::Kind;
using Words = std::set<std::string>;

// Of lines, words between single blanks, without comments.
std::string in_one_line(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line, word; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find("// ")));
    while (words >> word) all += (all.empty() ? "" : " ") + word;
  }
  return all;
}

// The signs that stand between blanks, with what else a student may write there.
const std::multimap<std::string, std::pair<std::string, std::string>> other_signs = {
    {"<", {"comparison", "<="}},       {"<=", {"comparison", "<"}},
    {">", {"comparison", ">="}},       {">=", {"comparison", ">"}},
    {"==", {"comparison", "!="}},      {"!=", {"comparison", "=="}},
    {"+", {"arithmetic", "-"}},        {"-", {"arithmetic", "+"}},
    {"*", {"arithmetic", "/"}},        {"/", {"arithmetic", "*"}},
    {"%", {"arithmetic", "/"}},        {"+=", {"arithmetic", "-="}},
    {"-=", {"arithmetic", "+="}},      {"*=", {"arithmetic", "/="}},
    {"/=", {"arithmetic", "*="}},      {"+=", {"arithmetic", "="}},
    {"&&", {"condition", "||"}},       {"||", {"condition", "&&"}},
    {"?", {"condition", "|| true ?"}}, {"?", {"condition", "&& false ?"}}};

const std::map<std::string, std::pair<std::string, std::string>> other_words = {
    {"min", {"min and max", "max"}},  {"max", {"min and max", "min"}},
    {"floor", {"rounding", "ceil"}},  {"ceil", {"rounding", "floor"}},
    {"round", {"rounding", "floor"}}, {"true", {"constant", "false"}},
    {"false", {"constant", "true"}}};

class Mutator {
 public:
  explicit Mutator(const std::string& body) : body_(body), tokens_(cpp_tokens(body)) { pair(); }

  std::vector<Mutant> mutants() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (word(i) == "fail" && word(i + 1) == "(" && partner_[i + 1] < tokens_.size()) {
        change_statement(i);
        i = partner_[i + 1];  // an error's words are no task
        continue;
      }
      change_sign(i);
      change_word(i);
      change_arguments(i);
      change_index(i);
      change_condition(i);
      change_statement(i);
    }
    return std::move(found_);
  }

 private:
  const std::string& word(size_t i) const {
    static const std::string none;
    return i < tokens_.size() ? tokens_[i].text : none;
  }
  bool is(size_t i, const Words& words) const { return words.count(word(i)) > 0; }
  size_t at(size_t i) const { return i < tokens_.size() ? tokens_[i].at : body_.size(); }
  size_t behind(size_t i) const { return at(i) + word(i).size(); }
  std::string text(size_t begin, size_t end) const { return body_.substr(begin, end - begin); }

  // The body with other text from begin to end.
  void add(const std::string& kind, size_t begin, size_t end, const std::string& other) {
    const std::string changed = text(0, begin) + other + body_.substr(end);
    const size_t first = begin == 0 ? 0 : body_.rfind('\n', begin - 1) + 1;
    const size_t last = std::min(body_.find('\n', end), body_.size());
    const std::string before = in_one_line(text(first, last)),
                      after = in_one_line(text(first, begin) + other + text(end, last));
    if (before != after) found_.push_back({kind, before, after, changed});
  }

  // partner_: of each bracket the other one.
  void pair() {
    const std::map<std::string, std::string> closing = {{"(", ")"}, {"[", "]"}, {"{", "}"}};
    std::vector<size_t> open;
    partner_.assign(tokens_.size(), tokens_.size());
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != Kind::sign) continue;
      if (closing.count(word(i)) > 0) open.push_back(i);
      if (open.empty() || closing.at(word(open.back())) != word(i)) continue;
      partner_[i] = open.back(), partner_[open.back()] = i;
      open.pop_back();
    }
  }

  // A sign is one character; those of an operator stand together, between blanks.
  void change_sign(size_t i) {
    if (tokens_[i].kind != Kind::sign || at(i) == 0 || !blank(at(i) - 1)) return;
    size_t end = at(i);
    while (end < body_.size() && !blank(end)) ++end;
    const auto [first, last] = other_signs.equal_range(text(at(i), end));
    for (auto other = first; other != last; ++other)
      add(other->second.first, at(i), end, other->second.second);
    if (word(i) == "!" && end > at(i) + 1 && body_[at(i) + 1] != '=')
      add("condition", at(i), at(i) + 1, "");
    const std::string sign = text(at(i), end);
    if (strength(sign) > 0)
      add("dropped term", at(i) - 1, behind(last_of_term(i, end, strength(sign))), "");
  }
  // How strongly a sign between two terms binds; 0: it is none.
  static int strength(const std::string& sign) {
    static const std::map<std::string, int> all = {{"||", 1}, {"&&", 2}, {"+", 4},
                                                   {"-", 4},  {"*", 5},  {"/", 5}};
    const auto found = all.find(sign);
    return found == all.end() ? 0 : found->second;
  }
  // The last token of the term behind a sign that ends there.
  size_t last_of_term(size_t i, size_t behind_sign, int strong) const {
    while (at(i) < behind_sign) ++i;
    for (; i + 1 < tokens_.size(); ++i) {
      if (is(i, {"(", "[", "{"}) && partner_[i] < tokens_.size()) i = partner_[i];
      const size_t next = at(i + 1);
      size_t end = next;
      while (end < body_.size() && !blank(end)) ++end;
      const std::string sign = text(next, end);
      const bool stands_apart = blank(next - 1) && std::ispunct(sign[0]) != 0;
      const bool stronger =
          strength(sign) > strong || (strong < 3 && (sign == "<" || sign == ">" || sign == "<=" ||
                                                     sign == ">=" || sign == "==" || sign == "!="));
      if (is(i + 1, {",", ";", ")", "]", "}", "?", ":"}) ||
          (stands_apart && !stronger && word(i + 1) != "(" && word(i + 1) != "!"))
        break;
    }
    return i;
  }
  bool blank(size_t place) const { return body_[place] == ' ' || body_[place] == '\n'; }

  void change_word(size_t i) {
    if (word(i) == "!" && at(i) > 0 && body_[at(i) - 1] == '(' && word(i + 1) != "=")
      add("condition", at(i), behind(i), "");
    if (tokens_[i].kind == Kind::number) {
      add("constant", at(i), behind(i), "(" + word(i) + " + 1)");
      if (word(i).find_first_of("123456789") != std::string::npos)
        add("constant", at(i), behind(i), "(" + word(i) + " - 1)");
    }
    if (const auto other = other_words.find(word(i)); other != other_words.end())
      add(other->second.first, at(i), behind(i), other->second.second);
  }

  // f(a, b) and T{a, b} with two neighbours swapped.
  void change_arguments(size_t i) {
    const bool call = word(i) == "(" && i > 0 && (tokens_[i - 1].kind == Kind::word) &&
                      !is(i - 1, {"if", "for", "while", "switch", "return", "min", "max", "swap"});
    if (!call && !(word(i) == "{" && !is_block(i))) return;
    std::vector<std::pair<size_t, size_t>> arguments;  // places
    size_t begin = i + 1;
    for (size_t k = i + 1; k <= partner_[i] && k < tokens_.size(); ++k) {
      if (k < partner_[i] && is(k, {"(", "[", "{"})) k = partner_[k];
      if (k >= tokens_.size()) return;
      if (word(k) != "," && k != partner_[i]) continue;
      if (k > begin) arguments.push_back({at(begin), behind(k - 1)});
      begin = k + 1;
    }
    for (size_t k = 0; k + 1 < arguments.size(); ++k) {
      const auto [a, b] = arguments[k];
      if (body_[a] == '.') continue;  // {.length = n}: named
      const auto [c, d] = arguments[k + 1];
      add("arguments", a, d, text(c, d) + text(b, c) + text(a, b));
    }
  }

  void change_index(size_t i) {
    const bool index = word(i) == "[" && i > 0 && partner_[i] < tokens_.size() &&
                       (tokens_[i - 1].kind == Kind::word || is(i - 1, {")", "]"})) &&
                       !is(i - 1, {"auto", "return"}) && partner_[i] > i + 1 && !declares(i);
    const bool number = partner_[i] == i + 2 && tokens_[i + 1].kind == Kind::number;
    if (index && !number)
      add("index", behind(i), at(partner_[i]), "(" + text(behind(i), at(partner_[i])) + ") + 1");
  }

  // float sums[TM][TN] = {}: a size, and no index.
  bool declares(size_t i) const {
    size_t begin = i;
    while (begin > 0 && !is(begin - 1, {";", "{", "}", "(", "="})) --begin;
    return tokens_[begin].kind == Kind::word && begin + 1 < i &&
           tokens_[begin + 1].kind == Kind::word && word(begin) != "return";
  }

  void change_condition(size_t i) {
    if (word(i) != "if" || word(i + 1) != "(" || partner_[i + 1] >= tokens_.size()) return;
    add("condition", behind(i + 1), at(partner_[i + 1]), "true");
    add("condition", behind(i + 1), at(partner_[i + 1]), "false");
  }

  bool closes_lambda(size_t i) const {  // the brackets before its body
    if (word(i) == "]") return true;
    return word(i) == ")" && partner_[i] > 0 && partner_[i] < tokens_.size() &&
           word(partner_[i] - 1) == "]";
  }
  // Does this brace open statements, and not values?
  bool is_block(size_t i) const {
    return i == 0 || is(i - 1, {")", "]", "else", "do", "try", "mutable", ";", "{", "}"});
  }
  // Does a statement begin here?
  bool begins_statement(size_t i) const {
    if (i == 0) return true;
    if (is(i, {"}", "else"})) return false;
    if (word(i - 1) == "{") return is_block(i - 1);
    if (word(i - 1) == ";") return !in_head(i);
    if (is(i - 1, {"else", "do"})) return word(i) != "if";
    if (word(i - 1) == ")") {
      const size_t open = partner_[i - 1];
      return open < tokens_.size() && open > 0 && is(open - 1, {"if", "for", "while", "constexpr"});
    }
    if (word(i - 1) != "}" || partner_[i - 1] >= tokens_.size()) return false;
    const size_t open = partner_[i - 1];
    return is_block(open) && (open == 0 || !closes_lambda(open - 1)) && !is(i, {",", ")", ";"});
  }
  // Between the parentheses of for (;;) or if (;)?
  bool in_head(size_t i) const {
    for (size_t k = i; k-- > 0;) {
      if (is(k, {")", "]", "}"}) && partner_[k] < k)
        k = partner_[k];
      else if (is(k, {"(", "[", "{"}))
        return word(k) != "{";
    }
    return false;
  }
  // The semicolon that ends the simple statement that begins here.
  size_t end_of_statement(size_t i) const {
    for (; i < tokens_.size(); ++i) {
      if (is(i, {"(", "[", "{"}) && partner_[i] < tokens_.size())
        i = partner_[i];
      else if (word(i) == ";")
        return i;
    }
    return i;
  }

  // Left out; or all from here; or a loop that ends after its first time.
  void change_statement(size_t i) {
    if (!begins_statement(i)) return;
    const bool simple = !is(i, {"if", "for", "while", "do", "try", "{", "switch", "case"});
    const size_t end = end_of_statement(i);
    if (simple && end < tokens_.size()) {
      if (!is(i, {"const", "auto", "using", "static_assert", "struct"}))
        add("dropped", at(i), behind(end), ";");
      if (i > 0 && in_loop(i) && !is(i, {"break", "return", "continue"}))
        add("one time", at(i), behind(end), once(text(at(i), behind(end))));
    }
    if (i > 0 && is_top(i) && word(i) != "return") add("early return", at(i), at(i), "return; ");
  }
  static std::string once(const std::string& statement) { return "{ " + statement + " break; }"; }
  // Is this the last statement of a loop's body, or the only one?
  bool in_loop(size_t i) const {
    const size_t behind_it = end_of_statement(i) + 1;
    size_t head = i;
    if (word(i - 1) != ")" && word(behind_it) == "}" && partner_[behind_it] < i)
      head = partner_[behind_it];
    return head > 0 && word(head - 1) == ")" && partner_[head - 1] > 0 &&
           partner_[head - 1] < tokens_.size() && is(partner_[head - 1] - 1, {"for", "while"});
  }
  bool is_top(size_t i) const {
    int depth = 0;
    for (size_t k = 0; k < i; ++k) depth += is(k, {"{", "("}) - is(k, {"}", ")"});
    return depth == 0;
  }

  const std::string& body_;
  std::vector<CppToken> tokens_;
  std::vector<size_t> partner_;
  std::vector<Mutant> found_;
};

}  // namespace

std::vector<Mutant> mutants_of(const std::string& body) { return Mutator(body).mutants(); }

}  // namespace runner
