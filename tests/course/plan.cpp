// `./yotta plan` as users start it: what it prints and writes, and what it says about wrong input.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/from_ctest.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta_test;

namespace {

struct Outcome {
  int status;
  std::string text;
};
Outcome plan(const std::string& arguments) {
  const std::string command = "'" + from_ctest("YOTTA_PLAN") + "' " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    outcome.text += static_cast<char>(c);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}
bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}
std::set<std::string> keys(const nlohmann::json& object) {
  std::set<std::string> all;
  for (const auto& [key, value] : object.items()) all.insert(key);
  return all;
}

const std::string small = "--model llama3-8b --cluster h100x8 --tokens 512K --seq 8192 ";

}  // namespace

TEST_CASE("the table, the picture, the losers, a confirmation and the commands; JSON and SVG") {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "plan.json", svg = folder.path() / "plan.svg";
  const Outcome found = plan(small + "--confirm 1 --json " + json + " --svg " + svg);
  CAPTURE(found.text);
  REQUIRE(found.status == 0);
  for (const char* words :
       {"# frontier", "% slower: ", "Run under the clock", "./yotta train --load llama3-8b",
        "[parallelism]", "--tensor-model-parallel-size"})
    CHECK_MESSAGE(has(found.text, words), words);
  std::ifstream file(json);
  const auto written = nlohmann::json::parse(file);
  CHECK(keys(written) == std::set<std::string>{"best", "refused"});
  REQUIRE(written["best"].size() == 10);
  for (const auto& each : written["best"])
    CHECK(keys(each) == std::set<std::string>{"layout", "memory_bytes", "step_seconds",
                                              "tflops_per_gpu", "mfu", "bubble", "exposed_seconds",
                                              "train_command"});
  for (const auto& each : written["refused"])
    CHECK(keys(each) == std::set<std::string>{"layout", "why"});
  std::ifstream picture(svg);
  CHECK(has(std::string(std::istreambuf_iterator<char>(picture), {}), "<circle"));
}

TEST_CASE("a critical batch limits the batch; a log calibrates") {
  CHECK(has(plan(small + "--critical-batch 256K --confirm 0").text, "32 sequences of 8192 tokens"));
  const TemporaryFolder folder;
  const std::string log = folder.path() / "steps.csv";
  std::ofstream(log) << "tp,fsdp,microbatches,tp_kind,step_seconds\n1,8,8,plain,5\n8,1,8,sp,6\n";
  const Outcome found = plan(small + "--confirm 0 --calibrate " + log);
  CHECK(found.status == 0);
  CHECK(has(found.text, "Calibrated with 2 measured steps"));
  CHECK(has(found.text, "off on average"));
  std::ofstream(log) << R"({"fsdp": 8, "microbatches": 8, "batch": 64, "sequence": 8192, )"
                        R"("step_seconds": 5.5})";
  CHECK(has(plan(small + "--confirm 0 --calibrate " + log).text, "Calibrated with 1 measured"));
}

TEST_CASE("rows that no run can have calibrate nothing") {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "steps.csv";
  for (const auto& [row, words] : {std::pair{"0,8,plain,5", "tp is 0, expected a whole number"},
                                   {"1,8,banana,5", "tp_kind is 'banana', expected one of plain"},
                                   {"8,8,sp,5", "64 ranks, and h100x8 has 8 chips"},
                                   {"1,8,plain,inf", "step_seconds is inf, expected 1e-9 to 1e9"},
                                   {"1,8,plain,0", "step_seconds is 0, expected"}}) {
    std::ofstream(log) << "tp,fsdp,tp_kind,step_seconds\n" << row << "\n";
    const Outcome found = plan(small + "--confirm 0 --calibrate " + log);
    CAPTURE(found.text);
    CHECK(found.status == 1);
    CHECK(has(found.text, words));
  }
}

TEST_CASE("wrong input is named") {
  const TemporaryFolder folder;
  const std::string empty = folder.path() / "empty.csv";
  std::ofstream(empty) << "tp,step_seconds\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"--model llama9", "known are gpt2, llama3-405b, llama3-70b, llama3-8b"},
      {"--tokens 4X", "--tokens 4X: give a whole number above 0, as 8192, 512K, 16M or 1G"},
      {"--tokens 100", "has no sequence of 8192 tokens"},
      {"--cluster v5px64", "is a torus"},
      {"--cluster foo", "'foo' is no machine"},
      {"--critical-batch 0", "--critical-batch 0: give a whole number above 0"},
      {"--calibrate " + empty, "there is no run in it"}};
  for (const auto& [arguments, words] : wrong) {
    const Outcome found = plan(arguments + " --confirm 0");
    CAPTURE(found.text);
    CHECK(found.status == 1);
    CHECK(has(found.text, words));
  }
  CHECK(plan(small + "--confirm 0 --losers 0").status == 0);
  const Outcome none =
      plan("--model llama3-405b --cluster h100x8 --tokens 64K --confirm 0 --losers 2");
  CHECK(none.status == 1);
  CHECK(has(none.text, "No layout fits."));
  CHECK(has(none.text, "does not fit: "));
}
