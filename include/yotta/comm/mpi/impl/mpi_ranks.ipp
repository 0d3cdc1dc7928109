// The bodies of comm/mpi/mpi_ranks.hpp.
#pragma once

#include "yotta/comm/mpi/mpi_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <optional>

#include "yotta/comm/mpi/mpi_transport.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/core/options.hpp"

namespace yotta {

YOTTA_INLINE std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string whole(text, static_cast<size_t>(length));
  std::replace(whole.begin(), whole.end(), '\t', ' ');
  return whole.substr(0, whole.find_first_of(",\n"));
}

// Ends this process when mpirun has ended, wherever it is: in MPI_Init, in MPI_Finalize, or far
// from any call of MPI.
inline void end_without_mpirun(int launcher) {
  const std::string text = fmt::format(
      "mpirun, or its helper on {} (process {}), has ended: was it killed? So process {} of its "
      "job ends too\n",
      own_address().host.data(), launcher, find_launch_environment()->rank);
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(written < 0 ? 2 : 1);
}

struct MpiRanks::State {
  // What MPI reads and writes in all_gather.
  struct Gather {
    int length;
    std::string mine;
    std::vector<int> lengths, begins;
    std::string all;
  };

  ParentWatchdog watchdog{find_launcher(),
                          end_without_mpirun};  // from before MPI_Init to after MPI_Finalize
  MpiOptions options;
  MPI_Comm all = MPI_COMM_NULL;  // all processes of the launch
  ProcessWatch watch;
  std::deque<Gather> gathers;  // one that was given up stays: MPI may still use it
  bool ends_mpi = true;
  std::optional<OwnWords> words;  // to the process that has started mpirun (job_start.hpp)
};

// Another MPI's mpirun starts n programs that do not know of each other.
inline void expect_own_mpirun(int size, bool ends_mpi, Where where) {
  const std::optional<LaunchEnvironment> launch = find_launch_environment();
  if (!launch || launch->size == size || size > 1) return;
  if (ends_mpi) MPI_Finalize();  // else this MPI, of one process, would leave a folder in /tmp
  fail(where,
       "{} has started {} processes, but they do not find each other: this program is built with "
       "{}, so start it with that MPI's own ({})",
       launch->launcher, launch->size, mpi_library(),
       fmt::join(mpirun_names(mpi_kind(mpi_library())), " or "));
}

inline std::vector<ProcessAddress> gather_addresses(MPI_Comm comm, int size) {
  const ProcessAddress mine = own_address();
  std::vector<ProcessAddress> all(static_cast<size_t>(size));
  const int bytes = sizeof mine;
  wait_sleeping([&](MPI_Request* request) {
    return MPI_Iallgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm, request);
  });
  return all;
}

// Before MPI is started.
inline void check_options(const MpiOptions& options, Where where) {
  check_option(where, "MpiOptions::max_count", options, &MpiOptions::max_count,
               {1, std::numeric_limits<int>::max()});
  check_option(where, "MpiOptions::patience", options, &MpiOptions::patience, zero_or_more);
}

YOTTA_INLINE MpiRanks::MpiRanks(MpiRanksOptions options, Where where)
    : ProcessRanks(options, "mpirun", "-n "), state_(std::make_unique<State>()) {
  check_options(options.mpi, where);
  state_->options = options.mpi;
  int started = 0, level = 0;
  MPI_Initialized(&started);
  if (started == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  state_->ends_mpi = started == 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->all);
  MPI_Comm_set_errhandler(state_->all, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(state_->all, &rank);
  MPI_Comm_size(state_->all, &size);
  expect_own_mpirun(size, state_->ends_mpi, where);
  state_->words.emplace(rank);
  join(rank, gather_addresses(state_->all, size));
  for (int other = 0; other < size; ++other) state_->watch.add(other, address(other));
}

// MPI_Finalize would wait for processes that have died. MPI_Abort ends the processes of other hosts
// too; those of this host have noticed by themselves, and get a moment to say so. MPICH's MPI_Abort
// may wait for processes that have died; its mpirun ends the job as soon as one process exits.
inline void end_after_loss(MPI_Comm all) {
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::optional<LaunchEnvironment> launch = find_launch_environment();
  const bool by_hydra = launch && launch->launcher == "mpirun";
  if (mpi_kind(mpi_library()) != MpiKind::mpich || !by_hydra) MPI_Abort(all, 1);
  std::fflush(nullptr);
  std::_Exit(1);
}

YOTTA_INLINE MpiRanks::~MpiRanks() {
  leave();
  if (!lost()) end("");
  if (lost()) end_after_loss(state_->all);
  MPI_Comm_free(&state_->all);
  if (state_->ends_mpi) MPI_Finalize();
  state_->words->say_well();
}

YOTTA_INLINE std::shared_ptr<Transport> MpiRanks::make_transport(int n, const RunOptions& run) {
  MpiOptions options = state_->options;
  options.synchronous_sends = !run.buffered_sends;
  if (n == size()) return std::make_shared<MpiTransport>(state_->all, options);
  MPI_Comm ranks = MPI_COMM_NULL;
  expect_mpi(MPI_Comm_split(state_->all, rank() < n ? 0 : MPI_UNDEFINED, rank(), &ranks),
             "MPI_Comm_split", Where::current());
  if (ranks == MPI_COMM_NULL) return nullptr;
  auto transport = std::make_shared<MpiTransport>(ranks, options);
  MPI_Comm_free(&ranks);  // the transport has duplicated it
  return transport;
}

YOTTA_INLINE std::vector<std::string> MpiRanks::all_gather(const std::string& mine) {
  int looks_since = -1;  // since a process has ended, which may have done its part before
  const auto look = [&] {
    check_overdue();
    if (looks_since < 0 && state_->watch.ended() < 0) return;
    if (++looks_since > 200) fail_lost(state_->watch.ended());
  };
  const auto wait =
      [&](auto start) {  // for a collective, while checking whether all processes live
        looks_since = -1;
        expect_mpi(wait_sleeping(start, look), "MPI_Iallgather", Where::current());
      };
  const MPI_Comm all = state_->all;
  const auto p = static_cast<size_t>(size());
  State::Gather& now =
      state_->gathers.emplace_back(State::Gather{static_cast<int>(mine.size()), mine, {}, {}, {}});
  now.lengths.resize(p), now.begins.resize(p);
  wait([&](MPI_Request* done) {
    return MPI_Iallgather(&now.length, 1, MPI_INT, now.lengths.data(), 1, MPI_INT, all, done);
  });
  std::exclusive_scan(now.lengths.begin(), now.lengths.end(), now.begins.begin(), 0);
  now.all.resize(static_cast<size_t>(now.begins.back() + now.lengths.back()));
  wait([&](MPI_Request* done) {
    return MPI_Iallgatherv(now.mine.data(), now.length, MPI_CHAR, now.all.data(),
                           now.lengths.data(), now.begins.data(), MPI_CHAR, all, done);
  });
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < p; ++rank)
    texts.push_back(now.all.substr(static_cast<size_t>(now.begins[rank]),
                                   static_cast<size_t>(now.lengths[rank])));
  state_->gathers.pop_back();
  return texts;
}

}  // namespace yotta
