// What a rank of MPI has to say about its messages: what it waits for (to rank 0, which looks for deadlocks), and
// what was sent to it and never received.
//
//     strands, requests  ──►  WaitReport (wait_report.hpp)
//     MPI_Iprobe         ──►  "rank 1 has sent tag 7, rank 0 waits for tag 8"
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <deque>
#include <set>

#include "yotta/comm/mpi_group.hpp"
#include "yotta/comm/wait_report.hpp"

namespace yotta {

// What the transport of rank `rank` knows.
struct MpiState {
  int rank = 0;
  std::deque<MpiGroup> groups;         // [0] is the world
  std::set<const Request*> in_flight;  // posted, not done

  MpiGroup& group_of(const Request& request) { return groups[static_cast<size_t>(request.group)]; }
  const MpiGroup& group_of(const Request& request) const {
    return groups[static_cast<size_t>(request.group)];
  }
  PendingRequest shown(const Request& request) const {
    return {request.kind, group_of(request).id, request.peer, request.tag};
  }
};

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

inline WaitReport::Strand report_strand(const MpiState& state, const Waiting& waiting,
                                        WaitReport& report) {
  WaitReport::Strand strand;
  strand.words.strand = waiting.strand;
  const Request* const first = first_request(waiting);
  const bool named = first != nullptr && first->group != 0;
  add_words(waiting, named ? state.group_of(*first).members : std::span<const int>(), strand.words);
  for (const Request* request : waiting.requests) {
    if (request == nullptr || request->done) continue;
    strand.requests.push_back(state.shown(*request));
    if (request->tag < 0 && !waiting.call->is_custom) strand.collective = -1 - request->tag;
    const MpiGroup& group = state.group_of(*request);
    if (request->kind == Request::Kind::native) report.members[group.id] = group.members;
    if (request->kind == Request::Kind::recv && request->tag >= 0)
      strand.words.hint = find_other_tag(state, *request);
  }
  return strand;
}

// Of a rank that waits.
inline WaitReport report_waits(const MpiState& state, std::span<const Waiting> strands,
                               int64_t epoch) {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = epoch;
  for (const Request* request : state.in_flight)
    if (request->kind != Request::Kind::native) report.pending.push_back(state.shown(*request));
  for (const MpiGroup& group : state.groups) report.natives[group.id] = group.last_native;
  for (const Waiting& waiting : strands)
    report.strands.push_back(report_strand(state, waiting, report));
  return report;
}

// At the end of all ranks: what has come and was not received, told for the first; empty if there is nothing. It is
// taken from MPI, so that the communicators can be freed.
inline std::string take_unreceived(const MpiState& state) {
  std::string told;
  for (const MpiGroup& group : state.groups)
    for (;;) {
      int arrived = 0, bytes = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group.comm.get(), &arrived, &status);
      if (arrived == 0) break;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (told.empty())
        told = fmt::format(
            "rank {} sent {} bytes with tag {} to rank {}, which ended without receiving it",
            group.members[static_cast<size_t>(status.MPI_SOURCE)], bytes, status.MPI_TAG / 2,
            state.rank);
      std::vector<std::byte> room(static_cast<size_t>(std::max(bytes, 0)));
      MPI_Recv(room.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, group.comm.get(),
               MPI_STATUS_IGNORE);
    }
  return told;
}

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
