// MpiControlPlane: the control plane (control_plane.hpp) of a rank by MPI.
//
//     MpiControlChannel   carries control messages between the ranks, on an MPI communicator of its
//                         own, so that they never meet the ranks' data messages
//     a thread            receives them, gives them to the control plane, and checks whether all
//                         processes of this host live; sleeps; again and again
//     the rank            asks: has a rank failed? reports that it waits; has its calls compared
//
// Polling for control messages is also what makes MPI progress: a large message, or an
// MPI_Iallreduce, advances while the rank computes and calls nothing. If MPI was started without
// MPI_THREAD_MULTIPLE there is no thread: the rank polls itself whenever it communicates, and
// nothing advances in between.
// Cost: 1000 polls per second, some 5000 while something is in flight; no control message unless
// something is wrong.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <array>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "yotta/comm/mpi/mpi_library.hpp"
#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/waiting/control_plane.hpp"

namespace yotta {

// Any thread may call it, one at a time.
class MpiControlChannel {
 public:
  struct Message {
    int from = 0, kind = 0;
    std::string text;
  };

  MpiControlChannel(MPI_Comm over, Where where) : comm_(MpiComm::duplicate(over, where)) {
    MPI_Comm_rank(comm_.get(), &rank_);
    MPI_Comm_size(comm_.get(), &size_);
    sent_.assign(static_cast<size_t>(size_), 0);
    taken_ = sent_;
    addressed_ = sent_;
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_.get(); }

  // Returns at once; the text is kept until MPI has sent it.
  void send(int to, int kind, std::string text) {
    if (closing_) return;
    Outgoing& message = outgoing_.emplace_back();
    message.text = std::move(text);
    ++sent_[static_cast<size_t>(to)];
    MPI_Isend(message.text.data(), static_cast<int>(message.text.size()), MPI_CHAR, to, kind,
              comm_.get(), &message.request);
  }
  // Takes a message that has come, if any; never waits.
  bool take(Message& message) {
    release_sent();
    int arrived = 0, length = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.get(), &arrived, &status) != MPI_SUCCESS ||
        arrived == 0)
      return false;
    MPI_Get_count(&status, MPI_CHAR, &length);
    message = {status.MPI_SOURCE, status.MPI_TAG, std::string(static_cast<size_t>(length), ' ')};
    MPI_Recv(message.text.data(), length, MPI_CHAR, message.from, message.kind, comm_.get(),
             MPI_STATUS_IGNORE);
    ++taken_[static_cast<size_t>(message.from)];
    return true;
  }

  // All ranks call it, again and again until it is true: then all messages have been taken, and all
  // ranks know how many there were. From the first call on nothing is sent any more.
  bool close() {
    if (!closing_) {
      closing_ = true;
      MPI_Ialltoall(sent_.data(), 1, MPI_INT, addressed_.data(), 1, MPI_INT, comm_.get(), &counts_);
    }
    Message late;
    while (take(late)) continue;
    int known = 1;
    if (counts_ != MPI_REQUEST_NULL) MPI_Test(&counts_, &known, MPI_STATUS_IGNORE);
    return known != 0 && outgoing_.empty() && taken_ == addressed_;
  }
  // Never frees what is in flight: MPI may still read it.
  void abandon() {
    comm_.abandon();
    abandoned().splice(abandoned().end(), outgoing_);
  }

 private:
  struct Outgoing {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static std::list<Outgoing>& abandoned() {
    static auto* messages = new std::list<Outgoing>;
    return *messages;
  }
  void release_sent() {
    for (auto message = outgoing_.begin(); message != outgoing_.end();) {
      int done = 0;
      MPI_Test(&message->request, &done, MPI_STATUS_IGNORE);
      message = done != 0 ? outgoing_.erase(message) : std::next(message);
    }
  }

  MpiComm comm_;
  int rank_ = 0, size_ = 1;
  std::list<Outgoing> outgoing_;
  std::vector<int> sent_, taken_,
      addressed_;  // by rank: messages sent to it, taken from it, that it has sent here
  MPI_Request counts_ = MPI_REQUEST_NULL;
  bool closing_ = false;
};

class MpiControlPlane {
 public:
  // All ranks of `over` make one together.
  MpiControlPlane(MPI_Comm over, bool with_thread, Where where)
      : channel_(over, where),
        control_plane_(
            channel_.rank(), channel_.size(),
            [this](int to, int kind, const std::string& text) { channel_.send(to, kind, text); },
            [this] { confirm_failure(); }, /*tests_before_answer=*/2),
        with_thread_(with_thread) {
    watch_processes();
    if (with_thread_) thread_ = std::thread([this] { poll_messages(); });
  }
  ~MpiControlPlane() {
    stop();
    if (!closed_) channel_.abandon();
  }
  MpiControlPlane(const MpiControlPlane&) = delete;
  MpiControlPlane& operator=(const MpiControlPlane&) = delete;
  int rank() const { return channel_.rank(); }
  int size() const { return channel_.size(); }

  // --- failures ---
  bool failed() const { return control_plane_.failed(); }
  void check(Where where) {
    if (!with_thread_) look();
    control_plane_.check(where);
  }
  void check_at_end(Where where) { control_plane_.check_at_end(where); }
  void fail(const std::string& message) {
    const std::lock_guard lock(mutex_);
    control_plane_.fail(message);
  }
  // After a failure: does every rank know of it, so that none starts anything more? (A dead process
  // cannot confirm. Then the processes of its host notice by themselves, and no rank waits for
  // those of other hosts.)
  bool all_have_heard() {
    look();
    const std::lock_guard lock(mutex_);
    if (processes_.ended() >= 0) return failed();
    int heard = 1;
    if (heard_ != MPI_REQUEST_NULL) MPI_Test(&heard_, &heard, MPI_STATUS_IGNORE);
    return failed() && heard != 0;
  }

  // --- waiting ---
  // A request of this rank was posted (+1), or is done (-1).
  void moved(int more_in_flight) {
    control_plane_.moved();
    in_flight_ += more_in_flight;
  }
  // This rank has tested all its requests, and none is done.
  void tested() {
    const std::lock_guard lock(mutex_);
    control_plane_.tested();
  }
  int64_t epoch() const { return control_plane_.epoch(); }
  double seconds_still() { return control_plane_.seconds_still(); }
  bool should_report(double patience, RankWait::State state) {
    return control_plane_.should_report(patience, state);
  }
  void report(const WaitReport& report) {
    const std::lock_guard lock(mutex_);
    control_plane_.report(report);
  }
  void compare(uint64_t group, int64_t number, int ranks, int home, bool confirm,
               const Call& call) {
    const std::lock_guard lock(mutex_);
    control_plane_.compare(group, number, ranks, home, confirm, call);
  }
  bool is_confirmed(uint64_t group, int64_t number) {
    look();
    const std::lock_guard lock(mutex_);
    return control_plane_.is_confirmed(group, number);
  }

  // A group is made inside MPI, which waits for its members forever. So they first tell each other
  // that they are ready, and then enter MPI together. False: a rank has failed, and a member will
  // not come.
  bool all_ready(uint64_t group, std::span<const int> members) {
    MessageWriter message;
    message.put(group);
    {
      const std::lock_guard lock(mutex_);
      if (failed()) return false;
      for (const int member : members)
        if (member != rank()) channel_.send(member, ready_message, message.bytes());
    }
    const auto all = [&] {
      look();
      const std::lock_guard lock(mutex_);
      return ready_[group] + 1 == std::ssize(members);
    };
    poll_until([&] { return all() || all_have_heard(); });
    poll_until(all, 1);  // a message may be on its way
    return all();
  }

  // Takes what has come. Returns at once if another thread is doing so.
  void look() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    MpiControlChannel::Message message;
    while (channel_.take(message)) {
      if (message.kind == ready_message)
        ++ready_[MessageReader(message.text).take<uint64_t>()];
      else
        control_plane_.read(message.from, message.kind, message.text);
    }
    control_plane_.answer_questions();
  }
  // All ranks call it last, again and again until it is true, or until a process has died.
  bool close() {
    stop();
    check_processes();
    closed_ = closed_ || channel_.close();
    return closed_;
  }

 private:
  void poll_messages() {
    for (int64_t looks = 0; !stopped_; ++looks) {
      look();
      if (looks % 64 == 0) check_processes();
      std::this_thread::sleep_for(std::chrono::microseconds(in_flight_ > 0 ? 200 : 1000));
    }
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Tells the others that this rank knows of a failure. Not once the channel is closed: the others
  // may have ended.
  void confirm_failure() {
    if (!closed_) MPI_Ibarrier(channel_.comm(), &heard_);
  }

  void watch_processes() {
    const ProcessAddress mine = own_address();
    std::vector<ProcessAddress> all(static_cast<size_t>(size()));
    const int bytes = sizeof mine;
    wait_sleeping([&](MPI_Request* request) {
      return MPI_Iallgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, channel_.comm(),
                            request);
    });
    for (int other = 0; other < size(); ++other)
      processes_.add(other, all[static_cast<size_t>(other)]);
    hosts_ = std::move(all);
  }
  void check_processes() {
    const int other = processes_.ended();
    if (other < 0) return;
    const std::lock_guard lock(mutex_);
    control_plane_.lost(other, describe_lost_process(other, hosts_[static_cast<size_t>(other)]));
  }

  static constexpr int ready_message = ControlPlane::kinds;  // of all_ready

  std::mutex mutex_;  // guards all that follows, except the atomics
  MpiControlChannel channel_;
  ControlPlane control_plane_;
  std::map<uint64_t, int64_t> ready_;  // by group: members that have said they are ready
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
