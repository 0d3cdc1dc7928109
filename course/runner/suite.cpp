#include "runner/suite.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "runner/process.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

using Status = Outcome::Status;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The text between two marks, from `at` on; empty when they are not there.
std::string between(const std::string& text, const std::string& open, const std::string& close,
                    size_t at = 0) {
  const size_t begin = text.find(open, at);
  if (begin == std::string::npos) return "";
  const size_t end = text.find(close, begin + open.size());
  if (end == std::string::npos) return "";
  return text.substr(begin + open.size(), end - begin - open.size());
}

std::string without_entities(std::string text) {
  const std::vector<std::pair<std::string, std::string>> entities = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : entities) {
    for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; at += character.size()) {
      text.replace(at, entity.size(), character);
    }
  }
  return text;
}

// Later news of the same case replaces earlier news only when it is worse: under MPI each rank
// reports.
void merge(Outcome& known, const Outcome& news) {
  if (known.status == Status::failed) return;
  if (news.status == Status::failed || known.status == Status::passed) known = news;
}

// Adds the cases of one record (see tests/support/main.cpp). Returns "" when the program came to
// its end, or else the case it was in.
std::string read_record(const fs::path& path, const std::string& test,
                        std::vector<Outcome>& outcomes) {
  std::map<std::string, size_t> known;  // cases another rank has reported
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].test == test) known[outcomes[i].name] = i;
  }
  std::map<std::string, int> times;  // two cases of one name are two cases
  std::string inside = "before its first case";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t'), last = line.rfind('\t');
    if (tab == std::string::npos || last == tab) continue;
    const std::string status = line.substr(0, tab), reason = line.substr(last + 1);
    std::string name = line.substr(tab + 1, last - tab - 1);
    if (status == "end") return "";
    if (status == "start") {
      inside = name;
      continue;
    }
    if (const int count = ++times[name]; count > 1) name += fmt::format(" ({})", count);
    Outcome news{test, name, Status::failed, reason};
    if (status == "passed") news.status = Status::passed;
    if (status == "skipped") news.status = Status::skipped;
    if (const auto found = known.find(name); found != known.end()) {
      merge(outcomes[found->second], news);
    } else {
      outcomes.push_back(news);
    }
  }
  return inside;
}

// Adds what the records of one test program say, and a failure of its own when ctest saw one they
// do not.
void add_cases(const fs::path& folder, const std::string& test, bool ctest_passed,
               std::vector<Outcome>& outcomes) {
  const size_t before = outcomes.size();
  std::string inside;
  for (int rank = 0;; ++rank) {
    const fs::path path = folder / (test + ".tsv" + (rank > 0 ? fmt::format(".{}", rank) : ""));
    if (!fs::exists(path)) break;
    const std::string stopped = read_record(path, test, outcomes);
    if (inside.empty()) inside = stopped;
  }
  bool failed = false;
  for (size_t i = before; i < outcomes.size(); ++i) failed |= outcomes[i].status == Status::failed;
  if (!inside.empty()) {
    outcomes.push_back({test, inside, Status::failed, "crashed, exited or ran out of time here"});
  } else if (outcomes.size() == before) {
    outcomes.push_back({test, "", Status::failed, "no test case ran"});
  } else if (!failed && !ctest_passed) {
    outcomes.push_back({test, "", Status::failed, "failed after its last case"});
  }
}

void print_list(const std::vector<Outcome>& outcomes, Status status, const char* heading) {
  bool first = true;
  for (const Outcome& outcome : outcomes) {
    if (outcome.status != status) continue;
    if (first) fmt::print("\n{}\n", heading);
    first = false;
    fmt::print("  {}{}{}{}{}\n", outcome.test, outcome.name.empty() ? "" : ": ", outcome.name,
               outcome.reason.empty() ? "" : ": ", outcome.reason);
  }
}

int count(const std::vector<Outcome>& outcomes, Status status) {
  int number = 0;
  for (const Outcome& outcome : outcomes) number += outcome.status == status;
  return number;
}

void write_json(const std::string& path, const std::vector<Outcome>& outcomes) {
  const char* words[] = {"passed", "failed", "skipped"};
  nlohmann::json document;
  for (const Status status : {Status::passed, Status::failed, Status::skipped}) {
    document[words[static_cast<int>(status)]] = count(outcomes, status);
  }
  for (const Outcome& outcome : outcomes) {
    document["outcomes"].push_back({{"test", outcome.test},
                                    {"case", outcome.name},
                                    {"status", words[static_cast<int>(outcome.status)]},
                                    {"reason", outcome.reason}});
  }
  std::ofstream file(path);
  file << document.dump(2) << '\n';
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace

std::vector<Outcome> read_outcomes(const std::string& folder) {
  const std::string xml = read_file(fs::path(folder) / "ctest.xml");
  std::vector<Outcome> outcomes;
  for (size_t at = 0; (at = xml.find("<testcase ", at)) != std::string::npos;) {
    const size_t end = std::min(xml.find("</testcase>", at), xml.size());
    const std::string entry = xml.substr(at, end - at);
    at = end;
    const std::string test = without_entities(between(entry, "name=\"", "\""));
    const std::string status = between(entry, "status=\"", "\"");
    const std::string output = without_entities(between(entry, "<system-out>", "</system-out>"));
    const bool has_cases = test.starts_with("test_");  // tests/CMakeLists.txt names only those so
    if (status == "notrun" && entry.find("SKIP_RETURN_CODE") != std::string::npos) {
      const std::string reason = between(output + "\n", "not run: ", "\n");
      outcomes.push_back({test, "", Status::skipped, reason.empty() ? "no reason given" : reason});
    } else if (status == "notrun" || status == "disabled") {
      outcomes.push_back({test, "", Status::failed, "could not be started (did it compile?)"});
    } else if (has_cases) {
      add_cases(folder, test, status == "run", outcomes);
    } else {
      outcomes.push_back({test, "", status == "run" ? Status::passed : Status::failed, ""});
    }
  }
  return outcomes;
}

int test_everything(const SuiteOptions& options) {
  const std::string build = fmt::format("{}/build/{}", YOTTA_SOURCE_DIR, options.tier);
  const std::string folder = build + "/results", xml = folder + "/ctest.xml";
  Command make = {"cmake", "--build", build, "--target", "all"};
  if (options.long_form) make.push_back("long_programs");
  make.insert(make.end(), {"--", "-k", "0"});
  const int built = run(make);

  fs::remove_all(folder);  // no record of an earlier run may be counted
  fs::create_directories(folder);
  // One more than there are cores: tests that start processes wait a good part of their time.
  const auto jobs = std::to_string(1 + std::max(1u, std::thread::hardware_concurrency()));
  Command ctest = {"ctest", "--test-dir",     build, "--output-on-failure", "-j",
                   jobs,    "--output-junit", xml};
  if (options.long_form)
    setenv("YOTTA_TEST_LONG", "1", 1);  // tests/support/main.cpp
  else
    ctest.insert(ctest.end(), {"-LE", "long"});
  if (!options.only.empty()) ctest.insert(ctest.end(), {"-R", options.only});
  const int ran = run(ctest);

  std::vector<Outcome> outcomes = read_outcomes(folder);
  if (built != 0) outcomes.push_back({"build", "", Status::failed, "not everything compiled"});
  if (ran != 0 && count(outcomes, Status::failed) == 0) {
    outcomes.push_back({"ctest", "", Status::failed, fmt::format("ended with status {}", ran)});
  }

  const int passed = count(outcomes, Status::passed), failed = count(outcomes, Status::failed);
  print_list(outcomes, Status::failed, "Failed:");
  print_list(outcomes, Status::skipped, "Not run:");
  if (!options.long_form) fmt::print("\nWhat takes longer is run by `./yotta test --long`.\n");
  fmt::print("\n{} passed, {} failed, {} skipped\n", passed, failed,
             count(outcomes, Status::skipped));
  if (!options.json.empty()) write_json(options.json, outcomes);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace runner
