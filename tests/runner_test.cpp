// The runner counts truthfully and finds what is meant.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runner/process.hpp"
#include "runner/suite.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;
using runner::Outcome;
using Status = runner::Outcome::Status;

namespace {

// A results folder as ctest and the test programs leave it.
class Results {
 public:
  Results() { clear(); }
  ~Results() { fs::remove_all(folder_); }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // One entry of ctest.xml: status is run, fail or notrun; inside is what stands within it.
  void entry(const std::string& name, const std::string& status, const std::string& inside = "") {
    entries_ += "<testcase name=\"" + name + "\" classname=\"x\" time=\"1\" status=\"" + status +
                "\">\n" + inside + "\n</testcase>\n";
  }
  void record(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  std::vector<Outcome> read() const {
    std::ofstream(folder_ / "ctest.xml") << "<testsuite>\n" << entries_ << "</testsuite>\n";
    return runner::read_outcomes(folder_);
  }

 private:
  void clear() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  fs::path folder_ = fs::path(YOTTA_BUILD_DIR) / "results_of_runner_test";
  std::string entries_;
};

using Statuses = std::vector<Status>;
Statuses statuses_of(const std::vector<Outcome>& outcomes) {
  Statuses all;
  for (const Outcome& one : outcomes) all.push_back(one.status);
  return all;
}

}  // namespace

TEST_CASE("every case of a program that ran to its end counts once") {
  Results results;
  results.entry("test_core_tensor", "fail");
  results.record("test_core_tensor.tsv",
                 "start\ta\t\npassed\ta\t\nstart\tb\t\nfailed\tb\t\nskipped\tc\tno GPU\nend\t\t\n");
  const auto outcomes = results.read();
  REQUIRE(statuses_of(outcomes) == Statuses{Status::passed, Status::failed, Status::skipped});
  CHECK(outcomes[1].name == "b");
  CHECK(outcomes[2].reason == "no GPU");
}

TEST_CASE("a program that stopped inside a case failed, even when it returned zero") {
  Results results;
  results.entry("test_core_tensor", "run");
  results.record("test_core_tensor.tsv", "start\ta\t\npassed\ta\t\nstart\tboom\t\n");
  const auto outcomes = results.read();
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[1].status == Status::failed);
  CHECK(outcomes[1].name == "boom");
}

TEST_CASE("a program without a record, without cases or failing after its last case failed") {
  Results results;
  results.entry("test_a", "run");
  results.entry("test_b", "run");
  results.record("test_b.tsv", "end\t\t\n");
  results.entry("test_c", "fail");
  results.record("test_c.tsv", "start\ta\t\npassed\ta\t\nend\t\t\n");
  const auto outcomes = results.read();
  REQUIRE(outcomes.size() == 4);
  CHECK(outcomes[0].status == Status::failed);
  CHECK(outcomes[1].status == Status::failed);
  CHECK(outcomes[2].status == Status::passed);
  CHECK(outcomes[3].reason == "failed after its last case");
}

TEST_CASE("under MPI a case fails when it fails on any rank, and counts once") {
  Results results;
  results.entry("test_comm_mpi_on_2", "fail");
  results.record("test_comm_mpi_on_2.tsv", "passed\ta\t\npassed\tb\t\nend\t\t\n");
  results.record("test_comm_mpi_on_2.tsv.1", "passed\ta\t\nfailed\tb\t\nend\t\t\n");
  const auto outcomes = results.read();
  REQUIRE(statuses_of(outcomes) == Statuses{Status::passed, Status::failed});
}

TEST_CASE("checks without cases count one each, and a skip keeps its reason") {
  Results results;
  results.entry("package_fetch", "run");
  results.entry("headers_alone", "fail");
  results.entry("notebook_10", "notrun",
                "<skipped message=\"SKIP_RETURN_CODE=77\"/>\n"
                "<system-out>not run: clang 19 &amp; its tools are missing\n</system-out>");
  results.entry("test_gone", "notrun", "<skipped message=\"Unable to find executable\"/>");
  const auto outcomes = results.read();
  REQUIRE(statuses_of(outcomes) ==
          Statuses{Status::passed, Status::failed, Status::skipped, Status::failed});
  CHECK(outcomes[2].reason == "clang 19 & its tools are missing");
}

TEST_CASE("two cases of one name are two cases") {
  Results results;
  results.entry("test_a", "fail");
  results.record("test_a.tsv", "passed\tsame\t\nfailed\tsame\t\nend\t\t\n");
  const auto outcomes = results.read();
  REQUIRE(statuses_of(outcomes) == Statuses{Status::passed, Status::failed});
}

TEST_CASE("edit distance counts letters changed, added and removed") {
  CHECK(runner::edit_distance("", "") == 0);
  CHECK(runner::edit_distance("", "ddp") == 3);
  CHECK(runner::edit_distance("fsdp", "ddp") == 2);
  CHECK(runner::edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("a lesson is found by number, by name or by both; else the nearest is named") {
  const std::vector<runner::Topic> topics = {{"00_start", "00", "start", ""},
                                             {"10_collectives", "10", "collectives", ""},
                                             {"13_ddp", "13", "ddp", ""}};
  for (const char* word : {"10", "collectives", "10_collectives"}) {
    CHECK(runner::choose(topics, word, "lesson").id == "10_collectives");
  }
  CHECK(runner::choose(topics, "0", "lesson").id == "00_start");
  const auto message = [&](const char* word) {
    try {
      runner::choose(topics, word, "lesson");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("found");
  };
  CHECK(message("dpd").find("did you mean 13_ddp?") != std::string::npos);
  CHECK(message("coll").find("did you mean 10_collectives?") != std::string::npos);
  CHECK(message("nonsense").find("did you mean") == std::string::npos);
  CHECK(message("99") == "there is no lesson '99'; `./yotta lesson` lists them all");
  CHECK_THROWS_WITH(
      runner::choose(topics, "dpd", "exercise"),
      "there is no exercise 'dpd'; did you mean 13_ddp? `./yotta list` lists them all");
  CHECK_THROWS(runner::choose({}, "ddp", "lesson"));
}

TEST_CASE("a command's exit status is its own") {
  CHECK(runner::run({"true"}) == 0);
  CHECK(runner::run({"sh", "-c", "exit 3"}) == 3);
  CHECK(runner::run({"sh", "-c", "kill -9 $$"}) == 128 + 9);
  CHECK(runner::run({"sh", "-c", "test \"$1\" = 'a b'", "sh", "a b"}) == 0);
  CHECK(runner::run({"/there/is/no/such/program"}) == 127);
}
