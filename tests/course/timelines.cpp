// --cluster and --timeline as users give them: to a lesson, to train, to the tour. The programs are
// run.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/from_ctest.hpp"
#include "support/message_of.hpp"
#include "support/outcome_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta_test;

namespace {

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
// The ranks in a timeline's JSON, the names and kinds of what they did, and rank 0's rows.
struct Seen {
  std::set<int> ranks;
  std::set<std::string> names, kinds;
  std::multiset<std::string> rows;
};
Seen seen(const std::string& path) {
  Seen found;
  const auto file = nlohmann::json::parse(content(path));
  for (const auto& event : file["traceEvents"]) {
    if (event["name"] == "thread_name" && event["pid"] == 0)
      found.rows.insert(event["args"]["name"].get<std::string>());
    if (event["ph"] != "X") continue;
    found.kinds.insert(event["cat"].get<std::string>());
    found.ranks.insert(event["pid"].get<int>());
    found.names.insert(event["name"].get<std::string>());
  }
  return found;
}

// The lines of a waterfall: by how much the peak and the losses miss the MFU below them, in
// percent; below 0 if there is no waterfall.
double missing(const std::string& text) {
  const size_t begin = text.find("  100.0%  peak: ");
  if (begin == std::string::npos) return -1;
  double left = 0;
  std::istringstream lines(text.substr(begin));
  for (std::string line; std::getline(lines, line);) {
    const double share = std::strtod(line.c_str(), nullptr);
    if (contains(line, "%  MFU: ")) return std::abs(left - share);
    left += share;
  }
  return -1;
}

}  // namespace

TEST_CASE("what is wrong is heard at once, in the same words everywhere") {
  const TemporaryFolder folder;
  std::ofstream(folder / "bad.json") << "{\"name\": \"bad\", \"chip\": \"h101\", \"levels\": []}";
  const std::pair<std::string, std::string> wrong[] = {
      {"--cluster h100", "'h100' is not a machine: give ideal, llama3-24k, or a chip and how many"},
      {"--cluster h900x8", "no chip is called 'h900'; known are a100 h100"},
      {"--cluster missing.json", "missing.json cannot be read: is there such a file?"},
      {"--cluster '" + (folder / "bad.json").string() + "'", "no chip is called 'h101'"},
      {"--timeline run.pdf", "end it in .html (a page), .json (for Perfetto), .svg (a picture)"},
      {"--timeline '" + (folder / "none" / "run.html").string() + "'", "No such file or directory"},
  };
  for (const char* variable : {"YOTTA_LESSON", "YOTTA_TRAIN", "YOTTA_TOUR"})
    for (const auto& [arguments, words] : wrong) {
      const Outcome outcome = outcome_of(from_ctest(variable), arguments);
      CAPTURE(std::string(variable));
      CAPTURE(arguments);
      CAPTURE(outcome.text);
      CHECK(outcome.status == 1);
      CHECK(contains(outcome.text, "error: "));
      CHECK(contains(outcome.text, words));
      CHECK_FALSE(contains(outcome.text, "1. What this machine can do"));
    }
  const Outcome small = outcome_of(from_ctest("YOTTA_TOUR"), "--ranks 5 --cluster h100x4");
  CHECK(small.status == 1);
  CHECK(contains(small.text, "--cluster h100x4 has 4 chips, and the tour needs 5"));
}

TEST_CASE("the tour's first steps: the losses of one rank on four, and they fall") {
  const Outcome outcome = outcome_of(from_ctest("YOTTA_FIRST_STEPS"), "");
  CAPTURE(outcome.text);
  CHECK(outcome.status == 0);
  double last = INFINITY;
  std::istringstream lines(outcome.text);
  std::string line;
  std::getline(lines, line);
  for (int step = 0; step < 5; ++step) {
    int number = -1;
    double one = NAN, four = NAN;
    REQUIRE(std::getline(lines, line));
    REQUIRE(std::sscanf(line.c_str(), "step %d: loss %lf on 1 rank, %lf on 4", &number, &one,
                        &four) == 3);
    CHECK(number == step);
    CHECK(one == doctest::Approx(four).epsilon(1e-3));
    CHECK(one < last);
    last = one;
  }
}

TEST_CASE("an output that cannot be written is an error") {
  const std::string small = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --steps 1 ";
  const std::pair<const char*, std::string> calls[] = {{"YOTTA_LESSON", ""},
                                                       {"YOTTA_TRAIN", small}};
  for (const auto& [variable, arguments] : calls) {
    const Outcome outcome = outcome_of(from_ctest(variable), arguments + " 2>&1 >/dev/full #");
    CAPTURE(outcome.text);
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.text, ": No space left on device"));
  }
}

TEST_CASE("a lesson's timeline is that of its largest run; of train's, every rank's") {
  const TemporaryFolder folder;
  const std::string lesson = folder / "lesson.txt", step = folder / "step.json";
  const Outcome shown = outcome_of(from_ctest("YOTTA_LESSON"), "--mfu --timeline '" + lesson + "'");
  CHECK(shown.status == 0);
  CHECK(contains(shown.text, "== Timeline on h100x8 (the largest of"));  // its own machine
  CHECK(contains(shown.text, "written to " + lesson));
  CHECK(contains(shown.text, "No matrix products ran, so there is no MFU."));
  CHECK(contains(content(lesson), "CAPITAL: on the critical path"));
  const std::string small = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --steps 1 ";
  const Outcome trained =
      outcome_of(from_ctest("YOTTA_TRAIN"),
                 small + "--ranks 3 --cluster h100x8 --mfu --timeline '" + step + "'");
  CHECK(trained.status == 0);
  CHECK(contains(trained.text, "== Timeline on h100x8"));
  CHECK(contains(trained.text, "    rank 2 waited "));
  CHECK(contains(trained.text, "counted against h100, dense f32"));
  CHECK(missing(trained.text) >= 0);
  CHECK(missing(trained.text) <= 0.5);
  const Seen found = seen(step);
  CHECK(found.ranks == std::set{0, 1, 2});
  for (const char* name : {"linear", "adamw", "ddp.gradients"}) CHECK(found.names.contains(name));
}

TEST_CASE("the tour's timeline is one step of its ranks; the report has its picture") {
  const TemporaryFolder folder;
  const std::string step = folder / "step.json", report = folder / "report.html",
                    json = folder / "figures.json";
  const Outcome outcome = outcome_of(
      from_ctest("YOTTA_TOUR"), "--steps 1 --ranks 4 --report '" + report + "' --json '" + json +
                                    "' --mfu --timeline '" + step + "'");
  CAPTURE(outcome.text);
  REQUIRE(outcome.status == 0);
  CHECK(contains(outcome.text, "5. One step of 4 ranks on h100x8"));
  CHECK(missing(outcome.text) >= 0);
  CHECK(missing(outcome.text) <= 0.5);
  const Seen found = seen(step);
  CHECK(found.ranks == std::set{0, 1, 2, 3});
  for (const char* name : {"linear", "linear_backward_weight", "adamw", "ddp.gradients"})
    CHECK(found.names.contains(name));
  CHECK_FALSE(found.names.contains("ddp.parameters"));  // that was before the step
  // Every op of a step has a phase, every message a collective, and no two rows have one name.
  CHECK(found.kinds == std::set<std::string>{"forward", "backward_input (dgrad)",
                                             "backward_weight (wgrad)", "optimizer", "all_reduce",
                                             "wait", "steps", "passes"});
  CHECK(found.rows.contains("dp: ddp.gradients"));
  for (const std::string& row : found.rows) CHECK(found.rows.count(row) == 1);
  const std::string page = content(report);
  CHECK(contains(page, "<h2>One step of 4 ranks, in time</h2>"));
  CHECK(contains(page, ">step 1</text>"));
  CHECK(contains(page, "grey line: waits; dark line: critical path"));
  CHECK(contains(page, "--layout tp=2,fsdp=2"));
  // DDP's step in the table is the step that is drawn.
  const nlohmann::json ddp = nlohmann::json::parse(content(json))["techniques"][1];
  CHECK(ddp["name"] == "DDP");
  const std::string time = fmt::format("{:.4g} us", 1e6 * ddp["step_seconds"].get<double>());
  CHECK(outcome.text.find(" " + time, outcome.text.find("5. One step")) != std::string::npos);
  // Its heading says what was measured, and wide tables scroll in frames of their own.
  const nlohmann::json figures = nlohmann::json::parse(content(json));
  const bool faster = figures["tokens_per_second"].get<double>() >
                      figures["serial_tokens_per_second"].get<double>();
  CHECK(contains(page, faster ? "<h2>Why 4 ranks are not many times as fast here</h2>"
                              : "<h2>Why 4 ranks are not faster here</h2>"));
  CHECK(contains(page, "<div class=\"wide\"><table><tr><th>rank"));
  CHECK(contains(page, "<div class=\"wide\"><table><tr><th></th>"));
}

TEST_CASE("--mfu alone reads the wall clock: its lines add up, and there is no timeline") {
  const Outcome outcome = outcome_of(
      from_ctest("YOTTA_TRAIN"),
      "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --steps 3 --ranks 2 --mfu");
  CAPTURE(outcome.text);
  REQUIRE(outcome.status == 0);
  CHECK(contains(outcome.text, "this computer's rate of matmuls"));
  CHECK(contains(outcome.text, "the first step is left out"));
  CHECK_FALSE(contains(outcome.text, "== Timeline"));
  CHECK(missing(outcome.text) >= 0);
  CHECK(missing(outcome.text) <= 0.5);
}

TEST_CASE("MFU of a described run: without recomputation it is a little less than HFU") {
  const Outcome outcome =
      outcome_of(from_ctest("YOTTA_TRAIN"),
                 "--layers 1 --width 32 --heads 2 --context 32 --batch 4 --steps 3 "
                 "--cluster ideal --mfu");
  CAPTURE(outcome.text);
  REQUIRE(outcome.status == 0);
  const size_t at = outcome.text.find("%  MFU: ");
  REQUIRE(at != std::string::npos);
  const double mfu = std::strtod(outcome.text.substr(at - 6, 6).c_str(), nullptr);
  const size_t beside = outcome.text.find("(HFU ", at);
  const double hfu = std::strtod(outcome.text.substr(beside + 5, 6).c_str(), nullptr);
  CHECK(hfu > 50);  // no latency, no launches: what is lost is memory's
  CHECK(hfu < 100);
  CHECK(mfu > 0.9 * hfu);
  CHECK(mfu < hfu);  // blockwise attention computes its scores again in backward
}

TEST_CASE("--profile: a step's products and passes, and all of its time") {
  const TemporaryFolder folder;
  const std::string json = folder / "figures.json";
  const Outcome outcome =
      outcome_of(from_ctest("YOTTA_TRAIN"),
                 "--layers 2 --width 32 --heads 2 --context 16 --batch 4 --steps 3 --ranks 2 "
                 "--cluster h100x8 --profile --json '" +
                     json + "'");
  CAPTURE(outcome.text);
  REQUIRE(outcome.status == 0);
  CHECK(contains(outcome.text, "== Where the time went"));
  CHECK(contains(outcome.text, "by the roof of h100, dense f32; the first step is left out"));
  const auto profile = nlohmann::json::parse(content(json))["profile"];
  CHECK((profile["steps"] == 2 && profile["ranks"] == 2));
  double seconds = profile["wait_seconds"].get<double>() + profile["between_seconds"].get<double>();
  std::map<std::string, double> flops;
  for (const auto& row : profile["rows"]) {
    seconds += row["seconds"].get<double>();
    flops[row["op"]] += row["flops"].get<double>();
    CHECK(row["roof_seconds"] <= row["seconds"]);
  }
  const double all = profile["seconds"].get<double>();
  CHECK(std::abs(seconds - all) <= 1e-9 * all);
  // 12 C^2 of each of 2 blocks, and 256 C after them, for 4 x 16 tokens in each of 2 steps.
  const double one_pass = 2.0 * (2 * 12 * 32 * 32 + 256 * 32) * 4 * 16 * 2;
  for (const char* product : {"linear", "linear_backward_input", "linear_backward_weight"})
    CHECK(flops[product] == one_pass);
}

TEST_CASE("--profile of this computer has its own roof, and is refused for processes") {
  const std::string small = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --steps 2 ";
  const Outcome own = outcome_of(from_ctest("YOTTA_TRAIN"), small + "--profile");
  CHECK(contains(own.text, "by the roof of this computer's rate of matmuls"));
  const Outcome none =
      outcome_of(from_ctest("YOTTA_TRAIN"), small + "--ranks 2 --comm processes --profile");
  CHECK(none.status != 0);
  CHECK(contains(none.text, "--profile reads the timeline of ranks that are threads"));
}
