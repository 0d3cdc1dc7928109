// MpiLookout: what a rank in a process of its own must hear beside its messages.
//
//     a rank throws             ──► a verdict to all: their calls throw PeerFailed
//     a process of this host    ──► the same, by those who see it end (process_watch.hpp)
//       is killed
//     ranks wait in a circle    ──► reports to rank 0, questions, a verdict: Deadlock (wait_monitor.hpp)
//     collectives differ        ──► notes of calls, compared by one rank of the group: Mismatch, both places; or
//                                   "all the same", for who must know before he lets MPI run it
//
// It has a thread, which looks for letters (mpi_mail.hpp) and sleeps in between. Looking for letters is also what
// makes MPI move on: a large message, or an MPI_Iallreduce, advances while the rank computes and calls nothing. If
// MPI was started without MPI_THREAD_MULTIPLE there is no thread: the rank looks itself, whenever it communicates,
// and nothing advances in between.
// Cost: 1000 looks a second, some 5000 while something is in flight; no letter unless something is wrong.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "yotta/comm/mpi_mail.hpp"
#include "yotta/comm/process_watch.hpp"
#include "yotta/comm/wait_monitor.hpp"

namespace yotta {

class MpiLookout {
 public:
  // All ranks of `over` make one together.
  MpiLookout(MPI_Comm over, bool with_thread, Where where)
      : mail_(over, where), monitor_(mail_.size()), with_thread_(with_thread) {
    watch_processes();
    if (with_thread_) thread_ = std::thread([this] { look_on(); });
  }
  ~MpiLookout() {
    stop();
    if (!closed_) mail_.abandon();
  }
  MpiLookout(const MpiLookout&) = delete;
  MpiLookout& operator=(const MpiLookout&) = delete;
  int rank() const { return mail_.rank(); }
  int size() const { return mail_.size(); }

  // --- failures ---
  bool failed() const { return failed_; }
  void check(Where where) {
    if (!with_thread_) look();
    if (!failed_) return;
    const std::lock_guard lock(mutex_);
    const bool culprit = std::count(verdict_.culprits.begin(), verdict_.culprits.end(), rank()) > 0;
    if (verdict_.kind == CommVerdict::Kind::death) throw PeerFailed(where, verdict_.text);
    if (!culprit)
      fail_as<PeerFailed>(where, "rank {} has failed: {}", verdict_.culprits[0], verdict_.text);
    if (verdict_.kind == CommVerdict::Kind::deadlock) throw Deadlock(where, verdict_.text);
    if (verdict_.kind == CommVerdict::Kind::mismatch) throw Mismatch(where, verdict_.text);
    fail_as<CommError>(where, "this rank has failed before, its world is over: {}", verdict_.text);
  }
  void fail(const std::string& message) {
    const std::lock_guard lock(mutex_);
    tell_all({CommVerdict::Kind::failure, {rank()}, message});
  }
  // After a failure: does every rank know of it, so that none starts anything more?
  bool all_have_heard() {
    look();
    const std::lock_guard lock(mutex_);
    int heard = 1;
    if (heard_ != MPI_REQUEST_NULL) MPI_Test(&heard_, &heard, MPI_STATUS_IGNORE);
    return failed_ && heard != 0;
  }

  // --- waiting ---
  // Counts what this rank posts and what is done.
  void moved(int more_in_flight) {
    ++epoch_;
    in_flight_ += more_in_flight;
  }
  int64_t epoch() const { return epoch_; }
  void report(const WaitReport& report) {
    const std::lock_guard lock(mutex_);
    if (rank() == 0) return follow(monitor_.report(0, report));
    mail_.send(0, report_letter, pack(report));
  }
  // A rank of a group calls its collective `number`: `home`, a rank of the group, compares. With `tell` it lets all
  // know when they have called the same.
  void compare(uint64_t group, int64_t number, int ranks, int home, bool tell, const Call& call) {
    MessageWriter note;
    note.put(Note{group, number, ranks, tell});
    note.put(describe_operation(call));
    note.put(at(call.where));
    const std::lock_guard lock(mutex_);
    if (home == rank()) return compare_note(rank(), note.bytes());
    mail_.send(home, call_letter, note.bytes());
  }

  // Have they? Then it is forgotten.
  bool all_call(uint64_t group, int64_t number) {
    look();
    const std::lock_guard lock(mutex_);
    return same_.erase({group, number}) > 0;
  }

  // Takes what has come. At once, if another thread does so just now.
  void look() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    MpiMail::Letter letter;
    while (mail_.take(letter)) read(letter);
  }
  // The last call, by all ranks, again and again until true.
  bool close() {
    stop();
    closed_ = closed_ || mail_.close();
    return closed_;
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

  void look_on() {
    for (int64_t looks = 0; !stopped_; ++looks) {
      look();
      if (looks % 64 == 0) look_at_processes();
      std::this_thread::sleep_for(std::chrono::microseconds(in_flight_ > 0 ? 200 : 1000));
    }
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void read(const MpiMail::Letter& letter) {
    MessageReader reader(letter.text);
    switch (letter.kind) {
      case verdict_letter: return believe(unpack_verdict(letter.text));
      case report_letter: return follow(monitor_.report(letter.from, unpack_report(letter.text)));
      case question_letter: {
        MessageWriter answer;
        answer.put(reader.take<int64_t>());
        answer.put(epoch_.load());
        return mail_.send(0, answer_letter, answer.bytes());
      }
      case answer_letter: {
        const auto round = reader.take<int64_t>();
        return follow(monitor_.answer(letter.from, round, reader.take<int64_t>()));
      }
      case same_letter: {
        const auto note = reader.take<Note>();
        same_.insert({note.group, note.number});
        return;
      }
      default: return compare_note(letter.from, letter.text);
    }
  }
  // What the monitor, on rank 0, wants done.
  void follow(const WaitMonitor::Outcome& outcome) {
    if (outcome.verdict) return tell_all(*outcome.verdict);
    for (const int suspect : outcome.ask) {
      if (suspect == 0) continue;
      MessageWriter question;
      question.put(outcome.round);
      mail_.send(suspect, question_letter, question.bytes());
    }
    if (!outcome.ask.empty() && outcome.ask[0] == 0)
      follow(monitor_.answer(0, outcome.round, epoch_));
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
      if (note.tell && other != rank()) mail_.send(other, same_letter, same.bytes());
    if (note.tell) same_.insert({note.group, note.number});
    calls_.erase({note.group, note.number});
  }

  // Only the first verdict counts: what follows are its consequences.
  void tell_all(const CommVerdict& verdict) {
    if (failed_) return;
    for (int other = 0; other < size(); ++other)
      if (other != rank()) mail_.send(other, verdict_letter, pack(verdict));
    believe(verdict);
  }
  void believe(const CommVerdict& verdict) {
    if (failed_) return;
    verdict_ = verdict;
    MPI_Ibarrier(mail_.comm(), &heard_);
    failed_ = true;
  }

  void watch_processes() {
    const ProcessAddress mine = own_address();
    std::vector<ProcessAddress> all(static_cast<size_t>(size()));
    const int bytes = sizeof mine;
    wait_in_naps([&](MPI_Request* request) {
      return MPI_Iallgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, mail_.comm(),
                            request);
    });
    for (int other = 0; other < size(); ++other)
      processes_.add(other, all[static_cast<size_t>(other)]);
    hosts_ = std::move(all);
  }
  void look_at_processes() {
    const int other = processes_.ended();
    if (other < 0) return;
    const std::lock_guard lock(mutex_);
    tell_all({CommVerdict::Kind::death,
              {other},
              describe_end(other, hosts_[static_cast<size_t>(other)])});
  }

  std::mutex mutex_;  // over all that follows, but for the atomic
  MpiMail mail_;
  WaitMonitor monitor_;  // used by rank 0 only
  std::map<std::pair<uint64_t, int64_t>, SameCall> calls_;
  std::set<std::pair<uint64_t, int64_t>> same_;
  CommVerdict verdict_;
  MPI_Request heard_ = MPI_REQUEST_NULL;
  ProcessWatch processes_;
  std::vector<ProcessAddress> hosts_;  // by rank
  bool with_thread_, closed_ = false;
  std::atomic<bool> failed_ = false, stopped_ = false;
  std::atomic<int64_t> epoch_ = 0;
  std::atomic<int> in_flight_ = 0;
  std::thread thread_;
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
