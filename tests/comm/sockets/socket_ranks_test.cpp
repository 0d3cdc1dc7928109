// run_ranks on processes without MPI: they are forked here. What every transport must do is tested
// on such processes by test_every_transport_processes.
#include "yotta/comm/sockets/socket_ranks.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>

#include "comm/local_sockets.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// n processes that run code(self), each as a rank of one job.
class Processes {
 public:
  template <class Code>
  Processes(int n, Code code) {
    std::vector<SocketPeers> all = socket_peers(n);
    for (int rank = 0; rank < n; ++rank) {
      processes_.push_back(fork());
      if (processes_.back() != 0) continue;
      SocketPeers self = std::move(all[static_cast<size_t>(rank)]);
      all.clear();  // the ends of the others are theirs
      std::string said;
      try {
        said = code(std::move(self));
      } catch (const std::exception& error) {
        said = error.what();
      }
      std::ofstream(file_of(rank)) << said;
      _exit(0);
    }
  }
  // Waits. Returns what code has returned, by rank; "killed" for one that was killed.
  std::vector<std::string> said() {
    std::vector<std::string> all;
    for (const pid_t each : processes_) {
      int status = 0;
      waitpid(each, &status, 0);
      std::ifstream file(file_of(static_cast<int>(all.size())));
      all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      if (WIFSIGNALED(status)) all.back() = "killed";
    }
    return all;
  }

 private:
  std::string file_of(int rank) const { return (folder_ / std::to_string(rank)).string(); }
  TemporaryFolder folder_;
  std::vector<pid_t> processes_;
};
template <class Code>
std::vector<std::string> in_processes(int n, Code code) {
  return Processes(n, code).said();
}

// run_ranks with one thread per rank: a forked process has none of its parent's threads.
template <class Body>
std::vector<RankReport> run(int n, Body body, RunOptions options = {}) {
  options.threads = 1;
  return run_ranks(n, body, options);
}

enum class Mishap { none, dies, throws };

// A run in which one rank fails at a step.
void steps(Communicator& world, Mishap mishap, int unlucky, int step) {
  const auto strike = [&](int now) {
    if (world.rank() != unlucky || now != step) return;
    if (mishap == Mishap::dies) kill(getpid(), SIGKILL);
    if (mishap == Mishap::throws) fail(Where::current(), "the disk is full at step {}", now);
  };
  const int p = world.size(), next = (world.rank() + 1) % p, previous = (world.rank() + p - 1) % p;
  std::vector<float> x(100000, 1), y(x);
  strike(0);  // before anything
  world.send_recv(x, next, y, previous);
  strike(1);
  world.all_reduce(x);
  Work work = world.all_reduce_async(x);
  strike(2);  // in flight
  work.wait();
  Communicator pair = world.split(world.rank() == 0 ? 1 : 0, 0);
  strike(3);
  pair.all_reduce(x);
  world.barrier();
  strike(4);  // before the end
}

std::unique_ptr<Processes> start_with(Mishap mishap, int unlucky, int step) {
  return std::make_unique<Processes>(3, [=](SocketPeers self) {
    SocketRanks job(std::move(self));
    return message_of([&] {
      run(3, [&](Communicator& world) { steps(world, mishap, unlucky, step); });
      // The next run is as whole as the first.
      run(3, [](Communicator& world) { steps(world, Mishap::none, 0, 0); });
    });
  });
}
// What the ranks of five jobs at once say: in job i a rank fails at step i.
std::vector<std::vector<std::string>> run_five_with(Mishap mishap) {
  std::vector<std::unique_ptr<Processes>> jobs;
  for (int step = 0; step < 5; ++step) jobs.push_back(start_with(mishap, step % 3, step));
  std::vector<std::vector<std::string>> said;
  for (const auto& each : jobs) said.push_back(each->said());
  return said;
}

}  // namespace

TEST_CASE(
    "ranks are processes; every process has every rank's report, fewer ranks than processes too") {
  const auto said = in_processes(3, [](SocketPeers self) {
    std::string ledgers;
    SocketRanks job(std::move(self));
    for (int n = 1; n <= 3; ++n) {
      const auto reports = run(n, [&](Communicator& world) {
        std::vector<double> x = {1.0 + world.rank()};
        world.all_reduce(x);
        charge({"sum", DType::f64, x[0], 0, 0});
      });
      for (const RankReport& report : reports)
        ledgers += fmt::format("{:g} ", report.ledger().op("sum").flops);
    }
    if (rank_host() != &job || job.size() != 3 || job.ranks_on_host() != 3) return std::string("?");
    return ledgers;
  });
  CHECK(said == std::vector<std::string>(3, "1 3 3 6 6 6 "));
}

TEST_CASE("without a mishap all ends well") {
  CHECK(start_with(Mishap::none, 0, 0)->said() ==
        std::vector<std::string>(3, "nothing was thrown"));
}

TEST_CASE("a process that is killed at any step is named by all others") {
  const auto all = run_five_with(Mishap::dies);
  for (int step = 0; step <= 4; ++step) {
    const int unlucky = step % 3;
    const std::vector<std::string>& said = all[static_cast<size_t>(step)];
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& text = said[static_cast<size_t>(rank)];
      CAPTURE(text);
      if (rank == unlucky)
        CHECK(text == "killed");
      else
        CHECK(contains(text, fmt::format("rank {} has failed: its process, ", unlucky)));
    }
  }
}

TEST_CASE("a rank that throws at any step ends the run with its message, in every process") {
  const auto all = run_five_with(Mishap::throws);
  for (int step = 0; step <= 4; ++step)
    for (const std::string& text : all[static_cast<size_t>(step)]) {
      CAPTURE(text);
      CHECK(contains(text, fmt::format("rank {} failed: socket_ranks_test.cpp:", step % 3)));
      CHECK(contains(text, fmt::format("the disk is full at step {}", step)));
    }
}

TEST_CASE("a process that ends without a word between runs is named") {
  const auto said = in_processes(3, [](SocketPeers self) {
    SocketRanks job(std::move(self));
    run(3, [](Communicator& world) { world.barrier(); });
    if (job.rank() == 2) _exit(0);
    return message_of([&] { run(3, [](Communicator& world) { world.barrier(); }); });
  });
  for (const size_t rank : {size_t{0}, size_t{1}})
    CHECK(contains(said[rank], "rank 2 has failed: its process, "));
}

TEST_CASE("the end: each process hears what the others have ended with") {
  const auto said = in_processes(2, [](SocketPeers self) {
    SocketRanks job(std::move(self));
    const auto all = job.end(job.rank() == 1 ? "the disk is full" : "");
    return all.size() == 2 ? all[0] + "|" + all[1] : "?";
  });
  CHECK(said == std::vector<std::string>(2, "|the disk is full"));
}

TEST_CASE("a process that is lost at the very end is named too") {
  const auto said = in_processes(2, [](SocketPeers self) {
    SocketRanks job(std::move(self));
    run(2, [](Communicator& world) { world.barrier(); });
    if (job.rank() == 1) kill(getpid(), SIGKILL);
    const bool nothing = job.end("").empty();
    return nothing && job.lost() ? job.describe_lost() : "?";
  });
  CHECK(contains(said[0], "rank 1 has failed: its process, "));
}

TEST_CASE("sends that are not buffered, and more ranks than processes") {
  const auto said = in_processes(2, [](SocketPeers self) {
    SocketRanksOptions options;
    options.sockets.patience = 0.05;
    SocketRanks job(std::move(self), options);
    RunOptions unbuffered;
    unbuffered.buffered_sends = false;
    const std::string deadlock = message_of([&] {
      run(
          2, [](Communicator& world) { world.send(std::vector<float>(2), 1 - world.rank()); },
          unbuffered);
    });
    return deadlock + message_of([] { run(3, [](Communicator&) {}); });
  });
  for (const std::string& text : said) {
    CAPTURE(text);
    CHECK(contains(text, "deadlock: rank 0 waits for 1 waits for 0"));
    CHECK(contains(text, "but --comm processes has started 2 processes; start it with --ranks 3"));
  }
}

TEST_CASE("options of ranks on sockets that cannot be are refused") {
  const auto ranks = [](SocketRanksOptions options) {
    return [=] { SocketRanks(SocketPeers{}, options); };
  };
  check_refused({
      {"SocketOptions::eager_bytes is -2, expected -1 or more; by default it is 65536",
       ranks({.sockets = {.eager_bytes = -2}})},
      {"SocketOptions::patience is nan", ranks({.sockets = {.patience = NAN}})},
      {"LinkSpeed::bytes_per_second is -1", ranks({.link = {.bytes_per_second = -1}})},
      {"LinkSpeed::latency is nan", ranks({.link = {.latency = NAN}})},
  });
}

TEST_CASE("a process that nothing has started is told so") {
  CHECK(contains(message_of([] { SocketRanks job; }), "this process is no rank"));
}
