// MpiRanks: the processes of an MPI job as ranks of run_ranks (process_ranks.hpp).
//
//     int main() {
//       MpiRanks ranks;                  MPI is started; from here on run_ranks uses it
//       run_ranks(ranks.size(), [](Communicator& world) { ... });
//     }                                  waits for the others, and ends MPI
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <deque>

#include "yotta/comm/mpi/mpi.hpp"
#include "yotta/comm/processes/process_ranks.hpp"
#include "yotta/comm/processes/parent_watchdog.hpp"

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

struct MpiRanksOptions : ProcessRanksOptions {
  MpiOptions mpi = {};
};

class MpiRanks : public ProcessRanks {
 public:
  // Errors: MPI cannot be started for threads; mpirun is another MPI's than this program's.
  explicit MpiRanks(MpiRanksOptions options = {}, Where where = Where::current())
      : ProcessRanks(options, "mpirun", "-n "), mpi_(options.mpi) {
    int started = 0, level = 0;
    MPI_Initialized(&started);
    if (started == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    ends_mpi_ = started == 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &all_);
    MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
    int rank = 0, size = 1;
    MPI_Comm_rank(all_, &rank);
    MPI_Comm_size(all_, &size);
    expect_own_mpirun(size, where);
    join(rank, addresses_of(size));
    for (int other = 0; other < size; ++other) watch_.add(other, address(other));
  }
  ~MpiRanks() override {
    leave();
    if (!lost()) end("");
    if (lost()) end_without_the_dead();
    MPI_Comm_free(&all_);
    if (ends_mpi_) MPI_Finalize();
  }

 private:
  std::vector<ProcessAddress> addresses_of(int size) const {
    const ProcessAddress mine = own_address();
    std::vector<ProcessAddress> all(static_cast<size_t>(size));
    const int bytes = sizeof mine;
    wait_in_naps([&](MPI_Request* request) {
      return MPI_Iallgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, all_, request);
    });
    return all;
  }

  std::shared_ptr<Transport> make_transport(int n, const RunOptions& run) override {
    MpiOptions options = mpi_;
    options.synchronous_sends = !run.buffered_sends;
    if (n == size()) return std::make_shared<MpiTransport>(all_, options);
    MPI_Comm ranks = MPI_COMM_NULL;
    expect_mpi(MPI_Comm_split(all_, rank() < n ? 0 : MPI_UNDEFINED, rank(), &ranks),
               "MPI_Comm_split", Where::current());
    if (ranks == MPI_COMM_NULL) return nullptr;
    auto transport = std::make_shared<MpiTransport>(ranks, options);
    MPI_Comm_free(&ranks);  // the transport has made its own of it
    return transport;
  }

  std::vector<std::string> all_gather(const std::string& mine) override {
    const auto p = static_cast<size_t>(size());
    Gather& now = gathers_.emplace_back(Gather{static_cast<int>(mine.size()), mine, {}, {}, {}});
    now.lengths.resize(p), now.begins.resize(p);
    wait_for([&](MPI_Request* done) {
      return MPI_Iallgather(&now.length, 1, MPI_INT, now.lengths.data(), 1, MPI_INT, all_, done);
    });
    std::exclusive_scan(now.lengths.begin(), now.lengths.end(), now.begins.begin(), 0);
    now.all.resize(static_cast<size_t>(now.begins.back() + now.lengths.back()));
    wait_for([&](MPI_Request* done) {
      return MPI_Iallgatherv(now.mine.data(), now.length, MPI_CHAR, now.all.data(),
                             now.lengths.data(), now.begins.data(), MPI_CHAR, all_, done);
    });
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < p; ++rank)
      texts.push_back(now.all.substr(static_cast<size_t>(now.begins[rank]),
                                     static_cast<size_t>(now.lengths[rank])));
    gathers_.pop_back();
    return texts;
  }
  // A collective of MPI, while looking whether all processes are alive.
  template <class Start>
  void wait_for(Start start) {
    int naps_since = -1;  // one has ended: but perhaps it had done its part
    const auto look = [&] {
      check_overdue();
      if (naps_since < 0 && watch_.ended() < 0) return;
      if (++naps_since > 200) fail_lost(watch_.ended());
    };
    expect_mpi(wait_in_naps(start, look), "MPI_Iallgather", Where::current());
  }
  // MPI_Finalize would wait for them. MPI_Abort ends the processes of other hosts too; those of this one have noticed
  // by themselves, and get a moment to say so. MPICH's own may wait for the dead, but its mpirun needs no more than
  // that a process leaves.
  void end_without_the_dead() {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const std::optional<ProcessPlace> place = find_place();
    const bool by_hydra = place && place->starter == "mpirun";
    if (mpi_kind(mpi_library()) != MpiKind::mpich || !by_hydra) MPI_Abort(all_, 1);
    std::fflush(nullptr);
    std::_Exit(1);
  }
  // Wherever this process is: in MPI_Init, in MPI_Finalize, or far from any call of MPI.
  static void end_without_mpirun(int starter) {
    const std::string words = fmt::format(
        "mpirun, or its helper on {} (process {}), has ended: was it killed? So process {} of its "
        "job ends too\n",
        own_address().host.data(), starter, find_place()->rank);
    const ssize_t written = write(STDERR_FILENO, words.data(), words.size());
    std::_Exit(written < 0 ? 2 : 1);
  }
  // Another MPI's mpirun starts n programs, each of which is alone.
  static void expect_own_mpirun(int size, Where where) {
    const std::optional<ProcessPlace> place = find_place();
    if (!place || place->size == size || size > 1) return;
    fail(where,
         "{} has started {} processes, but they do not find each other: this program is built with "
         "{}, so start it with that MPI's own ({})",
         place->starter, place->size, mpi_library(),
         fmt::join(mpirun_names(mpi_kind(mpi_library())), " or "));
  }

  StarterWatch starter_{find_starter(), end_without_mpirun};
  MpiOptions mpi_;
  MPI_Comm all_ = MPI_COMM_NULL;  // all processes of the job
  ProcessWatch watch_;
  // What MPI reads and writes in all_gather. One that was given up stays: MPI may go on with it.
  struct Gather {
    int length;
    std::string mine;
    std::vector<int> lengths, begins;
    std::string all;
  };
  std::deque<Gather> gathers_;
  bool ends_mpi_ = true;
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
