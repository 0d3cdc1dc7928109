// ProcessRanks: run_ranks with the processes of a launch as its ranks, so that a program written
// for threads runs on a cluster unchanged.
//
//     process 0                process 1                process 2
//     main()                   main()                   main()       all run the whole program
//       run_ranks(2, body)       run_ranks(2, body)       run_ranks(2, body)
//         agree ◄────────────────►agree◄──────────────────►agree     do all call the same?
//         body(rank 0) ◄─messages─►body(rank 1)             (waits)
//         reports, errors ◄───────►...◄────────────────────►...      every process gets all of them
//       the same reports, or the same exception, in every process
//
// What a body leaves in its captures exists only in the process that ran it: a program prints on
// process 0, and uses there what rank 0 has stored, and the reports.
// If processes diverge (one calls run_ranks, another has ended with an error of its own), all that
// still call are told who has done what. A process that waits sleeps, and leaves its core to
// others.
// A rank that times out prints so on stderr at once: the rank that it waited for may never return,
// and then the errors cannot be exchanged.
//
// A report travels as bytes. An error keeps its kind (failures.hpp) and its text; of other
// exceptions the text is kept. Both sides are the same program on the same kind of machine, so
// numbers travel as they lie in memory.
//
// A derived class says how the processes find each other: mpi_ranks.hpp, socket_ranks.hpp.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/run_ranks.hpp"

namespace yotta {

class Transport;

// --- how a rank of another process has ended ---

enum class RankEnd : uint8_t { well, deadlock, mismatch, timeout, peer_failed, comm_error, other };

struct RankVerdict {
  RankEnd end = RankEnd::well;
  std::string text;  // what its exception says
};

// How a rank has ended, from what it threw (null: nothing).
RankVerdict verdict_of(const std::exception_ptr& error);
// The exception again, in another process; null if the rank ended well.
std::exception_ptr exception_of(const RankVerdict& verdict, Where where);

// A report as bytes, for another process.
std::string pack(const RankReport& report);
// The report of `rank` of `size` ranks. Errors: bytes that end too early, which no pack() has made.
RankReport unpack(std::string_view bytes, int rank, int size, Where where);

// --- the ranks ---

struct ProcessRanksOptions {
  // Puts a transport on top of this one (NCCL's); empty: no other.
  std::function<std::shared_ptr<Transport>(std::shared_ptr<Transport>)> wrap;
  std::function<void(RankContext&, int rank_on_host)> begin;  // before the body; empty: nothing
};

class ProcessRanks : public RankHost {
 public:
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(addresses_.size()); }
  int rank_on_host() const { return rank_on_host_; }
  int ranks_on_host() const { return ranks_on_host_; }
  // Has another process died, or not returned long after a time-out? Then nothing that needs it can
  // be done, and all processes end with this program: every process should print the error that
  // names it.
  bool lost() const { return lost_; }
  // The process that was lost, if one was: "rank 2 has failed: its process, 4711 on node7, ...".
  const std::string& describe_lost() const { return lost_text_; }
  // The program's end, with an error or (empty) without one: waits for the others, and returns the
  // error that each ended with. Processes that continue instead are told of it, and nothing is
  // returned.
  std::vector<std::string> end(const std::string& error);

  std::vector<RankReport> run(int n, const RankBody& body, const RunOptions& options,
                              Where where) override;

 protected:
  // `launcher` and `count_option` are for error messages: "mpirun" and "-n ".
  ProcessRanks(ProcessRanksOptions options, const char* launcher, const char* count_option);

  // This process is `rank` of those at these addresses. From here on run_ranks uses it.
  void join(int rank, std::vector<ProcessAddress> addresses);
  void leave();
  const ProcessAddress& address(int rank) const { return addresses_[static_cast<size_t>(rank)]; }
  [[noreturn]] void fail_lost(int rank);
  [[noreturn]] void fail_lost(const std::string& text);

  // all_gather calls it again and again while it waits. Errors: this rank's Timeout, if the others
  // have not come within RunOptions::timeout after it.
  void check_overdue();

  // The text of every process, by rank; waits for all. Errors: fail_lost, check_overdue.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // The transport of a world of the first n processes. All of those call it; null for a process
  // beyond them.
  virtual std::shared_ptr<Transport> make_transport(int n, const RunOptions& options) = 0;

 private:
  struct Step;
  std::vector<std::string> agree(const Step& mine);
  void run_rank(std::shared_ptr<Transport> transport, const RankBody& body,
                const RunOptions& options, RankReport& report, Where where);
  void limit_wait(const std::exception_ptr& error, const RunOptions& options);
  std::vector<RankReport> exchange(RankReport mine, int n, Where where);

  ProcessRanksOptions options_;
  const char *launcher_, *count_option_;
  std::vector<ProcessAddress> addresses_;  // by rank
  int rank_ = 0, rank_on_host_ = 0, ranks_on_host_ = 0, cores_ = 1;
  bool lost_ = false, ended_ = false;  // ended_: this process, or another
  std::string lost_text_;
  std::exception_ptr timed_out_;  // this rank, in the run that goes on
  std::chrono::steady_clock::time_point overdue_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/process_ranks.ipp"
#endif
