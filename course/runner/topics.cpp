#include "runner/topics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/lesson_text.hpp"
#include "runner/places.hpp"
#include "runner/process.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

// The first line of a file without its comment or heading marks.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.substr(std::min(line.find_first_not_of("#/ "), line.size()));
}

void sort_by_id(std::vector<Topic>& topics) {
  std::sort(topics.begin(), topics.end(),
            [](const Topic& a, const Topic& b) { return a.id < b.id; });
}

int list(const std::vector<Topic>& topics, std::string_view kind, const std::string& json) {
  nlohmann::json document = nlohmann::json::array();
  if (topics.empty()) fmt::print("There is no {} yet.\n", kind);
  for (const Topic& topic : topics) {
    fmt::print("  {:<28} {}\n", topic.id, topic.title);
    document.push_back(
        {{"id", topic.id}, {"number", topic.number}, {"name", topic.name}, {"title", topic.title}});
  }
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << document.dump(2) << '\n';
  if (!file) throw std::runtime_error("cannot write " + json);
  return 0;
}

// Builds a target, then becomes its program.
int build_and_become(const std::string& target, const std::string& folder,
                     const std::vector<std::string>& arguments) {
  if (const int failed = build(target)) return failed;
  Command command = {fmt::format("{}/{}/{}", YOTTA_BUILD_DIR, folder, target)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return become(command);
}

// For authors: the lines that a lesson's text quotes, as its program prints them now.
int refresh(const std::string& folder, const std::string& program) {
  const std::string text = folder + "/README.md";
  std::vector<std::string> targets = other_programs(read_text(text));
  targets.insert(targets.end(), {program, one_screen_of(program)});
  for (const std::string& target : targets)
    if (const int failed = build(target)) return failed;
  const std::string path = fmt::format("{}/lessons/{}", YOTTA_BUILD_DIR, program);
  int complaints = 0;
  for (const std::string& each : texts_of_lesson(text))
    if (!find_quotes(read_text(each)).empty())
      complaints += check_lesson_text(each, path, /*refresh=*/true);
  return complaints == 0 ? 0 : 1;
}

}  // namespace

int build(const std::string& target) {
  if (!FileLock::is_free(build_lock()))
    fmt::print(stderr, "Waiting for another build in this folder ({}) ...\n",
               building_now().empty() ? "it has just begun" : building_now());
  const FileLock lock(build_lock());
  const std::string command =
      fmt::format("cmake --build '{}' --target '{}' 2>&1", YOTTA_BUILD_DIR, target);
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("cannot start cmake");
  std::ofstream told(build_output());
  std::array<char, 4096> line;
  while (std::fgets(line.data(), line.size(), output) != nullptr) {
    const std::string_view text = line.data();
    told << text << std::flush;
    if (!text.ends_with("Re-checking globbed directories...\n") &&
        text != "ninja: no work to do.\n")
      fmt::print(stderr, "{}", text);
  }
  return pclose(output) == 0 ? 0 : 1;
}

std::vector<Topic> find_lessons(const std::string& root) {
  std::vector<Topic> topics;
  const fs::path folder = fs::path(root) / "lessons";
  if (!fs::is_directory(folder)) return topics;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string id = entry.path().filename();
    if (id.size() < 4 || !std::isdigit(id[0]) || !std::isdigit(id[1]) || id[2] != '_') continue;
    topics.push_back({id, id.substr(0, 2), id.substr(3), first_line(entry.path() / "README.md")});
  }
  sort_by_id(topics);
  return topics;
}

std::vector<Topic> find_benchmarks(const std::string& root) {
  std::vector<Topic> topics;
  const fs::path folder = fs::path(root) / "bench";
  if (!fs::is_directory(folder)) return topics;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string name = entry.path().stem();
    topics.push_back({name, "", name, first_line(entry.path())});
  }
  sort_by_id(topics);
  return topics;
}

const Topic& choose(const std::vector<Topic>& topics, std::string_view word,
                    std::string_view kind) {
  const std::string padded = word.size() == 1 ? "0" + std::string(word) : std::string(word);
  const Topic* nearest = nullptr;
  int best = 0;
  for (const Topic& topic : topics) {
    if (word == topic.id || word == topic.name || padded == topic.number) return topic;
    const bool begins = topic.id.starts_with(word) || topic.name.starts_with(word);
    const int distance =
        begins ? 0 : std::min(edit_distance(word, topic.id), edit_distance(word, topic.name));
    if (nearest == nullptr || distance < best) {
      nearest = &topic;
      best = distance;
    }
  }
  if (nearest == nullptr) throw NoSuchTopic(fmt::format("there is no {} yet", kind));
  const char* verb = kind == "lesson"     ? "lesson"
                     : kind == "exercise" ? "list"
                     : kind == "notebook" ? "notebook"
                                          : "bench";
  const bool is_number = word.find_first_not_of("0123456789") == word.npos;  // near to no other
  const bool is_near = !is_number && best <= std::max(2, static_cast<int>(word.size()) / 2);
  throw NoSuchTopic(fmt::format("there is no {} '{}';{} `./yotta {}` lists them all", kind, word,
                                is_near ? " did you mean " + nearest->id + "?" : "", verb));
}

int lesson(const std::string& name, const std::vector<std::string>& arguments,
           const std::string& json) {
  const std::vector<Topic> lessons = find_lessons(YOTTA_SOURCE_DIR);
  if (name.empty()) return list(lessons, "lesson", json);
  const Topic& topic = choose(lessons, name, "lesson");
  const std::string folder = fmt::format("{}/lessons/{}", YOTTA_SOURCE_DIR, topic.id);
  fmt::print(stderr, "Read along: {}/README.md\n", folder);
  if (!fs::exists(folder + "/lesson.cpp")) return 0;  // a lesson of text alone
  const std::string program = "lesson_" + topic.id;
  if (arguments == std::vector<std::string>{"--refresh"}) return refresh(folder, program);
  return build_and_become(program, "lessons", arguments);
}

int bench(const std::string& name, const std::vector<std::string>& arguments,
          const std::string& json) {
  const std::vector<Topic> benchmarks = find_benchmarks(YOTTA_SOURCE_DIR);
  if (name.empty()) return list(benchmarks, "benchmark", json);
  return build_and_become("bench_" + choose(benchmarks, name, "benchmark").id, "bench", arguments);
}

}  // namespace runner
