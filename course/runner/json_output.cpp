#include "runner/json_output.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runner/exercise.hpp"

namespace runner {

std::string json_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

JsonOutput::JsonOutput(const std::string& path) : path_(path) {
  if (path != "/dev/stdout" && path != "-") return;
  std::fflush(stdout);
  output_ = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

JsonOutput::~JsonOutput() { give_back(); }

void JsonOutput::write(const nlohmann::json& json) {
  const bool to_standard_output = output_ >= 0;
  give_back();
  if (to_standard_output)
    fmt::print("{}", json_text(json));
  else if (!path_.empty())
    write_text(path_, json_text(json));
}

void JsonOutput::give_back() {
  if (output_ < 0) return;
  std::fflush(stdout);
  dup2(output_, STDOUT_FILENO);
  close(output_);
  output_ = -1;
}

}  // namespace runner
