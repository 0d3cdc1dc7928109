// The benchmarks at their smallest: each runs, and writes the rows that it promises. Nothing here
// depends on how fast it was.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "../../bench/torch_peer.hpp"
#include "runner/grade.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta_test;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

std::string program(const std::string& stem) { return YOTTA_BENCH "/try_bench_" + stem; }

// A benchmark's report, after it has ended well.
Json report_of(const std::string& stem, Words options) {
  const TemporaryFolder folder;
  const std::string file = (folder / "report.json").string();
  Words command = {program(stem), "--json", file};
  command.insert(command.end(), options.begin(), options.end());
  const runner::Ending ending = runner::run_limited(command, longest_wait);
  CAPTURE(ending.output);
  REQUIRE(ending.well());
  std::ifstream report(file);
  return Json::parse(report);
}

bool positive(const Json& number) {
  return number.is_number() && std::isfinite(number.get<double>()) && number.get<double>() > 0;
}

}  // namespace

TEST_CASE("a peer's answer after a long error in any letters is the next one") {
  yotta::bench::TorchPeer peer(
      "class torch: __version__ = '2'\n"
      "def measure(what):\n"
      "    if what == 'fail': raise ValueError('\\u00e9\\n' * 200)\n"
      "    return what");
  if (!peer.found()) return;  // no Python here
  CHECK(peer.seconds("1.5") == 1.5);
  CHECK(message_of([&] { peer.seconds("fail"); }).find("? ? ?") != std::string::npos);
  CHECK(peer.seconds("2.5") == 2.5);
}

TEST_CASE("bench matmul: a row for each of ten shapes on each number of threads") {
  const Json report = report_of("matmul", {"--quick", "--pairs", "1", "--threads", "1", "2"});
  REQUIRE(report["rows"].size() == 20);
  const bool peer = report.contains("minimum");
  for (const Json& row : report["rows"]) {
    for (const char* key : {"m", "n", "k", "threads", "gflops", "bf16_gflops"})
      CHECK(positive(row[key]));
    CHECK(std::set<std::string>{"nn", "nt", "tn"}.contains(row["layout"]));
    for (const char* key : {"openblas_gflops", "ratio"})
      CHECK((peer ? positive(row[key]) : row[key].is_null()));
    if (peer) CHECK(row["ratio"].get<double>() >= report["minimum"].get<double>());
  }
}

TEST_CASE("bench attention: forward and backward, against matmul and, where it is found, PyTorch") {
  const Json report = report_of("attention", {"--quick", "--threads", "1"});
  REQUIRE(report["rows"].size() == 2);
  const bool peer = report["torch"].get<std::string>().starts_with("PyTorch 2");
  for (const Json& row : report["rows"]) {
    for (const char* key : {"gflops", "of_matmul"}) CHECK(positive(row[key]));
    CHECK((peer ? positive(row["ratio"]) : row["ratio"].is_null()));
  }
}

TEST_CASE("bench train: a step of each model, beside PyTorch's where it is found") {
  const Json report = report_of("train", {"--quick"});
  REQUIRE(report["rows"].size() == 2);
  const bool peer = report["torch"].get<std::string>().starts_with("PyTorch 2");
  for (const Json& row : report["rows"]) {
    for (const char* key : {"tokens_per_second", "of_matmul"}) CHECK(positive(row[key]));
    for (const char* key : {"eager", "compiled"}) CHECK(row[key].size() == (peer ? 2 : 0));
  }
  const runner::Ending wrong =
      runner::run_limited({program("train"), "--quick", "--graph"}, longest_wait);
  CHECK(wrong.status == 1);
  CHECK(wrong.output.find("--graph records the steps of a GPU; add --device cuda") !=
        std::string::npos);
}

TEST_CASE(
    "bench generate: text of each model, beside PyTorch's and llama.cpp's where they are found") {
  const Json report = report_of("generate", {"--quick", "--dtype", "f32", "bf16"});
  REQUIRE(report["rows"].size() == 4);
  const bool peer = report["torch"].get<std::string>().starts_with("PyTorch 2");
  for (const Json& row : report["rows"]) {
    CHECK(positive(row["tokens_per_second"]));
    CHECK(row["prompt"].get<int>() + row["tokens"].get<int>() == 16);
    CHECK(row["peers"].contains("PyTorch") == peer);
    for (const Json& each : row["peers"]) CHECK(each["ratios"].size() == 2);
  }
}

TEST_CASE("bench flex: nine variants beside flash attention, forward and backward") {
  const Json report = report_of("flex", {"--quick"});
  REQUIRE(report["rows"].size() == 18);
  for (const Json& row : report["rows"])
    for (const char* key : {"as_fast", "time_a_score"}) CHECK(positive(row[key]));
}

TEST_CASE("bench headers: lines and seconds of each header, in both forms") {
  const Json report = report_of("headers", {"core/dtype.hpp", "comm/work.hpp", "--runs", "1"});
  REQUIRE(report["rows"].size() == 2);
  for (const Json& row : report["rows"])
    for (const char* key : {"lines", "header_only_seconds", "compiled_seconds"})
      CHECK(positive(row[key]));
  const runner::Ending wrong =
      runner::run_limited({program("headers"), "no/header.hpp"}, longest_wait);
  CHECK(wrong.status == 1);
  CHECK(wrong.output.find("no/header.hpp does not compile") != std::string::npos);
}

TEST_CASE("bench collectives: threads and MPI, ours and native, as nccl-tests count") {
  const Json report =
      report_of("collectives", {"--op", "all_reduce", "all_gather", "--ranks", "2", "--kib", "4",
                                "--rounds", "2", "--warm-ups", "1", "--samples", "2"});
  std::set<std::string> transports;
  for (const Json& row : report["rows"]) {
    CAPTURE(row.dump());
    CHECK(row["ranks"] == 2);
    CHECK(row["bytes"] == 4096);
    REQUIRE(positive(row["seconds"]));
    const double algbw = 4096 / row["seconds"].get<double>() * 1e-9;
    const double factor = row["op"] == "all_reduce" ? 1 : 0.5;  // 2 (n-1) / n and (n-1) / n
    CHECK(row["algbw"].get<double>() == doctest::Approx(algbw));
    CHECK(row["busbw"].get<double>() == doctest::Approx(factor * algbw));
    transports.insert(row["transport"]);
  }
  CHECK(transports.contains("threads"));
  CHECK(transports.contains("mpi") == (report["mpi"] != "not found"));
}

TEST_CASE("bench ping_pong: alpha and beta, and each size beside the model") {
  const Json report =
      report_of("ping_pong", {"--bytes", "65536", "--samples", "3", "--comm", "threads"});
  CHECK(report["hosts"].size() == 2);
  CHECK(std::isfinite(report["alpha"].get<double>()));
  REQUIRE(report["rows"].size() > 3);
  double bytes = 0;
  for (const Json& row : report["rows"]) {
    CHECK(positive(row["seconds"]));
    CHECK(row["bytes"].get<double>() > bytes);
    bytes = row["bytes"];
    CHECK(row["model"].get<double>() ==
          doctest::Approx(report["alpha"].get<double>() + report["beta"].get<double>() * bytes));
  }
  CHECK(bytes == 65536);
}

TEST_CASE("bench clock: both kinds of gradients, four ways over none") {
  const Json report = report_of("clock", {"--ranks", "2", "--rounds", "1", "--steps", "1",
                                          "--layers", "1", "--width", "16", "--tokens", "16"});
  REQUIRE(report["rows"].size() == 2);
  CHECK(report["rows"][0]["gradients"] == "ring");
  CHECK(report["rows"][1]["gradients"] == "ddp");
  for (const Json& row : report["rows"])
    for (const char* key : {"step_seconds", "asked", "on", "untraced", "wall"})
      CHECK(positive(row[key]));
}

TEST_CASE("bench fusion: nine chains, with the ratio of their bytes") {
  const Json report = report_of("fusion", {"--rows", "64", "--columns", "256", "--rounds", "1",
                                           "--milliseconds", "1", "--python", "no-such-python"});
  REQUIRE(report["chains"].size() == 9);
  CHECK(report["torch"] == false);
  for (const Json& chain : report["chains"]) {
    CHECK(positive(chain["eager_seconds"]));
    CHECK(positive(chain["fused_seconds"]));
    CHECK(chain["bytes_ratio"].get<double>() >= 2.99);
  }
}

TEST_CASE("bench planner: layouts looked at, some of them in full") {
  const Json report =
      report_of("planner", {"--cluster", "h100x512", "--sequences", "64", "--rounds", "1"});
  CHECK(report["layouts"].get<int64_t>() > 1000);
  CHECK(report["estimated"].get<int64_t>() < report["layouts"].get<int64_t>());
  CHECK(positive(report["layouts_per_second"]));
}

TEST_CASE("bench emulator: a product without and with checks") {
  const Json report = report_of("emulator", {"--size", "64", "--tries", "1"});
  CHECK(report["size"] == 64);
  CHECK(report["checked_seconds"].get<double>() > 0);
  CHECK(report["unchecked_seconds"].get<double>() >= 0);
}

TEST_CASE("benches of a GPU: beside their peer, or a word that there is no GPU") {
  for (const Words& command : {Words{program("gpu_matmul"), "--sizes", "64", "--seconds", "0.01"},
                               {program("gpu_attention"), "--lengths", "128", "--seconds", "0.01"},
                               {program("gpu_launch"), "--megabytes", "1", "--pieces", "2"},
                               {program("train"), "--device", "cuda", "--quick"},
                               {program("fusion"), "--device", "gpu", "--rounds", "1"}}) {
    const runner::Ending ending = runner::run_limited(command, longest_wait);
    CAPTURE(ending.output);
    CHECK((ending.status == 0 || ending.status == 77));
    CHECK((ending.status == 77) == ending.output.starts_with("not run: "));
  }
}

TEST_CASE("bench scaling: a row for each model and each window of noise, as lesson 29 reads them") {
  const Json report =
      report_of("scaling", {"--budgets", "4e8", "16e8", "--sizes", "3", "--parts", "isoflop",
                            "noise", "--noise-steps", "25", "--held-out", "1e9", "1", "16"});
  REQUIRE(report["runs"].size() == 7);
  for (const Json& row : report["runs"]) {
    CAPTURE(row.dump());
    for (const char* key :
         {"layers", "width", "weights", "steps", "tokens", "flops", "rate", "loss", "cpu_seconds"})
      CHECK(positive(row[key]));
    CHECK(row["tokens"] == 4 * 64 * row["steps"].get<int64_t>());
    CHECK(row["flops"].get<double>() == doctest::Approx(row["budget"].get<double>()).epsilon(0.15));
    CHECK(row["block_weights"].get<double>() < row["weights"].get<double>());
  }
  CHECK(std::count_if(report["runs"].begin(), report["runs"].end(),  // in the order they ended
                      [](const Json& row) { return row["part"] == "held_out"; }) == 1);
  CHECK(report["noise"].size() == 1);
  CHECK(report["command"].get<std::string>().starts_with("./yotta bench scaling --"));
  CHECK(report["seed"] == 1);
  CHECK(report["text"].get<std::string>().size() == 16);
}

// Runs that a law has made stand in for trained ones, so that a fit to them is certain.
TEST_CASE("bench scaling: a forecast that is stored, and then the run that it is about") {
  const TemporaryFolder folder;
  const auto stored = [&](const char* name, const Json& report) {
    std::ofstream(folder / name) << report;
    return (folder / name).string();
  };
  Json runs = report_of("scaling", {"--parts", "none"});
  for (const double budget : {1e9, 4e9})
    for (const double N : {2000.0, 4000.0, 8000.0, 16000.0, 32000.0}) {
      const double tokens = budget / 6 / N, loss = 1 + 20 / std::sqrt(N) + 60 / std::sqrt(tokens);
      runs["runs"].push_back({{"part", "isoflop"},
                              {"layers", 1},
                              {"width", 8},
                              {"weights", N},
                              {"block_weights", N},
                              {"steps", 1},
                              {"batch", 1},
                              {"tokens", tokens},
                              {"budget", budget},
                              {"flops", budget},
                              {"rate", 0.01},
                              {"mup", true},
                              {"target", 0},
                              {"loss", loss},
                              {"cpu_seconds", 1}});
    }
  const Words held = {"--held-out", "1e9", "1", "16"};
  const auto with = [&](Words words) {
    words.insert(words.end(), held.begin(), held.end());
    return report_of("scaling", words);
  };
  const Json forecast = with({"--parts", "forecast", "--runs", stored("runs.json", runs)});
  const Json& said = forecast["forecast"];
  const double N = said["weights"], tokens = said["tokens"];
  CHECK(said["loss"].get<double>() ==
        doctest::Approx(1 + 20 / std::sqrt(N) + 60 / std::sqrt(tokens)).epsilon(1e-3));
  CHECK(said["low"].get<double>() <= said["loss"].get<double>());
  CHECK_FALSE(forecast.contains("runs"));
  const std::string file = stored("forecast.json", forecast);
  const Json run = with({"--parts", "none", "--forecast", file});
  CHECK(run["runs"].size() == 1);
  CHECK(run["runs"][0]["tokens"] == tokens);
  CHECK(run["forecast_file"].get<std::string>().size() == 16);
  const auto refused = [&](Words words) {
    words.insert(words.begin(), program("scaling"));
    return runner::run_limited(words, longest_wait).output;
  };
  CHECK(refused({"--parts", "none", "--forecast", file, "--held-out", "1e9", "1", "24"})
            .find("--held-out is another run") != std::string::npos);
  runs["text"] = "of another time";
  CHECK(refused({"--parts", "forecast", "--runs", stored("other.json", runs), "--held-out", "1e9",
                 "1", "16"})
            .find("another text") != std::string::npos);
}

TEST_CASE("bench diloco: DDP, and DiLoCo with 32, 8 and 4 bits, over processes") {
  const Json report = report_of("diloco", {"--layers", "1", "--ddp-steps", "1", "--rounds", "1",
                                           "--inner", "2", "--batch", "2", "--link=1Gbit/s"});
  REQUIRE(report["rows"].size() == 4);
  for (const Json& row : report["rows"])
    for (const char* key : {"step_seconds", "bytes_a_step", "ratio"}) CHECK(positive(row[key]));
  CHECK(report["rows"][1]["bytes_a_step"] < report["rows"][0]["bytes_a_step"]);
  CHECK(report["rows"][3]["bytes_a_step"] < report["rows"][2]["bytes_a_step"]);
}

TEST_CASE("bench hogwild: writes that are lost, by one thread none") {
  const Json report = report_of("hogwild", {"--threads", "4", "--updates", "1000", "--runs", "2"});
  REQUIRE(report["rows"].size() == 6);
  CHECK(positive(report["cores"]));
  for (const Json& row : report["rows"]) {
    CHECK(row["lost_add"] == 0);
    CHECK(row["lost"].get<double>() >= 0);
    CHECK(row["lost"].get<double>() < 1);
    if (row["threads"] == 1) CHECK(row["lost"] == 0);
    for (const char* key : {"loss_overwrite", "loss_add", "seconds_add"}) CHECK(positive(row[key]));
  }
}

TEST_CASE("bench diloco_grid: a cell for each k and H, and one rank") {
  const Json report = report_of("diloco_grid", {"--workers", "1,2", "--inner", "1,2", "--seeds",
                                                "1", "--steps", "2", "--batch", "2"});
  REQUIRE(report["rows"].size() == 5);
  for (const Json& row : report["rows"]) CHECK(positive(row["mean"]));
  CHECK(report["text"]["hash"].get<std::string>().size() == 16);
}

TEST_CASE("bench diloco_grid: a list with anything but numbers is refused, and named") {
  const auto said = [](const char* option, const char* list) {
    const Words command = {program("diloco_grid"), option, list};
    return runner::run_limited(command, longest_wait).output;
  };
  for (const char* wrong : {"x", "4x", "0", "1,,2", "1,", "65", "-1"})
    CHECK(said("--workers", wrong).find("give whole numbers from 1 to 64") != std::string::npos);
  CHECK(said("--inner", "2,1e3").find("--inner has '1e3'") != std::string::npos);
}

TEST_CASE("bench diloco_curves: each way's losses, bytes and seconds") {
  const Json report = report_of("diloco_curves", {"--steps", "50", "--batch", "4"});
  REQUIRE(report["rows"].size() == 8);
  CHECK(report["text"]["hash"].get<std::string>().size() == 16);
  for (const Json& row : report["rows"])
    for (const char* key : {"loss", "megabytes", "seconds"}) CHECK(positive(row[key].back()));
}

namespace {

// ncu_sample.csv is what ncu prints for the launches of bench_gpu_counters: launch i reads 10^6 + i
// sectors, and i by cp.async, a third of them through L1, writes 10 i, adds to 100 i, and has
// i mod 3 conflicts.
std::string ncu_sample() {
  std::ifstream file(YOTTA_SOURCE_DIR "/tests/course/ncu_sample.csv");
  return {std::istreambuf_iterator<char>(file), {}};
}
runner::Ending read_counters(const std::string& csv) {
  const TemporaryFolder folder;
  const std::string name = (folder / "ncu.csv").string();
  std::ofstream(name) << csv;
  return runner::run_limited({program("gpu_counters"), "--ncu", name}, longest_wait);
}
bool refuses(const std::string& csv, const char* why) {
  const runner::Ending ending = read_counters(csv);
  CAPTURE(ending.output);
  return !ending.well() && ending.output.find(why) != std::string::npos;
}

}  // namespace

TEST_CASE("bench gpu_counters: every kernel's counts, and ncu's beside them") {
  const Json report =
      report_of("gpu_counters", {"--ncu", YOTTA_SOURCE_DIR "/tests/course/ncu_sample.csv"});
  std::set<std::string> lessons;
  int64_t launch = 0;
  for (const Json& row : report["rows"]) {
    lessons.insert(row["lesson"]);
    CHECK(positive(row["emulator"]["sectors_read"]));
    CHECK(positive(row["emulator"]["sectors_written"]));
    int64_t read = 0, written = 0, conflicts = 0;
    for (const int64_t end = launch + row["launches"].get<int64_t>(); launch < end; ++launch) {
      read += 1'000'000 + 2 * launch;
      written += 110 * launch;
      conflicts += launch % 3;
    }
    CHECK(row["gpu"] ==
          Json{{"sectors_read", read}, {"sectors_written", written}, {"conflicts", conflicts}});
  }
  CHECK(lessons == std::set<std::string>{"02", "03", "04", "05", "06", "07", "08"});
}

TEST_CASE("bench gpu_counters: without NVRTC lesson 05's kernels have no counts of a GPU") {
  const std::string sample = ncu_sample();
  const TemporaryFolder folder;
  const std::string name = (folder / "ncu.csv").string();
  std::ofstream(name) << sample.substr(0, sample.find("\n\"34\""));  // nine are of lesson 05
  const Json report = report_of("gpu_counters", {"--ncu", name});
  for (const Json& row : report["rows"]) CHECK(row["gpu"].is_null() == (row["lesson"] == "05"));
  CHECK(read_counters(sample.substr(0, sample.find("\n\"34\"")))
            .output.find("lesson 05 was not launched on the GPU: NVRTC") != std::string::npos);
}

TEST_CASE("bench gpu_counters refuses what ncu did not print for it, and says why") {
  const std::string sample = ncu_sample();
  const auto without = [&](const std::string& words) {
    std::string left = sample;
    left.erase(left.find(words), words.size());
    return left;
  };
  const std::string table = sample.substr(sample.find("\"ID\""));
  CHECK(read_counters(table).well());
  CHECK(refuses("==ERROR== no permission\n", "no column \"ID\"; run ncu with --csv"));
  CHECK(refuses(without(",\"Metric Value\""), "no column \"Metric Value\""));
  CHECK(refuses(sample.substr(0, sample.find("\n\"20\"")), "ncu saw 20 launches"));
  std::string lacking = sample;
  lacking.replace(lacking.find("\"1,000,000\""), 11, "\"n/a\"");
  CHECK(refuses(lacking, "ncu has no l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"));
}
