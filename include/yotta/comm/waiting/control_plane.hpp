// ControlPlane: what ranks in processes of their own confirm each other beside their data messages.
//
//     a rank throws                  ──► a verdict to all ranks: their calls throw PeerFailed
//     a process ends unexpectedly    ──► the same, by the ranks that notice
//     ranks wait in a circle         ──► reports to rank 0, questions, a verdict: Deadlock
//     collectives differ             ──► each rank's call, compared by one rank of the group:
//                                        Mismatch with both calls; or "all called the same", for
//                                        ranks that must know before they go on
//
// ControlPlane decides what is said, not how it travels: control messages leave through a function
// that the transport hands in, and the transport gives those that arrive to read().
// mpi_control_plane.hpp and socket_transport.hpp do.
//
// WaitMonitor, on rank 0, finds deadlocks among ranks that share no memory:
//
//    rank 2   has waited for a second ──► report: what it waits for, has posted ─┐
//    rank 3   the same                ──► report                                ─┤ rank 0's monitor
//             "are you two still waiting?"  ◄── all of a circle have reported ◄──┘
//    ranks 2, 3   "yes, nothing has moved"  ──►  verdict: deadlock, with the table
//
// The reports are of different moments, so a circle in them proves nothing yet. But a rank's epoch
// counts all that it posts and all that arrives. If every rank of the circle still has the epoch of
// its report when it is asked, all of them stood still together in between, and none can move again
// (deadlock.hpp). A message that both sides have posted is on its way, however long it takes: it is
// no reason to wait for a rank.
// Ranks that never wait for a second never report.
//
// WorldState is what a transport between processes knows of its own rank: its groups, and which
// requests it has posted that are not done. The report of a waiting rank is made from it.
//
// Cost: no control message unless something is wrong; where calls are compared, one per call and
// rank.
// One thread at a time may use a ControlPlane, except failed(), check(), moved() and epoch().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "yotta/comm/processes/packing.hpp"
#include "yotta/comm/waiting/deadlock.hpp"
#include "yotta/comm/waiting/wait_reports.hpp"

namespace yotta {

// --- the state of a rank, and its report ---

// A group of ranks, as a transport between processes knows it.
struct WorldGroup {
  std::vector<int> members;  // world ranks
  uint64_t id = 0;           // the same on all ranks
  int64_t last_native = -1;  // number of the last collective that the transport has run itself

  // The rank in this group of a rank of the world.
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

// What a transport between processes knows of its own rank.
struct WorldState {
  int rank = 0;
  std::deque<WorldGroup> groups;       // [0] is the world
  std::set<const Request*> in_flight;  // posted, not done

  const WorldGroup& group_of(const Request& request) const {
    return groups[static_cast<size_t>(request.group)];
  }
  WorldGroup& group_of(const Request& request) {
    return groups[static_cast<size_t>(request.group)];
  }
  PendingRequest pending(const Request& request) const {
    return {request.kind, group_of(request).id, request.peer, request.tag};
  }
};

// A message to a rank whose code has ended without an error.
inline std::string describe_unreceived(int from, int64_t bytes, int64_t tag, int rank) {
  return fmt::format(
      "rank {} sent {} bytes with tag {} to rank {}, which ended without receiving it", from, bytes,
      tag, rank);
}

// Says for a receive of the user what its peer has sent instead; empty if nothing.
using TagHint = std::function<std::string(const Request& recv)>;

// Adds to `report` what one strand waits for.
inline void report_strand(const WorldState& state, const Waiting& waiting, const TagHint& hint,
                          WaitReport& report) {
  WaitReport::Strand& strand = report.strands.emplace_back();
  strand.wait.strand = waiting.strand;
  const Request* const first = first_request(waiting);
  const bool named = first != nullptr && first->group != 0;
  describe_wait(waiting, named ? state.group_of(*first).members : std::span<const int>(),
                strand.wait);
  for (const Request* request : waiting.requests) {
    if (request == nullptr || request->done) continue;
    strand.requests.push_back(state.pending(*request));
    if (request->tag < 0 && !waiting.call->is_custom) strand.collective = -1 - request->tag;
    const WorldGroup& group = state.group_of(*request);
    if (request->kind == Request::Kind::native) report.members[group.id] = group.members;
    if (request->kind == Request::Kind::recv && request->tag >= 0)
      strand.wait.hint = hint(*request);
  }
}

// The report of a rank that waits.
inline WaitReport report_waits(const WorldState& state, std::span<const Waiting> strands,
                               int64_t epoch, const TagHint& hint) {
  WaitReport report;
  report.state = state_of(strands);
  report.epoch = epoch;
  for (const Request* request : state.in_flight)
    if (request->kind != Request::Kind::native) report.pending.push_back(state.pending(*request));
  for (const WorldGroup& group : state.groups) report.natives[group.id] = group.last_native;
  for (const Waiting& waiting : strands) report_strand(state, waiting, hint, report);
  return report;
}

// --- finding deadlocks, on rank 0 ---

class WaitMonitor {
 public:
  explicit WaitMonitor(int size) : reports_(static_cast<size_t>(size)) {}

  // What must happen next: ranks to ask for their epoch, or a verdict.
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
    const bool was_asked = std::count(unanswered_.begin(), unanswered_.end(), rank) > 0;
    if (round != round_ || !was_asked) return {};
    if (of(rank).epoch != epoch) {  // it has moved since; if it waits again it will report again
      of(rank) = {};
      return judge();
    }
    std::erase(unanswered_, rank);
    if (!unanswered_.empty()) return {};
    return {{},
            round_,
            CommVerdict{CommVerdict::Kind::deadlock, suspects_, describe_deadlock(graph_, alive_)}};
  }

 private:
  WaitReport& of(int rank) { return reports_[static_cast<size_t>(rank)]; }
  const WaitReport& of(int rank) const { return reports_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(reports_.size()); }

  Outcome judge() {
    ++round_;  // answers to earlier questions no longer count
    if (const auto mismatch = find_mismatch()) return {{}, round_, mismatch};
    graph_.assign(reports_.size(), {});
    for (int rank = 0; rank < size(); ++rank) add_to_graph(rank);
    alive_ = find_alive(graph_);
    suspects_.clear();
    for (int rank = 0; rank < size(); ++rank)
      if (!alive_[static_cast<size_t>(rank)]) suspects_.push_back(rank);
    unanswered_ = suspects_;
    return {suspects_, round_, {}};
  }

  // Translates a report into what deadlock.hpp reads.
  void add_to_graph(int rank) {
    RankWait& node = graph_[static_cast<size_t>(rank)];
    node.state = of(rank).state;
    for (const WaitReport::Strand& strand : of(rank).strands) {
      StrandWait wait = strand.wait;
      for (const PendingRequest& request : strand.requests)
        for (const int other : needed(rank, request))
          if (wait.needs.empty() || wait.needs.back() != other) wait.needs.push_back(other);
      wait.ready =
          wait.ready || (wait.strand < 0 && wait.needs.empty());  // its message is on its way
      node.strands.push_back(std::move(wait));
    }
  }
  // World ranks that must act before a request of `rank` can be done.
  std::vector<int> needed(int rank, const PendingRequest& request) const {
    std::vector<int> ranks;
    if (request.kind == Request::Kind::native) {
      for (const int member : of(rank).members.at(request.group)) {
        const auto last = of(member).natives.find(request.group);
        const bool has_called =
            last != of(member).natives.end() && last->second >= -1 - request.tag;
        if (!has_called) ranks.push_back(member);
      }
    } else if (!is_matched(rank, request)) {
      ranks.push_back(request.peer);
    }
    return ranks;
  }
  // Has the other side posted the same message? Then it is on its way.
  bool is_matched(int rank, const PendingRequest& request) const {
    for (const PendingRequest& other : of(request.peer).pending)
      if (other.peer == rank && other.group == request.group && other.tag == request.tag &&
          other.kind != request.kind)
        return true;
    return false;
  }

  // Finds two ranks that have called different things as the same call of the same communicator.
  std::optional<CommVerdict> find_mismatch() const {
    std::map<std::pair<uint64_t, int64_t>, std::pair<int, const StrandWait*>> first;
    for (int rank = 0; rank < size(); ++rank)
      for (const WaitReport::Strand& strand : of(rank).strands) {
        if (strand.collective < 0 || strand.requests.empty()) continue;
        const auto [entry, is_new] =
            first.try_emplace({strand.requests[0].group, strand.collective}, rank, &strand.wait);
        const auto& [other, wait] = entry->second;
        if (is_new || wait->doing == strand.wait.doing) continue;
        return CommVerdict{CommVerdict::Kind::mismatch,
                           {rank},
                           describe_mismatch(other, wait->doing + " at " + wait->called_at, rank,
                                             strand.wait.doing + " at " + strand.wait.called_at)};
      }
    return {};
  }

  std::vector<WaitReport> reports_;  // by rank; the latest of each
  int64_t round_ = 0;
  std::vector<RankWait> graph_;
  std::vector<bool> alive_;
  std::vector<int> suspects_,
      unanswered_;  // ranks that seem dead; those that have not answered yet
};

// --- the control plane of one rank ---

class ControlPlane {
 public:
  using Send = std::function<void(int to, int kind, const std::string& text)>;
  static constexpr int kinds = 6;  // of control messages, from 0
  // How long the verdict on two calls that differ may take: the rank that compares them may be
  // busy.
  static constexpr double seconds_to_compare = 10;

  // `on_failure` is called once, just before failed() becomes true. `tests_before_answer`: where a
  // question may overtake a data message, a rank tests its requests so many times before it answers
  // that nothing has moved.
  ControlPlane(
      int rank, int size, Send send, std::function<void()> on_failure = [] {},
      int tests_before_answer = 0)
      : rank_(rank),
        size_(size),
        send_(std::move(send)),
        on_failure_(std::move(on_failure)),
        tests_before_answer_(tests_before_answer),
        monitor_(size) {}
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // --- failures ---
  bool failed() const { return failed_; }
  // Throws if a rank has failed: the exception that this rank should see.
  void check(Where where) {
    last_call_ = where;
    if (!failed_) return;
    heard_ = true;
    const bool culprit = std::count(verdict_.culprits.begin(), verdict_.culprits.end(), rank_) > 0;
    if (verdict_.kind == CommVerdict::Kind::death) throw PeerFailed(where, verdict_.text);
    if (!culprit)
      fail_as<PeerFailed>(where, "rank {} has failed: {}", verdict_.culprits[0], verdict_.text);
    if (verdict_.kind == CommVerdict::Kind::deadlock) throw Deadlock(where, verdict_.text);
    if (verdict_.kind == CommVerdict::Kind::mismatch) throw Mismatch(where, verdict_.text);
    fail_as<CommError>(where, "this rank has failed before, its world is over: {}", verdict_.text);
  }
  // The same at the end of the rank's code, unless a call has thrown already. Two calls that differ
  // are found where the rank made its last one.
  void check_at_end(Where where) {
    if (heard_) return;
    const bool differs = failed_ && verdict_.kind == CommVerdict::Kind::mismatch;
    check(differs ? last_call_.value_or(where) : where);
  }
  void fail(const std::string& message) {
    heard_ = true;
    tell_all({CommVerdict::Kind::failure, {rank_}, message});
  }
  // A message to this rank does not fit its receive.
  void mismatch(const std::string& text) {
    heard_ = true;
    tell_all({CommVerdict::Kind::mismatch, {rank_}, text});
  }
  // The process of another rank has ended unexpectedly.
  void lost(int other, const std::string& text) {
    tell_all({CommVerdict::Kind::death, {other}, text});
  }

  // --- waiting ---
  // A request was posted, or is done.
  void moved() { ++epoch_; }
  int64_t epoch() const { return epoch_; }
  // Seconds since something last moved; for a rank that waits.
  double seconds_still() {
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(seen_epoch_, epoch()) != epoch()) {
      still_since_ = now;
      reported_ = RankWait::State::runs;
    }
    return std::chrono::duration<double>(now - still_since_).count();
  }
  // Should the rank report that it waits, or asks? True once for each of the two, when nothing has
  // moved for `patience` seconds: who has asked beside its work may only wait later.
  bool should_report(double patience, RankWait::State state) {
    return seconds_still() > patience && std::exchange(reported_, state) != state;
  }
  void report(const WaitReport& report) {
    reported_epoch_ = report.epoch;
    if (rank_ == 0) return follow(monitor_.report(0, report));
    send_(0, report_message, pack(report));
  }
  // The rank has tested all its requests once more.
  void tested() {
    ++tests_;
    answer_questions();
  }
  // Answers the questions that can be answered by now: the rank has moved, or is sure that it has
  // not.
  void answer_questions() {
    while (!asked_.empty() &&
           (epoch() != reported_epoch_ || tests_ >= asked_.front().tests + tests_before_answer_)) {
      const int64_t round = asked_.front().round;
      asked_.pop_front();
      if (rank_ == 0) {
        follow(monitor_.answer(0, round, epoch()));
      } else {
        MessageWriter answer;
        answer.put(round);
        answer.put(epoch());
        send_(0, answer_message, answer.bytes());
      }
    }
  }
  // This rank calls collective `number` of a group; `home`, a rank of the group, compares the
  // calls. With `confirm` it tells all ranks when they have called the same.
  void compare(uint64_t group, int64_t number, int ranks, int home, bool confirm,
               const Call& call) {
    MessageWriter writer;
    writer.put(CallMessage{group, number, ranks, confirm});
    writer.put(describe_operation(call));
    writer.put(at(call.where));
    if (home == rank_) return compare_call(rank_, writer.bytes());
    send_(home, call_message, writer.bytes());
  }
  // Has that been confirmed? True once.
  bool is_confirmed(uint64_t group, int64_t number) {
    return confirmed_.erase({group, number}) > 0;
  }

  // Handles a control message that has arrived.
  void read(int from, int kind, std::string_view text) {
    MessageReader reader(text);
    switch (kind) {
      case verdict_message: return accept(unpack_verdict(text, size_));
      case report_message: return follow(monitor_.report(from, unpack_report(text, size_)));
      case question_message: return receive_question(reader.take<int64_t>());
      case answer_message: {
        const auto round = reader.take<int64_t>();
        return follow(monitor_.answer(from, round, reader.take<int64_t>()));
      }
      case confirm_message: {
        const auto message = reader.take<CallMessage>();
        confirmed_.insert({message.group, message.number});
        return;
      }
      default: return compare_call(from, text);
    }
  }

 private:
  enum Kind : int {
    verdict_message,
    report_message,
    question_message,
    answer_message,
    call_message,
    confirm_message
  };
  struct CallMessage {
    uint64_t group;
    int64_t number;
    int32_t ranks;
    int32_t confirm;  // 0 or 1
  };
  struct ComparedCall {
    std::vector<int> ranks;        // that have called it
    std::string operation, where;  // of the first
  };

  // Does what the monitor on rank 0 asks for.
  void follow(const WaitMonitor::Outcome& outcome) {
    if (outcome.verdict) return tell_all(*outcome.verdict);
    for (const int suspect : outcome.ask) {
      if (suspect == 0) continue;
      MessageWriter question;
      question.put(outcome.round);
      send_(suspect, question_message, question.bytes());
    }
    if (!outcome.ask.empty() && outcome.ask[0] == 0) receive_question(outcome.round);
  }
  // Has anything moved since this rank's report?
  void receive_question(int64_t round) {
    asked_.push_back({round, tests_});
    answer_questions();
  }
  void compare_call(int from, std::string_view bytes) {
    MessageReader reader(bytes);
    const auto message = reader.take<CallMessage>();
    ComparedCall& call = calls_[{message.group, message.number}];
    const std::string operation = reader.take_text(), where = reader.take_text();
    if (call.ranks.empty()) call = {{}, operation, where};
    call.ranks.push_back(from);
    if (call.operation != operation)
      return tell_all({CommVerdict::Kind::mismatch,
                       {from},
                       describe_mismatch(call.ranks[0], call.operation + " at " + call.where, from,
                                         operation + " at " + where)});
    if (std::ssize(call.ranks) < message.ranks) return;
    MessageWriter confirmation;
    confirmation.put(message);
    for (const int other : call.ranks)
      if (message.confirm != 0 && other != rank_)
        send_(other, confirm_message, confirmation.bytes());
    if (message.confirm != 0) confirmed_.insert({message.group, message.number});
    calls_.erase({message.group, message.number});
  }

  // Only the first verdict counts: later ones are its consequences.
  void tell_all(const CommVerdict& verdict) {
    if (failed_) return;
    for (int other = 0; other < size_; ++other)
      if (other != rank_) send_(other, verdict_message, pack(verdict));
    accept(verdict);
  }
  void accept(const CommVerdict& verdict) {
    if (failed_) return;
    verdict_ = verdict;
    on_failure_();
    failed_ = true;
  }

  int rank_, size_;
  Send send_;
  std::function<void()> on_failure_;
  struct Question {
    int64_t round, tests;  // tests: how many there had been when it arrived
  };
  int tests_before_answer_;
  int64_t tests_ = 0, reported_epoch_ = 0;
  std::deque<Question> asked_;
  WaitMonitor monitor_;  // used by rank 0 only
  std::map<std::pair<uint64_t, int64_t>, ComparedCall> calls_;
  std::set<std::pair<uint64_t, int64_t>> confirmed_;
  std::optional<Where> last_call_;                    // of this rank
  CommVerdict verdict_;                               // written once, before failed_
  std::atomic<bool> failed_ = false, heard_ = false;  // heard_: this rank has thrown it
  std::atomic<int64_t> epoch_ = 0;
  // Since when nothing has moved, and whether that has been reported.
  int64_t seen_epoch_ = -1;
  std::chrono::steady_clock::time_point still_since_;
  RankWait::State reported_ = RankWait::State::runs;
};

}  // namespace yotta
