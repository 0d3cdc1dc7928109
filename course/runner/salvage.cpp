#include "runner/salvage.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr int rounds_of_removal = 3;  // of taking out more parts and compiling again

// A file's parts in their order, each with its lines between the marks.
struct Part {
  std::string id;
  Lines lines;
};
std::vector<Part> parts_of(const std::string& text) {
  const Lines lines = lines_of(text), ids = part_of_lines(text);
  std::vector<Part> parts;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool first = i == 0 || ids[i] != ids[i - 1];
    const bool last = i + 1 == lines.size() || ids[i] != ids[i + 1];
    if (ids[i].empty()) continue;
    if (first) parts.push_back({ids[i], {}});
    if (!first && !last) parts.back().lines.push_back(lines[i]);
  }
  return parts;
}

// Where a comment or a text begins at `i`, the place of its last character; else `i`.
size_t end_of_text(const std::string& line, size_t i) {
  if (line.compare(i, 2, "//") == 0) return line.size();
  if (line[i] != '"' && line[i] != '\'') return i;
  const char quote = line[i];
  if (quote == '\'' && i > 0 && std::isalnum(static_cast<unsigned char>(line[i - 1])))
    return i;  // 1'000
  for (size_t end = i + 1; end < line.size(); ++end) {
    if (line[end] == quote) return end;
    if (line[end] == '\\') ++end;
  }
  return line.size();
}

bool brackets_match(const Lines& lines) {
  std::string open;
  const std::string opening = "([{", closing = ")]}";
  for (const std::string& line : lines)
    for (size_t i = 0; i < line.size(); ++i) {
      i = end_of_text(line, i);
      if (i >= line.size()) break;
      if (opening.find(line[i]) != std::string::npos) open += line[i];
      const size_t which = closing.find(line[i]);
      if (which == std::string::npos) continue;
      if (open.empty() || open.back() != opening[which]) return false;
      open.pop_back();
    }
  return open.empty();
}

}  // namespace

std::vector<std::string> suspects(const std::vector<PartErrors>& errors, const std::string& text) {
  const auto named = [&](const std::string& id) {
    return std::any_of(errors.begin(), errors.end(), [&](const PartErrors& one) {
      return one.part == id || (one.part.empty() && one.after == id);
    });
  };
  Lines ids, unbalanced;
  for (const Part& part : parts_of(text)) {
    if (named(part.id)) ids.push_back(part.id);
    if (!brackets_match(part.lines)) unbalanced.push_back(part.id);
  }
  return unbalanced.empty() ? ids : unbalanced;
}

std::string with_starter_parts(const std::string& text, const std::string& starter,
                               const std::vector<std::string>& parts) {
  std::map<std::string, Lines> fresh;
  for (const Part& part : parts_of(starter)) fresh[part.id] = part.lines;
  const Lines lines = lines_of(text), ids = part_of_lines(text);
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) {
    result += lines[i] + "\n";
    if (!has(parts, ids[i])) continue;
    size_t last = i;  // the mark that closes the part which this line opens
    while (last + 1 < lines.size() && ids[last + 1] == ids[i]) ++last;
    if (last == i) continue;
    Lines other = fresh[ids[i]];
    other.resize(std::max(other.size(), last - i - 1));
    for (const std::string& line : other) result += line + "\n";
    result += lines[last] + "\n";
    i = last;
  }
  return result;
}

Salvaged salvage(const Exercise& exercise, const std::string& file,
                 const std::vector<PartErrors>& errors, const RunFolder& folder) {
  const std::string text = read_text(file), starter = starter_of(exercise);
  const std::string copy =
      fmt::format("{}/without/{}", folder.path(), fs::path(file).filename().string());
  Lines left_out = suspects(errors, text);
  for (int round = 0; round < rounds_of_removal && !left_out.empty(); ++round) {
    const std::string rest = with_starter_parts(text, starter, left_out);
    write_text(copy, rest);
    const Built built = build_solution(exercise, copy, folder);
    if (!built.program.empty()) return {built.program, left_out};
    const size_t before = left_out.size();
    for (const std::string& more : suspects(errors_by_part(built.log, copy, rest), rest))
      if (!has(left_out, more)) left_out.push_back(more);
    if (left_out.size() == before) break;
  }
  return {};
}

}  // namespace runner
