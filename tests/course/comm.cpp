// --comm: `train` and lessons 10 and 13 on threads and on processes, what is refused, and in which words.
// comm_choice.cpp is compiled into this program without MPI; the programs that are run have it, if it is there.
#include "course/shared/comm_choice.hpp"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runner/grade.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/processes.hpp"

using namespace yotta;
using namespace yotta_test;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
const std::string mpirun = variable("YOTTA_MPIRUN"), train = variable("YOTTA_TRAIN"),
                  lesson_10 = variable("YOTTA_LESSON_10"), lesson_13 = variable("YOTTA_LESSON_13"),
                  lesson_14 = variable("YOTTA_LESSON_14");
constexpr const char* no_mpirun =
    "MPI is not installed (Debian, Ubuntu: apt-get install libopenmpi-dev openmpi-bin)";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A program under mpirun, as somebody would start it by hand.
Words under_mpirun(int n, const Words& program) {
  const bool mpich = mpirun.find("mpich") != mpirun.npos;
  const MpirunCall call =
      mpirun_call(mpich ? MpiKind::mpich : MpiKind::open_mpi, mpirun, n, program);
  for (const auto& [name, value] : call.setting) setenv(name.c_str(), value.c_str(), 0);
  return call.words;
}

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++found;
  return found;
}

// What a program writes with --json, after it has ended well.
Json figures(const Words& command, const TemporaryFolder& folder, std::string* printed = nullptr) {
  const std::string file = (folder / "figures.json").string();
  std::filesystem::remove(file);
  const runner::Ending ending = runner::run_limited(command + Words{"--json", file}, 60);
  CAPTURE(ending.output);
  REQUIRE(ending.well());
  if (printed != nullptr) *printed = ending.output;
  std::FILE* const stream = std::fopen(file.c_str(), "r");
  REQUIRE(stream != nullptr);
  Json json = Json::parse(stream);
  std::fclose(stream);
  return json;
}

// Numbers that are equal but for the order in which f32 were added.
void check_near(const Json& some, const Json& others) {
  REQUIRE(some.size() == others.size());
  REQUIRE(!some.empty());
  for (auto one = some.begin(), other = others.begin(); one != some.end(); ++one, ++other) {
    const double a = one->get<double>(), b = other->get<double>();
    CAPTURE(a);
    CAPTURE(b);
    CHECK(std::abs(a - b) <= 1e-6 * (1 + std::abs(a)));
  }
}

// It must fail, with these words, said once.
void check_refused(const Words& command, const std::string& words) {
  const runner::Ending ending = runner::run_limited(command, 60);
  CAPTURE(ending.output);
  CHECK_FALSE(ending.well());
  CHECK_FALSE(ending.too_late);
  CHECK(count(ending.output, words) == 1);
  CHECK(count(ending.output, "error: ") == 1);
}

const Words tiny = {"--steps", "4",       "--layers", "2",         "--width", "32",       "--heads",
                    "2",       "--batch", "8",        "--context", "32",      "--sample", "0"};

// The same in this process, without MPI.
std::string choose(const char* comm, int64_t* ranks = nullptr) {
  CommChoice choice;
  CLI::App app;
  choice.add_option(app);
  app.parse(std::vector<std::string>{comm, "--comm"});  // CLI11 takes them from the back
  char* words[] = {const_cast<char*>("program")};
  return message_of([&] {
    const int64_t n = choice.start(1, words, {4, nullptr, 1, 8});
    if (ranks != nullptr) *ranks = n;
  });
}

}  // namespace

TEST_CASE("train: four processes have the losses and the traffic of four threads") {
  if (mpirun.empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  for (const Words& layout : {Words{"--ranks", "4"}, Words{"--layout", "fsdp=2,tp=2"}}) {
    const Words program = Words{train} + tiny + layout;
    std::string printed;
    const Json threads = figures(program, folder),
               processes = figures(program + Words{"--comm", "mpi"}, folder, &printed);
    CHECK(processes["ranks"] == 4);
    CHECK(threads["loss"].size() == 4);
    check_near(processes["loss"], threads["loss"]);
    CHECK(processes["bytes_sent_per_rank"] == threads["bytes_sent_per_rank"]);
    CHECK(processes["peak_bytes"] == threads["peak_bytes"]);
    CHECK(processes["peak_bytes"].size() == 4);
    CHECK(count(printed, "parameters; text of") == 1);
    CHECK(count(printed, "training ") == 4);
  }
}

TEST_CASE("train started by mpirun: the ranks are its processes, without being asked") {
  if (mpirun.empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string();
  const Json three = figures(under_mpirun(3, Words{train} + tiny + Words{"--save", saved}), folder);
  CHECK(three["ranks"] == 3);
  check_near(three["loss"], figures(Words{train} + tiny + Words{"--ranks", "3"}, folder)["loss"]);
  CHECK(std::filesystem::exists(saved + "/model.safetensors"));
}

TEST_CASE("lessons 10 and 13 show the same numbers on processes") {
  if (mpirun.empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  std::string printed;
  const Json ten = figures({lesson_10, "--comm", "mpi"}, folder, &printed);
  CHECK(ten["numbers"] == figures({lesson_10}, folder)["numbers"]);
  CHECK(count(printed, "== Who sends: bytes by rank") == 1);
  CHECK(contains(printed, "rank 2 failed: the disk is full"));
  CHECK(contains(printed, "all ranks of a communicator must call the same collectives"));
  CHECK(contains(printed, "was dropped before it was done"));

  const Words steps = {"--steps", "2"};
  const Json threads = figures(Words{lesson_13} + steps, folder),
             processes = figures(Words{lesson_13, "--comm", "mpi"} + steps, folder, &printed),
             by_hand = figures(under_mpirun(4, Words{lesson_13} + steps), folder);
  CHECK(processes["numbers"] == threads["numbers"]);
  CHECK(by_hand["numbers"] == threads["numbers"]);
  for (const char* list : {"loss.serial", "loss.parallel"}) {
    check_near(processes["lists"][list], threads["lists"][list]);
    check_near(by_hand["lists"][list], threads["lists"][list]);
  }
  CHECK(count(printed, "== The same losses on 1 rank and on 4") == 1);
  CHECK(contains(printed, "ranks 0 and 1 saw identical tokens"));
}

TEST_CASE("what processes cannot do is refused, once, with what to try") {
  if (mpirun.empty()) YOTTA_NOT_RUN(no_mpirun);
  check_refused({lesson_13, "--comm", "mpi", "--cluster", "h100x8"}, "leave out --cluster");
  check_refused({train, "--comm", "mpi", "--timeline", "x.html"}, "leave out --timeline");
  check_refused(under_mpirun(2, {lesson_13, "--ranks", "3"}),
                "--ranks asks for 3 ranks, but mpirun has started 2 processes");
  check_refused(under_mpirun(2, {train, "--layout", "tp=4"}), "--layout asks for 4 ranks");
  check_refused(under_mpirun(2, {lesson_14}), "the ranks of lesson 14 are threads");
  check_refused(under_mpirun(2, {train, "--comm", "threads"}), "start it once, without mpirun");
}

TEST_CASE("an error ends all processes, and is said once") {
  if (mpirun.empty()) YOTTA_NOT_RUN(no_mpirun);
  check_refused({lesson_10, "--comm", "mpi", "--json", "/no/such/folder/x"},
                "is the folder there?");
  check_refused(Words{train, "--comm", "mpi", "--ranks", "2", "--load", "/no/such/folder"} + tiny,
                "/no/such/folder");
}

TEST_CASE("without MPI: what to install, and what happens instead") {
  int64_t ranks = 0;
  choose("threads", &ranks);
  CHECK(ranks == 4);
  ranks = 0;
  choose("auto", &ranks);
  CHECK(ranks == 4);
  CHECK(contains(choose("mpi"), "apt-get install libopenmpi-dev openmpi-bin"));
  ranks = 0;
  choose("nccl", &ranks);  // says in one line that ranks are threads
  CHECK(ranks == 4);
  setenv("PMI_RANK", "0", 1);
  setenv("PMI_SIZE", "2", 1);
  CHECK(contains(choose("auto"), "this program was built without MPI"));
  CHECK(contains(choose("threads"), "mpirun has started this program 2 times"));
  unsetenv("PMI_RANK");
  unsetenv("PMI_SIZE");
}
