#include "runner/similarity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "course/cases/record.hpp"
#include "course/options/console.hpp"
#include "runner/cpp_tokens.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/gradebook.hpp"
#include "runner/json_output.hpp"
#include "runner/submissions.hpp"
#include "runner/topics.hpp"

namespace runner {
namespace {

struct Token {
  std::string text;
  int line = 0;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// What a person would have to think about to change it; every other word is a name.
bool is_keyword(const std::string& word) {
  static const std::set<std::string> keywords = {
      "auto",    "bool",     "break",   "case",   "const",  "constexpr", "continue",
      "default", "do",       "double",  "else",   "false",  "float",     "for",
      "if",      "int",      "int64_t", "return", "size_t", "static",    "struct",
      "switch",  "template", "throw",   "true",   "using",  "void",      "while"};
  return keywords.count(word) > 0;
}

using Raw = std::vector<CppToken>;

bool is_sign(const CppToken& token, const char* text) {
  return token.kind == CppToken::Kind::sign && token.text == text;
}
bool ends_statement(const CppToken& token) {
  return is_sign(token, ";") || is_sign(token, "{") || is_sign(token, "}");
}

// Without statements that do nothing: ";" and "{}" alone, and "(void)x;". In the brackets of a
// `for` every ";" counts.
Raw without_empty_statements(const Raw& tokens) {
  Raw kept;
  int brackets = 0;
  for (const CppToken& token : tokens) {
    brackets += is_sign(token, "(") - is_sign(token, ")");
    const bool nothing_before = kept.empty() || ends_statement(kept.back());
    if (is_sign(token, ";") && brackets <= 0 && nothing_before) continue;
    kept.push_back(token);
    const size_t n = kept.size();
    if (n >= 5 && is_sign(token, ";") && kept[n - 3].text == ")" && kept[n - 4].text == "void" &&
        kept[n - 5].text == "(" && (n == 5 || ends_statement(kept[n - 6])))
      kept.resize(n - 5);
    else if (n >= 2 && is_sign(token, "}") && is_sign(kept[n - 2], "{") &&
             (n == 2 || ends_statement(kept[n - 3])))
      kept.resize(n - 2);
  }
  return kept;
}

// The name that a statement declares, if it is "TYPE NAME = VALUE;" or alike and calls nothing; -1:
// it is another one.
int declared_name(const Raw& tokens, size_t begin, size_t end) {
  int name = -1;
  for (size_t i = begin; i < end; ++i) {
    if (is_sign(tokens[i], "(") || tokens[i].text == "return" || tokens[i].text == "using")
      return -1;
    const bool value = is_sign(tokens[i], "=") || is_sign(tokens[i], "[");
    const bool follows_type = i >= begin + 2 && tokens[i - 1].kind == CppToken::Kind::word &&
                              (tokens[i - 2].kind == CppToken::Kind::word ||
                               is_sign(tokens[i - 2], ">") || is_sign(tokens[i - 2], "*"));
    if (name < 0 && value) name = follows_type ? static_cast<int>(i - 1) : -2;
    if (name == -2) return -1;
  }
  const bool bare = name < 0 && end >= begin + 2 && tokens[end - 1].kind == CppToken::Kind::word &&
                    tokens[end - 2].kind == CppToken::Kind::word;
  return bare ? static_cast<int>(end - 1) : name;
}

// Without variables that nobody uses: a declaration whose name stands nowhere else. Again and
// again, for one may be the only user of another.
Raw without_unused(Raw tokens) {
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, int> uses;
    for (const CppToken& token : tokens)
      if (token.kind == CppToken::Kind::word) ++uses[token.text];
    Raw kept;
    for (size_t begin = 0; begin < tokens.size();) {
      size_t end = begin;
      while (end < tokens.size() && !ends_statement(tokens[end])) ++end;
      const bool statement = end < tokens.size() && is_sign(tokens[end], ";");
      const int name = statement ? declared_name(tokens, begin, end) : -1;
      const bool unused = name >= 0 && uses[tokens[static_cast<size_t>(name)].text] == 1;
      const size_t next = std::min(end + 1, tokens.size());
      if (!unused)
        kept.insert(kept.end(), tokens.begin() + static_cast<long>(begin),
                    tokens.begin() + static_cast<long>(next));
      changed = changed || unused;
      begin = next;
    }
    tokens = kept;
  }
  return tokens;
}

// What the compiler would make something of, with each name the same.
std::vector<Token> normalised(const std::string& text) {
  std::vector<Token> tokens;
  const Raw bare = without_empty_statements(cpp_tokens(text));  // and a "(void)x" uses nothing
  for (const CppToken& token : without_empty_statements(without_unused(bare))) {
    const bool name = token.kind == CppToken::Kind::word && !is_keyword(token.text);
    tokens.push_back({name ? "v" : token.text, token.line});
  }
  return tokens;
}

std::vector<uint64_t> gram_hashes(const std::vector<Token>& tokens) {
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i + gram <= tokens.size(); ++i) {
    std::string text;
    for (size_t k = 0; k < gram; ++k) text += tokens[i + k].text + " ";
    hashes.push_back(record::SipHash(0, 0).of(text));
  }
  return hashes;
}

void winnow(const std::vector<Token>& tokens, Fingerprints& prints) {
  const std::vector<uint64_t> hashes = gram_hashes(tokens);
  const size_t width = std::min(window, hashes.size());
  for (size_t begin = 0; width > 0 && begin + width <= hashes.size(); ++begin) {
    size_t least = begin;  // the last of the least
    for (size_t i = begin; i < begin + width; ++i)
      if (hashes[i] <= hashes[least]) least = i;
    for (size_t k = 0; k < gram; ++k) prints.lines[hashes[least]].insert(tokens[least + k].line);
  }
}

// The lines that the starter does not have, by their numbers. What holds no word, such as a brace,
// belongs to the line before.
std::map<int, std::string> own_lines(const std::string& text, const std::string& starter) {
  std::multiset<std::string> given;
  for (const std::string& line : lines_of(starter)) given.insert(trimmed(line));
  std::map<int, std::string> own;
  bool of_student = false;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (std::any_of(line.begin(), line.end(), is_word)) {
      const auto found = given.find(trimmed(line));
      of_student = found == given.end();
      if (!of_student) given.erase(found);
    }
    if (of_student) own[number] = line;
  }
  return own;
}

constexpr size_t enough_pairs = 10;  // of five students
constexpr double far_above = 0.3;

struct Submitted {
  std::string name;  // the student's; "last year: ann"
  bool of_class = true;
  Fingerprints prints;
};

struct Pair {
  std::string exercise;
  const Submitted *first = nullptr, *second = nullptr;
  SharedLines shared;
  int rank = 0;       // among the exercise's pairs; 1: the most alike
  double median = 0;  // of what the class's pairs share
};

void add_submitted(const std::string& folder, const Exercise& exercise, bool of_class,
                   std::vector<Submitted>& all) {
  const std::string starter = starter_of(exercise);
  for (const Submission& one : find_submissions(folder, {exercise}))
    if (one.handed == Handed::file)
      all.push_back({(of_class ? "" : "against: ") + one.student, of_class,
                     fingerprints_of(one.text, starter)});
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Much more alike than two of this class are by the task alone. Of few pairs nobody can tell.
bool stands_out(const Pair& pair, size_t pairs) {
  return pairs >= enough_pairs && pair.shared.share >= pair.median + far_above;
}

// All pairs of one exercise that share as much as `threshold`, or stand out.
std::vector<Pair> pairs_of(const Exercise& exercise, const std::vector<Submitted>& all,
                           double threshold) {
  const std::set<uint64_t> starter = prints_of_starter(starter_of(exercise));
  std::vector<Pair> pairs;
  std::vector<double> in_class;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size() && all[i].of_class; ++k) {
      pairs.push_back(
          {exercise.id, &all[i], &all[k], compare(all[i].prints, all[k].prints, starter)});
      if (all[k].of_class) in_class.push_back(pairs.back().shared.share);
    }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.shared.share > b.shared.share; });
  const double usual = median(in_class);
  for (size_t i = 0; i < pairs.size(); ++i)
    pairs[i].rank = static_cast<int>(i) + 1, pairs[i].median = usual;
  const size_t count = pairs.size();
  std::erase_if(pairs, [&](const Pair& pair) {
    return pair.shared.share < threshold && !stands_out(pair, count);
  });
  return pairs;
}

std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text))
    escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return escaped;
}

// The lines of a file's parts, with those that are shared marked.
std::string html_side(const Submitted& one, const std::set<int>& shared) {
  std::string text = fmt::format("<td><b>{}</b><pre>", html_text(one.name));
  for (const auto& [number, line] : one.prints.text) {
    const std::string plain = fmt::format("{:4} {}", number, html_text(line));
    text += (shared.count(number) > 0 ? "<mark>" + plain + "</mark>" : plain) + "\n";
  }
  return text + "</pre></td>";
}

std::string html_page(const std::vector<Pair>& pairs) {
  std::string text =
      "<!doctype html><meta charset=\"utf-8\"><title>Similar submissions</title>\n<style>body "
      "{font-family: sans-serif} td {vertical-align: top; padding-right: 2em} mark {background: "
      "#ffe08a}</style>\n<h1>Similar submissions</h1>\n<p>Like solutions of a short task are alike "
      "without being copied. Read the marked lines before you decide.</p>\n";
  for (const Pair& pair : pairs)
    text += fmt::format("<h2>{}: {} and {}, {:.0f}%</h2>\n<table><tr>{}{}</tr></table>\n",
                        pair.exercise, html_text(pair.first->name), html_text(pair.second->name),
                        100 * pair.shared.share, html_side(*pair.first, pair.shared.first),
                        html_side(*pair.second, pair.shared.second));
  return text;
}

nlohmann::json pairs_json(const std::vector<Pair>& pairs) {
  nlohmann::json list = nlohmann::json::array();
  for (const Pair& pair : pairs)
    list.push_back({{"exercise", pair.exercise},
                    {"first", pair.first->name},
                    {"second", pair.second->name},
                    {"share", pair.shared.share},
                    {"rank", pair.rank},
                    {"median", pair.median},
                    {"first_lines", pair.shared.first},
                    {"second_lines", pair.shared.second}});
  return {{"pairs", list}};
}

void report(const std::vector<Pair>& pairs, const SimilarityOptions& options) {
  yotta::console::Table table({"exercise", "rank", "students", "", "shared", "the class's median"});
  for (const Pair& pair : pairs)
    table.row({"exercise " + pair.exercise, fmt::format("{}", pair.rank),
               printable(pair.first->name), printable(pair.second->name),
               fmt::format("{:.0f}%", 100 * pair.shared.share),
               fmt::format("{:.0f}%", 100 * pair.median)});
  if (pairs.empty())
    fmt::print("No two submissions share {:.0f}% of their code, or stand out from the class.\n",
               100 * options.threshold);
  else
    fmt::print("{}", table.text());
  if (!options.html.empty()) write_text(options.html, html_page(pairs));
  if (!options.json.empty()) write_text(options.json, json_text(pairs_json(pairs)));
}

void report_all(const SimilarityOptions& options) {
  std::vector<std::vector<Submitted>> all;  // which pairs point to
  std::vector<Pair> pairs;
  const std::vector<Exercise> exercises = chosen_exercises(options.exercises, options.folder);
  all.reserve(exercises.size());
  for (const Exercise& exercise : exercises) {
    all.emplace_back();
    add_submitted(options.folder, exercise, true, all.back());
    if (!options.against.empty()) add_submitted(options.against, exercise, false, all.back());
    for (Pair& pair : pairs_of(exercise, all.back(), options.threshold))
      pairs.push_back(std::move(pair));
  }
  report(pairs, options);
}

}  // namespace

Fingerprints fingerprints_of(const std::string& text, const std::string& starter) {
  Fingerprints prints;
  prints.text = own_lines(text, starter);
  std::string joined;
  std::vector<int> numbers = {0};
  for (const auto& [number, line] : prints.text) joined += line + "\n", numbers.push_back(number);
  std::vector<Token> tokens = normalised(joined);
  for (Token& token : tokens) token.line = numbers[static_cast<size_t>(token.line)];
  winnow(tokens, prints);
  return prints;
}

std::set<uint64_t> prints_of_starter(const std::string& starter) {
  const std::vector<uint64_t> hashes = gram_hashes(normalised(starter));
  return {hashes.begin(), hashes.end()};
}

SharedLines compare(const Fingerprints& first, const Fingerprints& second,
                    const std::set<uint64_t>& starter) {
  const auto count = [&](const Fingerprints& prints) {
    return std::count_if(prints.lines.begin(), prints.lines.end(),
                         [&](const auto& one) { return starter.count(one.first) == 0; });
  };
  SharedLines shared;
  int both = 0;
  for (const auto& [print, lines] : first.lines) {
    const auto found = second.lines.find(print);
    if (found == second.lines.end() || starter.count(print) > 0) continue;
    ++both;
    shared.first.insert(lines.begin(), lines.end());
    shared.second.insert(found->second.begin(), found->second.end());
  }
  const auto fewer = std::min(count(first), count(second));
  if (fewer > 0) shared.share = static_cast<double>(both) / static_cast<double>(fewer);
  return shared;
}

int similarity(const SimilarityOptions& options) {
  try {
    report_all(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 2;
  }
}

}  // namespace runner
