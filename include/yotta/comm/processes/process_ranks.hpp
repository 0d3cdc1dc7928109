// ProcessRanks: run_ranks with the processes of a job as its ranks, so that a program written for threads runs on a
// cluster unchanged.
//
//     process 0                    process 1                    process 2
//     main()                       main()                       main()         all run the whole program
//       run_ranks(2, body)           run_ranks(2, body)           run_ranks(2, body)
//         meet ◄──────────────────────►meet◄───────────────────────►meet       do all call the same?
//         body(rank 0) ◄──messages────►body(rank 1)                 (waits)
//         reports, errors ◄───────────►...◄────────────────────────►...        everybody has everybody's
//       the same reports, or the same exception, in every process
//
// What a body leaves in its captures is only in the process that ran it: a program prints on process 0, and uses there
// what rank 0 has stored, and the reports.
// If processes part (one calls run_ranks, another has ended with an error of its own), all that still call are told who
// has done what. While a process waits it sleeps, and leaves its core to others.
// A rank that times out says so on stderr at once: the one that it waited for may never come back, and the errors with it.
//
// How the processes find each other is a derived class's matter: mpi_ranks.hpp, tcp_ranks.hpp.
#pragma once

#include "yotta/comm/processes/process_watch.hpp"
#include "yotta/comm/processes/rank_message.hpp"

namespace yotta {

struct ProcessRanksOptions {
  // For a transport on top of this one (NCCL's); empty: as it is.
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
  // Has another process died, or not come back long after a time-out? Then nothing that needs it can be done, and the
  // job ends with this program: the error that names it should be printed by every process.
  bool lost() const { return lost_; }
  // The program's end, with an error or (empty) without one: waits for the others, and returns the error that each ended
  // with. Those that go on instead are told of it, and nothing is returned.
  std::vector<std::string> end(const std::string& error) {
    if (std::exchange(ended_, true) || timed_out_) return {};
    try {
      return meet({0, error});
    } catch (const std::exception&) {
      return {};
    }
  }

  std::vector<RankReport> run(int n, const RankBody& body, const RunOptions& options,
                              Where where) override {
    meet({n, at(where)});
    if (n > size())
      fail(where,
           "{} ranks are wanted, but {} has started {} processes; start it with {}{}, or ask for "
           "fewer ranks",
           n, starter_, size(), count_option_, n);
    RankReport mine;
    const std::shared_ptr<Transport> transport = make_transport(n, options);
    if (transport != nullptr) run_rank(transport, body, options, mine, where);
    if (verdict_of(mine.error).end == RankEnd::timeout) expect_soon(mine.error, options);
    const std::vector<RankReport> reports = exchange(std::move(mine), n, where);
    timed_out_ = nullptr;
    detail::rethrow_root_cause(reports, first_cause(reports), where);
    return reports;
  }

 protected:
  // `starter` and `count_option`: for messages to people, "mpirun" and "-n ".
  ProcessRanks(ProcessRanksOptions options, const char* starter, const char* count_option)
      : options_(std::move(options)), starter_(starter), count_option_(count_option) {}

  // This process is `rank` of those at these addresses. From here on run_ranks uses it.
  void join(int rank, std::vector<ProcessAddress> addresses) {
    rank_ = rank;
    addresses_ = std::move(addresses);
    for (int other = 0; other < size(); ++other) {
      const bool here = address(other).host == address(rank).host;
      ranks_on_host_ += here ? 1 : 0;
      rank_on_host_ += here && other < rank ? 1 : 0;
    }
    cores_ = detail::default_threads(ranks_on_host_);
    rank_host() = this;
  }
  void leave() { rank_host() = nullptr; }
  const ProcessAddress& address(int rank) const { return addresses_[static_cast<size_t>(rank)]; }
  [[noreturn]] void fail_lost(int rank) {
    lost_ = true;
    throw PeerFailed(Where::current(), describe_end(rank, address(rank)));
  }

  // For all_gather, again and again while it waits. Errors: this rank's Timeout, if the others have not come within
  // RunOptions::timeout after it.
  void check_overdue() {
    if (!timed_out_ || std::chrono::steady_clock::now() < overdue_) return;
    lost_ = true;
    std::rethrow_exception(timed_out_);
  }

  // Everybody's text, by rank; waits for all. Errors: fail_lost, check_overdue.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // The transport of a world of the first n processes, all of which call it; null for a process beyond them.
  virtual std::shared_ptr<Transport> make_transport(int n, const RunOptions& options) = 0;

 private:
  // What a process is about to do; all must be about to do the same.
  struct Step {
    int n;             // ranks of a run; 0: the program's end
    std::string text;  // where it runs them; the error it ends with, or nothing

    std::string words() const {
      if (n > 0) return fmt::format("runs {} ranks at {}", n, text);
      return text.empty() ? "has ended" : "has ended: " + text;
    }
  };

  // This process's rank of the run.
  void run_rank(std::shared_ptr<Transport> transport, const RankBody& body,
                const RunOptions& options, RankReport& report, Where where) {
    if (options_.wrap) transport = options_.wrap(transport);
    report.context = std::make_shared<RankContext>();
    report.context->rank = transport->rank();
    report.context->size = transport->size();
    report.context->threads = options.threads > 0 ? options.threads : cores_;
    const ContextScope scope(*report.context);
    auto group = std::make_shared<Group>();
    group->engine = std::make_shared<Engine>(transport, options);
    group->rank = transport->rank();
    for (int rank = 0; rank < transport->size(); ++rank) group->members.push_back(rank);
    report.engine = group->engine;
    Communicator world(group);
    const auto guarded = [&](auto&& code) {
      try {
        code();
      } catch (...) {
        if (!report.error) report.error = std::current_exception();
        transport->fail(verdict_of(report.error).text);
      }
    };
    guarded([&] {
      if (options_.begin) options_.begin(*report.context, rank_on_host_);
      body(world);
    });
    guarded([&] {
      group->engine->end(where);
      if (!report.error) transport->end(where);
    });
  }

  // This rank has timed out.
  void expect_soon(const std::exception_ptr& error, const RunOptions& options) {
    fmt::print(stderr, "{}\nprocess {} waits {} s more for the others to return\n",
               verdict_of(error).text, rank_, options.timeout);
    timed_out_ = error;
    overdue_ = std::chrono::steady_clock::now() +
               std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   std::chrono::duration<double>(std::min(options.timeout, 1e9)));
  }

  // Everybody's reports, by rank. Until this has ended the others may still take what was sent.
  std::vector<RankReport> exchange(RankReport mine, int n, Where where) {
    const std::vector<std::string> all = all_gather(rank_ < n ? pack(mine) : "");
    std::vector<RankReport> reports;
    for (int rank = 0; rank < n; ++rank)
      reports.push_back(rank == rank_ ? std::move(mine)
                                      : unpack(all[static_cast<size_t>(rank)], rank, n, where));
    return reports;
  }

  // The lowest rank that failed of itself, not because another did; -1: none.
  static int first_cause(const std::vector<RankReport>& reports) {
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      const RankEnd end = verdict_of(reports[rank].error).end;
      if (end != RankEnd::well && end != RankEnd::peer_failed) return static_cast<int>(rank);
    }
    return -1;
  }

  // Waits until all processes are about to take a step, and compares the steps. Returns their texts.
  std::vector<std::string> meet(const Step& mine) {
    MessageWriter card;
    card.put(mine.n);
    card.put(mine.text);
    std::vector<Step> steps;
    std::vector<std::string> texts;
    for (const std::string& other : all_gather(card.bytes())) {
      MessageReader reader(other);
      const int n = reader.take<int>();
      steps.push_back({n, reader.take_text()});
      texts.push_back(steps.back().text);
      ended_ = ended_ || n == 0;
    }
    for (size_t rank = 0; rank < steps.size(); ++rank)
      if (steps[rank].n != mine.n)
        fail(Where::current(), "the processes have parted: process {} {}, process {} {}", rank_,
             mine.words(), rank, steps[rank].words());
    return texts;
  }

  ProcessRanksOptions options_;
  const char *starter_, *count_option_;
  std::vector<ProcessAddress> addresses_;  // by rank
  int rank_ = 0, rank_on_host_ = 0, ranks_on_host_ = 0, cores_ = 1;
  bool lost_ = false, ended_ = false;  // ended_: this process, or another
  std::exception_ptr timed_out_;       // this rank, in the run that goes on
  std::chrono::steady_clock::time_point overdue_;
};

}  // namespace yotta
