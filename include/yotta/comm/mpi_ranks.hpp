// MpiRanks: run_ranks with the processes of an MPI job as its ranks, so that a program written for threads
// runs on a cluster unchanged.
//
//     process 0                    process 1                    process 2
//     main()                       main()                       main()         all run the whole program
//       run_ranks(2, body)           run_ranks(2, body)           run_ranks(2, body)
//         meet ◄──────────────────────►meet◄───────────────────────►meet       do all call the same?
//         body(rank 0) ◄──messages────►body(rank 1)                 (waits)
//         reports, errors ◄───────────►...◄────────────────────────►...        everybody has everybody's
//       the same reports, or the same exception, in every process
//
// What a body leaves in its captures is only in the process that ran it: a program prints on process 0, and
// uses there what rank 0 has stored, and the reports.
//
//     int main() {
//       MpiRanks ranks;                  MPI is started; from here on run_ranks uses it
//       run_ranks(ranks.size(), [](Communicator& world) { ... });
//     }                                  waits for the others, and ends MPI
//
// If processes part (one calls run_ranks, another has ended with an error of its own), all that still call
// are told who has done what. While a process waits it sleeps, and leaves its core to others.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include "yotta/comm/mpi.hpp"
#include "yotta/comm/processes.hpp"
#include "yotta/comm/rank_message.hpp"

namespace yotta {

// "Open MPI v4.1.4"
inline std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string whole(text, static_cast<size_t>(length));
  std::replace(whole.begin(), whole.end(), '\t', ' ');
  return whole.substr(0, whole.find_first_of(",\n"));
}

// For transports on top of MPI's (NCCL's).
struct MpiRanksOptions {
  std::function<std::shared_ptr<Transport>(std::shared_ptr<Transport>)> wrap;  // empty: as it is
  std::function<void(RankContext&, int rank_on_host)> begin;  // before the body; empty: nothing
  MpiOptions mpi = {};
};

class MpiRanks : public RankHost {
 public:
  // Errors: MPI cannot be started for threads; mpirun is another MPI's than this program's.
  explicit MpiRanks(MpiRanksOptions options = {}, Where where = Where::current())
      : options_(std::move(options)) {
    int started = 0, level = 0;
    MPI_Initialized(&started);
    if (started == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    ends_mpi_ = started == 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &all_);
    MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(all_, &rank_);
    MPI_Comm_size(all_, &size_);
    find_host();
    watch_processes();
    expect_own_mpirun(where);
    rank_host() = this;
  }
  ~MpiRanks() override {
    rank_host() = nullptr;
    if (lost_) end_without_the_dead();
    end("");
    MPI_Comm_free(&all_);
    if (ends_mpi_) MPI_Finalize();
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int rank_on_host() const { return rank_on_host_; }
  int ranks_on_host() const { return ranks_on_host_; }
  // Has another process died? Then nothing that needs it can be done, and the job ends with this program: the error
  // that names it should be printed by every process.
  bool lost() const { return lost_; }
  // The program's end, with an error or (empty) without one: waits for the others, and returns the error that
  // each ended with. Those that go on instead are told of it, and nothing is returned.
  std::vector<std::string> end(const std::string& error) {
    if (std::exchange(ended_, true)) return {};
    try {
      return meet({0, error});
    } catch (const std::exception&) {
      return {};
    }
  }

  std::vector<RankReport> run(int n, const std::function<void(Communicator&)>& body,
                              const RunOptions& options, Where where) override {
    meet({n, at(where)});
    if (n > size_)
      fail(where,
           "{} ranks are wanted, but mpirun has started {} processes; start it with -n {}, or ask "
           "for fewer ranks",
           n, size_, n);
    MPI_Comm ranks = all_;
    if (n < size_)
      expect_mpi(MPI_Comm_split(all_, rank_ < n ? 0 : MPI_UNDEFINED, rank_, &ranks),
                 "MPI_Comm_split", where);
    RankReport mine;
    if (ranks != MPI_COMM_NULL) run_rank(ranks, body, options, mine, where);
    const std::vector<RankReport> reports = exchange(std::move(mine), n, where);
    if (ranks != MPI_COMM_NULL && ranks != all_) MPI_Comm_free(&ranks);
    detail::rethrow_root_cause(reports, first_cause(reports), where);
    return reports;
  }

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
  void run_rank(MPI_Comm ranks, const std::function<void(Communicator&)>& body,
                const RunOptions& options, RankReport& report, Where where) {
    std::shared_ptr<Transport> transport = std::make_shared<MpiTransport>(ranks, options_.mpi);
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

  // Everybody's reports, by rank. Until this has ended the others may still take what was sent.
  std::vector<RankReport> exchange(RankReport mine, int n, Where where) {
    const std::string message = rank_ < n ? pack(mine) : "";
    const int length = static_cast<int>(message.size());
    std::vector<int> lengths(static_cast<size_t>(size_)), begins(lengths);
    wait_for([&](MPI_Request* done) {
      return MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, all_, done);
    });
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    std::string all(static_cast<size_t>(begins.back() + lengths.back()), ' ');
    wait_for([&](MPI_Request* done) {
      return MPI_Iallgatherv(message.data(), length, MPI_CHAR, all.data(), lengths.data(),
                             begins.data(), MPI_CHAR, all_, done);
    });
    std::vector<RankReport> reports;
    for (int rank = 0; rank < n; ++rank) {
      const auto r = static_cast<size_t>(rank);
      const std::string_view text = std::string_view(all).substr(static_cast<size_t>(begins[r]),
                                                                 static_cast<size_t>(lengths[r]));
      reports.push_back(rank == rank_ ? std::move(mine) : unpack(text, rank, n, where));
    }
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
    struct Card {
      int n;
      char text[1020];
    };
    Card card{mine.n, {}};
    mine.text.copy(card.text, sizeof card.text - 1);
    std::vector<Card> cards(static_cast<size_t>(size_));
    wait_for([&](MPI_Request* done) {
      return MPI_Iallgather(&card, sizeof card, MPI_CHAR, cards.data(), sizeof card, MPI_CHAR, all_,
                            done);
    });
    std::vector<std::string> texts;
    for (const Card& other : cards) {
      ended_ = ended_ || other.n == 0;
      texts.emplace_back(other.text);
    }
    for (size_t rank = 0; rank < cards.size(); ++rank)
      if (const Step other{cards[rank].n, texts[rank]}; other.n != mine.n)
        fail(Where::current(), "the processes have parted: process {} {}, process {} {}", rank_,
             mine.words(), rank, other.words());
    return texts;
  }
  // A collective of MPI, while looking whether all processes are alive.
  template <class Start>
  void wait_for(Start start) {
    int naps_since = -1;  // one has ended: but perhaps it had done its part
    const auto look = [&] {
      if (naps_since < 0 && watch_.ended() < 0) return;
      if (++naps_since > 200) fail_lost(watch_.ended());
    };
    expect_mpi(wait_in_naps(start, look), "MPI_Iallgather", Where::current());
  }
  [[noreturn]] void fail_lost(int rank) {
    lost_ = true;
    const ProcessAddress& address = addresses_[static_cast<size_t>(rank)];
    fail_as<PeerFailed>(Where::current(), "{}", describe_end(rank, address));
  }
  // MPI_Finalize would wait for them. MPI_Abort ends the processes of other hosts too; those of this one have noticed
  // by themselves, and get a moment to say so.
  void end_without_the_dead() {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    MPI_Abort(all_, 1);
  }
  void watch_processes() {
    const ProcessAddress mine = own_address();
    const int bytes = sizeof mine;
    addresses_.resize(static_cast<size_t>(size_));
    wait_in_naps([&](MPI_Request* request) {
      return MPI_Iallgather(&mine, bytes, MPI_BYTE, addresses_.data(), bytes, MPI_BYTE, all_,
                            request);
    });
    for (int rank = 0; rank < size_; ++rank)
      watch_.add(rank, addresses_[static_cast<size_t>(rank)]);
  }

  void find_host() {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank_on_host_);
    MPI_Comm_size(host, &ranks_on_host_);
    MPI_Comm_free(&host);
    cores_ = std::max(1, detail::default_threads(ranks_on_host_));
  }
  // Another MPI's mpirun starts n programs, each of which is alone.
  void expect_own_mpirun(Where where) const {
    const std::optional<ProcessPlace> place = find_place();
    if (!place || place->size == size_ || size_ > 1) return;
    fail(where,
         "{} has started {} processes, but they do not find each other: this program is built with "
         "{}, so start it with that MPI's own ({})",
         place->starter, place->size, mpi_library(),
         fmt::join(mpirun_names(mpi_kind(mpi_library())), " or "));
  }

  MpiRanksOptions options_;
  MPI_Comm all_ = MPI_COMM_NULL;  // all processes of the job
  int rank_ = 0, size_ = 1, rank_on_host_ = 0, ranks_on_host_ = 1, cores_ = 1;
  ProcessWatch watch_;
  std::vector<ProcessAddress> addresses_;  // by rank
  bool ends_mpi_ = true, lost_ = false;
  bool ended_ = false;  // this process, or another
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
