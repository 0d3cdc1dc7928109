// `./yotta plan` as users start it: what it prints and writes, and what it says about wrong input.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

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

TEST_CASE(
    "a missing config.json is called missing; what is for --rows, or does not divide, is named") {
  const TemporaryFolder folder;
  for (const std::string& given : {folder.path().string(), (folder.path() / "x.json").string()}) {
    const Outcome missing = plan("--model " + given);
    CHECK(missing.status == 1);
    CHECK_MESSAGE(has(missing.text, ".json is missing"), missing.text);
  }
  CHECK(has(plan("--model gpt3").text, "known are deepseek-v3, gpt2"));
  CHECK(has(plan(small + "--stack own").text, "--stack own is for --rows"));
  const Outcome uneven = plan(small + "--layout dp=8 --microbatches 3");
  CHECK(uneven.status == 1);
  CHECK_MESSAGE(has(uneven.text, "each data-parallel rank has 8 sequences"), uneven.text);
}

TEST_CASE("at a terminal bars show how far the search is, and elsewhere nothing") {
  const char* const bar = "memory of layouts ";
  CHECK(!has(plan(small + "--confirm 0").text, bar));
  setenv("YOTTA_TERMINALS", "2", 1);
  const Outcome seen = plan(small + "--confirm 0");
  unsetenv("YOTTA_TERMINALS");
  CAPTURE(seen.text);
  CHECK(seen.status == 0);
  CHECK(has(seen.text, bar));
  CHECK(has(seen.text, "seconds of layouts "));
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
  CHECK(!has(plan(small + "--confirm 0 --stack ideal").text, "No kernels were measured"));
  const Outcome found = plan(
      "--model gpt2 --cluster b200x1 --tokens 1K --seq 1024 --confirm 0 --losers 0 --stack ideal");
  CHECK(has(found.text, "No kernels were measured on b200"));
  CHECK(has(found.text, "1 sequence of 1024 tokens"));
  const std::string consumer = "--model llama3-8b --cluster rtx4090x8 --tokens 512K ";
  for (const char* how : {"--confirm 0 --losers 0", "--layout tp=2,pp=4,tp_kind=async"}) {
    const Outcome unknown = plan(consumer + how);
    CAPTURE(unknown.text);
    CHECK(has(unknown.text,
              "No kernels were measured on rtx4090: they are taken to reach the "
              "shares of the peak that an H100's do (80% in matmuls, 34% in "));
    CHECK(has(unknown.text, "for an upper bound."));
  }
  CHECK(!has(plan("--model gpt2 --cluster b200x1 --tokens 8K --layout dp=1").text, "No kernels"));
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
  CHECK(has(found.text, "steps left out of the fit in turn"));
  std::ofstream(log) << "model,cluster,batch,dp,fsdp,microbatches,step_seconds\n"
                        "llama3-8b,h100x8,64,1,8,8,6\ngpt2,h100x16,64,16,1,1,0.03\n";
  const Outcome two = plan(small + "--confirm 0 --calibrate " + log);
  CAPTURE(two.text);
  CHECK(two.status == 0);
  CHECK(!has(two.text, "The log names no model"));
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
        {"1,1,plain,5", "line 2: 1 rank, and h100x8 has 8 chips"},
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
  std::ofstream(log) << "fsdp;step_seconds\n8;5\n";
  CHECK(has(plan(small + "--confirm 0 --calibrate " + log).text,
            "no column is called 'fsdp;step_seconds', and commas separate columns; known are"));
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

TEST_CASE("rows that others have measured: a table, errors by source, and JSON") {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "rows.json";
  const std::string data = YOTTA_SOURCE_DIR "/course/data/measured_steps.tsv";
  const Outcome found = plan("--rows " + data + " --json " + json);
  CAPTURE(found.text);
  REQUIRE(found.status == 0);
  CHECK(has(found.text, "sc21-1T"));
  CHECK(has(found.text, "TorchTitan's published tables"));
  std::ifstream file(json);
  const auto written = nlohmann::json::parse(file);
  CHECK(written["rows"].size() == 109);
  CHECK(written["sources"].back()["rows"] == 109);
  CHECK(has(found.text, "chosen with the measured rows in sight: --stack others"));
  const std::string others = plan("--rows " + data + " --stack others").text;
  CHECK(has(others, "fitted to the other sources"));
  const std::string unseen = folder.path() / "unseen.json";
  plan("--rows " + data + " --stack others --json " + unseen);
  std::ifstream of_unseen(unseen);
  const double mean = nlohmann::json::parse(of_unseen)["sources"].back()["mean"];
  CHECK((mean > 0.09 && mean <= 0.10));  // "10% off on average", as plans say
  CHECK(plan("--rows " + data + " --stack own").text != others);
  CHECK(plan("--rows " + data + " --without links").text != found.text);
  const std::string bad = folder.path() / "bad.tsv";
  std::ifstream good(data);
  std::string head, row;
  std::getline(good, head), std::getline(good, row);
  std::ofstream(bad) << head << "\n" << row.replace(row.find("\t8\t"), 3, "\teight\t") << "\n";
  const Outcome refused = plan("--rows " + bad);
  CHECK(refused.status == 1);
  CHECK(has(refused.text, "bad.tsv, line 2, column gpus: 'eight', expected a whole number"));
}

TEST_CASE("one layout, with and without what software reaches") {
  const std::string one = small + "--layout tp=2,fsdp=4,tp_kind=sp --microbatches 4 ";
  const Outcome found = plan(one);
  CAPTURE(found.text);
  REQUIRE(found.status == 0);
  CHECK(has(found.text, "tp 2 sp, fsdp 4, 4 microbatches"));
  CHECK(has(found.text, " GB: weights "));
  for (const char* other : {"--stack ideal", "--stack llm-foundry", "--without latency"})
    CHECK(plan(one + other).text != found.text);
  CHECK(plan(one + "--fp8").text != found.text);
  CHECK(has(plan("--model gpt2 --cluster a100x8 --tokens 64K --layout dp=8 --fp8").text,
            "a100 has no fp8"));
  CHECK(has(plan("--model mixtral-8x7b --cluster h100x16 --tokens 1M --seq 4096 --microbatches 8 "
                 "--layout pp=2,ep=8,zero=1,order=pp-outermost")
                .text,
            "ep 8, pp outermost"));
  CHECK(has(plan(small + "--layout tp=3,dp=1").text, "tp 3 are 3 ranks, and "));
  CHECK(has(plan(small + "--layout tp=8,tq=1").text, "'tq=1' is no key=value of tp, cp"));
  CHECK(has(plan(small + "--layout tp=8 --stack slow").text, "there is no stack 'slow'"));
  CHECK(has(plan(small + "--layout tp=8 --without luck").text, "there is no cause 'luck'"));
}

TEST_CASE("DeepSeek-V3: latent attention, fine experts over ep, first blocks without") {
  const std::string deepseek = "--model deepseek-v3 --cluster h100x512 --tokens 8M --seq 4096 ";
  const Outcome one = plan(deepseek + "--layout pp=8,ep=64,zero=1,recomputed=-1 --microbatches 32");
  CAPTURE(one.text);
  REQUIRE(one.status == 0);
  CHECK(has(one.text, "671e9 parameters on h100x512, 2048 sequences of 4096 tokens per step"));
  CHECK(has(one.text, "pp 8 1F1B, ep 64 ZeRO-1, 32 microbatches, all recomputed"));
  // The first of 8 stages has 3 blocks without experts, 5 with, and the embedding. 4 of the 256
  // experts are this rank's own; ZeRO-1 shares the optimizer of all else over the 64 ranks.
  const double C = 7168, attention = C * 1536 + 1536 * 128 * 192.0 + C * (512 + 64) +
                                     512 * 128 * 256.0 + 128 * 128 * C;
  const double expert = 3 * C * 2048, own = 5 * 4 * expert;
  const double shared = 8 * attention + 3 * 3 * C * 18432 + 5 * (expert + 256 * C) + 129280 * C;
  CHECK(has(one.text, fmt::format("weights {:.1f}, gradients {:.1f}, optimizer {:.1f}, ",
                                  2 * (own + shared) / 1e9, 4 * (own + shared) / 1e9,
                                  12 * (own + shared / 64) / 1e9)));
}

TEST_CASE("a plan says what measured runs of its kind reach, and fewer cards are slower") {
  const Outcome found = plan(small + "--confirm 0 --losers 0");
  CHECK(has(found.text, "Measured runs of this kind reach "));
  CHECK(has(found.text, "no number was fitted to were 10% off on average: take "));
  const TemporaryFolder folder;
  const std::string json = folder.path() / "one.json";
  const auto seconds = [&](const std::string& cards) {
    plan("--model llama3-8b --cluster h100x16 --tokens 512K --layout fsdp=16 --json " + json +
         cards);
    std::ifstream file(json);
    return nlohmann::json::parse(file)["best"][0]["step_seconds"].get<double>();
  };
  CHECK(seconds(" --cards 8") == seconds(""));
  // Weights come twice in bf16, gradients go once in f32, half of each between the two nodes. From
  // two cards to one that takes as long again as over two. Kernels lose 80% of it, and most of the
  // rest is hidden behind them.
  const double bytes = 8.03e9 * (2 + 2 + 4) / 2, card = 0.7 * 50e9;
  CHECK(seconds(" --cards 1") - seconds(" --cards 2") ==
        doctest::Approx(0.8 * bytes / card / 2).epsilon(0.03).scale(0));
}

TEST_CASE("small pieces are said, with what their products reach; large ones are not") {
  // Products of 1024 x 4096 x 4096: weights of 2 x 4096^2 bytes are read for 1024 tokens, and one
  // kernel is launched.
  const double peak = 0.80 * 989.4e12, memory = 0.85 * 3.35e12, C = 4096, n = 1024;
  const double large = 2 * C * C / peak + 4 * C / memory;  // of a token
  const std::string words =
      fmt::format("products of 1024 tokens reach {:.0f}% of the rate",
                  100 * large / (large + 2 * C * C / n / memory + 0.9e-6 / n));
  const std::string text = plan(
                               "--model llama3-8b --cluster h100x64 --tokens 512K --microbatches "
                               "8 --layout tp=8,dp=8,tp_kind=async")
                               .text;
  CHECK_MESSAGE(has(text, words), text);
  CHECK(!has(plan(small + "--layout fsdp=8 --microbatches 8").text, "Pieces are small"));
}

TEST_CASE("wrong input is named") {
  const TemporaryFolder folder;
  const std::string empty = folder.path() / "empty.csv";
  std::ofstream(empty) << "tp,step_seconds\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"--model llama9",
       "known are deepseek-v3, gpt2, llama3-405b, llama3-70b, llama3-8b, mixtral"},
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

TEST_CASE("a wrong command line is an error by name, also of options that would change nothing") {
  const TemporaryFolder folder;
  const std::string data = YOTTA_SOURCE_DIR "/course/data/measured_steps.tsv";
  const std::string one = small + "--layout tp=8 --microbatches 4 ", rows = "--rows " + data + " ";
  const std::tuple<std::string, int, std::string> wrong[] = {
      {"--bogus 1", 2, "error: there is no option --bogus\n"},
      {"--seq abc", 2, "error: --seq: 'abc' is no whole number"},
      {"--model", 2, "error: --model: a value is missing behind it\n"},
      {"gpt2", 2, "error: The following argument was not expected: gpt2"},
      {small + "--stack foo", 1, "'foo' for a search or a layout; known are usual, megatron-2021"},
      {small + "--stack foo", 1, "simumax-megatron, ideal\n"},
      {one + "--stack foo", 1, "simumax-megatron, ideal\n"},
      {rows + "--stack ideal", 1, "'ideal' for --rows; known are usual"},
      {rows + "--stack foo", 1, "simumax-megatron, own, others\n"},
      {rows + "--fit --stack own", 1, "'own' to be fitted; known are usual"},
      {small + "--fit", 1, "--fit changes nothing here: it is for --rows"},
      {small + "--microbatches 4", 1, "--microbatches changes nothing here: it is for --layout"},
      {rows + "--model gpt2", 1, "--model changes nothing here: --rows takes each row's own"},
      {rows + "--svg x.svg", 1, "--svg changes nothing here: it is for a search"},
      {rows + "--fit --json x.json", 1, "--json changes nothing here: --fit prints"},
      {one + "--confirm 3", 1, "--confirm changes nothing here: it is for a search"},
      {one + "--stack ideal --without size", 1, "--without changes nothing here: --stack ideal"},
      {small + "--layout tp=8,recomputed=99", 1, "99 blocks are recomputed, and the model has 32"},
      {"--seq 100000 --cluster h100x64 --layout tp=4,cp=16 --tokens 1M --microbatches 10", 1,
       "a microbatch of 6250 tokens, which tp 4 does not divide"},
      {small + "--calibrate " + data, 1, "separated by tabs, expected commas; a table as"}};
  for (const auto& [arguments, status, words] : wrong) {
    const Outcome found = plan(arguments);
    CAPTURE(arguments);
    CAPTURE(found.text);
    CHECK(found.status == status);
    CHECK(has(found.text, "error: "));
    CHECK(has(found.text, words));
  }
  const std::string log = folder.path() / "steps.csv";
  std::ofstream(log) << "tp,fsdp,microbatches,tp_kind,step_seconds\n1,8,8,plain,5\n8,1,8,sp,6\n";
  const Outcome fitted = plan(one + "--calibrate " + log);
  CHECK(fitted.status == 0);
  CHECK(has(fitted.text, "Calibrated with 2 measured steps"));
  CHECK(plan("--model llama3-8b --cluster h100x16 --tokens 1M --seq 10002 --confirm 0").status ==
        0);
}
