// ControlPlane: what a rank in a process of its own must hear beside its messages.
//
//     a rank throws                  ──► a verdict to all: their calls throw PeerFailed
//     a process ends without a word  ──► the same, by those who see it
//     ranks wait in a circle         ──► reports to rank 0, questions, a verdict: Deadlock (wait_monitor.hpp)
//     collectives differ             ──► notes of calls, compared by one rank of the group: Mismatch, both places; or
//                                        "all the same", for who must know before he goes on
//
// Here is what the ranks tell each other, not how it travels: letters leave through a function that is handed in, and
// those that come are handed to read(). mpi_control_plane.hpp and tcp.hpp carry them.
// Cost: no letter unless something is wrong; where calls are compared, one a call and rank.
// One thread at a time, but for failed(), check(), moved() and epoch().
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <set>

#include "yotta/comm/waiting/wait_monitor.hpp"

namespace yotta {

class ControlPlane {
 public:
  using Send = std::function<void(int to, int kind, const std::string& text)>;
  static constexpr int kinds = 6;  // of letters, from 0

  // `believed` is called once, just before failed() becomes true. Where letters come beside the messages, and a question
  // may overtake what has just arrived, a rank tests its requests `sure_after` times before it says that nothing moved.
  ControlPlane(
      int rank, int size, Send send, std::function<void()> believed = [] {}, int sure_after = 0)
      : rank_(rank),
        size_(size),
        send_(std::move(send)),
        believed_(std::move(believed)),
        sure_after_(sure_after),
        monitor_(size) {}
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // --- failures ---
  bool failed() const { return failed_; }
  // Throws, if a rank has failed, what this one should hear of it.
  void check(Where where) {
    if (!failed_) return;
    told_ = true;
    const bool culprit = std::count(verdict_.culprits.begin(), verdict_.culprits.end(), rank_) > 0;
    if (verdict_.kind == CommVerdict::Kind::death) throw PeerFailed(where, verdict_.text);
    if (!culprit)
      fail_as<PeerFailed>(where, "rank {} has failed: {}", verdict_.culprits[0], verdict_.text);
    if (verdict_.kind == CommVerdict::Kind::deadlock) throw Deadlock(where, verdict_.text);
    if (verdict_.kind == CommVerdict::Kind::mismatch) throw Mismatch(where, verdict_.text);
    fail_as<CommError>(where, "this rank has failed before, its world is over: {}", verdict_.text);
  }
  // At the end of the rank's code, which may have got by without a call that would have thrown.
  void check_at_end(Where where) {
    if (!told_) check(where);
  }
  void fail(const std::string& message) {
    told_ = true;
    tell_all({CommVerdict::Kind::failure, {rank_}, message});
  }
  // The process of another rank has ended without a word.
  void lost(int other, const std::string& text) {
    tell_all({CommVerdict::Kind::death, {other}, text});
  }

  // --- waiting ---
  // Something was posted, or is done.
  void moved() { ++epoch_; }
  int64_t epoch() const { return epoch_; }
  // For how many seconds has nothing moved? Asked by a rank that waits.
  double still() {
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(seen_epoch_, epoch()) != epoch()) {
      still_since_ = now;
      reported_ = false;
    }
    return std::chrono::duration<double>(now - still_since_).count();
  }
  // Should it say what it waits for? Yes once, when it has stood still for so long.
  bool should_report(double patience) {
    return still() > patience && !std::exchange(reported_, true);
  }
  void report(const WaitReport& report) {
    reported_epoch_ = report.epoch;
    if (rank_ == 0) return follow(monitor_.report(0, report));
    send_(0, report_letter, pack(report));
  }
  // The rank has tested all that it waits for, once more.
  void tested() {
    ++tests_;
    answer_questions();
  }
  // Those that can be answered by now: the rank has moved, or it is sure that it has not.
  void answer_questions() {
    while (!asked_.empty() &&
           (epoch() != reported_epoch_ || tests_ >= asked_.front().tests + sure_after_)) {
      const int64_t round = asked_.front().round;
      asked_.pop_front();
      if (rank_ == 0) {
        follow(monitor_.answer(0, round, epoch()));
      } else {
        MessageWriter answer;
        answer.put(round);
        answer.put(epoch());
        send_(0, answer_letter, answer.bytes());
      }
    }
  }
  // A rank of a group calls its collective `number`: `home`, a rank of the group, compares. With `tell` it lets all
  // know when they have called the same.
  void compare(uint64_t group, int64_t number, int ranks, int home, bool tell, const Call& call) {
    MessageWriter note;
    note.put(Note{group, number, ranks, tell});
    note.put(describe_operation(call));
    note.put(at(call.where));
    if (home == rank_) return compare_note(rank_, note.bytes());
    send_(home, call_letter, note.bytes());
  }
  // Have they? Then it is forgotten.
  bool all_call(uint64_t group, int64_t number) { return same_.erase({group, number}) > 0; }

  // A letter that has come.
  void read(int from, int kind, std::string_view text) {
    MessageReader reader(text);
    switch (kind) {
      case verdict_letter: return believe(unpack_verdict(text));
      case report_letter: return follow(monitor_.report(from, unpack_report(text)));
      case question_letter: return be_asked(reader.take<int64_t>());
      case answer_letter: {
        const auto round = reader.take<int64_t>();
        return follow(monitor_.answer(from, round, reader.take<int64_t>()));
      }
      case same_letter: {
        const auto note = reader.take<Note>();
        same_.insert({note.group, note.number});
        return;
      }
      default: return compare_note(from, text);
    }
  }

 private:
  enum Kind : int {
    verdict_letter,
    report_letter,
    question_letter,
    answer_letter,
    call_letter,
    same_letter
  };
  struct Note {
    uint64_t group;
    int64_t number;
    int ranks;
    bool tell;
  };
  struct SameCall {
    std::vector<int> ranks;        // that have called it
    std::string operation, where;  // of the first
  };

  // What the monitor, on rank 0, wants done.
  void follow(const WaitMonitor::Outcome& outcome) {
    if (outcome.verdict) return tell_all(*outcome.verdict);
    for (const int suspect : outcome.ask) {
      if (suspect == 0) continue;
      MessageWriter question;
      question.put(outcome.round);
      send_(suspect, question_letter, question.bytes());
    }
    if (!outcome.ask.empty() && outcome.ask[0] == 0) be_asked(outcome.round);
  }
  // Has anything moved since the report?
  void be_asked(int64_t round) {
    asked_.push_back({round, tests_});
    answer_questions();
  }
  void compare_note(int from, std::string_view bytes) {
    MessageReader reader(bytes);
    const auto note = reader.take<Note>();
    SameCall& call = calls_[{note.group, note.number}];
    const std::string operation = reader.take_text(), where = reader.take_text();
    if (call.ranks.empty()) call = {{}, operation, where};
    call.ranks.push_back(from);
    if (call.operation != operation)
      return tell_all({CommVerdict::Kind::mismatch,
                       {from},
                       describe_mismatch(call.ranks[0], call.operation + " at " + call.where, from,
                                         operation + " at " + where)});
    if (std::ssize(call.ranks) < note.ranks) return;
    MessageWriter same;
    same.put(note);
    for (const int other : call.ranks)
      if (note.tell && other != rank_) send_(other, same_letter, same.bytes());
    if (note.tell) same_.insert({note.group, note.number});
    calls_.erase({note.group, note.number});
  }

  // Only the first verdict counts: what follows are its consequences.
  void tell_all(const CommVerdict& verdict) {
    if (failed_) return;
    for (int other = 0; other < size_; ++other)
      if (other != rank_) send_(other, verdict_letter, pack(verdict));
    believe(verdict);
  }
  void believe(const CommVerdict& verdict) {
    if (failed_) return;
    verdict_ = verdict;
    believed_();
    failed_ = true;
  }

  int rank_, size_;
  Send send_;
  std::function<void()> believed_;
  struct Question {
    int64_t round, tests;  // tests: that there had been when it came
  };
  int sure_after_;
  int64_t tests_ = 0, reported_epoch_ = 0;
  std::deque<Question> asked_;
  WaitMonitor monitor_;  // used by rank 0 only
  std::map<std::pair<uint64_t, int64_t>, SameCall> calls_;
  std::set<std::pair<uint64_t, int64_t>> same_;
  CommVerdict verdict_;                              // written once, before failed_
  std::atomic<bool> failed_ = false, told_ = false;  // told_: this rank knows
  std::atomic<int64_t> epoch_ = 0;
  int64_t seen_epoch_ = -1;  // since when nothing has moved, and whether that has been reported
  std::chrono::steady_clock::time_point still_since_;
  bool reported_ = false;
};

}  // namespace yotta
