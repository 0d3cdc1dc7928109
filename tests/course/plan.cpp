// `./yotta plan` as users start it: what it prints and writes, and what it says about wrong input.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/from_ctest.hpp"
#include "support/outcome_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta_test;

namespace {

Outcome plan(const std::string& arguments) {
  return outcome_of(from_ctest("YOTTA_PLAN"), arguments);
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
  for (const char* words : {"# frontier", "% slower: ", "Run under the clock",
                            "srun -n 8 ./yotta train --dialect llama --layers 32", "[parallelism]",
                            "--tensor-model-parallel-size"})
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

TEST_CASE(
    "a command that is printed runs as it stands: of a model by its sizes, tied, and a mixture") {
  const TemporaryFolder folder;
  for (const auto& [mixture, tied] :
       {std::pair{std::string(), "false"},
        {std::string(), "true"},
        {std::string(R"(, "num_local_experts": 4, "num_experts_per_tok": 2)"), "false"}}) {
    const std::string model = folder.path() / "config.json", json = folder.path() / "plan.json";
    std::ofstream(model) << (mixture.empty() ? R"({"model_type": "llama")"
                                             : R"({"model_type": "mixtral")")
                         << R"(, "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": )"
                         << tied << mixture << "}";
    const Outcome found = plan("--model " + model + " --cluster h100x4 --tokens 512 --seq 64 " +
                               "--dtype f32 --confirm 1 --best 3 --json " + json);
    CAPTURE(found.text);
    REQUIRE(found.status == 0);
    CHECK(has(found.text, "ms / step"));
    CHECK(!has(found.text, "e-05e9"));
    std::ifstream file(json);
    const auto written = nlohmann::json::parse(file);  // outlives the loop
    REQUIRE(written["best"].size() == 3);
    for (const auto& each : written["best"]) {
      const std::string command = each["train_command"], start = "./yotta train ";
      CAPTURE(command);
      REQUIRE(command.starts_with(start));
      CHECK(has(command, "--cluster h100x4"));
      CHECK(has(command, "--experts 4") == !mixture.empty());
      CHECK(has(command, "--tied") == (tied == std::string("true")));
      const Outcome run = outcome_of(from_ctest("YOTTA_TRAIN"),
                                     command.substr(start.size()) + " --steps 1 --sample 0");
      CAPTURE(run.text);
      CHECK(run.status == 0);
    }
  }
}

TEST_CASE("where nothing fits, JSON has all that was refused and none that is best") {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "plan.json";
  CHECK(plan("--model llama3-405b --cluster h100x8 --tokens 64K --json " + json).status == 1);
  std::ifstream file(json);
  const auto written = nlohmann::json::parse(file);
  CHECK(written["best"] == nlohmann::json::array());
  CHECK(written["refused"].size() > 5);
}

TEST_CASE("other chips have H100's kernels, and the plan says so; one sequence is one") {
  CHECK(!has(plan(small + "--confirm 0").text, "No kernels were measured"));
  const Outcome found =
      plan("--model gpt2 --cluster b200x1 --tokens 1K --seq 1024 --confirm 0 --losers 0");
  CHECK(has(found.text, "No kernels were measured on b200"));
  CHECK(has(found.text, "1 sequence of 1024 tokens"));
  CHECK(has(plan("--model gpt2 --cluster h100x1 --tokens 2K --confirm 0 --losers 0").text,
            "2 sequences of 1024 tokens"));  // its own length
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
  const std::string once = plan(small + "--confirm 0 --calibrate " + log).text;
  CHECK(has(once, "Calibrated with 1 measured step:"));
  CHECK(has(once, "The log names no model"));
  std::ofstream(log) << R"({"fsdp": 8, "microbatches": 8, "batch": 64, "sequence": 8192, )"
                        R"("recompute": "all", "recomputed": -1, "parameters": 8030261248, )"
                        R"("loss": [1], "step_seconds": 5.5})";
  const std::string named = plan(small + "--confirm 0 --calibrate " + log).text;
  CHECK(has(named, "Calibrated with 1 measured step:"));
  CHECK(!has(named, "The log names no model"));
}

TEST_CASE("rows that no run can have calibrate nothing") {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "steps.csv";
  for (const auto& [row, words] :
       {std::pair{"0,8,plain,5", "tp is 0, expected a whole number"},
        {"1,8,banana,5", "tp_kind is 'banana', expected one of plain"},
        {"8,8,sp,5", "line 2: tp 8 x fsdp 8 are 64 ranks, and h100x8 has 8 chips"},
        {"1,8,plain,inf", "step_seconds is inf, expected 1e-9 to 1e9"},
        {"1,8,plain,0", "step_seconds is 0, expected"},
        {"1,8,plain,-5", "step_seconds is -5, expected"},
        {"1,8,plain,5000", "times less: is it in seconds"},
        {"1,8,plain,5e-3", "times more: is it in seconds"},
        {"\n1,8,plain,5\n1,8,plain,5", "steps.csv, line 4: the same run stands in "}}) {
    std::ofstream(log) << "\xEF\xBB\xBFtp,fsdp,tp_kind,step_seconds\n" << row << "\n";
    const Outcome found = plan(small + "--confirm 0 --calibrate " + log);
    CAPTURE(found.text);
    CHECK(found.status == 1);
    CHECK(has(found.text, words));
  }
}

TEST_CASE("a measured batch is not cut down to the critical one") {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "steps.csv";
  std::ofstream(log) << "fsdp,microbatches,batch,step_seconds\n8,8,64,5.5\n";
  const auto fit = [&](const std::string& more) {
    const std::string text = plan(small + "--confirm 0 --calibrate " + log + more).text;
    const size_t line = text.find("predictions were");
    return text.substr(line, text.find('\n', line) - line);
  };
  CHECK(fit("").starts_with("predictions were "));
  CHECK(fit(" --critical-batch 256K") == fit(""));
}

TEST_CASE("a log of another model, of another recomputation, or with another column is refused") {
  const TemporaryFolder folder;
  const std::string log = folder.path() / "log";
  for (const auto& [text, words] :
       {std::pair{R"({"fsdp": 8, "parameters": 1000, "step_seconds": 5})",
                  "a run of a model with 1000 parameters, and that of --model has 8030261248"},
        {R"([{"fsdp": 8, "dtype": "bf16", "step_seconds": 5}, )"
         R"({"fsdp": 8, "dtype": "f32", "step_seconds": 5}])",
         "log, run 2: a run in f32, and the plan is in bf16: give --dtype f32"},
        {R"({"fsdp": 8, "recompute": "sqrt", "step_seconds": 5})", "a run with --recompute sqrt"},
        {"fsdp,microbatch,step_seconds\n8,8,5\n",
         "no column is called 'microbatch'; known are tp, cp, pp"}}) {
    std::ofstream(log) << text;
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
      {"--model llama9", "known are gpt2, llama3-405b, llama3-70b, llama3-8b, mixtral"},
      {"--tokens 4X", "--tokens 4X: give a whole number above 0, as 8192, 1e6, 512K, 16M or 1G"},
      {"--tokens 100", "has no sequence of 8192 tokens"},
      {"--model gpt2 --seq 2048", "2048 tokens for a model that has learned 1024 positions"},
      {"--cluster v5px64", "is a torus"},
      {"--cluster foo", "'foo' is not a machine"},
      {"--critical-batch 100", "a critical batch of 100 tokens has no sequence of 8192 tokens"},
      {"--reserve 80", "80 GB of a chip are to stay free, and it has 80 GB"},
      {"--reserve -1", "-1 GB of a chip are to stay free"},
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
  CHECK(has(none.text, " fits. The smallest: "));
  CHECK(has(none.text, "does not fit: "));
  const Outcome untried = plan("--cluster h100x100000 --confirm 0 --losers 2");
  CHECK(untried.status == 1);
  CHECK(has(untried.text, "No layout was tried: each of the "));
  CHECK_FALSE(has(untried.text, " fits."));
  CHECK(has(plan("--modle gpt2").text, "there is no option --modle; did you mean --model?"));
}
