// WaitReport: what a rank that waits tells rank 0 about itself, and CommVerdict: what rank 0 may tell all.
//
//     rank 2: recv of 4 f32 with tag 7 at a.cpp:12 needs rank 3; has posted [recv from 3, tag 7]; epoch 41
//
// Plain data, as bytes there and back: wait_monitor.hpp says what is made of it.
#pragma once

#include <map>

#include "yotta/comm/waiting/deadlock.hpp"
#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/engine/transport.hpp"

namespace yotta {

inline const Request* first_request(const Waiting& strand) {
  return strand.requests[0] != nullptr ? strand.requests[0] : strand.requests[1];
}
// What a strand does, for people. `members`: world ranks of the group of its requests.
inline void add_words(const Waiting& strand, std::span<const int> members, StrandWait& wait) {
  wait.doing = describe_operation(*strand.call);
  wait.called_at = at(strand.call->where);
  wait.waited_at = at(strand.where);
  const Request* const first = first_request(strand);
  if (first == nullptr) return;
  using Kind = StrandWait::Kind;
  const bool message = first->kind == Request::Kind::send || first->kind == Request::Kind::recv;
  const bool own = strand.call->is_custom;  // the user's own algorithm: his sends and receives
  wait.kind = !message || (first->tag < 0 && !own) ? Kind::collective
              : first->kind == Request::Kind::send ? Kind::send
                                                   : Kind::recv;
  if (first->tag >= 0 && message) wait.doing += fmt::format(" with tag {}", first->tag);
  if (first->group == 0) return;
  wait.doing += " on the communicator of ranks";
  for (const int member : members) wait.doing += fmt::format(" {}", member);
}

// A request that is not done, as the other ranks must know it.
struct PendingRequest {
  Request::Kind kind = Request::Kind::send;
  uint64_t group = 0;  // the same number on all ranks
  int peer = 0;        // world rank
  int64_t tag = 0;     // as Request::tag
};

struct WaitReport {
  struct Strand {
    StrandWait words;  // needs: filled in by the monitor
    std::vector<PendingRequest> requests;
    int64_t collective = -1;  // number in its group, if the library's own collective waits
  };
  RankWait::State state = RankWait::State::runs;
  int64_t epoch = 0;
  std::vector<Strand> strands;
  std::vector<PendingRequest> pending;  // all messages that the rank has posted
  std::map<uint64_t, int64_t> natives;  // of each group: the number of the last native collective
  std::map<uint64_t, std::vector<int>>
      members;  // of groups with a native collective among the requests
};

// What a rank is told when its world is over.
struct CommVerdict {
  enum class Kind : uint8_t { failure, deadlock, mismatch, death } kind = Kind::failure;
  std::vector<int> culprits;  // world ranks; [0] is named to the others
  std::string text;
};

// As bytes, for another process, and back.
inline std::string pack(const CommVerdict& verdict) {
  MessageWriter message;
  message.put(verdict.kind);
  message.put(verdict.text);
  message.put(verdict.culprits.size());
  for (const int rank : verdict.culprits) message.put(rank);
  return message.bytes();
}
inline CommVerdict unpack_verdict(std::string_view bytes) {
  MessageReader message(bytes);
  CommVerdict verdict;
  verdict.kind = message.take<CommVerdict::Kind>();
  verdict.text = message.take_text();
  for (auto left = message.take<size_t>(); left > 0; --left)
    verdict.culprits.push_back(message.take<int>());
  return verdict;
}

// As bytes, for another process, and back.
inline std::string pack(const WaitReport& report) {
  MessageWriter message;
  const auto put_requests = [&](const std::vector<PendingRequest>& requests) {
    message.put(requests.size());
    for (const PendingRequest& request : requests) message.put(request);
  };
  message.put(report.state);
  message.put(report.epoch);
  message.put(report.strands.size());
  for (const WaitReport::Strand& strand : report.strands) {
    message.put(strand.words.ready);
    message.put(strand.words.strand);
    message.put(strand.words.kind);
    for (const auto& text :
         {strand.words.doing, strand.words.called_at, strand.words.waited_at, strand.words.hint})
      message.put(text);
    put_requests(strand.requests);
    message.put(strand.collective);
  }
  put_requests(report.pending);
  message.put(report.natives.size());
  for (const auto& [group, number] : report.natives) message.put(group), message.put(number);
  message.put(report.members.size());
  for (const auto& [group, members] : report.members) {
    message.put(group);
    message.put(members.size());
    for (const int rank : members) message.put(rank);
  }
  return message.bytes();
}
inline WaitReport unpack_report(std::string_view bytes) {
  MessageReader message(bytes);
  const auto take_requests = [&] {
    std::vector<PendingRequest> requests(message.take<size_t>());
    for (PendingRequest& request : requests) request = message.take<PendingRequest>();
    return requests;
  };
  WaitReport report;
  report.state = message.take<RankWait::State>();
  report.epoch = message.take<int64_t>();
  report.strands.resize(message.take<size_t>());
  for (WaitReport::Strand& strand : report.strands) {
    strand.words.ready = message.take<bool>();
    strand.words.strand = message.take<int>();
    strand.words.kind = message.take<StrandWait::Kind>();
    for (auto* text : {&strand.words.doing, &strand.words.called_at, &strand.words.waited_at,
                       &strand.words.hint})
      *text = message.take_text();
    strand.requests = take_requests();
    strand.collective = message.take<int64_t>();
  }
  report.pending = take_requests();
  for (auto left = message.take<size_t>(); left > 0; --left) {
    const auto group = message.take<uint64_t>();
    report.natives[group] = message.take<int64_t>();
  }
  for (auto left = message.take<size_t>(); left > 0; --left) {
    std::vector<int>& members = report.members[message.take<uint64_t>()];
    members.resize(message.take<size_t>());
    for (int& rank : members) rank = message.take<int>();
  }
  return report;
}

}  // namespace yotta
