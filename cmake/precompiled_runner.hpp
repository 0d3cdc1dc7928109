// What the runner's files and the tests of the course include, precompiled. What is instantiated
// here is not instantiated again in each of them: JSON's parser and std::regex take a second.
#pragma once

#include <fmt/format.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

inline std::string instantiated(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const std::regex pattern(text);
  std::smatch match;
  return std::regex_search(text, match, pattern) ? std::regex_replace(text, pattern, match[0].str())
                                                 : json.dump();
}
