// run_ranks: n ranks, each with its own context, and one function that all of them run. Ranks are
// threads; with `MpiRanks processes;` before it they are the processes that mpirun has started
// (mpi/mpi_ranks.hpp). A program under mpirun without that line says so.
//
//     run_ranks(4, [](Communicator& world) {
//       std::vector<float> x = {float(world.rank())};
//       world.all_reduce(x);                           // 6 on every rank
//     });
//
// Returns when all ranks have returned. If one throws, the others' communication throws PeerFailed,
// and run_ranks throws the root cause: Deadlock, Mismatch and Timeout as they are (their text names
// the ranks), any other std::exception as a RankFailed that says which rank, and anything else
// unchanged. If a rank never returns, neither does run_ranks, and nobody would see the errors of
// the others; so stderr says which ranks are still awaited.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/comm/engine/engine_options.hpp"

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
  virtual void ended() = 0;               // all ranks of that run have ended
  // A run that had a machine of its own (run_on.hpp).
  virtual void timed(const Trace& trace, const std::string& machine) = 0;
};
// The observer of this process's runs, or null. It does not see runs that a rank's code starts.
RunObserver*& run_observer();

// What every rank runs.
using RankBody = std::function<void(Communicator&)>;

// What remains of a rank after it has ended.
struct RankReport {
  std::shared_ptr<RankContext> context;  // with its ledger
  std::shared_ptr<Engine> engine;        // keeps sent messages until all ranks have ended
  std::exception_ptr error;

  const Ledger& ledger() const { return context->ledger; }
};

// Runs ranks elsewhere than on threads of this process: as the processes of an MPI job
// (mpi/mpi_ranks.hpp).
class RankHost {
 public:
  virtual ~RankHost() = default;
  // As run_ranks; all processes of the job call it.
  virtual std::vector<RankReport> run(int n, const RankBody& body, const RunOptions& options,
                                      Where where) = 0;
};
// Who runs the ranks of this process's runs; null: threads. A run on a clock stays on threads.
RankHost*& rank_host();

// body(world) on n ranks: threads, or processes where a RankHost is set. Returns each rank's
// report, by rank.
std::vector<RankReport> run_ranks(int n, const RankBody& body, const RunOptions& options = {},
                                  Where where = Where::current());

// What every RankHost needs, and every test of a transport.
class ThreadWorld;
class Transport;

namespace detail {
// Does a rank's code run on this thread? True for as long as an InsideRank lives.
bool& is_inside_rank();
class InsideRank {
 public:
  InsideRank() : before_(std::exchange(is_inside_rank(), true)) {}
  ~InsideRank() { is_inside_rank() = before_; }
  InsideRank(const InsideRank&) = delete;
  InsideRank& operator=(const InsideRank&) = delete;

 private:
  bool before_;
};
// How many threads a rank may compute with if n ranks share this computer.
int default_threads(int ranks);
// Rethrows the root cause: the error of the rank that failed first, or else of the lowest that did.
void rethrow_root_cause(const std::vector<RankReport>& reports, int first, Where where);
// Runs one rank on its own thread. `transport` is that of a rank of the world, or built upon it.
void run_rank(int rank, const std::shared_ptr<ThreadWorld>& world,
              const std::shared_ptr<Transport>& transport, const RankBody& body,
              const RunOptions& options, RankReport& report, Where where);
}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/run_ranks.ipp"
#endif
