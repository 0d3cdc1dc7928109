// WorldState: what a transport between processes knows of its own rank: its groups, and which requests it has posted
// that are not done; and from that the report of a rank that waits (wait_report.hpp).
//
//     group 0   the world's ranks   id 0
//     group 3   ranks 1 3 5         id: the same number on ranks 1, 3 and 5, whatever they call the group
//
// A transport's own Group derives from WorldGroup and adds how its messages are kept apart.
#pragma once

#include <algorithm>
#include <deque>
#include <set>

#include "yotta/comm/waiting/wait_report.hpp"

namespace yotta {

struct WorldGroup {
  std::vector<int> members;  // world ranks
  uint64_t id = 0;           // the same on all ranks
  int64_t last_native = -1;  // number of the last collective that the transport has run itself

  // The rank here of a rank of the world.
  int rank_of(int world_rank) const {
    return static_cast<int>(std::find(members.begin(), members.end(), world_rank) -
                            members.begin());
  }
};

// The id of a group that is made from one with the id `parent`; see Transport::open_group.
inline uint64_t group_id(uint64_t parent, int64_t sequence, int color) {
  uint64_t id = parent;
  for (const auto part : {static_cast<uint64_t>(sequence), static_cast<uint64_t>(color)}) {
    id = (id ^ (part + 1)) * 0x9e3779b97f4a7c15u;
    id ^= id >> 32;
  }
  return id;
}

template <class Group>
struct WorldState {
  int rank = 0;
  std::deque<Group> groups;            // [0] is the world
  std::set<const Request*> in_flight;  // posted, not done

  Group& group_of(const Request& request) { return groups[static_cast<size_t>(request.group)]; }
  const Group& group_of(const Request& request) const {
    return groups[static_cast<size_t>(request.group)];
  }
  PendingRequest shown(const Request& request) const {
    return {request.kind, group_of(request).id, request.peer, request.tag};
  }
};

// A message to a rank whose code has ended well.
inline std::string describe_unreceived(int from, int64_t bytes, int64_t tag, int rank) {
  return fmt::format(
      "rank {} sent {} bytes with tag {} to rank {}, which ended without receiving it", from, bytes,
      tag, rank);
}

// `hint(request)` says for a receive of the user what else has come from its peer, or nothing.
template <class Group, class Hint>
WaitReport::Strand report_strand(const WorldState<Group>& state, const Waiting& waiting,
                                 WaitReport& report, Hint hint) {
  WaitReport::Strand strand;
  strand.words.strand = waiting.strand;
  const Request* const first = first_request(waiting);
  const bool named = first != nullptr && first->group != 0;
  add_words(waiting, named ? state.group_of(*first).members : std::span<const int>(), strand.words);
  for (const Request* request : waiting.requests) {
    if (request == nullptr || request->done) continue;
    strand.requests.push_back(state.shown(*request));
    if (request->tag < 0 && !waiting.call->is_custom) strand.collective = -1 - request->tag;
    const Group& group = state.group_of(*request);
    if (request->kind == Request::Kind::native) report.members[group.id] = group.members;
    if (request->kind == Request::Kind::recv && request->tag >= 0)
      strand.words.hint = hint(*request);
  }
  return strand;
}

// Of a rank that waits.
template <class Group, class Hint>
WaitReport report_waits(const WorldState<Group>& state, std::span<const Waiting> strands,
                        int64_t epoch, Hint hint) {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = epoch;
  for (const Request* request : state.in_flight)
    if (request->kind != Request::Kind::native) report.pending.push_back(state.shown(*request));
  for (const Group& group : state.groups) report.natives[group.id] = group.last_native;
  for (const Waiting& waiting : strands)
    report.strands.push_back(report_strand(state, waiting, report, hint));
  return report;
}

}  // namespace yotta
