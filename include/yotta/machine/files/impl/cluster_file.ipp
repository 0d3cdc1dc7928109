// The bodies of machine/files/cluster_file.hpp.
#pragma once

#include "yotta/machine/files/cluster_file.hpp"

#include <algorithm>
#include <filesystem>

#include "yotta/core/context.hpp"
#include "yotta/core/files/json.hpp"

namespace yotta {

namespace detail {

// One object of the file, and where it is: "lab.json: levels[1]".
class MachineObject {
 public:
  using Json = nlohmann::json;
  MachineObject(const Json& json, std::string place, Where where)
      : json_(json), place_(std::move(place)), where_(where) {
    if (!json.is_object()) refuse("", "an object {...}", json);
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const Json& actual) const {
    const std::string text = actual.is_null() ? "nothing" : json_excerpt(actual);
    fail(where_, "{}{}{}: expected {}, found {}", place_, key.empty() ? "" : ": ", key, expected,
         text);
  }
  // All keys must be among these.
  void expect_keys(std::initializer_list<std::string_view> known) const {
    std::string list;
    for (const std::string_view key : known)
      list += fmt::format("{}{}", list.empty() ? "" : ", ", key);
    for (const auto& [key, value] : json_.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(where_, "{}: unknown key '{}'; known are {}", place_, visible(key), list);
  }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    static const Json nothing;
    return has(key) ? json_.at(key) : nothing;
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) refuse(key, "a text in quotes", at(key));
    const std::string text = at(key).get<std::string>();
    if (has_control_characters(text))
      refuse(key, "a text in quotes without control characters", at(key));
    return text;
  }
  double number(const char* key) const {
    if (!at(key).is_number() || !(at(key).get<double>() >= 0))
      refuse(key, "a number, 0 or more", at(key));
    return at(key).get<double>();
  }
  double number_or(const char* key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  double positive(const char* key) const {
    if (!(number(key) > 0)) refuse(key, "a number above 0", at(key));
    return number(key);
  }
  int whole(const char* key) const { return whole(key, at(key)); }
  int whole(const std::string& key, const Json& value) const {
    if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > (1 << 30))
      refuse(key, "a whole number, 1 or more", value);
    return value.get<int>();
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array() || at(key).empty())
      refuse(key, "a list with at least one entry", at(key));
    return at(key);
  }
  const std::string& place() const { return place_; }

 private:
  const Json& json_;
  std::string place_;
  Where where_;
};

inline Chip read_chip(const MachineObject& machine, Where where) {
  if (machine.at("chip").is_string()) return chip_named(machine.text("chip"), where);
  const MachineObject chip(machine.at("chip"), machine.place() + ": chip", where);
  chip.expect_keys(
      {"name", "f64", "f32", "bf16", "fp8", "int8", "memory", "bandwidth", "launch_overhead"});
  Chip made{};
  made.name = kept(chip.text("name")).data();
  made.f64 = chip.number_or("f64", 0);
  made.f32 = chip.number_or("f32", 0);
  made.bf16 = chip.number_or("bf16", 0);
  made.fp8 = chip.number_or("fp8", 0);
  made.int8 = chip.number_or("int8", 0);
  made.memory = chip.number_or("memory", no_limit);
  made.bandwidth = chip.positive("bandwidth");
  made.launch_overhead = chip.number_or("launch_overhead", 0);
  made.source = kept(machine.place()).data();
  return made;
}

inline void read_levels(const MachineObject& machine, Cluster& cluster, Where where) {
  for (const nlohmann::json& entry : machine.list("levels")) {
    const std::string key = fmt::format("levels[{}]", cluster.levels.size());
    const MachineObject level(entry, machine.place() + ": " + key, where);
    level.expect_keys({"name", "chips", "alpha", "bandwidth"});
    const int chips = level.whole("chips");
    const int before = cluster.size();
    if (chips % before != 0 || (!cluster.levels.empty() && chips == before))
      level.refuse("chips", fmt::format("a multiple of the {} chips of the level before", before),
                   level.at("chips"));
    cluster.levels.push_back(
        {level.text("name"), chips, level.number("alpha"), 1 / level.positive("bandwidth")});
  }
}

}  // namespace detail

YOTTA_INLINE Cluster parse_cluster(std::string_view text, const std::string& name, Where where) {
  nlohmann::json json;
  try {
    json = parse_json(text);
  } catch (const JsonProblem& problem) {
    const auto upto = text.substr(0, problem.byte);
    if (problem.byte == 0) fail(where, "{}: {}", name, problem.what());
    fail(where, "{}: line {}: this is not JSON: {}", name,
         1 + std::count(upto.begin(), upto.end(), '\n'), problem.what());
  }
  const detail::MachineObject machine(json, name, where);
  machine.expect_keys({"name", "chip", "levels", "torus", "gamma"});
  Cluster made{machine.text("name"), detail::read_chip(machine, where), {}, {}};
  detail::read_levels(machine, made, where);
  made.chip.link = 1 / made.levels[0].beta;
  made.chip.links = 1;
  made.chip.domain = made.levels[0].chips;
  if (made.levels.size() > 1) made.chip.card = 1 / made.levels[1].beta;
  made.gamma = machine.number_or("gamma", 0);
  if (!machine.has("torus")) return made;
  int64_t chips = 1;
  for (const nlohmann::json& axis : machine.list("torus"))
    chips *= made.torus.emplace_back(machine.whole("torus", axis));
  if (chips != made.levels[0].chips)
    machine.refuse(
        "torus",
        fmt::format("axes that multiply to the {} chips of levels[0]", made.levels[0].chips),
        machine.at("torus"));
  return made;
}

YOTTA_INLINE Cluster cluster_from(const std::string& text, Where where) {
  std::error_code error;
  if (!text.ends_with(".json")) {
    if (std::filesystem::exists(text, error))
      fail(where, "{} is a file, but its name does not end in .json, as a machine's does", text);
    return cluster_named(text, where);
  }
  if (!std::filesystem::exists(text, error) && !error)
    fail(where, "{} cannot be read: is there such a file?", text);
  return parse_cluster(read_json_text(text, where), text, where);
}

}  // namespace yotta
