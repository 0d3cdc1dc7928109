// The bodies of run_ranks.hpp: one thread per rank, and who is told what when one fails.
#pragma once

#include "yotta/comm/run_ranks.hpp"

#include <fmt/ranges.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "yotta/comm/engine/engine.hpp"
#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/comm/threads/thread_transport.hpp"
#include "yotta/core/options.hpp"

namespace yotta {

YOTTA_INLINE RunObserver*& run_observer() {
  static RunObserver* observer = nullptr;
  return observer;
}
YOTTA_INLINE RankHost*& rank_host() {
  static RankHost* host = nullptr;
  return host;
}

namespace detail {
YOTTA_THREAD_LOCAL bool inside_rank = false;
YOTTA_INLINE bool& is_inside_rank() { return inside_rank; }

YOTTA_INLINE int default_threads(int ranks) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

YOTTA_INLINE void rethrow_root_cause(const std::vector<RankReport>& reports, int first,
                                     Where where) {
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

// mpirun or srun has started this program several times, and its ranks are threads all the same:
// the first process says once what makes the processes ranks.
inline void tell_of_launcher() {
  static std::once_flag told;
  std::call_once(told, [] {
    const std::optional<LaunchEnvironment> launch = find_launch_environment();
    if (!launch || launch->size == 1 || launch->rank != 0) return;
    fmt::print(stderr,
               "{} has started this program {} times, and the ranks of each are its own threads. "
               "`MpiRanks processes;` at the start of main makes the {} processes the ranks "
               "(docs/using.md, \"Ranks that are processes\")\n",
               launch->launcher, launch->size, launch->size);
  });
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
  // Waits until all have ended. If one has timed out, and others have not returned a second later,
  // prints that.
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

YOTTA_INLINE void run_rank(int rank, const std::shared_ptr<ThreadWorld>& world,
                           const std::shared_ptr<Transport>& transport, const RankBody& body,
                           const RunOptions& options, RankReport& report, Where where) {
  const ContextScope scope(*report.context);
  const InsideRank inside;
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
      transport->fail("it threw something that is not a std::exception");
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

YOTTA_INLINE std::vector<RankReport> run_ranks(int n, const RankBody& body,
                                               const RunOptions& options, Where where) {
  if (n < 1) fail(where, "run_ranks needs at least one rank, not {}", n);
  check_option(where, "RunOptions::threads", options, &RunOptions::threads, zero_or_more);
  check_option(where, "RunOptions::timeout", options, &RunOptions::timeout, above_zero_or_endless);
  const bool nested = detail::is_inside_rank();
  RunObserver* const observer = options.clock || nested ? nullptr : run_observer();
  if (rank_host() != nullptr && !options.clock && !nested && observer == nullptr)
    return rank_host()->run(n, body, options, where);
  if (rank_host() == nullptr && !nested) detail::tell_of_launcher();
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
