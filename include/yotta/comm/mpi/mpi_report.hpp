// What a rank of MPI has to say about its messages: what it waits for (to rank 0, which looks for deadlocks), and
// what was sent to it and never received.
//
//     strands, requests  ──►  WaitReport (world_state.hpp)
//     MPI_Iprobe         ──►  "rank 1 has sent tag 7, rank 0 waits for tag 8"
#pragma once

#ifdef YOTTA_HAVE_MPI

#include "yotta/comm/mpi/mpi_group.hpp"

namespace yotta {

// Has the peer sent something with another tag? Empty if not.
inline std::string find_other_tag(const MpiState& state, const Request& wanted) {
  const MpiGroup& group = state.group_of(wanted);
  int arrived = 0;
  MPI_Status status;
  MPI_Iprobe(group.rank_of(wanted.peer), MPI_ANY_TAG, group.comm.get(), &arrived, &status);
  if (arrived == 0 || status.MPI_TAG % 2 != 0) return "";
  return fmt::format("rank {} has sent tag {}, rank {} waits for tag {}", wanted.peer,
                     status.MPI_TAG / 2, state.rank, wanted.tag);
}

// Of a rank that waits.
inline WaitReport report_waits(const MpiState& state, std::span<const Waiting> strands,
                               int64_t epoch) {
  return report_waits(state, strands, epoch,
                      [&](const Request& wanted) { return find_other_tag(state, wanted); });
}

// At the end of all ranks: what has come and was not received, told for the first; empty if there is nothing. It is
// taken from MPI, so that the communicators can be freed.
inline std::string take_unreceived(const MpiState& state) {
  std::string told;
  for (const MpiGroup& group : state.groups)
    for (;;) {
      int arrived = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group.comm.get(), &arrived, &status);
      if (arrived == 0) break;
      const int64_t bytes = numbers_in(status, DType::u8);
      if (told.empty())
        told = describe_unreceived(group.members[static_cast<size_t>(status.MPI_SOURCE)], bytes,
                                   status.MPI_TAG / 2, state.rank);
      std::vector<std::byte> room(static_cast<size_t>(bytes));
      const MpiRun run(bytes, DType::u8, std::numeric_limits<int>::max());
      MPI_Recv(room.data(), run.count(), run.type(), status.MPI_SOURCE, status.MPI_TAG,
               group.comm.get(), MPI_STATUS_IGNORE);
    }
  return told;
}

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
