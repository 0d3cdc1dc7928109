// What ranks in processes of their own tell each other of waiting and failing, as values and as
// bytes.
//
//     WaitReport     a rank that waits: its strands, its requests      ──► rank 0's monitor
//     CommVerdict    why the run has failed, and which rank is at fault ──► all ranks
//
// control_plane.hpp says when they are sent. A receiver trusts nothing that has come: ranks, kinds,
// counts and strands are checked before they are used, so that no message makes it read or write
// where it should not.
// Cost: some hundred bytes per report.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/waiting/deadlock.hpp"

namespace yotta {

// A request that is not done, in terms that other ranks understand.
struct PendingRequest {
  Request::Kind kind = Request::Kind::send;
  uint64_t group = 0;  // the same number on all ranks
  int peer = 0;        // world rank
  int64_t tag = 0;     // as Request::tag
};

// What a waiting rank says of itself.
struct WaitReport {
  struct Strand {
    StrandWait wait;  // needs: filled in by the monitor
    std::vector<PendingRequest> requests;
    int64_t collective = -1;  // number in its group, if the library's own collective waits
  };
  RankWait::State state = RankWait::State::runs;
  int64_t epoch = 0;
  std::vector<Strand> strands;
  std::vector<PendingRequest> pending;  // all its messages that are not done
  std::map<uint64_t, int64_t> natives;  // by group: number of the last native collective
  // World ranks of the groups that have a native collective among the requests.
  std::map<uint64_t, std::vector<int>> members;
};

// Why a run has failed, as every rank hears it.
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
// Errors: what no rank of `size` ranks sends.
inline CommVerdict unpack_verdict(std::string_view bytes, int size) {
  MessageReader message(bytes);
  CommVerdict verdict;
  verdict.kind = message.take_enum(CommVerdict::Kind::death);
  verdict.text = message.take_text();
  for (auto left = message.take_count(sizeof(int)); left > 0; --left)
    verdict.culprits.push_back(message.take_rank(size));
  if (verdict.culprits.empty()) fail(Where::current(), "a verdict that names no rank");
  return verdict;
}

// The same for a report.
inline std::string pack(const WaitReport& report) {
  MessageWriter message;
  const auto put_requests = [&](const std::vector<PendingRequest>& requests) {
    message.put(requests.size());
    for (const PendingRequest& request : requests) {
      message.put(request.kind);
      message.put(request.group);
      message.put(request.peer);
      message.put(request.tag);
    }
  };
  message.put(report.state);
  message.put(report.epoch);
  message.put(report.strands.size());
  for (const WaitReport::Strand& strand : report.strands) {
    message.put(strand.wait.ready);
    message.put(strand.wait.strand);
    message.put(strand.wait.kind);
    for (const auto& text :
         {strand.wait.doing, strand.wait.called_at, strand.wait.waited_at, strand.wait.hint})
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
inline std::vector<PendingRequest> take_requests(MessageReader& message, int size) {
  constexpr size_t packed = 1 + 8 + 4 + 8;
  std::vector<PendingRequest> requests(message.take_count(packed));
  for (PendingRequest& request : requests) {
    request.kind = message.take_enum(Request::Kind::native);
    request.group = message.take<uint64_t>();
    request.peer = message.take<int>();
    request.tag = message.take<int64_t>();
    const bool has_peer = request.kind != Request::Kind::native;
    if (has_peer && (request.peer < 0 || request.peer >= size))
      fail(Where::current(), "a request to rank {} of {}", request.peer, size);
  }
  return requests;
}
// Do its parts fit each other, so that the monitor may follow them?
inline void expect_whole(const WaitReport& report) {
  const bool waits =
      report.state == RankWait::State::waits || report.state == RankWait::State::asks;
  const int strands = static_cast<int>(report.strands.size());
  bool fits = !waits || strands > 0;
  for (const WaitReport::Strand& strand : report.strands) {
    fits = fits && strand.wait.strand >= -1 && strand.wait.strand < strands;
    for (const PendingRequest& request : strand.requests)
      fits = fits &&
             (request.kind != Request::Kind::native || report.members.count(request.group) > 0);
  }
  if (!fits) fail(Where::current(), "a report of {} strands that do not fit together", strands);
}
// Errors: what no rank of `size` ranks sends.
inline WaitReport unpack_report(std::string_view bytes, int size) {
  MessageReader message(bytes);
  WaitReport report;
  report.state = message.take_enum(RankWait::State::asks);
  report.epoch = message.take<int64_t>();
  report.strands.resize(message.take_count(4 * sizeof(size_t)));
  for (WaitReport::Strand& strand : report.strands) {
    strand.wait.ready = message.take_bool();
    strand.wait.strand = message.take<int>();
    strand.wait.kind = message.take_enum(StrandWait::Kind::collective);
    for (auto* text :
         {&strand.wait.doing, &strand.wait.called_at, &strand.wait.waited_at, &strand.wait.hint})
      *text = message.take_text();
    strand.requests = take_requests(message, size);
    strand.collective = message.take<int64_t>();
  }
  report.pending = take_requests(message, size);
  for (auto left = message.take_count(sizeof(uint64_t)); left > 0; --left) {
    const auto group = message.take<uint64_t>();
    report.natives[group] = message.take<int64_t>();
  }
  for (auto left = message.take_count(sizeof(uint64_t)); left > 0; --left) {
    std::vector<int>& members = report.members[message.take<uint64_t>()];
    members.resize(message.take_count(sizeof(int)));
    for (int& rank : members) rank = message.take_rank(size);
  }
  expect_whole(report);
  return report;
}

}  // namespace yotta
