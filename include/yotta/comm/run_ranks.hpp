// run_ranks: n ranks, each with its own context, and one function that all of them run. Ranks are threads;
// under mpirun they can be processes (mpi_ranks.hpp).
//
//     run_ranks(4, [](Communicator& world) {
//       std::vector<float> x = {float(world.rank())};
//       world.all_reduce(x);                           // 6 on every rank
//     });
//
// Returns when all ranks have. If one throws, the others' communication throws PeerFailed, and run_ranks
// throws the root cause: Deadlock, Mismatch and Timeout as they are (their text names the ranks), any
// other std::exception as a RankFailed that says which rank, and what is no std::exception unchanged.
// Until all have returned nobody would hear of a Timeout, if a rank never does; so stderr says who is still awaited.
#pragma once

#include <fmt/ranges.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/threads/threads.hpp"

namespace yotta {

struct RunOptions : EngineOptions {
  int threads = 0;                           // a rank may compute with; 0: max(1, cores / ranks)
  std::function<CostSink*(int rank)> clock;  // null: no virtual clock
};

struct Trace;

// Sees the runs of this process: a program's --cluster and --timeline (recording/recorder.hpp).
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual CostSink* clock(int rank) = 0;  // for a run without one; rank 0 asks first
  virtual void ended() = 0;               // all ranks of that run have
  // A run that had a machine of its own (run_on.hpp).
  virtual void timed(const Trace& trace, const std::string& machine) = 0;
};
// Who sees the runs of this process; null: nobody.
inline RunObserver*& run_observer() {
  static RunObserver* observer = nullptr;
  return observer;
}

// What every rank runs.
using RankBody = std::function<void(Communicator&)>;

// What is left of a rank when it has ended.
struct RankReport {
  std::shared_ptr<RankContext> context;  // with its ledger
  std::shared_ptr<Engine> engine;        // keeps sent messages until all ranks have ended
  std::exception_ptr error;

  const Ledger& ledger() const { return context->ledger; }
};

// Runs ranks elsewhere than on threads of this process: as the processes of an MPI job (mpi_ranks.hpp).
class RankHost {
 public:
  virtual ~RankHost() = default;
  // As run_ranks; all processes of the job call it.
  virtual std::vector<RankReport> run(int n, const RankBody& body, const RunOptions& options,
                                      Where where) = 0;
};
// Who runs the ranks of this process's runs; null: threads. A run on a clock stays on threads.
inline RankHost*& rank_host() {
  static RankHost* host = nullptr;
  return host;
}

namespace detail {
inline int default_threads(int ranks) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

// Rethrows the root cause: the error of the rank that failed first, or else of the lowest that did.
inline void rethrow_root_cause(const std::vector<RankReport>& reports, int first, Where where) {
  int rank = first;
  if (rank < 0 || !reports[static_cast<size_t>(rank)].error) {
    rank = 0;
    while (rank < std::ssize(reports) && !reports[static_cast<size_t>(rank)].error) ++rank;
  }
  if (rank == std::ssize(reports)) return;
  const std::exception_ptr cause = reports[static_cast<size_t>(rank)].error;
  try {
    std::rethrow_exception(cause);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw RankFailed(where, rank, error.what(), cause);
  }
}

// The ranks of a run that have not ended.
class Awaited {
 public:
  explicit Awaited(int n) {
    for (int rank = 0; rank < n; ++rank) ranks_.insert(ranks_.end(), rank);
  }
  void ended(int rank, const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    ranks_.erase(rank);
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Timeout& timeout) {
      timeout_ = timeout.what();
    } catch (...) {
    }
    bell_.notify_all();
  }
  // Until all have. If one has timed out, and others are still not back a second later, says so.
  void wait() {
    std::unique_lock lock(mutex_);
    const auto all = [&] { return ranks_.empty(); };
    bell_.wait(lock, [&] { return all() || !timeout_.empty(); });
    if (bell_.wait_for(lock, std::chrono::seconds(1), all)) return;
    fmt::print(stderr, "{}\nrun_ranks waits until all ranks have returned; not yet: {}\n", timeout_,
               fmt::join(ranks_, " "));
    bell_.wait(lock, all);
  }

 private:
  std::mutex mutex_;
  std::condition_variable bell_;
  std::set<int> ranks_;
  std::string timeout_;  // what the last that has timed out says
};

// One rank, on its own thread; `transport` is its end of the world, or built upon it.
inline void run_rank(int rank, const std::shared_ptr<ThreadWorld>& world,
                     const std::shared_ptr<Transport>& transport, const RankBody& body,
                     const RunOptions& options, RankReport& report, Where where) {
  const ContextScope scope(*report.context);
  auto group = std::make_shared<Group>();
  group->engine = std::make_shared<Engine>(transport, options);
  group->rank = rank;
  for (int r = 0; r < world->size(); ++r) group->members.push_back(r);
  report.engine = group->engine;
  Communicator communicator(group);
  const auto guarded = [&](const std::function<void()>& code) {
    try {
      code();
    } catch (const std::exception& error) {
      transport->fail(error.what());
      if (!report.error) report.error = std::current_exception();
    } catch (...) {
      transport->fail("it threw something that is no std::exception");
      if (!report.error) report.error = std::current_exception();
    }
  };
  guarded([&] { body(communicator); });
  guarded([&] {
    group->engine->end(where);
    if (!report.error) transport->end(where);
  });
  world->returned(rank);
}
}  // namespace detail

// body(world) on n ranks: threads, or processes where a RankHost is set. Returns each rank's report, by rank.
inline std::vector<RankReport> run_ranks(int n, const RankBody& body,
                                         const RunOptions& options = {},
                                         Where where = Where::current()) {
  if (n < 1) fail(where, "run_ranks needs at least one rank, not {}", n);
  RunObserver* const observer = options.clock ? nullptr : run_observer();
  if (rank_host() != nullptr && !options.clock && observer == nullptr)
    return rank_host()->run(n, body, options, where);
  auto world = std::make_shared<ThreadWorld>(n);
  std::vector<RankReport> reports(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    RankReport& report = reports[static_cast<size_t>(rank)];
    report.context = std::make_shared<RankContext>();
    report.context->rank = rank;
    report.context->size = n;
    report.context->threads = options.threads > 0 ? options.threads : detail::default_threads(n);
    if (options.clock) report.context->clock = options.clock(rank);
    if (observer != nullptr) report.context->clock = observer->clock(rank);
  }
  detail::Awaited awaited(n);
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      RankReport& report = reports[static_cast<size_t>(rank)];
      detail::run_rank(rank, world, std::make_shared<ThreadTransport>(world, rank), body, options,
                       report, where);
      awaited.ended(rank, report.error);
    });
  awaited.wait();
  for (std::thread& thread : threads) thread.join();
  if (observer != nullptr) {
    observer->ended();
    for (const RankReport& report : reports) report.context->clock = nullptr;
  }
  detail::rethrow_root_cause(reports, world->first_failed(), where);
  const std::string unreceived = world->find_unreceived();
  if (!unreceived.empty() && !world->failed()) throw CommError(where, unreceived);
  return reports;
}

}  // namespace yotta
