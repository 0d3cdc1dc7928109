#include "runner/exercise.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "runner/page_functions.hpp"

namespace fs = std::filesystem;

namespace runner {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string trimmed(const std::string& text) {
  constexpr const char* blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool has(const Lines& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

namespace {

// "10.1" of "  // exercise 10.1: pass ...", with the given words before it; else empty.
std::string mark(const std::string& line, const std::string& words) {
  const size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || !line.substr(at).starts_with(words)) return "";
  const size_t begin = at + words.size();
  return line.substr(begin, line.find_first_not_of("0123456789.", begin) - begin);
}
std::string opening_mark(const std::string& line) { return mark(line, "// exercise "); }
std::string closing_mark(const std::string& line) { return mark(line, "// end of exercise "); }

// A comment with these words, and what follows it in the namespace, is left out of the starter.
constexpr const char* not_in_the_exercise = "not in the exercise";

// The lines in namespace yotta::student.
Lines as_student(const Lines& lines) {
  Lines student;
  for (std::string line : lines) {
    if (line == "namespace yotta {") line = "namespace yotta::student {";
    if (line == "}  // namespace yotta") line = "}  // namespace yotta::student";
    student.push_back(line);
  }
  return student;
}

// What is included besides may belong elsewhere in the list.
void sort_includes(Lines& lines) {
  const auto included = [](const std::string& line) { return line.starts_with("#include \""); };
  for (auto begin = lines.begin(); begin != lines.end();) {
    begin = std::find_if(begin, lines.end(), included);
    const auto end = std::find_if_not(begin, lines.end(), included);
    std::sort(begin, end);
    begin = end;
  }
}

// The line of the bracket that opens the body of each function that returns a value, from 0.
std::set<size_t> returning_lines(const std::string& text) {
  std::set<size_t> lines;
  for (const PageFunction& one : functions_of(text))
    if (one.returns_value)
      lines.insert(static_cast<size_t>(
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(one.open), '\n')));
  return lines;
}

// The body of a function, with the marks of its task.
struct MarkedBody {
  size_t begin = 0, end = 0;  // of what the text replaces
  std::string text;
};

// A task's words may take several lines; those after the first begin so.
constexpr const char* more_words = "//  ";
constexpr size_t most_columns = 100;

// "// exercise 13.3: words"
std::string mark_with_words(const Task& task, const std::string& indent) {
  std::string text, line = fmt::format("{}// exercise {}:", indent, task.id);
  std::istringstream words(task.words);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > most_columns) {
      text += line + "\n";
      line = indent + more_words;
    }
    line += " " + word;
  }
  return text + line + "\n";
}

MarkedBody marked_body(const std::string& page, const PageFunction& function, const Task& task) {
  const size_t line = page.rfind('\n', function.begin) + 1;
  const std::string outer = page.substr(line, page.find_first_not_of(' ', line) - line);
  const std::string indent = outer + "  ";
  std::string code = page.substr(function.open + 1, function.close - function.open - 1);
  if (code.find('\n') == std::string::npos) code = "\n" + indent + trimmed(code) + "\n";
  code.erase(code.rfind('\n') + 1);
  return {function.open + 1, function.close,
          fmt::format("\n{}{}{}// end of exercise {}\n{}", mark_with_words(task, indent),
                      code.substr(code.find('\n') + 1), indent, task.id, outer)};
}

// One change of a wrong solution: other lines for those of a part ("13.2"), or for one line outside
// of the parts.
struct Replacement {
  std::string part, line;  // one of them is empty
  Lines lines;
};

constexpr const char* instead_of = "// instead of: ";
constexpr const char* end_of_instead = "// end of instead";

// See replace_parts.
std::vector<Replacement> replacements_of(const std::string& wrong) {
  std::vector<Replacement> all;
  bool open = false;
  for (const std::string& line : lines_of(wrong)) {
    const std::string text = trimmed(line), part = opening_mark(line);
    const bool ends = !closing_mark(line).empty() || text == end_of_instead;
    const bool begins = !part.empty() || text.starts_with(instead_of);
    if ((begins == open && !ends) || (ends && !open))
      throw std::runtime_error(fmt::format("'{}' stands in the wrong place", text));
    if (begins)
      all.push_back({part, part.empty() ? text.substr(std::string(instead_of).size()) : "", {}});
    if (!begins && !ends) all.back().lines.push_back(line);
    open = !ends && (begins || open);
  }
  if (open || all.empty()) throw std::runtime_error("the last part does not end, or there is none");
  return all;
}

// The only line that this is true of; `what` it is, for the message.
template <class Is>
Lines::iterator find_line(Lines& lines, const std::string& what, Is is) {
  const auto found = std::find_if(lines.begin(), lines.end(), is);
  if (found == lines.end() || std::find_if(found + 1, lines.end(), is) != lines.end())
    throw std::runtime_error(fmt::format("{} must be in the solution once", what));
  return found;
}

std::vector<std::string> strings(const nlohmann::json& list) {
  return list.get<std::vector<std::string>>();
}

// "nn/norm.hpp", or a list of such names.
std::vector<std::string> read_headers(const nlohmann::json& json) {
  if (json.is_string()) return {json.get<std::string>()};
  if (json.empty()) throw std::runtime_error("\"header\" names no header");
  return strings(json);
}

// A field that may be left out.
bool read_flag(const nlohmann::json& json, const char* field) {
  if (!json.contains(field)) return false;
  if (!json.at(field).is_boolean())
    throw std::runtime_error(
        fmt::format("\"{}\" must be true or false, not {}", field, json.at(field).dump()));
  return json.at(field);
}

// Adds what tasks need to what the tasks need that use them.
void close_needs(std::vector<Task>& tasks) {
  std::map<std::string, std::set<std::string>> needs;
  for (const Task& task : tasks) needs[task.id].insert(task.needs.begin(), task.needs.end());
  for (size_t times = 0; times < tasks.size(); ++times)
    for (auto& [id, all] : needs)
      for (const std::string& used : std::set<std::string>(all)) {
        if (needs.count(used) == 0)
          throw std::runtime_error(fmt::format("task {} needs {}, and there is none", id, used));
        all.insert(needs[used].begin(), needs[used].end());
      }
  for (Task& task : tasks) {
    if (needs[task.id].count(task.id) > 0)
      throw std::runtime_error(fmt::format("task {} needs itself", task.id));
    task.needs.clear();
    for (const Task& other : tasks)
      if (needs[task.id].count(other.id) > 0) task.needs.push_back(other.id);
  }
}

// "difficulty" may be left out: a warm-up is easy, another task as difficult as its exercise.
Task read_task(const nlohmann::json& json, const std::string& difficulty) {
  Task task{json.at("id"), json.at("title"), json.at("points"), {}};
  task.function = json.value("function", "");
  task.words = json.value("task", "");
  if (json.contains("needs")) task.needs = strings(json.at("needs"));
  task.equivalent = json.value("equivalent", task.equivalent);
  task.minutes = json.value("minutes", 0);
  task.difficulty =
      json.value("difficulty", task.title.starts_with("warm-up: ") ? "easy" : difficulty);
  if (json.contains("weights")) task.weights = json.at("weights").get<std::map<std::string, int>>();
  for (const auto& [name, weight] : task.weights) {
    if (!name.starts_with(task.id + ":"))
      throw std::runtime_error(
          fmt::format("task {} weighs a case of another, '{}'", task.id, name));
    if (weight < 0)
      throw std::runtime_error(fmt::format("the case '{}' weighs {}; 0 is least", name, weight));
  }
  return task;
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  if (fs::is_regular_file(path) && read_text(path) == text)
    return;  // not a pipe's: that has no end
  fs::create_directories(fs::absolute(path).parent_path());
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string relative(const std::string& path) {
  const std::string root = std::string(YOTTA_SOURCE_DIR) + "/";
  return path.starts_with(root) ? path.substr(root.size()) : path;
}

std::string name_of_function(const Task& task) {
  return task.function.substr(0, task.function.find('('));
}

int Task::weight(const std::string& name) const {
  const auto found = weights.find(name);
  return found == weights.end() ? 1 : found->second;
}

std::string Exercise::file_name() const { return fs::path(headers.back()).filename(); }
std::string Exercise::number() const { return id.substr(0, 2); }
std::vector<std::string> Exercise::sources() const {
  std::vector<std::string> paths;
  for (const std::string& header : headers) {
    const std::string own = folder + "/" + header;
    paths.push_back(fs::exists(own) ? own
                                    : fmt::format("{}/../../include/yotta/{}", folder, header));
  }
  return paths;
}
std::string Exercise::page_of(const std::string& path) const {
  std::string text = read_text(path);
  // Bodies of what a page only declares are the library's: a student's file has no need of them.
  text.resize(std::min(text.size(), text.find("\n#ifndef YOTTA_COMPILED\n")));
  if (hidden_from.empty()) return text;
  const size_t at = text.find("\n" + hidden_from);
  if (at != std::string::npos) text.insert(at + 1, fmt::format("// {}\n", not_in_the_exercise));
  return text;
}
std::string Exercise::page_text() const {
  std::vector<std::string> texts;
  for (const std::string& path : sources()) texts.push_back(page_of(path));
  std::string text = one_text(texts);
  for (const std::string& header : headers) {  // what the text holds is not included once more
    const std::string line = fmt::format("#include \"yotta/{}\"\n", header);
    if (const size_t at = text.find(line); at != std::string::npos) text.erase(at, line.size());
  }
  return text;
}
std::string Exercise::library_text() const {
  try {
    return with_marks(page_text(), tasks);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}/exercise.json: {}", folder, error.what()));
  }
}
std::string Exercise::work_copy() const {
  const char* const elsewhere = std::getenv("YOTTA_WORK");
  const bool named = elsewhere != nullptr && *elsewhere != '\0';
  const std::string work = named ? elsewhere : YOTTA_SOURCE_DIR "/work";
  return fmt::format("{}/{}/{}", fs::absolute(work).string(), id, file_name());
}

std::vector<std::string> find_exercises(const std::string& root) {
  std::vector<std::string> ids;
  const fs::path folder = fs::path(root) / "exercises";
  if (!fs::is_directory(folder)) return ids;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "exercise.json")) ids.push_back(entry.path().filename());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Exercise read_exercise(const std::string& root, const std::string& id) {
  Exercise exercise;
  exercise.id = id;
  exercise.folder = root + "/exercises/" + id;
  const std::string path = exercise.folder + "/exercise.json";
  const std::string text = read_text(path);
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    exercise.headers = read_headers(json.at("header"));
    exercise.title = json.at("title");
    exercise.difficulty = json.at("difficulty");
    for (const auto& task : json.at("tasks"))
      if (task.contains("mend")) exercise.mend[task.at("id")] = task.at("mend");
    exercise.minutes = json.at("minutes");
    exercise.prerequisites = strings(json.at("prerequisites"));
    exercise.outcomes = strings(json.at("outcomes"));
    exercise.asan = read_flag(json, "asan");
    exercise.kernels = read_flag(json, "kernels");
    if (exercise.asan && exercise.kernels)
      throw std::runtime_error("\"asan\" and \"kernels\": the emulator checks kernels itself");
    for (const auto& choice : json.value("choices", nlohmann::json::array()))
      exercise.choices.push_back({choice.at("name"), strings(choice.at("says"))});
    exercise.right_under = json.value("right_under", exercise.right_under);
    exercise.points_per_hint = json.value("points_per_hint", 0);
    exercise.hidden_from = json.value("hidden_from", "");
    for (const auto& task : json.at("tasks"))
      exercise.tasks.push_back(read_task(task, exercise.difficulty));
    if (exercise.tasks.size() == 1) exercise.tasks[0].minutes = exercise.minutes;
    close_needs(exercise.tasks);
    for (const auto& wrong : json.at("wrong"))
      exercise.wrong.push_back({wrong.at("name"), wrong.at("about"), wrong.at("rejected_by"),
                                strings(wrong.at("says"))});
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
  return exercise;
}

std::string one_text(const std::vector<std::string>& headers) {
  std::string text;
  for (const std::string& header : headers) {
    const bool first = text.empty();
    if (!first) text += "\n";
    for (const std::string& line : lines_of(header))
      if (first || line != "#pragma once") text += line + "\n";
  }
  return text;
}

std::string with_marks(const std::string& page, const std::vector<Task>& tasks) {
  const std::vector<PageFunction> functions = functions_of(page);
  std::vector<MarkedBody> bodies;
  for (const Task& task : tasks) try {
      if (task.function.empty()) throw std::runtime_error("it names no \"function\"");
      bodies.push_back(marked_body(page, find_function(functions, task.function), task));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("task {}: {}", task.id, error.what()));
    }
  std::sort(bodies.begin(), bodies.end(),
            [](const MarkedBody& a, const MarkedBody& b) { return a.begin > b.begin; });
  std::string marked = page;
  for (const MarkedBody& body : bodies)
    marked.replace(body.begin, body.end - body.begin, body.text);
  return marked;
}

std::vector<std::string> marked_parts(const std::string& header) {
  std::vector<std::string> parts;
  std::string open;
  int number = 0;
  for (const std::string& line : lines_of(header)) {
    ++number;
    const std::string begins = opening_mark(line), ends = closing_mark(line);
    if (!begins.empty() && !open.empty())
      throw std::runtime_error(
          fmt::format("line {}: exercise {} begins inside {}", number, begins, open));
    if (!ends.empty() && ends != open)
      throw std::runtime_error(fmt::format("line {}: exercise {} ends, but {}", number, ends,
                                           open.empty() ? "none is open" : open + " is open"));
    if (!begins.empty()) parts.push_back(open = begins);
    if (!ends.empty()) open.clear();
  }
  if (!open.empty()) throw std::runtime_error("exercise " + open + " does not end");
  return parts;
}

std::vector<std::string> part_of_lines(const std::string& text) {
  std::vector<std::string> parts;
  std::string open;
  for (const std::string& line : lines_of(text)) {
    const std::string begins = opening_mark(line);
    if (!begins.empty()) open = begins;
    parts.push_back(open);
    if (!closing_mark(line).empty()) open.clear();
  }
  return parts;
}

std::string cut_solution(const std::string& header) {
  marked_parts(header);
  return joined(as_student(lines_of(header)));
}

std::string cut_starter(const std::string& header) {
  marked_parts(header);
  Lines starter = {"// A page of include/yotta without what you write: between the marks."};
  const Lines lines = as_student(lines_of(header));
  const std::set<size_t> returning = returning_lines(joined(lines));
  bool inside = false, included = false, given_away = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (!closing_mark(line).empty()) inside = false;
    if (line.starts_with("// ") && line.find(not_in_the_exercise) != std::string::npos)
      given_away = true;
    if (line.starts_with("}  // namespace")) given_away = false;
    if (inside || given_away) continue;
    starter.push_back(line);
    const std::string part = opening_mark(line);
    if (!part.empty()) {
      inside = true;
      for (size_t k = i + 1; trimmed(lines.at(k)).starts_with(more_words); ++k)
        starter.push_back(lines[k]);
      const std::string indent(line.find_first_not_of(' '), ' ');
      starter.push_back(fmt::format("{}not_done(\"{}\");", indent, part));
      if (i > 0 && returning.count(i - 1) > 0) starter.push_back(indent + "return {};");
    }
    if (!included && line.starts_with("#include \"")) {
      included = true;
      starter.push_back("#include \"yotta/core/exercise.hpp\"");
    }
  }
  sort_includes(starter);
  return joined(starter);
}

std::string replace_parts(const std::string& solution, const std::string& wrong) {
  Lines lines = lines_of(solution);
  for (const auto& [part, text, other] : replacements_of(wrong)) {
    Lines::iterator begin, end;
    if (part.empty()) {
      begin = find_line(lines, fmt::format("the line '{}'", text),
                        [&](const std::string& line) { return trimmed(line) == text; });
      end = begin + 1;
    } else {
      const auto opens = [&](const std::string& line) { return opening_mark(line) == part; };
      const auto closes = [&](const std::string& line) { return closing_mark(line) == part; };
      begin = find_line(lines, "exercise " + part, opens) + 1;
      end = find_line(lines, "the end of exercise " + part, closes);
    }
    const auto place = lines.erase(begin, end);
    lines.insert(place, other.begin(), other.end());
  }
  return joined(lines);
}

namespace {
// A text with the parts of a wrong solution, or of a right one that is written differently.
std::string with_parts(const Exercise& exercise, const std::string& text, const std::string& name) {
  std::string file = fmt::format("{}/wrong/{}.inc", exercise.folder, name);
  if (!fs::exists(file)) file = fmt::format("{}/right/{}.inc", exercise.folder, name);
  try {
    return replace_parts(text, read_text(file));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
}

std::string includes_of(const std::string& text) {
  std::string includes;
  for (const std::string& line : lines_of(text))
    if (line.starts_with("#include ")) includes += line + "\n";
  return includes;
}
}  // namespace

std::string starter_of(const Exercise& exercise) {
  const std::string handed_out = exercise.folder + "/" + exercise.file_name();
  if (fs::exists(handed_out)) return read_text(handed_out);
  std::string starter = cut_starter(exercise.library_text());
  for (const auto& [task, wrong] : exercise.mend) starter = with_parts(exercise, starter, wrong);
  return starter;
}

std::string variant_of(const Exercise& exercise, const std::string& name) {
  if (name == "starter") return starter_of(exercise);
  if (name == "includes") return includes_of(starter_of(exercise));
  const std::string solution = cut_solution(exercise.library_text());
  return name == "library" ? solution : with_parts(exercise, solution, name);
}

namespace {

// Without what only the build needs to know; lines of at most 100 columns.
std::string readable_signature(const PageFunction& function) {
  std::string text = function.parameters_of_template, signature = function.signature;
  if (!text.empty()) text += "\n";
  for (const char* word : {"inline ", "static "})
    if (const size_t at = signature.find(word); at != std::string::npos)
      signature.erase(at, std::string(word).size());
  while (signature.size() > most_columns) {
    const size_t cut = signature.rfind(", ", most_columns - 1);
    if (cut == std::string::npos) break;
    text += signature.substr(0, cut + 1) + "\n";
    signature = "    " + signature.substr(cut + 2);
  }
  return text + signature;
}

constexpr const char* signatures_fence = "```cpp signatures\n";

}  // namespace

std::string signatures_of(const Exercise& exercise) {
  std::string block = signatures_fence;
  const std::vector<PageFunction> functions = functions_of(exercise.page_text());
  for (const Task& task : exercise.tasks) {
    const PageFunction function = find_function(functions, task.function);
    const std::string owner = name_of_function(task);
    const size_t end = owner.rfind("::");
    const bool in_class =
        end != std::string::npos && function.signature.find("::") > function.signature.find('(');
    block += fmt::format("// {}{}\n{};\n", task.id,
                         in_class ? ": a member of " + owner.substr(0, end) : "",
                         readable_signature(function));
  }
  return block + "```\n";
}

std::string with_signatures(const std::string& readme, const std::string& block) {
  const size_t old = readme.find(signatures_fence);
  if (old != std::string::npos) {
    const size_t end = readme.find("```\n", old + 1);
    return readme.substr(0, old) + block + readme.substr(std::min(end, readme.size() - 4) + 4);
  }
  const size_t table = readme.find("\n| task |"), behind = readme.find("\n\n", table + 1);
  if (table == std::string::npos || behind == std::string::npos)
    throw std::runtime_error("README.md has no table of tasks that begins with: | task |");
  return readme.substr(0, behind + 2) + block + readme.substr(behind + 1);
}

std::vector<std::string> read_hints(const Exercise& exercise, const std::string& task) {
  std::vector<std::string> hints;
  bool inside = false, open = false;
  for (const std::string& line : lines_of(read_text(exercise.folder + "/hints.md"))) {
    if (line.starts_with("## ")) {
      inside = line.substr(3, line.find_first_not_of("0123456789.", 3) - 3) == task;
    } else if (inside && line.empty()) {
      open = false;
    } else if (inside) {
      if (!open) hints.emplace_back();
      hints.back() += (open ? "\n" : "") + line;
      open = true;
    }
  }
  return hints;
}

}  // namespace runner
