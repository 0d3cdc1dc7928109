#include "runner/similarity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "course/shared/console.hpp"
#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/gradebook.hpp"
#include "runner/json_output.hpp"
#include "runner/submissions.hpp"
#include "runner/text_hash.hpp"
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

// The tokens of one line of code; `comment` tells whether a /* */ is open.
void add_tokens(const std::string& line, int number, bool& comment, std::vector<Token>& tokens) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (comment) {
      if (line.compare(i, 2, "*/") == 0) comment = false, ++i;
    } else if (line.compare(i, 2, "//") == 0) {
      return;
    } else if (line.compare(i, 2, "/*") == 0) {
      comment = true, ++i;
    } else if (is_word(line[i])) {
      size_t end = i;
      while (end < line.size() && is_word(line[end])) ++end;
      const std::string word = line.substr(i, end - i);
      const bool number_or_keyword =
          std::isdigit(static_cast<unsigned char>(word[0])) != 0 || is_keyword(word);
      tokens.push_back({number_or_keyword ? word : "v", number});
      i = end - 1;
    } else if (std::isspace(static_cast<unsigned char>(line[i])) == 0) {
      tokens.push_back({std::string(1, line[i]), number});
    }
  }
}

std::vector<uint64_t> gram_hashes(const std::vector<Token>& tokens) {
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i + gram <= tokens.size(); ++i) {
    std::string text;
    for (size_t k = 0; k < gram; ++k) text += tokens[i + k].text + " ";
    hashes.push_back(text_hash(text));
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

struct Submitted {
  std::string name;  // the student's; "last year: ann"
  bool of_class = true;
  Fingerprints prints;
};

struct Pair {
  std::string exercise;
  const Submitted *first = nullptr, *second = nullptr;
  SharedLines shared;
};

void add_submitted(const std::string& folder, const Exercise& exercise, bool of_class,
                   std::vector<Submitted>& all) {
  const std::string starter = starter_of(exercise);
  for (const Submission& one : find_submissions(folder, {exercise}))
    if (one.handed == Handed::file)
      all.push_back({(of_class ? "" : "against: ") + one.student, of_class,
                     fingerprints_of(one.text, starter)});
}

std::vector<Pair> pairs_of(const Exercise& exercise, const std::vector<Submitted>& all,
                           double threshold) {
  const std::set<uint64_t> starter = prints_of_starter(starter_of(exercise));
  std::vector<Pair> pairs;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size() && all[i].of_class; ++k) {
      Pair pair{exercise.id, &all[i], &all[k], compare(all[i].prints, all[k].prints, starter)};
      if (pair.shared.share >= threshold) pairs.push_back(std::move(pair));
    }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.shared.share > b.shared.share; });
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
                    {"first_lines", pair.shared.first},
                    {"second_lines", pair.shared.second}});
  return {{"pairs", list}};
}

void report(const std::vector<Pair>& pairs, const SimilarityOptions& options) {
  yotta::console::Table table({"exercise", "students", "", "shared"});
  for (const Pair& pair : pairs)
    table.row({"exercise " + pair.exercise, printable(pair.first->name),
               printable(pair.second->name), fmt::format("{:.0f}%", 100 * pair.shared.share)});
  if (pairs.empty())
    fmt::print("No two submissions share {:.0f}% of their code.\n", 100 * options.threshold);
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
  std::vector<Token> tokens;
  bool comment = false;
  for (const auto& [number, line] : own_lines(text, starter)) {
    prints.text[number] = line;
    add_tokens(line, number, comment, tokens);
  }
  winnow(tokens, prints);
  return prints;
}

std::set<uint64_t> prints_of_starter(const std::string& starter) {
  std::vector<Token> tokens;
  bool comment = false;
  for (const std::string& line : lines_of(starter)) add_tokens(line, 0, comment, tokens);
  const std::vector<uint64_t> hashes = gram_hashes(tokens);
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
