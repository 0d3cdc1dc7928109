// Jobs of processes that are killed with SIGKILL: the starter starts this program again for each
// member.
#include "yotta/comm/sockets/run_members.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "support/message_of.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/sockets/socket_epochs.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Words = std::vector<std::string>;

EpochRule all_ready(int least) {
  return [least](const std::vector<bool>& ready) {
    std::vector<int> places;
    for (size_t place = 0; place < ready.size(); ++place)
      if (ready[place]) places.push_back(static_cast<int>(place));
    return static_cast<int>(places.size()) < least ? std::vector<int>() : places;
  };
}
LaunchResult started(int places, int least, const Words& program,
                     const MembersOptions& options = {}) {
  return run_members(places, all_ready(least), program, options);
}
// Bash's words; it is a member that has come, and may say more.
LaunchResult started_shell(const std::string& words, const MembersOptions& options = {}) {
  const std::string line = "line=${YOTTA_WORDS#fd:}; printf 'come 0' >&$line; ";
  return started(2, 2, {"/bin/bash", "-c", line + words}, options);
}

// What a member of the test's job does: counts to `last` with the others, and dies as it is told:
// "2 0 4" is place 2, its first member, when 4 is reached.
struct Counting : EpochMember {
  Joiner self;
  std::string deaths, stops, sleeps, computes, away, log;
  int64_t count = 0, taken = 0;
  static constexpr int64_t last = 6;

  bool is_told(const std::string& list) const {
    return list.find(fmt::format(" {} {} {},", self.place, self.number, count)) != list.npos;
  }
  // Says so, and makes no call of the library until it has been away for long enough.
  void be_away(bool works) const {
    std::ofstream(away + "/away") << 1;
    while (!std::filesystem::exists(away + "/enough"))
      if (!works) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::filesystem::remove(away + "/away");
  }
  void die() const {
    while (!away.empty() && !std::filesystem::exists(away + "/away"))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    raise(SIGKILL);
  }
  bool run(Communicator& world, const Epoch& epoch) override {
    if (world.rank() == 0 && !epoch.kept().empty())
      count = std::max(count, std::stol(epoch.kept()));
    std::vector<int64_t> most = {count};
    world.all_reduce(most, ReduceOp::max);
    count = most[0];
    while (count < last) {
      if (is_told(sleeps) || is_told(computes)) be_away(is_told(computes));
      if (is_told(deaths)) die();
      if (is_told(stops)) raise(SIGSTOP);
      std::vector<int64_t> ones = {1};
      world.all_reduce(ones);
      ++count, ++taken;
      if (world.rank() == 0) epoch.keep(std::to_string(count));
      std::vector<int64_t> joins = {world.rank() == 0 && !epoch.waiting().empty() ? 1 : 0};
      world.broadcast(joins, 0);
      if (joins[0] == 1) return false;
    }
    if (world.rank() != 0) return true;
    std::ofstream(log) << count << " by " << world.size();
    std::ofstream(log + "_taken") << taken;
    return true;
  }
};

// How such a job ends, and what it has counted.
struct Counted {
  LaunchResult result;
  std::string log;
  int64_t taken = 0;  // steps of rank 0, since its process was started
};
Counted counted(int places, int least, const std::string& deaths,
                const MembersOptions& options = {}, const std::string& stops = "",
                const std::string& sleeps = "", const std::string& computes = "",
                const std::string& away = "") {
  const TemporaryFolder folder;
  const std::string log = (folder / "log").string();
  setenv("YOTTA_TEST_DEATHS", deaths.c_str(), 1);
  setenv("YOTTA_TEST_STOPS", stops.c_str(), 1);
  setenv("YOTTA_TEST_SLEEPS", sleeps.c_str(), 1);
  setenv("YOTTA_TEST_COMPUTES", computes.c_str(), 1);
  setenv("YOTTA_TEST_AWAY", away.c_str(), 1);
  setenv("YOTTA_TEST_LOG", log.c_str(), 1);
  // A member's own record is none of the suite's: it may be killed, or fail on purpose.
  const Words program = {"/bin/sh", "-c", "unset YOTTA_TEST_RECORD; exec \"$0\" \"$@\" > /dev/null",
                         "/proc/self/exe", "-tc=a member of a job"};
  Words own = program;
  char path[4096];
  own[3] = std::string(path, static_cast<size_t>(readlink("/proc/self/exe", path, sizeof path)));
  Counted all{started(places, least, own, options), "", 0};
  std::ifstream file(log);
  all.log.assign(std::istreambuf_iterator<char>(file), {});
  std::ifstream(log + "_taken") >> all.taken;
  return all;
}

}  // namespace

TEST_CASE("a member of a job") {
  const std::unique_ptr<SocketEpochs> host = SocketEpochs::find([](int) {});
  CHECK(epoch_host() == host.get());
  if (host == nullptr) return;  // not started by the cases below
  host->run(
      0,
      [](const Joiner& self) {
        auto member = std::make_unique<Counting>();
        member->self = self;
        member->deaths = std::getenv("YOTTA_TEST_DEATHS");
        member->stops = std::getenv("YOTTA_TEST_STOPS");
        member->sleeps = std::getenv("YOTTA_TEST_SLEEPS");
        member->computes = std::getenv("YOTTA_TEST_COMPUTES");
        member->away = std::getenv("YOTTA_TEST_AWAY");
        member->log = std::getenv("YOTTA_TEST_LOG");
        return member;
      },
      Where::current());
}

namespace {
// Dies in its first life, when it has left a note.
struct Leaving : EpochMember {
  int number = 0;
  bool run(Communicator& world, const Epoch& epoch) override {
    const std::shared_ptr<JobLine> line = JobLine::find();
    const std::string key = fmt::format("fault_{}", world.rank());
    if (number == 0) line->leave_note(key, "killed once before");
    if (number == 0) raise(SIGKILL);
    std::ofstream(std::getenv("YOTTA_TEST_NOTES")) << fmt::format(
        "{} of {}, {}", number, epoch.deaths().size(), line->note(key).value_or("?"));
    return true;
  }
};
}  // namespace

TEST_CASE("a member that leaves notes") {
  const std::unique_ptr<SocketEpochs> host = SocketEpochs::find([](int) {});
  CHECK(epoch_host() == host.get());
  if (host == nullptr) return;  // not started by the case below
  host->run(
      0,
      [](const Joiner& self) {
        auto member = std::make_unique<Leaving>();
        member->number = self.number;
        return member;
      },
      Where::current());
}

TEST_CASE("a job of processes goes on when any of them are killed, rank 0 too") {
  for (const std::string& deaths :
       std::vector<std::string>{"", " 0 0 3,", " 2 0 2, 2 1 4,", " 0 0 3, 1 0 3,"}) {
    CAPTURE(deaths);
    const Counted all = counted(3, 1, deaths);
    CHECK(all.result.status == 0);
    CHECK(all.result.text.empty());
    CHECK(all.log.starts_with("6 by "));
  }
  const Counted waiting = counted(3, 3, " 1 0 3,");
  CHECK((waiting.result.status == 0 && waiting.log == "6 by 3"));
  const Counted all_died = counted(2, 2, " 0 0 3, 1 0 3,");
  CHECK((all_died.result.status == 0 && all_died.log == "6 by 2"));
  CHECK(all_died.taken == 3);  // the others are in what rank 0 has kept
  const Counted spares = counted(2, 2, " 0 0 3, 1 0 4,", {.spares = 1});
  CHECK((spares.result.status == 0 && spares.log == "6 by 2"));
}

TEST_CASE("whoever starts a job hears for which places all wait, and nothing when all go on") {
  std::set<std::vector<int>> waits;
  const MembersOptions options = {
      .all_wait = [&](const std::vector<int>& missing) { waits.insert(missing); }};
  CHECK(counted(3, 3, " 1 0 3,", options).result.status == 0);
  CHECK(waits == std::set<std::vector<int>>{{1}});
  waits.clear();
  CHECK(counted(3, 1, " 1 0 3,", options).result.status == 0);
  CHECK(waits.empty());
}

TEST_CASE("a process that ends with an error, or without a word, ends the job") {
  const LaunchResult failed = started_shell("sleep 0.05; exit 7");
  CHECK(failed.status == 7);
  CHECK(contains(failed.text, " has ended with status 7"));
  const LaunchResult left = started_shell("exit 0");
  CHECK(left.status == 1);
  CHECK(contains(left.text, "ended with status 0 in the middle of the job"));
  const LaunchResult well = started_shell("printf finished >&$line");
  CHECK((well.status == 0 && well.text.empty()));
  // Rank 1 is killed when the work is done: the others end in peace.
  const LaunchResult killed =
      started_shell("printf finished >&$line; sleep 0.5; test $RANK = 1 && kill -9 $$; sleep 0.5");
  CHECK(killed.status == 0);
  CHECK(contains(killed.text, "rank 1 was killed: Killed, when the work was done"));
  CHECK(contains(message_of([] {
                   const LaunchResult none = started(1, 1, {"/no/such/program"});
                   fail(Where::current(), "{} {}", none.status, none.text);
                 }),
                 "1 cannot start /no/such/program: No such file"));
}

TEST_CASE("a process that is stopped does not stop the job: it is killed after a while") {
  for (const std::string& deaths : {std::string(), std::string(" 2 0 3,")}) {
    CAPTURE(deaths);
    const Counted all = counted(3, 3, deaths, {.patience = 1}, " 1 0 3,");
    CHECK((all.result.status == 0 && all.log == "6 by 3"));
  }
  const LaunchResult late = started_shell("kill -STOP $$", {.most_deaths = 3, .patience = 0.3});
  CHECK(late.status == 128 + SIGKILL);
}

namespace {
// Place 0 dies while place 1 is away, and one death is allowed. The starter's clock goes on only
// while place 1 is away, so a busy machine makes nobody late; and place 1 is away until that clock
// has gone on for `enough` seconds.
LaunchResult away_for(double enough, bool works) {
  const TemporaryFolder folder;
  double seconds = 0;
  auto before = std::chrono::steady_clock::now();
  MembersOptions options = {.most_deaths = 1, .patience = 1};
  options.now = [&] {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - std::exchange(before, now);
    if (std::filesystem::exists(folder / "away")) seconds += std::min(passed.count(), 0.02);
    if (seconds > enough) std::ofstream(folder / "enough") << 1;
    return seconds;
  };
  const std::string place_1 = " 1 0 3,", none;
  const Counted all = counted(2, 1, " 0 0 3,", options, none, works ? none : place_1,
                              works ? place_1 : none, folder.path().string());
  CHECK(all.log.starts_with("6 by ") == (all.result.status == 0));
  return all.result;
}
}  // namespace

TEST_CASE("a rank that sleeps when another dies is killed after the patience, and not before") {
  CHECK(away_for(0.7, false).status == 0);
  const std::string said = stderr_of([&] { CHECK(away_for(30, false).status == 128 + SIGKILL); });
  CHECK(
      contains(said, "rank 1 has not come to epoch 2 within 1 s, uses no CPU time, and is killed"));
}

TEST_CASE("a rank that computes when another dies is not killed after the patience") {
  CHECK(away_for(2.5, true).status == 0);
}

TEST_CASE("a rank that computes for ten times the patience is killed" *
          doctest::test_suite("long")) {
  const std::string said = stderr_of([&] { CHECK(away_for(100, true).status == 128 + SIGKILL); });
  CHECK(contains(said, "rank 1 has not come to epoch 2 within 10 s, computes, and is killed"));
}

TEST_CASE("Ctrl-C also reaches the ranks: nobody takes their places") {
  const std::string interrupted = fmt::format("kill -INT {}; kill -INT $$; sleep 100", getpid());
  const std::string said =
      stderr_of([&] { CHECK(started_shell(interrupted).status == 128 + SIGINT); });
  CHECK(!contains(said, "takes its place"));
}

TEST_CASE("a process that is stopped and goes on is not killed") {
  const std::string is_stopped = "grep -q '^State:.T' /proc/$$/status";
  const std::string words = "(until " + is_stopped +
                            "; do sleep 0.01; done; sleep 0.1; kill -CONT $$) & kill -STOP $$; "
                            "sleep 2.5; printf finished >&${YOTTA_WORDS#fd:}";
  const LaunchResult result =  // no epoch begins, for which they would be late
      started(2, 3, {"/bin/bash", "-c", words}, {.most_deaths = 0, .patience = 2});
  CHECK(result.status == 0);
  CHECK(result.text.empty());
}

TEST_CASE("a starter that is interrupted, or killed, ends its processes, and leaves no file") {
  const TemporaryFolder folder, files;
  const std::string before = std::filesystem::temp_directory_path().string();
  setenv("TMPDIR", folder.path().c_str(), 1);
  const std::string starter = fmt::format("kill -TERM {}; ", getpid());
  CHECK(started_shell(starter + "exec sleep 100").status == 128 + SIGTERM);
  const std::string pids = (files / "pid_").string();
  const pid_t process = fork();
  if (process == 0) {
    started_shell(fmt::format("echo $$ > {0}$RANK.new; mv {0}$RANK.new {0}$RANK; ", pids) +
                  "exec sleep 100");
    _exit(0);
  }
  while (!std::filesystem::exists(pids + "0") || !std::filesystem::exists(pids + "1"))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  for (const char* rank : {"0", "1"}) {
    pid_t member = 0;
    std::ifstream(pids + rank) >> member;
    REQUIRE(member > 0);
    // It ends; whoever inherits it may take a while to wait for it.
    const auto lives = [&] {
      std::ifstream file(fmt::format("/proc/{}/stat", member));
      std::string number, name, state;
      return static_cast<bool>(file >> number >> name >> state) && state != "Z";
    };
    while (lives()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  setenv("TMPDIR", before.c_str(), 1);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what a process leaves is there for the one that takes its place, and for all later") {
  const TemporaryFolder folder;
  const std::string log = (folder / "log").string();
  setenv("YOTTA_TEST_NOTES", log.c_str(), 1);
  char path[4096];
  const std::string own(path, static_cast<size_t>(readlink("/proc/self/exe", path, sizeof path)));
  const LaunchResult result =
      started(1, 1,
              {"/bin/sh", "-c", "unset YOTTA_TEST_RECORD; exec \"$0\" \"$@\" > /dev/null", own,
               "-tc=a member that leaves notes"});
  CHECK((result.status == 0 && result.text.empty()));
  std::string all;
  std::getline(std::ifstream(log), all);
  CHECK(all == "1 of 1, killed once before");
}

TEST_CASE("a process that is killed again and again is not replaced for ever") {
  const LaunchResult killed = started_shell("kill -9 $$", {.most_deaths = 5});
  CHECK(killed.status == 128 + SIGKILL);
  CHECK(contains(killed.text, "was killed: Killed; 6 processes of this job have been killed"));
}
