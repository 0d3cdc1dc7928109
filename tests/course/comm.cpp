// --comm: `train` and lessons 10 and 13 on threads and on processes, what is refused, and in which
// words. course/options/comm_choice.cpp is compiled into this program without MPI; the programs
// that are run have MPI, if it is there.
#include "course/options/comm_choice.hpp"

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "course/killed_run.hpp"
#include "course/options/options.hpp"
#include "runner/grade.hpp"
#include "support/from_ctest.hpp"
#include "support/listening_sockets.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/sockets/run_processes.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

std::string train() { return from_ctest("YOTTA_TRAIN"); }
std::string lesson_10() { return from_ctest("YOTTA_LESSON_10"); }
std::string lesson_13() { return from_ctest("YOTTA_LESSON_13"); }
std::string lesson_14() { return from_ctest("YOTTA_LESSON_14"); }
// Empty: MPI is not installed.
std::string mpirun() {
  train();  // nor is anything else set where ctest has not started us
  const char* const path = std::getenv("YOTTA_MPIRUN");
  return path == nullptr ? "" : path;
}
constexpr const char* no_mpirun =
    "MPI is not installed (Debian, Ubuntu: apt-get install libopenmpi-dev openmpi-bin)";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A program under an mpirun, as somebody would start it by hand.
Words under(const std::string& mpirun, int n, const Words& program) {
  const bool mpich = contains(mpirun, "mpich");
  const MpirunCall call =
      mpirun_call(mpich ? MpiKind::mpich : MpiKind::open_mpi, mpirun, n, program);
  for (const auto& [name, value] : call.setting) setenv(name.c_str(), value.c_str(), 0);
  return call.words;
}
Words under_mpirun(int n, const Words& program) { return under(mpirun(), n, program); }

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++found;
  return found;
}

// What a program writes with --json, after it has ended well.
Json figures(const Words& command, const TemporaryFolder& folder, std::string* printed = nullptr) {
  const std::string file = (folder / "figures.json").string();
  std::filesystem::remove(file);
  const runner::Ending ending = runner::run_limited(command + Words{"--json", file}, longest_wait);
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
  const runner::Ending ending = runner::run_limited(command, longest_wait);
  CAPTURE(ending.output);
  CHECK_FALSE(ending.well());
  CHECK_FALSE(ending.too_late);
  CHECK(count(ending.output, words) == 1);
  CHECK(count(ending.output, "error: ") == 1);
}

// The step that the checkpoint in a folder has reached; 0: there is none yet.
int64_t saved_step(const std::filesystem::path& folder) {
  std::ifstream file(folder / "training_state.json");
  return file ? Json::parse(file).at("step").get<int64_t>() : 0;
}

// The processes of `train` that were started with this mark in their environment: those of rank
// `rank`, or (-1) their starter.
std::vector<pid_t> processes_of_rank(int rank, const std::string& mark) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream name(entry.path() / "comm"), file(entry.path() / "environ");
    std::string program, variable;
    if (!std::getline(name, program) || program != "train_program") continue;
    bool marked = false, ranked = false, has_rank = false;
    while (std::getline(file, variable, '\0')) {
      marked = marked || variable == "YOTTA_TEST_MARK=" + mark;
      has_rank = has_rank || variable.starts_with("RANK=");
      for (const char* const each : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"})
        ranked = ranked || variable == fmt::format("{}={}", each, rank);
    }
    if (marked && (rank < 0 ? !has_rank : ranked))
      found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}
pid_t process_of_rank(int rank, const std::string& mark) {
  const std::vector<pid_t> found = processes_of_rank(rank, mark);
  return found.empty() ? 0 : found[0];
}
// As soon as it is there; 0: it has not come.
pid_t await_rank(int rank, const std::string& mark) {
  pid_t process = 0;
  comes([&] { return (process = process_of_rank(rank, mark)) != 0; });
  return process;
}

const Words tiny = {"--steps", "4",       "--layers", "2",         "--width", "32",       "--heads",
                    "2",       "--batch", "8",        "--context", "32",      "--sample", "0"};
// A text that stays as it is when the course's files change: so do the losses.
Words on_own_text() {
  static const TemporaryFolder folder;
  const std::string file = (folder / "text.txt").string();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("line {} of this text, ", i * i);
  write_file(file, text);
  return {"--text", file};
}

// The same in this process, without MPI.
std::string choose(const char* comm, int64_t* ranks = nullptr) {
  CommChoice choice;
  Options options("program", "");
  choice.add_option(options);
  const char* const given[] = {"program", "--comm", comm};
  REQUIRE_FALSE(options.parse(3, given));
  char* words[] = {const_cast<char*>("program")};
  return message_of([&] {
    const int64_t n = choice.start(1, words, {4, nullptr, 1, 8});
    if (ranks != nullptr) *ranks = n;
  });
}

}  // namespace

TEST_CASE("train: four processes have the losses and the traffic of four threads") {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  for (const Words& layout : {Words{"--ranks", "4"}, Words{"--layout", "fsdp=2,tp=2"}}) {
    const Words program = Words{train()} + tiny + on_own_text() + layout;
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
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string();
  const Words program = Words{train()} + tiny + on_own_text();
  const Json three = figures(under_mpirun(3, program + Words{"--save", saved}), folder);
  CHECK(three["ranks"] == 3);
  check_near(three["loss"], figures(program + Words{"--ranks", "3"}, folder)["loss"]);
  CHECK(std::filesystem::exists(saved + "/model.safetensors"));
}

TEST_CASE("lessons 10 and 13 show the same numbers on processes" * doctest::test_suite("long")) {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  std::string printed;
  const Json ten = figures({lesson_10(), "--comm", "mpi"}, folder, &printed);
  CHECK(ten["numbers"] == figures({lesson_10()}, folder)["numbers"]);
  CHECK(count(printed, "== Who sends: bytes by rank") == 1);
  CHECK(contains(printed, "rank 2 failed: the disk is full"));
  CHECK(contains(printed, "all ranks of a communicator must call the same collectives"));
  CHECK(contains(printed, "was dropped before it was done"));
  CHECK(
      contains(printed, "0 waits for 1 waits for 2 waits for 3 waits for 0"));  // unbuffered sends

  const Words steps = {"--steps", "2"};
  const Json threads = figures(Words{lesson_13()} + steps, folder),
             processes = figures(Words{lesson_13(), "--comm", "mpi"} + steps, folder, &printed),
             by_hand = figures(under_mpirun(4, Words{lesson_13()} + steps), folder);
  CHECK(processes["numbers"] == threads["numbers"]);
  CHECK(by_hand["numbers"] == threads["numbers"]);
  for (const char* list : {"loss.serial", "loss.parallel"}) {
    check_near(processes["lists"][list], threads["lists"][list]);
    check_near(by_hand["lists"][list], threads["lists"][list]);
  }
  CHECK(count(printed, "== The same losses on 1 rank and on 4") == 1);
  CHECK(contains(printed, "ranks 0 and 1 saw identical tokens"));
}

TEST_CASE("without MPI: train and lessons 10 and 13 as processes of this machine") {
  const TemporaryFolder folder;
  const Words program = Words{train()} + tiny + on_own_text() + Words{"--layout", "fsdp=2,tp=2"};
  std::string printed;
  const Json processes = figures(program + Words{"--comm", "processes"}, folder, &printed);
  CHECK(processes["ranks"] == 4);
  check_near(processes["loss"], figures(program, folder)["loss"]);
  CHECK(count(printed, "training ") == 4);

  const Json ten = figures({lesson_10(), "--comm", "processes"}, folder, &printed);
  CHECK(ten["numbers"] == figures({lesson_10()}, folder)["numbers"]);
  CHECK(contains(printed, "rank 2 failed: the disk is full"));
  CHECK(contains(printed, "all ranks of a communicator must call the same collectives"));
}

TEST_CASE("torchrun's variables are refused, with what to do; so is what they cannot be") {
  const auto with = [](const Words& variables, const Words& program) {
    return Words{"env"} + variables + program;
  };
  const std::string start_once = "start the program once with --comm processes, by mpirun";
  const Words alone = {"RANK=0", "WORLD_SIZE=3", "MASTER_ADDR=localhost"};
  check_refused(with(alone, {lesson_13()}), start_once);
  check_refused(with(alone, {lesson_13(), "--comm", "processes"}), start_once);
  check_refused(with({"RANK=1", "WORLD_SIZE=3"}, {lesson_13()}), start_once);
  check_refused(with({"RANK=two", "WORLD_SIZE=3"}, {lesson_13()}),
                "RANK is two, but WORLD_SIZE is 3");
  check_refused(with({"RANK=0", "WORLD_SIZE="}, {lesson_13()}), "WORLD_SIZE is \"\"");
}

TEST_CASE("--comm tcp says in one line what to take instead") {
  const runner::Ending ending = runner::run_limited({train(), "--comm", "tcp"}, longest_wait);
  CHECK_FALSE(ending.well());
  CHECK(ending.output ==
        "error: --comm tcp is --comm processes now, on one machine; on several take --comm mpi\n");
}

namespace {

// A `train` on processes that would go on for hours, and what becomes of it.
class EndlessRun {
 public:
  explicit EndlessRun(int ranks = 3, const Words& more = {})
      : mark_((folder_ / "mark").string()),
        log_((folder_ / "printed.txt").string()),
        files_(folder_ / "tmp") {
    std::filesystem::create_directory(files_);
    // Each step is printed, as at a terminal. Nobody ends what is left: the session is its own.
    Words words = {"setsid",
                   "--wait",
                   "env",
                   "YOTTA_TEST_MARK=" + mark_,
                   "TMPDIR=" + files_.string(),
                   "YOTTA_TERMINALS=2",
                   "/bin/sh",
                   "-c",
                   "exec \"$@\" 2> " + log_,
                   "sh",
                   train(),
                   "--comm",
                   "processes",
                   "--ranks",
                   std::to_string(ranks)};
    Words endless = tiny;
    endless[1] = "1000000";  // its --steps
    words = words + endless + more;
    run_ = std::async(std::launch::async,
                      [words] { return runner::run_limited(words, longest_wait); });
  }
  ~EndlessRun() {
    for (const killed_run::Marked& each : processes()) kill(each.process, SIGKILL);
  }
  EndlessRun(const EndlessRun&) = delete;
  EndlessRun& operator=(const EndlessRun&) = delete;
  const std::string& mark() const { return mark_; }
  std::string printed() const { return killed_run::text_of(log_); }
  int64_t step() const { return killed_run::last_step(printed()); }
  bool reaches(int64_t step) const {
    return comes([&] { return this->step() >= step; });
  }
  // All that have this run's mark, whatever their program is called.
  std::vector<killed_run::Marked> processes() const {
    return killed_run::marked("YOTTA_TEST_MARK=" + mark_);
  }
  // Waits for its end. It leaves no file, and no process.
  runner::Ending end() {
    runner::Ending ending = run_.get();
    ending.output += printed();
    CHECK(std::filesystem::is_empty(files_));
    CHECK(comes([&] { return processes().empty(); }));
    return ending;
  }
  bool is_running() const {
    return run_.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready;
  }

 private:
  TemporaryFolder folder_;
  std::string mark_, log_;
  std::filesystem::path files_;
  std::future<runner::Ending> run_;
};

// Of the starter and all ranks, which hold sockets to each other.
void check_nothing_listens(const EndlessRun& run) {
  const auto all = run.processes();
  CHECK(all.size() >= 9);
  for (const killed_run::Marked& each : all) {
    CHECK(sockets_of(each.process).size() >= (each.place < 0 ? 8 : 7));
    CHECK(listening_sockets_of(each.process).empty());
  }
}
void kill_starter(const EndlessRun& run) {
  for (const pid_t starter : processes_of_rank(-1, run.mark())) kill(starter, SIGKILL);
}

}  // namespace

TEST_CASE("--comm processes: a rank that is killed at any time is named, and all end") {
  const int tries = long_form() ? 20 : 3;
  for (int each = 0; each < tries; ++each) {
    EndlessRun run;
    const int rank = each % 3;
    const pid_t victim = await_rank(rank, run.mark());
    REQUIRE(victim > 0);
    // From before they have found each other to the middle of training.
    std::this_thread::sleep_for(std::chrono::milliseconds(each < 2 ? 20 * each : 37 * each));
    kill(victim, SIGKILL);
    const runner::Ending ending = run.end();
    CAPTURE(ending.output);
    CHECK_FALSE(ending.well());
    CHECK_FALSE(ending.too_late);
    CHECK(count(ending.output, fmt::format("rank {} was killed: Killed", rank)) == 1);
    CHECK(count(ending.output, fmt::format("rank {} has failed: ", rank)) <= 1);
  }
}

TEST_CASE(
    "--comm processes --tolerate 2: two are killed from outside, rank 0 too, and the run goes on") {
  Words words = Words{train(), "--warmup", "2"} + tiny + on_own_text();
  words[4] = "60";  // its --steps
  const TemporaryFolder threads;
  const Json without = figures(words + Words{"--ranks", "4"}, threads);
  for (int each = 0; each < (long_form() ? 10 : 1); ++each) {
    const TemporaryFolder folder;
    const std::string json = (folder / "figures.json").string();
    // Each step takes some hundredths of a second: who takes a place comes before the last.
    const KilledRun run =
        run_and_kill(words + Words{"--ranks", "4", "--comm", "processes", "--link", "3ms",
                                   "--tolerate", "2", "--json", json},
                     folder.path(), {{15, {0}}, {25 + each, {1 + each % 3}}});
    CAPTURE(run.printed);
    CHECK(run.ending.well());
    REQUIRE(run.killed.size() == 2);
    CHECK(count(run.printed, "was killed: Killed; another takes its place") == 2);
    const Json with = Json::parse(read_file(json));
    CHECK(with["step_seconds"] >= 0.006);  // a sum of four takes two messages
    REQUIRE(with["loss"].size() == without["loss"].size());
    for (size_t step = 0; step < with["loss"].size(); ++step)
      CHECK(std::abs(with["loss"][step].get<double>() - without["loss"][step].get<double>()) <=
            1e-5);
    CHECK((with["sequences_dropped"] == 0 && with["steps_redone"] <= 2));
    CHECK(with["epochs"][1]["step"] >= run.killed[0] - 1);
    CHECK(with["epochs"].back()["ranks"] == 4);
    REQUIRE(with["deaths"].size() == 2);
    CHECK((with["deaths"][0]["rank"] == 0 && with["deaths"][1]["rank"] == 1 + each % 3));
  }
}

TEST_CASE("--comm processes: no rank outlives its starter, whenever that is killed, and no file") {
  for (int each = 0; each < (long_form() ? 10 : 2); ++each) {
    EndlessRun run;
    REQUIRE(await_rank(1, run.mark()) > 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * each));
    kill_starter(run);
    const runner::Ending ending = run.end();
    CAPTURE(ending.output);
    CHECK_FALSE(ending.too_late);
  }
}

TEST_CASE(
    "--comm processes --tolerate 2 --live: any of eight ranks is killed, training goes on, then "
    "the starter: nobody is left, and no file; nothing listens at any time") {
  for (int each = 0; each < (long_form() ? 50 : 3); ++each) {
    EndlessRun run(8, {"--tolerate", "2", "--live"});
    CAPTURE(each);
    REQUIRE(run.reaches(3));
    check_nothing_listens(run);
    const int rank = each % 8;
    const pid_t victim = process_of_rank(rank, run.mark());
    REQUIRE(victim > 0);
    kill(victim, SIGKILL);
    const std::string words = fmt::format("rank {} was killed: Killed; another takes", rank);
    REQUIRE(comes([&] { return contains(run.printed(), words); }));
    REQUIRE(run.reaches(run.step() + 5));
    check_nothing_listens(run);
    CHECK(contains(run.printed(), " place 7 "));
    kill_starter(run);
    const runner::Ending ending = run.end();
    CAPTURE(ending.output);
    CHECK_FALSE(ending.too_late);
    CHECK(count(ending.output, "was killed: ") == 1);
  }
}

TEST_CASE("a socket that listens is seen, by port or by name") {
  CHECK(listening_sockets_of(getpid()).empty());
  for (const int family : {AF_INET, AF_INET6, AF_UNIX}) {
    CAPTURE(family);
    const int listens = socket(family, SOCK_STREAM, 0);
    if (listens < 0 && family == AF_INET6) continue;            // switched off here
    sa_family_t of_its_own = static_cast<sa_family_t>(family);  // a name that the kernel chooses
    if (family == AF_UNIX)
      REQUIRE(bind(listens, reinterpret_cast<sockaddr*>(&of_its_own), sizeof of_its_own) == 0);
    REQUIRE(listen(listens, 1) == 0);
    CHECK(listening_sockets_of(getpid()).size() == 1);
    close(listens);
  }
}

TEST_CASE("--comm processes: a rank that is stopped is named, and nothing is lost" *
          doctest::test_suite("long")) {
  EndlessRun run;
  const pid_t victim = await_rank(2, run.mark());
  REQUIRE(victim > 0);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  kill(victim, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  CHECK(run.is_running());
  kill(victim, SIGCONT);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  CHECK(run.is_running());
  kill(victim, SIGKILL);
  const runner::Ending ending = run.end();
  CAPTURE(ending.output);
  CHECK(count(ending.output, "rank 2 is stopped: the run goes on when it is continued") == 1);
  CHECK(count(ending.output, "rank 2 was killed: Killed") == 1);
}

TEST_CASE("what processes cannot do is refused, once, with what to try") {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  check_refused({lesson_13(), "--comm", "mpi", "--cluster", "h100x8"}, "leave out --cluster");
  check_refused({train(), "--comm", "mpi", "--timeline", "x.html"}, "leave out --timeline");
  check_refused(under_mpirun(2, {lesson_13(), "--ranks", "3"}),
                "--ranks asks for 3 ranks, but mpirun has started 2 processes");
  check_refused(under_mpirun(2, {train(), "--layout", "tp=4"}), "--layout asks for 4 ranks");
  check_refused(under_mpirun(2, {lesson_14()}), "the ranks of lesson 14 are threads");
  check_refused(under_mpirun(2, {train(), "--comm", "threads"}), "start it once, without mpirun");
}

TEST_CASE(
    "started by another MPI's mpirun: refused, once, with the right one's name; no file stays") {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  const bool mpich = contains(mpirun(), "mpich");
  const std::string other =
      find_program({mpich ? "mpirun.openmpi" : "mpirun.mpich"}, std::getenv("PATH"));
  if (other.empty()) YOTTA_NOT_RUN("one MPI is installed, and no other");
  const TemporaryFolder files;
  check_refused(Words{"env", "TMPDIR=" + files.path().string()} + under(other, 2, {train()}),
                mpich ? "own (mpirun.mpich" : "own (mpirun.openmpi");
  CHECK(std::filesystem::is_empty(files.path()));
}

TEST_CASE("without a GPU what asks for one is refused, and says what does without") {
  if (std::filesystem::exists("/dev/nvidiactl")) YOTTA_NOT_RUN("there is a driver here");
  check_refused(Words{train(), "--device", "cuda"} + tiny, "; without the option the CPU computes");
  for (const Words& program :
       {Words{train()} + tiny, Words{lesson_10()}, Words{lesson_13(), "--steps", "2"}})
    check_refused(program + Words{"--comm", "nccl"},
                  "; threads, processes and mpi do without GPUs");
  check_refused(Words{train(), "--comm", "processes", "--ranks", "2", "--device", "cuda"} + tiny,
                "processes with GPUs are NCCL's: --comm nccl");
}

TEST_CASE("a rank that cannot start says why; all that have the same reason, once") {
  const Words program = Words{train()} + tiny;
  check_refused(Words{"env", "RANK=5", "WORLD_SIZE=2"} + program,
                "RANK is 5, but WORLD_SIZE is 2: ranks are 0 to 1");
  // Two ranks of one starter, of which one, or both, have these options too.
  std::string words;
  for (const std::string& word : program) words += word + " ";
  const auto said = [&](const std::string& of_zero, const std::string& of_one) {
    LaunchResult result;
    const std::string text = stderr_of([&] {
      result = run_processes(
          2, {"/bin/sh", "-c",
              fmt::format("test $RANK = 0 && exec {0} --comm processes {1}; exec {0} --comm "
                          "processes {2}",
                          words, of_zero, of_one)});
    });
    CHECK(result.status != 0);
    return text + result.text;
  };
  const std::string why = "/no/such/text: there is no such file";
  CHECK(contains(said("", "--text /no/such/text"), why));
  for (const std::string wrong : {"--text /no/such/text", "--lr x", "--load /no/such/folder"}) {
    const std::string both = said(wrong, wrong);
    CAPTURE(both);
    CHECK(count(both, wrong == "--lr x" ? "--lr" : "/no/such/") == 1);
  }
  if (mpirun().empty()) return;
  check_refused(under_mpirun(3, program + Words{"--load", "/no/such/folder"}),
                "/no/such/folder/config.json is missing");
  check_refused(under_mpirun(2, program + Words{"--text", "/no/such/text"}), why);
}

TEST_CASE("WORLD_SIZE=1 is one rank, and needs nothing; --comm threads has as many as it is told") {
  const TemporaryFolder folder;
  for (const Words& variables : {Words{"WORLD_SIZE=1"}, Words{"WORLD_SIZE=1", "RANK=0"},
                                 Words{"WORLD_SIZE=1", "RANK=0", "MASTER_ADDR=no.such.machine"}}) {
    const Words program = Words{"env"} + variables + Words{train()} + tiny;
    CHECK(figures(program, folder)["ranks"] == 1);
    CHECK(figures(program + Words{"--comm", "threads", "--ranks", "2"}, folder)["ranks"] == 2);
    check_refused(program + Words{"--ranks", "2"}, "leave out --ranks, or add --comm threads");
  }
  check_refused(Words{"env", "WORLD_SIZE=1", "RANK=3"} + Words{train()} + tiny,
                "RANK is 3, but WORLD_SIZE is 1: ranks are 0 to 0");
}

TEST_CASE("an error ends all processes, and is said once") {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  check_refused({lesson_10(), "--comm", "mpi", "--json", "/no/such/folder/x"},
                "/no/such/folder/x cannot be created");
  check_refused(Words{train(), "--comm", "mpi", "--ranks", "2", "--load", "/no/such/folder"} + tiny,
                "/no/such/folder");
}

TEST_CASE("train under mpirun: a rank dies by plan, and the job that is started again goes on" *
          doctest::test_suite("long")) {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  const TemporaryFolder folder;
  const std::string plan = (folder / "plan.json").string();
  write_file(plan, R"({"faults": [{"rank": 1, "step": 2, "phase": "backward"}]})");
  const Words on_text = tiny + on_own_text();
  const Json without = figures(Words{train(), "--ranks", "2"} + on_text, folder);
  const Words words =
      Words{train(), "--recover", "restart", "--snapshot-folder", (folder / "snapshots").string()} +
      on_text;
  CHECK_FALSE(
      runner::run_limited(under_mpirun(2, words + Words{"--faults", plan}), longest_wait).well());
  const Json with = figures(under_mpirun(2, words), folder);
  CHECK(with["loss"] == without["loss"]);
  CHECK(with["epochs"][0]["state_from"] == "disk");
}

TEST_CASE(
    "train: a rank that is killed is named, the others end, and the last checkpoint is whole") {
  if (mpirun().empty()) YOTTA_NOT_RUN(no_mpirun);
  Words endless = Words{train(), "--save-every", "1"} + tiny;
  endless[4] = "1000000";  // its --steps
  for (int step = 1; step <= (long_form() ? 3 : 1); ++step) {
    const TemporaryFolder folder;
    const int rank = step % 3;
    const std::string saved = (folder / "saved").string(), mark = saved;
    setenv("YOTTA_TEST_MARK", mark.c_str(), 1);
    auto run = std::async(std::launch::async, [&] {
      return runner::run_limited(under_mpirun(3, endless + Words{"--save", saved}), longest_wait);
    });
    const auto running = [&] {
      return run.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready;
    };
    while (running() && saved_step(saved) < step) continue;
    const pid_t victim = process_of_rank(rank, mark);
    if (victim > 0) kill(victim, SIGKILL);
    const runner::Ending ending = run.get();
    CAPTURE(ending.output);
    CHECK(victim > 0);
    CHECK_FALSE(ending.well());
    CHECK_FALSE(ending.too_late);
    CHECK((contains(ending.output, fmt::format("process rank {} with PID", rank)) ||
           contains(ending.output, fmt::format("rank {} has failed: its process, ", rank))));
    const int64_t reached = saved_step(saved);
    CHECK(reached >= step);
    const Json resumed = figures(endless + Words{"--resume", saved, "--ranks", "2", "--stop-after",
                                                 std::to_string(reached + 3)},
                                 folder);
    const auto first =
        resumed["first_step"].get<int64_t>();  // reached, or its commit is finished now
    CHECK(first >= reached);
    CHECK(std::ssize(resumed["loss"]) == reached + 3 - first);
  }
}

TEST_CASE("without MPI: what to install, and what happens instead") {
  int64_t ranks = 0;
  choose("threads", &ranks);
  CHECK(ranks == 4);
  ranks = 0;
  choose("auto", &ranks);
  CHECK(ranks == 4);
  CHECK(contains(choose("mpi"), "apt-get install libopenmpi-dev openmpi-bin"));
  CHECK(contains(choose("nccl"), "threads, processes and mpi do without GPUs"));
  setenv("PMI_RANK", "0", 1);
  setenv("PMI_SIZE", "2", 1);
  CHECK(contains(choose("auto"), "this program was built without MPI"));
  CHECK(contains(choose("threads"), "mpirun has started this program 2 times"));
  CHECK(contains(choose("processes"), "with --comm processes start it once, without mpirun"));
  unsetenv("PMI_RANK");
  unsetenv("PMI_SIZE");
}
