#include "runner/variant.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "course/cases/record.hpp"

namespace runner {
namespace {

constexpr const char* told_file = "/exercises/told.json";

Told told_in(const std::string& tree, const Exercise& exercise) {
  const std::string file = tree + told_file;
  Told told;
  if (!std::filesystem::exists(file)) return told;
  const Told all = nlohmann::json::parse(read_text(file)).get<Told>();
  for (const Choice& choice : exercise.choices)
    if (const auto found = all.find(choice.name); found != all.end()) told.insert(*found);
  return told;
}

std::string told_lines(const Told& told) {
  std::string text;
  for (const auto& [name, number] : told)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, number);
  return text;
}

}  // namespace

std::string key_of(std::string key, const std::string& student) {
  const std::string place = "{student}";
  const size_t at = key.find(place);
  return at == key.npos ? key : key.replace(at, place.size(), student);
}

Told told_by(const Exercise& exercise, const std::string& key) {
  Told told;
  for (const Choice& choice : exercise.choices) {
    const uint64_t hash = record::SipHash(0, 0).of(key + "\n" + choice.name);
    if (!key.empty()) told[choice.name] = 1 + static_cast<int>(hash % choice.says.size());
  }
  return told;
}

Lines sentences(const Exercise& exercise, const Told& told) {
  Lines lines;
  for (const Choice& choice : exercise.choices)
    if (const auto found = told.find(choice.name); found != told.end())
      lines.push_back(choice.says.at(static_cast<size_t>(found->second - 1)));
  return lines;
}

Lines use_variant(const Exercise& exercise, const std::string& key, const std::string& tree) {
  const Told told = key.empty() ? told_in(tree, exercise) : told_by(exercise, key);
  setenv("YOTTA_VARIANT", key.c_str(), 1);
  setenv("YOTTA_TOLD", told_lines(told).c_str(), 1);
  return sentences(exercise, told);
}

void write_told(const std::vector<Exercise>& exercises, const std::string& key,
                const std::string& tree) {
  Told all;
  for (const Exercise& exercise : exercises) {
    const Told told = told_by(exercise, key);
    if (told.empty()) continue;
    all.insert(told.begin(), told.end());
    const std::string folder = fmt::format("{}/exercises/{}", tree, exercise.id),
                      starter = folder + "/" + exercise.file_name();
    std::string statement, comment;
    for (const std::string& sentence : sentences(exercise, told)) {
      statement += "- " + sentence + "\n";
      comment += "// " + sentence + "\n";
    }
    write_text(folder + "/README.md", read_text(folder + "/README.md") +
                                          "\n## In this course\n\nThis holds where the text above, "
                                          "or a comment of the starter, says otherwise:\n\n" +
                                          statement);
    write_text(starter, "// In this course, whatever the comments below say:\n" + comment + "//\n" +
                            read_text(starter));
  }
  if (!all.empty()) write_text(tree + told_file, nlohmann::json(all).dump(2) + "\n");
}

}  // namespace runner
