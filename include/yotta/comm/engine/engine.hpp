// Engine: what makes a rank wait, and what moves its asynchronous collectives on.
//
//     rank's main code                       fibers, one per collective in flight
//     ────────────────                       ──────────────────────────────────
//     all_reduce_async() ───────────────────► first send_recv posted, not done: suspend
//     compute                                      (nothing moves: there are no helper threads)
//     recv(): not there yet, so meanwhile ──► is its message there? go on, post the next, suspend
//     work.wait(): the same until it is done
//
// A blocking call runs on the rank's own stack. An asynchronous collective is the same plain loop
// of sends and receives in a fiber; it moves on inside any communication call of its rank, and only
// there. The collectives of one communicator run in the order of their calls, one after the other,
// as on a stream of NCCL; those of different communicators side by side.
#pragma once

#include <time.h>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <thread>

#include "yotta/comm/engine/asking.hpp"
#include "yotta/comm/engine/engine_options.hpp"
#include "yotta/comm/engine/in_flight_op.hpp"
#include "yotta/comm/failures.hpp"

namespace yotta {

class Engine {
 public:
  Engine(std::shared_ptr<Transport> transport, EngineOptions options)
      : transport_(std::move(transport)), options_(std::move(options)) {}

  Transport& transport() { return *transport_; }
  const EngineOptions& options() const { return options_; }

  // On entry to every call of the user: is this rank in a state to communicate?
  void enter(Where where) {
    expect_own_thread(where);
    stop_asking();
    look(where);
  }
  // The same for done(): is the job done? Returns at once, but a rank that has only asked for a
  // second sleeps a moment (asking.hpp).
  // Errors: as those of wait().
  bool ask(InFlightOp& job, Where where) {
    expect_own_thread(where);
    const double time = now();
    const Asking::Manner manner = asking_.ask(&job, time, seconds_computed());
    if (manner != Asking::Manner::waiting) awake();
    look(where);
    if (is_done(job)) return true;
    if (asking_.asked_for(time) > options_.timeout) time_out({&job.call, where, {}, -1});
    if (manner != Asking::Manner::briefly) {
      show_asked(job, where, manner == Asking::Manner::beside_work);
      transport_->sleep(strands_, manner == Asking::Manner::waiting ? Asking::short_sleep : 0);
    }
    asking_.answered(seconds_computed());
    return is_done(job);
  }

  // The clock's lane of this rank's next communicator. (Groups are numbered in the order in which
  // ranks happen to come; a timeline must not depend on that.)
  int new_lane() { return --last_lane_; }

  // Blocks whoever runs, a fiber or the main code, until the requests are done.
  // Errors: Deadlock, PeerFailed, Timeout.
  void wait(const Waiting& waiting) {
    if (running_ != nullptr) {
      running_->waiting = waiting;
      const int lane = context().lane;
      while (!is_ready(waiting)) Fiber::suspend();
      context().lane = lane;
    } else {
      wait_until(waiting, nullptr, [&] { return is_ready(waiting); });
    }
    for (Request* request : waiting.requests)
      if (request != nullptr) join(*request);
  }
  // The same for a job, by the main code. If it has failed, its error is thrown here.
  void wait(InFlightOp& job, Where where) {
    wait_until({&job.call, where, {}, -1}, &job, [&] { return is_done(job); });
    if (job.request.call != nullptr) transport_->join(job.request);
    if (job.error) std::rethrow_exception(job.error);
  }
  bool is_done(InFlightOp& job) {
    if (job.body && !job.ended) return false;
    return job.request.call == nullptr || transport_->test(job.request);
  }
  // Of the Work whose fiber runs; null: the main code runs. What a collective posts with it, it
  // does not wait for: who waits for the Work does.
  Request* request_of_work() { return running_ == nullptr ? nullptr : &running_->request; }

  // Puts a collective behind the others of its group, and starts it if it is the first.
  void start(std::shared_ptr<InFlightOp> job) {
    std::deque<std::shared_ptr<InFlightOp>>& queue = queues_[job->group];
    if (job->is_queued) to_begin_.push_back(job.get());
    queue.push_back(std::move(job));
    if (queue.size() == 1) advance();
  }
  // Collectives that the transport queues reach it in the order of the calls, whatever their
  // groups: a blocking one waits until those called before it have begun.
  void wait_for_turn(const Call& call) {
    wait_until({&call, call.where, {}, -1}, nullptr, [&] { return to_begin_.empty(); });
  }
  // The newest collective of a group that has not ended; null if all have.
  std::shared_ptr<InFlightOp> last(int group) {
    const auto queue = queues_.find(group);
    return queue == queues_.end() || queue->second.empty() ? nullptr : queue->second.back();
  }
  // Moves on whatever can be moved on. True if anything was.
  bool advance() {
    bool moved = false;
    for (auto& [group, queue] : queues_) {
      while (!queue.empty() && resume(*queue.front())) {
        moved = true;
        if (queue.front()->ended) queue.pop_front();
      }
    }
    std::erase_if(queues_, [](const auto& queue) { return queue.second.empty(); });
    release_detached();
    return moved;
  }

  // Posts a send whose data is a copy, and keeps both until somebody has taken it.
  void post_detached(std::unique_ptr<InFlightOp> send, std::shared_ptr<void> copy) {
    send->request.is_detached = true;
    transport_->post(send->request);
    if (!send->request.done) detached_.emplace_back(std::move(send), std::move(copy));
  }

  // A Work that is dropped unfinished leaves other ranks waiting for messages that will not come.
  void drop(const std::shared_ptr<InFlightOp>& job) {
    stop_asking();
    if (!transport_->failed()) {  // else it is only a consequence
      poison_ =
          fmt::format("the Work of {} was dropped before it was done; keep it and wait() for it",
                      describe(job->call));
      transport_->fail(poison_);
    }
    if (job->request.call != nullptr && !job->request.done) transport_->withdraw(job->request);
    std::erase(to_begin_, job.get());
    job->worker.reset();  // unwinds its stack, which withdraws its requests
    job->ended = true;
    if (job->body) std::erase(queues_[job->group], job);
  }

  // The end of the rank's code. Throws if a Work was dropped and no call has said so yet.
  void end(Where where) {
    stop_asking();
    for (auto& [group, queue] : queues_)
      while (!queue.empty()) drop(std::shared_ptr<InFlightOp>(queue.front()));
    idle_.clear();
    ended_ = true;
    if (!poison_.empty() && !poison_heard_) throw CommError(where, poison_);
  }

 private:
  void expect_own_thread(Where where) const {
    if (ended_) fail(where, "this communicator's world has ended; use it inside run_ranks only");
    if (std::this_thread::get_id() != thread_)
      fail(where, "a communicator belongs to its rank: rank {}'s was used by another thread",
           transport_->rank());
  }
  void look(Where where) {
    if (running_ != nullptr)
      fail(where, "inside a collective only its channel may be used, not a communicator");
    if (!poison_.empty()) {
      poison_heard_ = true;
      throw CommError(where, poison_);
    }
    transport_->check(where);
    advance();
  }

  // The rank does something other than ask done(): what it told the transport about waiting no
  // longer holds.
  void stop_asking() {
    asking_.stop();
    awake();
  }
  void awake() {
    if (std::exchange(asleep_, false)) transport_->awake();
  }

  // Orders later work after a request that is done.
  void join(Request& request) {
    if (request.kind != Request::Kind::meet) transport_->join(request);
  }

  // Forgets the detached sends that have been received. It looks at all of them once in n / 8 calls
  // while there are n, so a call looks at eight on average.
  void release_detached() {
    detached_looks_ += 8;
    if (detached_looks_ < detached_.size()) return;
    detached_looks_ = 0;
    std::erase_if(detached_, [&](auto& send) { return transport_->test(send.first->request); });
  }

  // How often a rank looks before it sleeps. A look costs half a microsecond, being woken up to 50.
  static constexpr int least_looks = 4, most_looks = 100;
  // What comes so soon would have come while it looked; a look that takes so long has given the
  // core to another program.
  static constexpr double soon = 100e-6, long_look = 1e-3;

  bool is_ready(const Waiting& waiting) {
    for (Request* request : waiting.requests)
      if (request != nullptr && !transport_->test(*request)) return false;
    return true;
  }

  // The one loop in which a rank's main code waits: look, move fibers on, look again, sleep.
  template <class Ready>
  void wait_until(const Waiting& waiting, InFlightOp* job, Ready ready) {
    std::optional<double> deadline;
    while (!ready()) {
      if (comes_while_looking(ready)) continue;
      const double asleep = seconds_of_clock();
      if (!deadline) deadline = now() + options_.timeout;
      sleep(waiting, job, *deadline);
      const bool was_soon = seconds_of_clock() - asleep < soon;
      looks_ = was_soon ? std::min(2 * looks_, most_looks) : std::max(looks_ / 2, least_looks);
    }
  }
  // Looks for a while. False: nothing has moved, and it is time to sleep.
  template <class Ready>
  bool comes_while_looking(Ready ready) {
    double last = seconds_of_clock();
    for (int looked = 1; !advance(); ++looked) {
      if (looked == looks_) return false;
      std::this_thread::yield();
      if (ready()) return true;
      const double before = std::exchange(last, seconds_of_clock());
      if (last - before > long_look) return false;
    }
    return true;
  }
  void sleep(const Waiting& waiting, InFlightOp* job, double deadline) {
    const double left = deadline - now();
    if (!(left > 0)) time_out(waiting);
    show(waiting, job);
    // A clock that the user has set cannot wake us, so we look at it now and then.
    transport_->sleep(strands_, std::min(left, options_.now ? 0.001 : 3600.0));
  }
  // All strands of this rank, for the transport: main code first, then the collective that runs in
  // each group.
  void show(const Waiting& main, InFlightOp* job) {
    strands_.assign(1, main);
    for (const auto& [group, queue] : queues_)
      if (!queue.empty()) strands_.push_back(queue.front()->waiting);
    if (job != nullptr) strands_[0] = waiting_for(*job, main.where);
  }
  // The same for a rank that asks done(). It can go on when any is done of those that it asks for.
  void show_asked(InFlightOp& job, Where where, bool beside_work) {
    show({&job.call, where, {}, -1}, &job);
    strands_[0].only_asks = beside_work;
    for (InFlightOp* const other : asking_.asked())
      if (other != &job) strands_.push_back(waiting_for(*other, where));
    asleep_ = asleep_ || !beside_work;
  }
  // A strand of the main code that waits for a job.
  Waiting waiting_for(InFlightOp& job, Where where) const {
    if (!job.body || job.ended) return {&job.call, where, {&job.request, nullptr}, -1};
    int strand = 0;
    for (const auto& [group, queue] : queues_) {
      strand += queue.empty() ? 0 : 1;
      if (group == job.group) break;
    }
    return {&job.call, where, {}, strand};
  }
  [[noreturn]] void time_out(const Waiting& waiting) {
    const std::string message = fmt::format(
        "rank {} has waited for more than {} s in {}; the other ranks still run, but have not "
        "joined. "
        "If they only need longer, raise RunOptions::timeout",
        transport_->rank(), options_.timeout, describe(*waiting.call));
    transport_->fail(message);
    throw Timeout(waiting.where, message);
  }
  double now() const { return options_.now ? options_.now() : seconds_of_clock(); }
  static double seconds_of_clock() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
  }

  // Of this thread.
  static double seconds_computed() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  // Runs a collective until it waits again; false if it has to wait still.
  bool resume(InFlightOp& job) {
    if (job.worker ? !is_ready(job.waiting) : job.is_queued && to_begin_.front() != &job)
      return false;
    if (!job.worker && job.is_queued) to_begin_.pop_front();
    running_ = &job;
    const int lane = context().lane;
    if (job.worker) {
      job.worker->resume();
    } else {
      job.worker = idle_worker();
      job.worker->start(job.body);
    }
    running_ = nullptr;
    context().lane = lane;
    if (!job.worker->idle()) return true;
    job.ended = true;
    job.error = job.worker->error();
    idle_.push_back(std::move(job.worker));
    return true;
  }
  std::unique_ptr<FiberWorker> idle_worker() {
    if (idle_.empty()) return std::make_unique<FiberWorker>();
    std::unique_ptr<FiberWorker> worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }

  std::shared_ptr<Transport> transport_;
  EngineOptions options_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::map<int, std::deque<std::shared_ptr<InFlightOp>>>
      queues_;                              // by group; the first of each runs
  std::deque<const InFlightOp*> to_begin_;  // of those that the transport queues
  std::vector<std::pair<std::unique_ptr<InFlightOp>, std::shared_ptr<void>>> detached_;
  size_t detached_looks_ = 0;  // that could have been taken since the last
  std::vector<std::unique_ptr<FiberWorker>> idle_;
  std::vector<Waiting> strands_;  // while the rank sleeps
  int looks_ = most_looks;        // before it sleeps: fewer if waits have been long lately
  Asking asking_;
  bool asleep_ = false;            // it only asks, and the transport takes it for one that waits
  InFlightOp* running_ = nullptr;  // whose fiber runs now
  int last_lane_ = -1;             // the world's
  std::string poison_;
  bool poison_heard_ = false;
  std::atomic<bool> ended_ = false;  // another thread may ask, wrongly
};

}  // namespace yotta
