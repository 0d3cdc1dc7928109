// WaitMonitor: finds deadlocks among ranks that share no memory.
//
//     rank 2   has waited for a second ──► report: what it waits for, what it has posted ──┐
//     rank 3   the same                ──► report                                       ──┤ rank 0's monitor
//              "do you two still stand there?"    ◄── all of a circle have reported     ◄──┘
//     ranks 2, 3   "yes, nothing has moved"       ──►  verdict: deadlock, with the table
//
// The reports are of different moments, so a circle in them proves nothing yet. But a rank's epoch counts all
// that it posts and all that arrives; if the epochs of the whole circle are still those of the reports when it
// is asked, all stood still together in between, and nobody of them can move again (deadlock.hpp). A message that
// both sides have posted is on its way, however long it takes: it is no reason to wait for a rank.
//
// Ranks that never wait for a second never report: it costs nothing. Collectives that differ (two ranks are in
// call 5 of the same communicator, one in a broadcast) are told as a mismatch, with both places.
// Here are plain data and plain functions, without a message. Cost: a deadlock.hpp a report.
#pragma once

#include <optional>

#include "yotta/comm/waiting/wait_report.hpp"

namespace yotta {

class WaitMonitor {
 public:
  explicit WaitMonitor(int size) : reports_(static_cast<size_t>(size)) {}

  // What must happen next: ranks to be asked for their epoch, or the end.
  struct Outcome {
    std::vector<int> ask;
    int64_t round = 0;  // goes with the question and its answer
    std::optional<CommVerdict> verdict;
  };

  Outcome report(int rank, WaitReport report) {
    of(rank) = std::move(report);
    return judge();
  }
  Outcome answer(int rank, int64_t round, int64_t epoch) {
    if (round != round_) return {};
    if (of(rank).epoch != epoch) {  // it has moved since; if it waits again it will say so
      of(rank) = {};
      return judge();
    }
    std::erase(unheard_, rank);
    if (!unheard_.empty()) return {};
    return {
        {},
        round_,
        CommVerdict{CommVerdict::Kind::deadlock, suspects_, describe_deadlock(picture_, alive_)}};
  }

 private:
  WaitReport& of(int rank) { return reports_[static_cast<size_t>(rank)]; }
  const WaitReport& of(int rank) const { return reports_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(reports_.size()); }

  Outcome judge() {
    ++round_;  // answers to earlier questions no longer count
    if (const auto mismatch = find_mismatch()) return {{}, round_, mismatch};
    picture_.assign(reports_.size(), {});
    for (int rank = 0; rank < size(); ++rank) draw(rank);
    alive_ = find_alive(picture_);
    suspects_.clear();
    for (int rank = 0; rank < size(); ++rank)
      if (!alive_[static_cast<size_t>(rank)]) suspects_.push_back(rank);
    unheard_ = suspects_;
    return {suspects_, round_, {}};
  }

  // Rank `rank` as deadlock.hpp wants it.
  void draw(int rank) {
    RankWait& drawn = picture_[static_cast<size_t>(rank)];
    drawn.state = of(rank).state;
    for (const WaitReport::Strand& strand : of(rank).strands) {
      StrandWait wait = strand.words;
      for (const PendingRequest& request : strand.requests)
        for (const int other : needed(rank, request))
          if (wait.needs.empty() || wait.needs.back() != other) wait.needs.push_back(other);
      wait.ready = wait.ready || (wait.strand < 0 && wait.needs.empty());  // on its way
      drawn.strands.push_back(std::move(wait));
    }
  }
  // World ranks that must act before a request of `rank` can be done.
  std::vector<int> needed(int rank, const PendingRequest& request) const {
    std::vector<int> ranks;
    if (request.kind == Request::Kind::native) {
      for (const int member : of(rank).members.at(request.group)) {
        const auto last = of(member).natives.find(request.group);
        const bool has_come = last != of(member).natives.end() && last->second >= -1 - request.tag;
        if (!has_come) ranks.push_back(member);
      }
    } else if (!meets(rank, request)) {
      ranks.push_back(request.peer);
    }
    return ranks;
  }
  // Has the other side posted the same message? Then it is on its way.
  bool meets(int rank, const PendingRequest& request) const {
    for (const PendingRequest& other : of(request.peer).pending)
      if (other.peer == rank && other.group == request.group && other.tag == request.tag &&
          other.kind != request.kind)
        return true;
    return false;
  }

  // Two ranks that are in the same call of the same communicator, but have called different things.
  std::optional<CommVerdict> find_mismatch() const {
    std::map<std::pair<uint64_t, int64_t>, std::pair<int, const StrandWait*>> first;
    for (int rank = 0; rank < size(); ++rank)
      for (const WaitReport::Strand& strand : of(rank).strands) {
        if (strand.collective < 0 || strand.requests.empty()) continue;
        const auto [place, is_new] =
            first.try_emplace({strand.requests[0].group, strand.collective}, rank, &strand.words);
        const auto& [other, words] = place->second;
        if (is_new || words->doing == strand.words.doing) continue;
        return CommVerdict{CommVerdict::Kind::mismatch,
                           {rank},
                           describe_mismatch(other, words->doing + " at " + words->called_at, rank,
                                             strand.words.doing + " at " + strand.words.called_at)};
      }
    return {};
  }

  std::vector<WaitReport> reports_;  // by rank; the last of each
  int64_t round_ = 0;
  std::vector<RankWait> picture_;
  std::vector<bool> alive_;
  std::vector<int> suspects_, unheard_;  // who seems dead; who of them has not yet answered
};

}  // namespace yotta
