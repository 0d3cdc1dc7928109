// MpiLookout: MPI's lookout (control_plane.hpp): what a rank hears beside its messages travels as letters (control_channel.hpp).
//
//     thread: take a letter, lookout.read() it, look whether all processes of this host live, sleep   again and again
//     rank:   has somebody failed?   report that it waits   compare calls
//
// Looking for letters is also what makes MPI move on: a large message, or an MPI_Iallreduce, advances while the rank
// computes and calls nothing. If MPI was started without MPI_THREAD_MULTIPLE there is no thread: the rank looks
// itself, whenever it communicates, and nothing advances in between.
// Cost: 1000 looks a second, some 5000 while something is in flight; no letter unless something is wrong.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <mutex>
#include <thread>

#include "yotta/comm/waiting/control_plane.hpp"
#include "yotta/comm/mpi/control_channel.hpp"
#include "yotta/comm/processes/process_watch.hpp"

namespace yotta {

class MpiLookout {
 public:
  // All ranks of `over` make one together.
  MpiLookout(MPI_Comm over, bool with_thread, Where where)
      : mail_(over, where),
        lookout_(
            mail_.rank(), mail_.size(),
            [this](int to, int kind, const std::string& text) { mail_.send(to, kind, text); },
            [this] { say_heard(); }, /*sure_after=*/2),
        with_thread_(with_thread) {
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
  bool failed() const { return lookout_.failed(); }
  void check(Where where) {
    if (!with_thread_) look();
    lookout_.check(where);
  }
  void check_at_end(Where where) { lookout_.check_at_end(where); }
  void fail(const std::string& message) {
    const std::lock_guard lock(mutex_);
    lookout_.fail(message);
  }
  // After a failure: does every rank know of it, so that none starts anything more? (Who is dead will never; and who
  // lives on its host knows.)
  bool all_have_heard() {
    look();
    const std::lock_guard lock(mutex_);
    if (processes_.ended() >= 0) return failed();
    int heard = 1;
    if (heard_ != MPI_REQUEST_NULL) MPI_Test(&heard_, &heard, MPI_STATUS_IGNORE);
    return failed() && heard != 0;
  }

  // --- waiting ---
  // Counts what this rank posts and what is done.
  void moved(int more_in_flight) {
    lookout_.moved();
    in_flight_ += more_in_flight;
  }
  // This rank has tested all that it waits for, in vain.
  void tested() {
    const std::lock_guard lock(mutex_);
    lookout_.tested();
  }
  int64_t epoch() const { return lookout_.epoch(); }
  double still() { return lookout_.still(); }
  bool should_report(double patience) { return lookout_.should_report(patience); }
  void report(const WaitReport& report) {
    const std::lock_guard lock(mutex_);
    lookout_.report(report);
  }
  void compare(uint64_t group, int64_t number, int ranks, int home, bool tell, const Call& call) {
    const std::lock_guard lock(mutex_);
    lookout_.compare(group, number, ranks, home, tell, call);
  }
  bool all_call(uint64_t group, int64_t number) {
    look();
    const std::lock_guard lock(mutex_);
    return lookout_.all_call(group, number);
  }

  // A group is made inside MPI, which waits for its members for ever. So they first tell each other that they come, and
  // go in together. False: a rank has failed, and one of them does not come.
  bool all_come(uint64_t group, std::span<const int> members) {
    MessageWriter letter;
    letter.put(group);
    {
      const std::lock_guard lock(mutex_);
      if (failed()) return false;
      for (const int member : members)
        if (member != rank()) mail_.send(member, coming, letter.bytes());
    }
    const auto all = [&] {
      look();
      const std::lock_guard lock(mutex_);
      return coming_[group] + 1 == std::ssize(members);
    };
    look_in_naps([&] { return all() || all_have_heard(); });
    look_in_naps(all, 1);  // a letter may be on its way
    return all();
  }

  // Takes what has come. At once, if another thread does so just now.
  void look() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    MpiMail::Letter letter;
    while (mail_.take(letter)) {
      if (letter.kind == coming)
        ++coming_[MessageReader(letter.text).take<uint64_t>()];
      else
        lookout_.read(letter.from, letter.kind, letter.text);
    }
    lookout_.answer_questions();
  }
  // The last call, by all ranks, again and again until true, or until a process has died.
  bool close() {
    stop();
    look_at_processes();
    closed_ = closed_ || mail_.close();
    return closed_;
  }

 private:
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
  // Once the letters are closed the others may have gone: nobody waits for this rank any more.
  void say_heard() {
    if (!closed_) MPI_Ibarrier(mail_.comm(), &heard_);
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
    lookout_.lost(other, describe_end(other, hosts_[static_cast<size_t>(other)]));
  }

  static constexpr int coming = ControlPlane::kinds;  // a letter of all_come

  std::mutex mutex_;  // over all that follows, but for the atomic
  MpiMail mail_;
  ControlPlane lookout_;
  std::map<uint64_t, int64_t> coming_;  // by group: members that have told this one
  MPI_Request heard_ = MPI_REQUEST_NULL;
  ProcessWatch processes_;
  std::vector<ProcessAddress> hosts_;  // by rank
  bool with_thread_, closed_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> in_flight_ = 0;
  std::thread thread_;
};

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
