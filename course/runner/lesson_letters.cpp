#include "runner/lesson_letters.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>

#include "runner/exercise.hpp"

namespace runner {
namespace {

const std::string left_out = "## What is left out";

// ---- What is used ----

// The characters of UTF-8 text, a string each.
Lines characters_of(const std::string& text) {
  Lines characters;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (continues && !characters.empty())
      characters.back() += c;
    else
      characters.emplace_back(1, c);
  }
  return characters;
}

bool is_ascii_letter(const std::string& c) {
  return c.size() == 1 && ((c[0] >= 'a' && c[0] <= 'z') || (c[0] >= 'A' && c[0] <= 'Z'));
}
bool is_digit(const std::string& c) { return c.size() == 1 && c[0] >= '0' && c[0] <= '9'; }
// ASCII or Greek, but for the sign of a sum and the number π.
bool is_letter(const std::string& c) {
  const bool greek = c.size() == 2 && (c[0] == '\xce' || c[0] == '\xcf');
  return is_ascii_letter(c) || (greek && c != "Σ" && c != "π");
}
// Part of a word: a letter, a digit, or one of Müller and µs.
bool is_of_word(const std::string& c) {
  const bool accented =
      c.size() == 2 && (c[0] == '\xc3' || c[0] == '\xc4' || c[0] == '\xc5') && c != "×" && c != "÷";
  return is_letter(c) || is_digit(c) || c == "_" || accented || c == "µ";
}

// Without code, links, pictures, tags and abbreviations such as "e.g.".
std::string prose_of(const std::string& line) {
  static const std::regex other(
      R"(`[^`]*`|!?\[[^\]]*\]\([^)]*\)|</?[a-z][^>]*>|\b[A-Za-z]\.[A-Za-z]\.)");
  return std::regex_replace(line, other, " , ");
}

// Symbols of prose: words of one letter, and t_F.
class ProseReader {
 public:
  explicit ProseReader(const std::string& text) : all_(characters_of(text)) {}

  std::vector<Symbol> symbols() {
    std::vector<Symbol> found;
    for (size_t begin = 0, end = 0; begin < all_.size(); begin = std::max(begin + 1, end)) {
      for (end = begin; end < all_.size() && is_of_word(all_[end]);) ++end;
      const bool indexed = end > begin + 2 && at(begin + 1) == "_";
      if ((end != begin + 1 && !indexed) || !is_letter(all_[begin])) continue;
      const std::string& letter = all_[begin];
      if (!indexed && no_symbol(letter, begin)) continue;
      std::string index;
      for (size_t i = begin + 2; i < end; ++i) index += all_[i];
      found.push_back({letter, index});
    }
    return found;
  }

 private:
  // Empty before the beginning and after the end.
  std::string at(size_t i) const { return i < all_.size() ? all_[i] : ""; }

  bool no_symbol(const std::string& letter, size_t i) const {
    const std::string before = at(i - 1), beyond = at(i - 2), after = at(i + 1);
    const bool apostrophe = before == "'" || before == "’";
    const bool of_name = is_ascii_letter(beyond) && is_ascii_letter(at(i - 3));
    const bool after_letter = is_letter(beyond) && !is_of_word(at(i - 3));
    return letter == "a" || letter == "A" || letter == "I" ||                      // words
           (apostrophe && is_of_word(beyond)) ||                                   // rank's
           (letter == "C" && after == "+" && at(i + 2) == "+") ||                  // C++
           (before == "-" && (of_name || (letter == "D" && is_digit(beyond)))) ||  // split-K, 2-D
           (before == " " && is_digit(beyond) &&
            std::string("sBWhxJV").find(letter) != std::string::npos) ||
           (letter == "s" && (before == "/" || (before == " " && after_letter))) ||  // GB/s, g s
           (letter == "B" && after == "/" && at(i + 2) == "s");
  }

  Lines all_;
};

// Symbols of a formula: all its letters but those of commands, words and indices.
std::vector<Symbol> symbols_of_formula(std::string text) {
  static const std::regex words(R"(\\(text|mathrm|operatorname|begin|end)\s*\{[^}]*\})");
  static const std::regex transposed(R"(\^\s*(\{?\\top\}?|\{?T\}?))"), euler(R"(\be\s*\^)");
  static const std::regex command(R"(\\[a-zA-Z]+)");
  static const std::map<std::string, std::string> greek = {
      {"alpha", "α"}, {"beta", "β"},  {"gamma", "γ"},   {"delta", "δ"},      {"Delta", "Δ"},
      {"eta", "η"},   {"theta", "θ"}, {"kappa", "κ"},   {"lambda", "λ"},     {"mu", "μ"},
      {"rho", "ρ"},   {"sigma", "σ"}, {"tau", "τ"},     {"phi", "φ"},        {"omega", "ω"},
      {"psi", "ψ"},   {"Psi", "Ψ"},   {"epsilon", "ε"}, {"varepsilon", "ε"}, {"pi", "π"}};
  text = std::regex_replace(text, words, " ");
  text = std::regex_replace(text, transposed, " ");
  text = std::regex_replace(text, euler, " ");
  for (std::smatch found; std::regex_search(text, found, command);) {
    const auto letter = greek.find(found.str().substr(1));
    text = found.prefix().str() + (letter == greek.end() ? " " : letter->second) +
           found.suffix().str();
  }
  std::vector<Symbol> symbols;
  const Lines all = characters_of(text);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string next = i + 1 < all.size() ? all[i + 1] : "";
    if (all[i] == "_") {  // an index: one character, or {several}
      std::string index;
      if (next == "{")
        for (i += 2; i < all.size() && all[i] != "}"; ++i) index += all[i];
      else
        index = next, ++i;
      if (!symbols.empty()) symbols.back().index = index;
    } else if (is_letter(all[i]) && !(all[i] == "d" && is_letter(next))) {  // dx is of x
      symbols.push_back({all[i], ""});
    }
  }
  return symbols;
}

// ---- Tables ----

// "| p | ranks | t |" -> p, ranks, t; empty for a line that is no row, or the line below the head.
Lines cells_of(const std::string& line) {
  Lines cells;
  if (!line.starts_with("|") || line.starts_with("|-")) return cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = std::min(line.find('|', begin), line.size());
    cells.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return cells;
}

struct Row {
  std::string letter;
  Lines meanings;
  int line;
};

// The rows of a table whose head's first cell is "letter", from line `begin` to the table's end.
std::vector<Row> rows_from(const Lines& lines, size_t begin) {
  std::vector<Row> rows;
  bool inside = false;
  for (size_t i = begin; i < lines.size() && (!inside || lines[i].starts_with("|")); ++i) {
    const Lines cells = cells_of(lines[i]);
    const bool head = !cells.empty() && cells[0] == "letter";
    inside = inside || head;
    if (!inside || head || cells.empty()) continue;
    Row row{cells[0].substr(0, cells[0].find(' ')), {}, static_cast<int>(i) + 1};
    const std::string meanings = (cells.size() > 1 ? cells[1] : "") + ";";
    for (size_t at = 0; at < meanings.size(); at = meanings.find(';', at) + 1) {
      const std::string meaning = trimmed(meanings.substr(at, meanings.find(';', at) - at));
      if (!meaning.empty()) row.meanings.push_back(meaning);
    }
    rows.push_back(row);
  }
  return rows;
}

// The line from 0, or lines.size().
size_t line_of(const Lines& lines, const std::string& line) {
  return static_cast<size_t>(std::find(lines.begin(), lines.end(), line) - lines.begin());
}

// ---- Complaints ----

std::string meanings_of(const Letters& all, const std::string& letter) {
  const auto known = all.find(letter);
  if (known == all.end()) return fmt::format("docs/letters.md has no {}: add it there", letter);
  return fmt::format("in docs/letters.md {} is: {}", letter, fmt::join(known->second, "; "));
}

void check_place(const Lines& lines, Lines& complaints) {
  const size_t at = line_of(lines, letters_opening);
  const auto is_section = [](const std::string& line) { return line.starts_with("## "); };
  const auto first =
      static_cast<size_t>(std::find_if(lines.begin(), lines.end(), is_section) - lines.begin());
  if (at > first)
    complaints.push_back(
        fmt::format("line {}: the letters stand before the first section, which is in line {}",
                    at + 1, first + 1));
  if (at == 0 || !lines[at - 1].empty() || at + 1 == lines.size() || !lines[at + 1].empty())
    complaints.push_back(
        fmt::format("line {}: leave the lines above and below {} empty", at + 1, letters_opening));
}

// Returns the letters that have a row.
std::set<std::string> check_rows(const Lines& lines, const Letters& all, Lines& complaints) {
  std::set<std::string> there;
  for (const Row& row : rows_from(lines, line_of(lines, letters_opening))) {
    if (!there.insert(row.letter).second)
      complaints.push_back(
          fmt::format("line {}: the letter {} has two rows", row.line, row.letter));
    if (row.meanings.empty())
      complaints.push_back(
          fmt::format("line {}: the letter {} has no meaning", row.line, row.letter));
    for (const std::string& meaning : row.meanings) {
      const auto known = all.find(row.letter);
      if (known == all.end() ||
          std::count(known->second.begin(), known->second.end(), meaning) == 0)
        complaints.push_back(fmt::format("line {}: {} is \"{}\" here; {}", row.line, row.letter,
                                         meaning, meanings_of(all, row.letter)));
    }
  }
  if (there.empty()) complaints.push_back("the table of letters has no rows");
  return there;
}

void check_symbols(const std::string& text, const std::set<std::string>& there, const Letters& all,
                   Lines& complaints) {
  for (const Symbol& symbol : find_symbols(text)) {
    if (there.count(symbol.letter) + there.count(symbol.letter + "_" + symbol.index) > 0) continue;
    complaints.push_back(
        fmt::format("line {}: the letter {} is not in the table \"Letters on this page\"; write "
                    "the row | {} | ... |; {}",
                    symbol.line, symbol.letter, symbol.letter, meanings_of(all, symbol.letter)));
  }
}

void check_end(const Lines& lines, Lines& complaints) {
  const auto next = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("**Next:**");
  });
  size_t last = 0, items = 0;
  bool fenced = false;
  for (auto line = lines.begin(); line != next; ++line) {
    fenced ^= line->starts_with("```");
    if (!fenced && line->starts_with("## "))
      last = static_cast<size_t>(line - lines.begin()), items = 0;
    items += !fenced && line->starts_with("- ");
  }
  if (next == lines.end())
    complaints.push_back("the page does not end with a line that begins with **Next:**");
  else if (lines[last] != left_out)
    complaints.push_back(fmt::format(
        "line {}: the last section before **Next:** is \"{}\"; end the page with \"{}\"", last + 1,
        lines[last], left_out));
  else if (items < 2 || items > 5)
    complaints.push_back(fmt::format("line {}: \"{}\" has {} items (- ...); two to five are right",
                                     last + 1, left_out, items));
}

}  // namespace

Letters find_letters(const std::string& page) {
  Letters letters;
  for (const Row& row : rows_from(lines_of(page), 0)) {
    if (row.meanings.empty() || !letters.emplace(row.letter, row.meanings).second)
      throw std::runtime_error(fmt::format("line {}: the letter {} has {}", row.line, row.letter,
                                           row.meanings.empty() ? "no meaning" : "two rows"));
  }
  if (letters.empty()) throw std::runtime_error("there is no table of letters");
  return letters;
}

std::vector<Symbol> find_symbols(const std::string& text) {
  std::vector<Symbol> symbols;
  std::set<std::pair<std::string, std::string>> seen;
  bool fenced = false, formula = false, of_letters = false;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    fenced ^= line.starts_with("```");
    if (line == letters_opening) of_letters = true;
    if (line == "</details>") of_letters = false;
    if (fenced || (of_letters && line.starts_with("|"))) continue;
    const std::string prose = formula ? line : prose_of(line);
    for (size_t begin = 0; begin <= prose.size();) {  // $ and $$ begin and end a formula
      const size_t end = std::min(prose.find('$', begin), prose.size());
      const std::string part = prose.substr(begin, end - begin);
      for (Symbol symbol : formula ? symbols_of_formula(part) : ProseReader(part).symbols()) {
        symbol.line = number;
        if (seen.insert({symbol.letter, symbol.index}).second) symbols.push_back(symbol);
      }
      if (end == prose.size()) break;
      formula = !formula;
      begin = end + (prose.compare(end, 2, "$$") == 0 ? 2 : 1);
    }
  }
  return symbols;
}

std::vector<std::string> compare_letters(const std::string& text, const Letters& all) {
  const Lines lines = lines_of(text);
  const bool has_table = line_of(lines, letters_opening) < lines.size();
  Lines complaints;
  std::set<std::string> there;
  if (has_table) {
    check_place(lines, complaints);
    there = check_rows(lines, all, complaints);
  }
  check_symbols(text, there, all, complaints);
  check_end(lines, complaints);
  return complaints;
}

}  // namespace runner
