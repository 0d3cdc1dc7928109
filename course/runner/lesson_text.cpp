#include "runner/lesson_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

// A line as words and numbers: "sent 6,000 B in 1.5 ms" -> sent | 6,000 | B in | 1.5 | ms
struct Piece {
  std::string text;  // without blanks
  bool number = false;
};

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

// The end of the number that begins at `begin`: digits, commas between them, a point, an exponent.
size_t number_end(const std::string& line, size_t begin) {
  size_t end = begin;
  const auto digit_at = [&](size_t i) { return i < line.size() && is_decimal(line[i]); };
  while (digit_at(end) || ((line[end] == ',' || line[end] == '.') && digit_at(end + 1))) ++end;
  if (end < line.size() && line[end] == 'e') {
    const size_t digits =
        end + 1 + (end + 1 < line.size() && (line[end + 1] == '-' || line[end + 1] == '+'));
    if (digit_at(digits)) {
      end = digits;
      while (digit_at(end)) ++end;
    }
  }
  return end;
}

std::vector<Piece> pieces_of(const std::string& line) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < line.size();) {
    if (is_decimal(line[i])) {
      const size_t end = number_end(line, i);
      pieces.push_back({line.substr(i, end - i), true});
      i = end;
      continue;
    }
    if (line[i] != ' ' && line[i] != '\t') {
      if (pieces.empty() || pieces.back().number) pieces.emplace_back();
      pieces.back().text += line[i];
    }
    ++i;
  }
  return pieces;
}

// Whether what follows a number makes it a time or a speed.
bool is_time_or_speed(const std::vector<Piece>& pieces, size_t number) {
  if (number + 1 == pieces.size() || pieces[number + 1].number) return false;
  const std::string& unit = pieces[number + 1].text;
  for (const std::string_view time : {"s", "ms", "us", "µs", "ns", "min", "seconds", "minutes"}) {
    if (!unit.starts_with(time)) continue;
    const unsigned char next =
        unit.size() > time.size() ? static_cast<unsigned char>(unit[time.size()]) : ' ';
    if (std::isalpha(next) == 0 && next < 0x80) return true;
  }
  return unit.find("/s") != std::string::npos && unit.find("/s") < 12;  // tokens/s, GFLOP/s, GB/s
}

bool same_number(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (a.find_first_of(".e") == std::string::npos || b.find_first_of(".e") == std::string::npos)
    return false;
  const double x = std::strtod(a.c_str(), nullptr), y = std::strtod(b.c_str(), nullptr);
  return std::abs(x - y) <= 1e-3 * std::max(std::abs(x), std::abs(y));
}

bool same_words(const std::string& quoted, const std::string& printed) {
  const auto a = pieces_of(quoted), b = pieces_of(printed);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Piece& x, const Piece& y) {
    return x.number == y.number && (x.number || x.text == y.text);
  });
}

// How the lines of a quote are compared.
auto same_in(const Quote& quote) {
  return [measured = quote.measured](const std::string& quoted, const std::string& printed) {
    return same_line(quoted, printed, measured);
  };
}

// Where the quote's lines stand in the output, judged by `same`; or the end.
template <class Same>
Lines::const_iterator find_lines(const Lines& output, const Quote& quote, Same same) {
  return std::search(
      output.begin(), output.end(), quote.lines.begin(), quote.lines.end(),
      [&](const std::string& printed, const std::string& quoted) { return same(quoted, printed); });
}

// The printed line that shares the most pieces with a quoted one.
std::string nearest(const std::string& quoted, const Lines& output) {
  std::string best;
  size_t most = 0;
  const auto wanted = pieces_of(quoted);
  for (const std::string& line : output) {
    size_t shared = 0;
    for (const Piece& piece : pieces_of(line))
      shared += std::any_of(wanted.begin(), wanted.end(),
                            [&](const Piece& w) { return w.text == piece.text; });
    if (shared > most) most = shared, best = line;
  }
  return best;
}

// "\033[1m" and the like: colours.
std::string without_colors(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033')
      while (i < text.size() && text[i] != 'm') ++i;
    else
      plain += text[i];
  }
  return plain;
}

// The fenced blocks whose first line begins with `opening`; what follows it there is the name, and
// then options.
std::vector<Quote> find_blocks(const std::string& text, const std::string& opening) {
  std::vector<Quote> quotes;
  bool inside = false;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (!inside && line.starts_with(opening)) {
      inside = true;
      const std::string named = line.substr(opening.size());
      const size_t end = std::min(named.find(' '), named.size());
      const size_t options = std::min(named.find_first_not_of(' ', end), named.size());
      quotes.push_back({named.substr(0, end), named.substr(options), number + 1, {}});
    } else if (inside && line == "```") {
      inside = false;
      if (quotes.back().lines.empty())
        throw std::runtime_error(
            fmt::format("line {}: the quote {} is empty", number, quotes.back().name));
    } else if (inside) {
      quotes.back().lines.push_back(line);
    }
  }
  if (inside) throw std::runtime_error("the quote " + quotes.back().name + " does not end");
  return quotes;
}

// The options of a quote of what the lesson's shortest program prints.
constexpr const char* one_screen = "one_screen";

// The line that shares the most words with a quoted one.
std::string nearest_of_words(const std::string& quoted, const Lines& lines) {
  const auto words_of = [](const std::string& line) {
    std::istringstream stream(line);
    return std::set<std::string>(std::istream_iterator<std::string>(stream), {});
  };
  const std::set<std::string> wanted = words_of(quoted);
  const auto shared = [&](const std::string& line) {
    const std::set<std::string> words = words_of(line);
    return std::count_if(words.begin(), words.end(),
                         [&](const std::string& word) { return wanted.count(word) > 0; });
  };
  const auto best = std::max_element(
      lines.begin(), lines.end(),
      [&](const std::string& a, const std::string& b) { return shared(a) < shared(b); });
  return best == lines.end() ? "" : *best;
}

// "measured --ranks 4" are the options --ranks 4.
void take_measured(Quote& quote) {
  constexpr std::string_view word = "measured";
  const std::string& all = quote.options;
  if (!all.starts_with(word) || (all.size() > word.size() && all[word.size()] != ' ')) return;
  quote.measured = true;
  quote.options = all.substr(std::min(all.find_first_not_of(' ', word.size()), all.size()));
}

// A whole program of a lesson, and no lines of a header.
bool is_program(const Quote& quote) { return quote.name.ends_with(".cpp"); }

std::string unindented(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

}  // namespace

std::vector<Quote> find_quotes(const std::string& text) {
  std::vector<Quote> quotes = find_blocks(text, "```output ");
  std::set<std::string> names;
  for (Quote& quote : quotes) {
    if (!names.insert(quote.name).second)
      throw std::runtime_error(
          fmt::format("line {}: there are two quotes called {}", quote.line - 1, quote.name));
    take_measured(quote);
  }
  return quotes;
}

std::vector<Quote> find_header_quotes(const std::string& text) {
  std::vector<Quote> quotes = find_blocks(text, "```cpp ");
  std::erase_if(quotes, is_program);
  return quotes;
}

std::vector<Quote> find_program_quotes(const std::string& text) {
  std::vector<Quote> quotes = find_blocks(text, "```cpp ");
  std::erase_if(quotes, [](const Quote& quote) { return !is_program(quote); });
  return quotes;
}

std::vector<std::string> compare_program_quotes(const std::string& text,
                                                const std::string& folder) {
  std::vector<std::string> complaints;
  for (const Quote& quote : find_program_quotes(text)) {
    const Lines file = lines_of(read_text(folder + "/" + quote.name));
    const auto [quoted, said] =
        std::mismatch(quote.lines.begin(), quote.lines.end(), file.begin(), file.end());
    if (quoted == quote.lines.end() && said == file.end()) continue;
    complaints.push_back(
        fmt::format("line {}: {} is quoted whole, and differs here\n    quoted: {}\n    it has: {}",
                    quote.line + (quoted - quote.lines.begin()), quote.name,
                    quoted == quote.lines.end() ? "(nothing more)" : *quoted,
                    said == file.end() ? "(nothing more)" : *said));
  }
  return complaints;
}

std::string refresh_program_quotes(const std::string& text, const std::string& folder) {
  Lines lines = lines_of(text);
  std::vector<Quote> quotes = find_program_quotes(text);
  for (size_t i = quotes.size(); i-- > 0;) {  // from the end: the lines before keep their places
    const Lines file = lines_of(read_text(folder + "/" + quotes[i].name));
    const auto begin = lines.begin() + quotes[i].line - 1;
    lines.insert(lines.erase(begin, begin + std::ssize(quotes[i].lines)), file.begin(), file.end());
  }
  return joined(lines);
}

std::vector<std::string> compare_header_quotes(const std::string& text,
                                               const std::string& library) {
  std::vector<std::string> complaints;
  for (Quote quote : find_header_quotes(text)) {
    Lines header = lines_of(read_text(library + "/" + quote.name));
    for (Lines* lines : {&header, &quote.lines})
      std::transform(lines->begin(), lines->end(), lines->begin(), unindented);
    if (find_lines(header, quote, std::equal_to<>()) != header.end()) continue;
    const auto stale =
        std::find_if(quote.lines.begin(), quote.lines.end(), [&](const std::string& line) {
          return std::count(header.begin(), header.end(), line) == 0;
        });
    complaints.push_back(
        stale == quote.lines.end()
            ? fmt::format("line {}: the lines of {} are there, but not one after the other",
                          quote.line, quote.name)
            : fmt::format("line {}: {} has no such line\n    quoted: {}\n    it has: {}",
                          quote.line + (stale - quote.lines.begin()), quote.name, *stale,
                          nearest_of_words(*stale, header)));
  }
  return complaints;
}

bool same_line(const std::string& quoted, const std::string& printed, bool measured) {
  if (quoted.starts_with("... ")) {
    for (size_t begin = 0; begin < printed.size(); ++begin)
      if (same_line(quoted.substr(4), printed.substr(begin), measured)) return true;
    return false;
  }
  if (!same_words(quoted, printed)) return false;
  const auto a = pieces_of(quoted), b = pieces_of(printed);
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].number || (measured && is_time_or_speed(a, i))) continue;
    if (!same_number(a[i].text, b[i].text)) return false;
  }
  return true;
}

std::vector<std::string> option_sets(const std::string& text) {
  std::vector<std::string> sets = {""};
  for (const Quote& quote : find_quotes(text))
    if (std::count(sets.begin(), sets.end(), quote.options) == 0) sets.push_back(quote.options);
  return sets;
}

std::vector<std::string> other_programs(const std::string& text) {
  std::set<std::string> programs;
  for (const std::string& options : option_sets(text))
    if (!options.empty() && !options.starts_with("-") && options != one_screen)
      programs.insert(options.substr(0, options.find(' ')));
  return {programs.begin(), programs.end()};
}

std::vector<std::string> command_of(const std::string& program, const std::string& options) {
  std::istringstream stream(options);
  std::vector<std::string> command(std::istream_iterator<std::string>(stream), {});
  if (options == one_screen)
    command[0] = one_screen_of(program);
  else if (command.empty() || command[0].starts_with("-"))
    command.insert(command.begin(), program);
  else
    command[0] = fmt::format("{}/course/{}", YOTTA_BUILD_DIR, command[0]);
  return command;
}

std::string one_screen_of(const std::string& program) {
  const size_t name = program.rfind("lesson_");
  if (name == std::string::npos)
    throw std::runtime_error(program + " is not called lesson_NN_topic");
  return std::string(program).replace(name, std::string("lesson").size(), one_screen);
}

std::vector<std::string> compare_quotes(const std::string& text, const std::string& output,
                                        const std::string& options) {
  std::vector<std::string> complaints;
  const Lines printed = lines_of(without_colors(output));
  for (const Quote& quote : find_quotes(text)) {
    if (quote.options != options) continue;
    if (find_lines(printed, quote, same_in(quote)) != printed.end()) continue;
    const auto stale =
        std::find_if(quote.lines.begin(), quote.lines.end(), [&](const std::string& line) {
          return std::none_of(printed.begin(), printed.end(), [&](const std::string& p) {
            return same_line(line, p, quote.measured);
          });
        });
    if (stale == quote.lines.end()) {
      complaints.push_back(
          fmt::format("line {}: {}: its lines are printed, but not one after the other", quote.line,
                      quote.name));
      continue;
    }
    complaints.push_back(fmt::format("line {}: {}\n    quoted:  {}\n    printed: {}",
                                     quote.line + (stale - quote.lines.begin()), quote.name, *stale,
                                     nearest(*stale, printed)));
  }
  return complaints;
}

std::string refresh_quotes(const std::string& text, const std::string& output,
                           const std::string& options) {
  Lines lines = lines_of(text);
  const Lines printed = lines_of(without_colors(output));
  for (const Quote& quote : find_quotes(text)) {
    if (quote.options != options) continue;
    if (find_lines(printed, quote, same_in(quote)) != printed.end()) continue;
    const auto found = find_lines(printed, quote, same_words);
    if (found == printed.end()) continue;
    std::copy_n(found, quote.lines.size(), lines.begin() + quote.line - 1);
  }
  return joined(lines);
}

std::vector<std::string> compare_with_runs(std::string& text, const std::string& program,
                                           bool refresh) {
  std::vector<std::string> complaints;
  for (const std::string& options : option_sets(text)) {
    const std::vector<std::string> command = command_of(program, options);
    const Ending ending = run_limited(command, 100);
    if (!ending.well()) {
      complaints.push_back(fmt::format("{} failed:\n{}", fmt::join(command, " "), ending.output));
      continue;
    }
    if (refresh) text = refresh_quotes(text, ending.output, options);
    const auto of_run = compare_quotes(text, ending.output, options);
    complaints.insert(complaints.end(), of_run.begin(), of_run.end());
  }
  return complaints;
}

std::vector<std::string> texts_of_lesson(const std::string& readme) {
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(fs::path(readme).parent_path()))
    if (entry.path().extension() == ".md" && entry.path() != fs::path(readme))
      texts.push_back(entry.path().string());
  std::sort(texts.begin(), texts.end());
  texts.insert(texts.begin(), readme);
  return texts;
}

int check_lesson_text(const std::string& readme, const std::string& program, bool refresh) {
  std::string text = read_text(readme);
  const std::string folder = readme.substr(0, readme.rfind('/'));
  if (refresh) text = refresh_program_quotes(text, folder);
  std::vector<std::string> complaints = compare_with_runs(text, program, refresh);
  if (refresh) write_text(readme, text);
  const auto of_programs = compare_program_quotes(text, folder);
  complaints.insert(complaints.end(), of_programs.begin(), of_programs.end());
  const auto of_headers = compare_header_quotes(text, YOTTA_SOURCE_DIR "/include/yotta");
  complaints.insert(complaints.end(), of_headers.begin(), of_headers.end());
  for (const std::string& complaint : complaints) fmt::print("{}: {}\n", readme, complaint);
  if (complaints.empty())
    fmt::print("{} quotes of {} are what its program prints, {} what headers say\n",
               find_quotes(text).size(), readme, find_header_quotes(text).size());
  return static_cast<int>(complaints.size());
}

}  // namespace runner
