#include "runner/student_folder.hpp"

#include <algorithm>
#include <regex>
#include <set>
#include <tuple>

#include "runner/cpp_tokens.hpp"
#include "runner/submissions.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr size_t most_files = 2000;
constexpr double most_of_it = 0.5;

bool ends_with_any(const fs::path& name, std::initializer_list<const char*> endings) {
  const std::string text = lower(name.filename());
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return text.ends_with(ending); });
}

// "Copy of Ring-1 (2).hpp.txt" -> "ring": without endings, numbers and words for a copy.
std::string bare_stem(const std::string& name, bool numbers) {
  static const std::regex endings(R"((\.(hpp|h|hh|hxx|cpp|cc|cxx|txt))+$)"),
      copy(R"(^copy of +| +(- )?copy$)"), number(R"([ _-]*\(\d+\)$|[-_ ]+\d+$|[-_ ]+copy$)");
  std::string stem = std::regex_replace(lower(name), endings, "");
  for (std::string before; numbers && before != stem;) {
    before = stem;
    stem = std::regex_replace(std::regex_replace(stem, copy, ""), number, "");
  }
  return stem;
}

// "Ddp::finish(int)" -> "finish"; of an operator the class: what a text with it must say.
std::string said_name(const Task& task) {
  std::string name = name_of_function(task);
  const size_t operator_at = name.find("operator");
  if (operator_at != std::string::npos)
    name = name.substr(0, operator_at > 2 ? operator_at - 2 : 0);
  const size_t scope = name.rfind("::");
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

double share_of_functions(const std::set<std::string>& words, const Exercise& exercise) {
  int here = 0;
  for (const Task& task : exercise.tasks) here += words.count(said_name(task)) > 0;
  return exercise.tasks.empty() ? 0 : double(here) / double(exercise.tasks.size());
}

bool is_library(const fs::path& relative) {
  return relative.string().find("include/yotta/") != std::string::npos;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && files.size() < most_files;
       at.increment(error)) {
    if (is_system_file(at->path().filename())) {
      if (at->is_directory(error)) at.disable_recursion_pending();
    } else if (at->is_symlink(error) || !at->is_directory(error)) {
      files.push_back(at->path());
    }
  }
  return files;
}

// Of a file in UTF-16 its letters, so that it is known, and refused for what it is.
std::string text_of(const fs::path& file) {
  std::error_code error;
  const bool may_read = fs::symlink_status(file, error).type() == fs::file_type::regular &&
                        fs::file_size(file, error) <= most_source_bytes && !error;
  try {
    std::string text = may_read ? read_text(file) : "";
    std::erase(text, '\0');
    return text;
  } catch (const std::runtime_error&) {
    return "";
  }
}

// Its exercise is empty: of none.
FoundFile found_file(const fs::path& file, const std::vector<Exercise>& exercises) {
  const std::string name = file.filename(), own = platform_name(name).own;
  for (const Exercise& exercise : exercises)
    if (name == exercise.file_name()) return {file, exercise.id, FoundBy::name};
  for (const Exercise& exercise : exercises)
    if (is_name_of(own, exercise.file_name())) return {file, exercise.id, FoundBy::similar_name};
  const Exercise* by_content =
      is_source(file) ? exercise_by_content(text_of(file), exercises) : nullptr;
  return {file, by_content == nullptr ? "" : by_content->id, FoundBy::content};
}

bool is_before(const FoundFile& a, const FoundFile& b) {
  std::error_code ignored;
  const auto key = [&](const FoundFile& one) {
    const auto age = -fs::last_write_time(one.file, ignored).time_since_epoch().count();
    const auto depth = std::distance(one.file.begin(), one.file.end());
    return std::tuple(one.by, one.by == FoundBy::name ? depth : 0, age, one.file);
  };
  return key(a) < key(b);
}

}  // namespace

bool is_system_file(const std::string& name) {
  static const std::set<std::string> names = {"__MACOSX", "Thumbs.db", "desktop.ini"};
  return names.count(name) > 0 || (name.starts_with(".") && name != ".state.json");
}

bool is_source(const fs::path& name) {
  return ends_with_any(
      name, {".hpp", ".h", ".hh", ".hxx", ".cpp", ".cc", ".cxx", ".hpp.txt", ".h.txt", ".cpp.txt"});
}

bool is_archive(const fs::path& name) {
  return ends_with_any(name, {".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".rar", ".7z"});
}

PlatformName platform_name(const std::string& name) {
  static const std::regex form(R"(^(.+?)(?:_LATE)?_\d+_(?:assignsubmission_file_?|\d+_)(.*)$)");
  std::smatch parts;
  if (!std::regex_match(name, parts, form)) return {name, name};
  return {parts[1], parts[2]};
}

bool is_name_of(const std::string& handed_in, const std::string& file_name) {
  return is_source(handed_in) && (bare_stem(handed_in, false) == bare_stem(file_name, false) ||
                                  bare_stem(handed_in, true) == bare_stem(file_name, false));
}

const Exercise* exercise_by_content(const std::string& text,
                                    const std::vector<Exercise>& exercises) {
  std::set<std::string> words;
  for (const CppToken& token : cpp_tokens(text))
    if (token.kind == CppToken::Kind::word) words.insert(token.text);
  const Exercise* best = nullptr;
  double most = most_of_it;
  for (const Exercise& exercise : exercises) {
    const double share = share_of_functions(words, exercise);
    if (share < most) continue;
    best = share == most && best != nullptr ? nullptr : &exercise;
    most = share;
  }
  return best;
}

std::vector<FoundFile> StudentFolder::of(const Exercise& exercise) const {
  std::vector<FoundFile> files;
  std::copy_if(found.begin(), found.end(), std::back_inserter(files),
               [&](const FoundFile& one) { return one.exercise == exercise.id; });
  return files;
}

StudentFolder look_into(const fs::path& folder, const std::vector<Exercise>& exercises) {
  StudentFolder student;
  std::vector<fs::path>
      others;  // neither C++ nor an archive: they count when nothing else is there
  for (const fs::path& file : files_below(folder)) {
    const std::string name = file.filename();
    if (is_library(file.lexically_relative(folder)) || name == ".state.json" ||
        name == "progress.json")
      continue;
    const FoundFile found = found_file(file, exercises);
    if (!found.exercise.empty())
      student.found.push_back(found);
    else if (is_source(name) || is_archive(name) || name == not_taken_file)
      student.unknown.push_back(file);
    else
      others.push_back(file);
  }
  if (student.found.empty())
    student.unknown.insert(student.unknown.end(), others.begin(), others.end());
  std::sort(student.found.begin(), student.found.end(), is_before);
  std::sort(student.unknown.begin(), student.unknown.end());
  return student;
}

}  // namespace runner
