// Where --json FILE goes. FILE is - for standard output: that then gets nothing else, and what is
// meant for people goes to standard error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace runner {

// Indented. What is no text in it, as a student's program may say, is replaced.
std::string json_text(const nlohmann::json& json);

class JsonOutput {
 public:
  explicit JsonOutput(const std::string& path);
  ~JsonOutput();
  JsonOutput(const JsonOutput&) = delete;
  JsonOutput& operator=(const JsonOutput&) = delete;

  void write(const nlohmann::json& json);  // last of all

 private:
  void give_back();

  std::string path_;
  int output_ = -1;
};

}  // namespace runner
