#include "runner/author.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/json_output.hpp"
#include "runner/submission.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr const char* example = "32_gossip";

// "my_topic" of "32_my_topic".
std::string stem_of(const std::string& id) { return id.substr(3); }

std::string replaced_all(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// "My topic".
std::string title_of(const std::string& stem) {
  std::string title = replaced_all(stem, "_", " ");
  title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

// A text of the example, or the path of one of its files, for another exercise.
std::string renamed(std::string text, const std::string& id) {
  const std::string stem = stem_of(id);
  text = replaced_all(text, example, id);
  text = replaced_all(text, "Gossip", title_of(stem));
  text = replaced_all(text, "gossip", stem);
  return std::regex_replace(text, std::regex("\\b32\\b"), id.substr(0, 2));
}

// The example's files, from its folder.
std::vector<std::string> files_of_example(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw UsageError("there is no " + folder.string() +
                     ", the example that an exercise begins with");
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string file = fs::relative(entry.path(), folder);
    if (entry.is_regular_file()) files.push_back(file);
  }
  return files;
}

void check_id(const std::string& root, const std::string& id) {
  if (!std::regex_match(id, std::regex("[0-9][0-9]_[a-z][a-z0-9_]*")))
    throw UsageError(fmt::format(
        "'{}' cannot be an exercise: two digits, _ and a name of lowercase letters, digits "
        "and _, such as 32_my_topic",
        id));
  for (const std::string& other : find_exercises(root))
    if (other.substr(0, 2) == id.substr(0, 2))
      throw UsageError(fmt::format("the number {} is taken, by {}", id.substr(0, 2), other));
}

}  // namespace

std::vector<std::string> new_exercise(const std::string& root, const std::string& id) {
  check_id(root, id);
  const fs::path from = fs::path(root) / "docs/example";
  std::map<std::string, std::string> texts;  // by path
  for (const std::string& file : files_of_example(from))
    texts[renamed(file, id)] = renamed(read_text(from / file), id);
  for (const auto& [file, text] : texts)
    if (fs::exists(fs::path(root) / file))
      throw UsageError(
          fmt::format("{} is there already; nothing was written. Choose another name", file));
  std::vector<std::string> written;
  for (const auto& [file, text] : texts) {
    write_text(fs::path(root) / file, text);
    written.push_back(file);
  }
  return written;
}

int write_signatures(const std::string& name) {
  const std::vector<Exercise> exercises =
      name.empty() ? all_exercises() : std::vector<Exercise>{choose_exercise(name).exercise};
  for (const Exercise& exercise : exercises) {
    const std::string readme = exercise.folder + "/README.md";
    write_text(readme, with_signatures(read_text(readme), signatures_of(exercise)));
    fmt::print("  {}\n", relative(readme));
  }
  return 0;
}

int make_exercise(const std::string& id, const std::string& json) {
  JsonOutput output(json);
  const std::vector<std::string> files = new_exercise(YOTTA_SOURCE_DIR, id);
  for (const std::string& file : files) fmt::print("  {}\n", file);
  const std::string stem = stem_of(id), number = id.substr(0, 2);
  fmt::print(
      "These are the example's files under your names, and all of them work as they are:\n"
      "  ./yotta exercise verify {0}     proves it, now and after each change\n"
      "  ./yotta check {0}               what a student sees\n"
      "Write your own topic into include/yotta/parallel/{1}.hpp, and name the functions that a "
      "student\n"
      "is to write in exercises/{2}/exercise.json. exercises/README.md says the rest.\n",
      number, stem, id);
  output.write({{"exercise", id}, {"files", files}});
  return 0;
}

}  // namespace runner
