// Processes that are threads: what they tell each other goes through one table.
#include "yotta/comm/processes/process_ranks.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"
#include "yotta/comm/engine/engine.hpp"
#include "yotta/comm/threads/thread_transport.hpp"
#include "yotta/core/tensor.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// The kind and text of an exception, after a journey.
RankVerdict sent(std::exception_ptr error) {
  RankReport report;
  report.context = std::make_shared<RankContext>();
  report.error = std::move(error);
  return verdict_of(unpack(pack(report), 0, 1, Where::current()).error);
}

}  // namespace

TEST_CASE("a report arrives as it was: ops, traffic, memory") {
  const RankReport here = run_ranks(2, [](Communicator& world) {
    const MemoryScope parameters(MemoryKind::parameters);
    Tensor kept = Tensor::zeros({10});
    { const Tensor lost = Tensor::zeros({100}); }
    std::vector<float> x(7, 1.0f);
    world.all_reduce(x, ReduceOp::sum, {.algorithm = Algorithm::ring, .label = "gradients"});
    charge({"gelu", DType::f32, 8, 4, 2});
    charge({"gelu", DType::f32, 8, 4, 2});
  })[1];
  const RankReport there = unpack(pack(here), 1, 2, Where::current());
  CHECK(there.context->rank == 1);
  CHECK(there.context->size == 2);
  CHECK(there.error == nullptr);
  CHECK(there.ledger().op("gelu").calls == 2);
  CHECK(there.ledger().op("gelu").flops == 16);
  CHECK(there.ledger().op("gelu").bytes_read == 8);
  CHECK(there.ledger().op("gelu").bytes_written == 4);
  const Traffic some = here.ledger().traffic("gradients"),
                same = there.ledger().traffic("gradients");
  CHECK(some.bytes_sent > 0);
  CHECK(same.bytes_sent == some.bytes_sent);
  CHECK(same.messages_sent == some.messages_sent);
  CHECK(same.bytes_received == some.bytes_received);
  CHECK(same.messages_received == some.messages_received);
  CHECK(there.ledger().memory()->peak(MemoryKind::parameters) == 440);
  CHECK(there.ledger().memory()->peak() == here.ledger().memory()->peak());
  CHECK(there.ledger().memory()->live() == here.ledger().memory()->live());
}

TEST_CASE("an error keeps its kind and its words") {
  const Where where = Where::current();
  CHECK(sent(nullptr).end == RankEnd::well);
  const auto kept = [&](RankEnd end, auto error) {
    const std::string text = error.what();
    const RankVerdict arrived = sent(std::make_exception_ptr(error));
    CHECK(arrived.end == end);
    CHECK(arrived.text == text);
  };
  kept(RankEnd::deadlock, Deadlock(where, "nobody is left"));
  kept(RankEnd::mismatch, Mismatch(where, "4 and 5"));
  kept(RankEnd::timeout, Timeout(where, "too long"));
  kept(RankEnd::peer_failed, PeerFailed(where, "rank 1 has failed"));
  kept(RankEnd::comm_error, CommError(where, "dropped"));
  kept(RankEnd::other, std::runtime_error("the disk is full"));
  CHECK(sent(std::make_exception_ptr(5)).text == "it threw something that is not a std::exception");
}

TEST_CASE("a report that is cut short is refused") {
  RankReport report;
  report.context = std::make_shared<RankContext>();
  const std::string whole = pack(report);
  for (const size_t length : {size_t{0}, size_t{3}, whole.size() - 1})
    CHECK_THROWS_AS(unpack(whole.substr(0, length), 0, 1, Where::current()), Error);
}

namespace {

struct Table {
  explicit Table(int size) : texts(static_cast<size_t>(size)) {}
  std::mutex mutex;
  std::condition_variable bell;
  std::vector<std::string> texts, gathered;  // of a round that goes on, of the last that has ended
  int come = 0, round = 0;
  std::shared_ptr<ThreadWorld> world;  // of the run
  int world_round = -1;
};

class Process : public ProcessRanks {
 public:
  Process(Table& table, int rank, std::vector<ProcessAddress> addresses,
          ProcessRanksOptions options = {})
      : ProcessRanks(std::move(options), "mpirun", "-n "), table_(table) {
    join(rank, std::move(addresses));
  }
  ~Process() override { leave(); }

 private:
  std::vector<std::string> all_gather(const std::string& mine) override {
    std::unique_lock lock(table_.mutex);
    table_.texts[static_cast<size_t>(rank())] = mine;
    const int round = table_.round;
    if (++table_.come == size()) {
      table_.gathered = table_.texts;
      table_.come = 0;
      ++table_.round;
      table_.bell.notify_all();
    }
    const auto all = [&] { return table_.round != round; };
    while (!table_.bell.wait_for(lock, std::chrono::milliseconds(5), all)) check_overdue();
    return table_.gathered;
  }
  std::shared_ptr<Transport> make_transport(int n, const RunOptions& /*options*/) override {
    const std::lock_guard lock(table_.mutex);
    if (table_.world_round != table_.round) table_.world = std::make_shared<ThreadWorld>(n);
    table_.world_round = table_.round;
    if (rank() >= n) return nullptr;
    return std::make_shared<ThreadTransport>(table_.world, rank());
  }

  Table& table_;
};

ProcessAddress on(const char* host) {
  ProcessAddress address;
  std::strncpy(address.host.data(), host, address.host.size() - 1);
  return address;
}

// code(process) in `size` processes.
template <class Code>
void in_processes(int size, Code code, const ProcessRanksOptions& options = {}) {
  Table table(size);
  const std::vector<ProcessAddress> addresses(static_cast<size_t>(size), on("node7"));
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < size; ++rank)
    processes.push_back(std::make_unique<Process>(table, rank, addresses, options));
  std::vector<std::thread> threads;
  for (auto& process : processes) threads.emplace_back([&] { code(*process); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("every process has every rank's report, those beyond the run too") {
  in_processes(3, [](ProcessRanks& job) {
    for (int n = 1; n <= 3; ++n) {
      const auto reports = job.run(
          n,
          [&](Communicator& world) {
            std::vector<float> x = {1};
            world.all_reduce(x, ReduceOp::sum, {.algorithm = Algorithm::ring, .label = "x"});
            charge({"step", DType::f64, 1.0 + world.rank(), 0, 0});
          },
          {}, Where::current());
      REQUIRE(std::ssize(reports) == n);
      for (int rank = 0; rank < n; ++rank)
        CHECK(reports[static_cast<size_t>(rank)].ledger().op("step").flops == 1 + rank);
    }
  });
}

TEST_CASE("a rank that throws: the same error everywhere, and the next run is sound") {
  in_processes(3, [](ProcessRanks& job) {
    const auto run = [&](bool breaks) {
      job.run(
          3,
          [&](Communicator& world) {
            if (breaks && world.rank() == 1) fail(Where::current(), "the disk is full");
            world.barrier();
          },
          {}, Where::current());
    };
    CHECK(contains(message_of([&] { run(true); }), "rank 1 failed: process_ranks_test.cpp:"));
    CHECK_NOTHROW(run(false));
  });
}

TEST_CASE("what is refused in every process, with what to do") {
  in_processes(2, [](ProcessRanks& job) {
    const auto run = [&](int n) {
      return message_of([&] {
        job.run(
            n, [](Communicator&) {}, {}, Where::current());
      });
    };
    CHECK(contains(run(4),
                   "4 ranks are wanted, but mpirun has started 2 processes; start it with -n 4"));
    const std::string apart = run(1 + job.rank());
    CHECK(contains(apart, "the processes have diverged"));
    CHECK(contains(apart, "runs 1 ranks at process_ranks_test.cpp"));
    CHECK(contains(apart, "runs 2 ranks at process_ranks_test.cpp"));
  });
}

TEST_CASE("the end: each process hears how the others have ended; one that goes on is told") {
  in_processes(2, [](ProcessRanks& job) {
    CHECK(job.end(job.rank() == 0 ? "the disk is full" : "") ==
          std::vector<std::string>{"the disk is full", ""});
    CHECK(job.end("again").empty());
  });
  in_processes(2, [](ProcessRanks& job) {
    if (job.rank() == 1) {
      CHECK(job.end("cannot read text.txt").empty());
    } else {
      const std::string said = message_of([&] {
        job.run(
            2, [](Communicator&) {}, {}, Where::current());
      });
      CHECK(contains(said, "process 1 has ended: cannot read text.txt"));
    }
  });
}

TEST_CASE("a rank that has timed out says so at once, and does not wait for the others for ever") {
  const StderrText said;
  std::atomic<bool> gone = false;
  in_processes(2, [&](ProcessRanks& job) {
    RunOptions options;
    options.timeout = 0.05;
    const auto run = [&] {
      job.run(
          2,
          [&](Communicator& world) {
            std::vector<float> x(4);
            if (world.rank() == 0) world.recv(x, 1);
            const GiveUp late;
            while (!gone && !late) std::this_thread::yield();
          },
          options, Where::current());
    };
    if (job.rank() == 1) {
      CHECK_THROWS_AS(run(), Timeout);  // it has rank 0's report
      CHECK_FALSE(job.lost());
    } else {
      CHECK_THROWS_AS(run(), Timeout);
      CHECK(job.lost());
      CHECK(job.end("a time-out").empty());
      CHECK_FALSE(gone.exchange(true));
    }
  });
  CHECK(contains(said.get(), "rank 0 has waited for more than 0.05 s in recv of 4 f32"));
  CHECK(contains(said.get(), "process 0 waits 0.05 s more for the others to return"));
}

TEST_CASE("ranks of a host are counted by its name") {
  Table table(4);
  const std::vector<ProcessAddress> hosts = {on("a"), on("b"), on("a"), on("b")};
  {
    const Process job(table, 3, hosts);
    CHECK(job.rank_on_host() == 1);
    CHECK(job.ranks_on_host() == 2);
    CHECK(job.size() == 4);
    CHECK(rank_host() == &job);
    CHECK_FALSE(job.lost());
  }
  CHECK(rank_host() == nullptr);
}

TEST_CASE("a transport on top, and what begins before the body") {
  std::atomic<int> wrapped = 0;
  ProcessRanksOptions options;
  options.wrap = [&](std::shared_ptr<Transport> inner) { return ++wrapped, inner; };
  options.begin = [](RankContext& self, int rank_on_host) {
    CHECK(self.rank == rank_on_host);
    fail(Where::current(), "rank {} has no GPU", rank_on_host);
  };
  in_processes(
      2,
      [](ProcessRanks& job) {
        const auto run = [&] {
          job.run(
              2, [](Communicator&) {}, {}, Where::current());
        };
        CHECK(contains(message_of(run), "rank 0 has no GPU"));
      },
      options);
  CHECK(wrapped == 2);
}
