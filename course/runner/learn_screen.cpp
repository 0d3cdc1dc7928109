#include "runner/learn_screen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "course/options/console.hpp"
#include "runner/exercise.hpp"

namespace runner::study {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

int characters(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

// The first characters of a line.
std::string clipped(const std::string& line, int width) {
  size_t end = 0;
  for (int count = 0; end < line.size(); ++end)
    if (!continues(line[end]) && count++ == width) break;
  return line.substr(0, end);
}

bool is_row(const std::string& line) { return line.find(" │ ") != std::string::npos; }

// Where an item of a list begins its words: 2 for "- this", 3 for "1. this"; 0: it is none.
size_t item_words(const std::string& line) {
  size_t digits = 0;
  while (digits < line.size() && std::isdigit(static_cast<unsigned char>(line[digits]))) ++digits;
  if (digits > 0 && line.substr(digits, 2) == ". ") return digits + 2;
  return line.starts_with("- ") ? 2 : 0;
}

// Lines of at most `width` characters, broken at blanks; what follows is indented as the line
// itself, or as the words of an item; under a table's row a little.
void wrap(const std::string& line, int width, Lines& out) {
  const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  const size_t first = blanks > 0 ? blanks : is_row(line) ? 4 : item_words(line);
  const std::string indent(std::min(first, static_cast<size_t>(width / 2)), ' ');
  std::string rest = line;
  while (characters(rest) > width) {
    const std::string head = clipped(rest, width);
    size_t cut = head.rfind(' ');
    if (cut == std::string::npos || cut <= indent.size()) cut = head.size();
    out.push_back(rest.substr(0, cut));
    rest = indent + rest.substr(std::min(rest.find_first_not_of(' ', cut), rest.size()));
    if (rest == indent) return;
  }
  out.push_back(rest);
}

Lines wrapped(const std::string& text, int width) {
  Lines out;
  for (const std::string& line : lines_of(text)) wrap(line, width, out);
  return out;
}

std::string progress_line(const State& state) {
  int points = 0, of = 0, minutes = 0;
  double spent = 0;
  size_t done = 0;
  for (const Exercise& one : state.exercises) {
    points += one.points(), of += one.of(), minutes += one.minutes;
    spent += one.of() > 0 ? double(one.minutes) * one.points() / one.of() : 0;
    done += one.complete() ? 1 : 0;
  }
  return fmt::format("Yotta {}│ {} of {} exercises  {} of {} points  {:.0f} of {} minutes",
                     yotta::console::bar(points, of, 12), done, state.exercises.size(), points, of,
                     spent, minutes);
}

std::string task_line(const State& state, size_t i, int width) {
  const Task& task = state.exercise().tasks[i];
  const std::string points = fmt::format(" {:>2} of {:>2}", task.points, task.of);
  std::string line = fmt::format("{} {} {} {}", i == state.task ? "▸" : " ",
                                 task.solved ? "✓" : "✗", task.id, task.title);
  line = clipped(line, width - characters(points));
  return line +
         std::string(static_cast<size_t>(
                         std::max(0, std::min(width, 78) - characters(line) - characters(points))),
                     ' ') +
         points;
}

// All tasks, or as many as fit around the one that is shown.
Lines task_lines(const State& state, int width, int most) {
  const int count = static_cast<int>(state.exercise().tasks.size());
  const int shown = std::clamp(most, 1, count);
  const int from = std::clamp(static_cast<int>(state.task) - shown / 2, 0, count - shown);
  Lines lines;
  for (int i = from; i < from + shown; ++i)
    lines.push_back(task_line(state, static_cast<size_t>(i), width));
  return lines;
}

Lines head(const State& state, int width, int height) {
  const Exercise& one = state.exercise();
  Lines lines = {progress_line(state),
                 fmt::format("{} {}  {} min, {}  {} of {} points{}{}", one.number(), one.title,
                             one.minutes, one.difficulty, one.points(), one.of(),
                             state.key.empty() ? "" : "  variant ", state.key)};
  for (const std::string& line : task_lines(state, width, height - 14)) lines.push_back(line);
  lines.push_back(fmt::format("Edit {}", one.file));
  return lines;
}

// What was not written yet fails: that is how it begins.
std::string welcome(const State& state) {
  if (!state.graded || !state.compiled || state.saved || state.exercise().points() > 0) return "";
  return fmt::format(
      "That it fails is expected: nothing is written yet. Read the first message, write the part "
      "between its marks in {}, and save. It is graded again by itself.\n\n",
      state.exercise().file);
}

// Without what the head shows, and what keys show here.
bool is_shown_elsewhere(const State& state, const std::string& line) {
  return line.starts_with("  ✓  ") || line.starts_with("  ✗  ") ||
         line.starts_with("For a hint:") || line.starts_with("Building the tests of") ||
         line == "All that the compiler says: -v" ||
         line == fmt::format("{} {}: {}", state.exercise().number(), state.exercise().title,
                             state.exercise().file);
}

std::string short_verdict(const State& state) {
  std::string text;
  for (const std::string& line : lines_of(state.verdict)) {
    const bool again_empty = line.empty() && (text.empty() || text.ends_with("\n\n"));
    if (!is_shown_elsewhere(state, line) && !again_empty) text += line + "\n";
  }
  // Here a key shows them, and the table stands above.
  static const std::regex option(": -v shows them"), table(", and was graded:\n");
  return std::regex_replace(std::regex_replace(text, option, ": e shows them"), table,
                            ", and was graded.\n");
}

// What the README's table of tasks says of one: the cell after its number.
std::string task_row(const State& state) {
  const std::string begin = fmt::format("{} │ ", state.open().id);
  for (const std::string& line : lines_of(state.exercise().statement))
    if (line.starts_with(begin))
      return line.substr(begin.size(), line.find(" │", begin.size()) - begin.size()) + "\n\n";
  return "";
}

std::string variant_lines(const State& state) {
  std::string text;
  for (const std::string& sentence : state.exercise().variant)
    text += "In this variant: " + sentence + "\n";
  return text.empty() ? text : text + "\n";
}

// `help`: how to see the lesson and a hint.
std::string statement_page(const State& state, const std::string& help) {
  const Task& task = state.open();
  const std::string uses =
      task.needs.empty() ? "" : fmt::format("It uses {}.\n", fmt::join(task.needs, ", "));
  return fmt::format("{}: {} ({} points, {} minutes, {})\n", task.id, task.title, task.of,
                     task.minutes, task.difficulty) +
         uses + task_row(state) +
         fmt::format(
             "Write it between the marks \"exercise {0}\" and \"end of exercise {0}\", and "
             "save. {1}\n\n",
             task.id, help) +
         variant_lines(state) + state.exercise().statement;
}

// Of an exercise that is complete: what was learnt, and where to go on.
std::string farewell(const State& state) {
  const Exercise& one = state.exercise();
  if (state.grading || !state.compiled || !one.complete()) return "";
  std::string text = fmt::format("All {} points: every task is solved.\n", one.of());
  if (!one.outcomes.empty()) text += "You can now\n";
  for (const std::string& outcome : one.outcomes) text += "- " + outcome + "\n";
  for (size_t i = 1; i < state.exercises.size(); ++i) {
    const Exercise& next = state.exercises[(state.at + i) % state.exercises.size()];
    if (next.complete()) continue;
    return text + fmt::format(
                      "\nNext is {} {}, {} minutes: n goes there. o shows this lesson's text "
                      "once more.\n",
                      next.number(), next.title, next.minutes);
  }
  return text + "\nIt was the last: all exercises are complete.\n";
}

std::string verdict_page(const State& state) {
  if (state.grading && state.verdict.empty())
    return "It is being graded. The first time its tests are built: half a minute, or a few "
           "minutes "
           "if the library has to be built too.\n";
  if (state.verdict.empty()) return "It was not graded yet: r does.\n";
  const std::string said = short_verdict(state), end = farewell(state);
  return welcome(state) + said + (said.empty() || end.empty() ? "" : "\n") + end;
}

std::string hints_page(const State& state) {
  const Task& task = state.open();
  std::string text;
  const int count = static_cast<int>(task.hints.size());
  for (int i = 0; i < std::min(task.hints_read, count); ++i)
    text += fmt::format("Hint {} of {}\n{}\n\n", i + 1, count, task.hints[static_cast<size_t>(i)]);
  if (task.hints_read < count) return text + "h: one more.\n";
  if (state.exercise().solution.empty()) return text + "There are no more hints.\n";
  if (task.hints_read == count) return text + "h: where a solution stands.\n";
  return text +
         fmt::format("A solution stands in {}: {}.\n", state.exercise().solution, task.function);
}

// A title that leaves the columns after it where they are.
std::string short_title(const std::string& title, int width) {
  return characters(title) <= width ? title : clipped(title, width - 4) + " ...";
}

std::string list_page(const State& state) {
  const char* const which[] = {"all", "open", "begun"};
  const std::vector<size_t> list = listed(state);
  std::string text =
      fmt::format("/ search: {}{}   f shows: {}   up, down, enter: go there   {} of {}\n",
                  state.search, state.typing ? "▏" : "", which[static_cast<int>(state.which)],
                  list.size(), state.exercises.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Exercise& one = state.exercises[list[i]];
    text += fmt::format("{} {} {} {:<50} {:>3} of {:>3} {:>4} min\n", i == state.chosen ? "▸" : " ",
                        one.complete() ? "✓" : " ", one.number(), short_title(one.title, 50),
                        one.points(), one.of(), one.minutes);
  }
  return list.empty() ? text + "No exercise is like that.\n" : text;
}

std::string page(const State& state) {
  switch (state.page) {
    case Page::statement: return statement_page(state, "o shows the lesson, h a hint.");
    case Page::verdict: return verdict_page(state);
    case Page::hints: return hints_page(state);
    case Page::list: return list_page(state);
    case Page::all:
      return state.table.empty() ? "Everything that was begun is being graded ...\n" : state.table;
    case Page::log: return state.log.empty() ? "Nothing more was said.\n" : state.log;
    case Page::lesson: return state.lesson;
    case Page::reset:
      return fmt::format(
          "Start {} again? It becomes the starter; your file is kept beside it as .before, and its "
          "points go.\n\n"
          "y: yes. Any other key: no.\n",
          state.exercise().file);
  }
  return "";
}

std::string title(const State& state) {
  const char* const titles[] = {"the task",          "the verdict", "hints",
                                "all exercises",     "check all",   "the full output",
                                "the lesson's text", "start again"};
  return titles[static_cast<int>(state.page)];
}

std::string of_grading(const State& state) {
  if (!state.grading) return " ";
  return state.building.empty() ? ", being graded " : fmt::format(", {} ", state.building);
}

std::string rule(const State& state, int width) {
  std::string line = "── " + title(state) + of_grading(state);
  if (!state.note.empty()) line += "── " + state.note + " ";
  while (characters(line) < std::min(width, 100)) line += "─";
  return line;
}

Lines foot(int width) {
  Lines lines = {""};
  for (const char* const key :
       {"n next", "b back", "h hint", "s statement", "v verdict", "e full output", "o lesson",
        "r run again", "l list", "c check all", "x reset", "q quit"}) {
    if (characters(lines.back() + key) > width) lines.emplace_back();
    lines.back() += std::string(key) + "  ";
  }
  return lines;
}

// The page in a window: its lines, and for how many there is room.
struct Fitted {
  Lines head, lines, foot;
  int room;
  int last() const { return std::max(0, static_cast<int>(lines.size()) - room); }
};

Fitted fitted(const State& state, int width, int height) {
  Fitted all{head(state, width, height), wrapped(page(state), width), foot(width), 1};
  all.head.push_back(rule(state, width));
  all.room = std::max(1, height - static_cast<int>(all.head.size() + all.foot.size()));
  return all;
}

// The page's lines on the screen; the list follows what is chosen, other pages the reader.
Lines visible(const State& state, const Lines& lines, int room) {
  const int count = static_cast<int>(lines.size());
  int from = state.page == Page::list ? static_cast<int>(state.chosen) + 3 - room : state.scroll;
  from = std::clamp(from, 0, std::max(0, count - room));
  Lines shown(lines.begin() + from, lines.begin() + std::min(count, from + room));
  if (from + room < count && !shown.empty())
    shown.back() = fmt::format("... {} more lines: down, space", count - from - room + 1);
  return shown;
}

}  // namespace

std::vector<std::string> screen(const State& state, int width, int height) {
  if (width < 20 || height < 8) return {clipped("The window is too small.", std::max(0, width))};
  const Fitted all = fitted(state, width, height);
  Lines lines = all.head;
  for (const std::string& line : visible(state, all.lines, all.room)) lines.push_back(line);
  lines.resize(static_cast<size_t>(std::max(0, height - static_cast<int>(all.foot.size()))));
  lines.insert(lines.end(), all.foot.begin(), all.foot.end());
  for (std::string& line : lines) line = clipped(line, width);
  return lines;
}

int last_scroll(const State& state, int width, int height) {
  return width < 20 || height < 8 ? 0 : fitted(state, width, height).last();
}

std::string page_text(const State& state, int width) {
  std::string text;
  for (const std::string& line : head(state, width, 100)) text += line + "\n";
  const bool begun = state.exercise().points() > 0;
  const std::string help =
      fmt::format("./yotta hint {} shows a hint.{}", state.open().id,
                  begun ? "" : " That it fails at first is expected: nothing is written yet.");
  text += "\n";
  for (const std::string& line : wrapped(statement_page(state, help), width)) text += line + "\n";
  return text;
}

std::string plain_markdown(const std::string& text) {
  static const std::regex link(R"(!?\[([^\]]*)\]\([^)]*\))"),
      marks(R"(\*\*|`|^#+ +|</?(details|summary|sub|sup)>)"),
      stress(R"((^|[ (])\*([^ *]|[^ *][^*]*[^ *])\*)"), table_rule(R"(^\|[-|: ]+$)"),
      row(R"(^\| *(.*?) *\|$)"), cell(R"( +\| +)"), bar(R"(\\\|)");
  std::string plain;
  bool code = false, paragraph = false;  // a paragraph's lines become one, and an item's
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("```")) {
      code = !code, paragraph = false;
      continue;
    }
    if (std::regex_match(line, table_rule) || (code && line.starts_with("./yotta check"))) continue;
    std::string words = line.substr(0, 2000);
    if (code) {
      plain += words + "\n";
      continue;
    }
    words = std::regex_replace(words, link, "$1");
    words = std::regex_replace(std::regex_replace(words, marks, ""), stress, "$1$2");
    if (words.starts_with("|"))
      words = std::regex_replace(
          std::regex_replace(std::regex_replace(words, row, "$1"), cell, " │ "), bar, "|");
    if (words.starts_with("| ")) words.replace(0, 1, "│");  // its first cell is empty
    if (words.empty() && (plain.empty() || plain.ends_with("\n\n"))) continue;
    const size_t first = std::min(words.find_first_not_of(' '), words.size());
    const bool item = item_words(words) > 0;
    const bool prose = !item && !words.empty() && !line.starts_with("#") &&
                       !line.starts_with("|") && (paragraph || first < 4);
    if (paragraph && prose) plain.back() = ' ', words.erase(0, first);
    plain += words + "\n";
    paragraph = prose || item;
  }
  return plain;
}

}  // namespace runner::study
