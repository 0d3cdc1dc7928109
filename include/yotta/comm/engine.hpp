// Engine: what makes a rank wait, and what moves its asynchronous collectives on.
//
//     rank's main code                       fibers, one a collective in flight
//     ────────────────                       ──────────────────────────────────
//     all_reduce_async() ───────────────────► first send_recv posted, not done: suspend
//     compute                                      (nothing moves: there are no helper threads)
//     recv(): not there yet, so meanwhile ──► is its message there? go on, post the next, suspend
//     work.wait(): the same until it is done
//
// A blocking call runs on the rank's own stack. An asynchronous collective is the same plain loop of
// sends and receives in a fiber; it moves on inside any communication call of its rank, and only there.
// The collectives of one communicator run in the order of their calls, one after the other, as on a
// stream of NCCL; those of different communicators side by side.
#pragma once

#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include "yotta/comm/failures.hpp"
#include "yotta/comm/transport.hpp"
#include "yotta/core/context.hpp"
#include "yotta/core/fiber.hpp"

namespace yotta {

struct EngineOptions {
  bool buffered_sends = true;   // send() copies and returns; false: it waits for the receiver
  bool check_buffers = false;   // watch the buffers of operations in flight (work.hpp)
  double timeout = 600;         // seconds that one call may wait
  std::function<double()> now;  // the clock for it; empty: the computer's
  int spins = 100;              // how often a waiting rank looks before it sleeps
};

// Something in flight: a message, or a collective in a fiber.
struct Job {
  Call call;
  int group = 0;
  Request request;             // of a message
  std::function<void()> body;  // of a collective: runs in a fiber
  std::unique_ptr<Fiber> fiber;
  Waiting waiting;     // what the fiber waits for
  bool ended = false;  // the fiber
  std::exception_ptr error;
  std::function<void()> finish;  // on the first wait() that finds it done
  bool seen = false;             // the user knows that it is done
};

class Engine {
 public:
  Engine(std::shared_ptr<Transport> transport, EngineOptions options)
      : transport_(std::move(transport)), options_(std::move(options)) {}

  Transport& transport() { return *transport_; }
  const EngineOptions& options() const { return options_; }

  // On entry to every call of the user: is this rank still in a state to communicate?
  void enter(Where where) {
    if (ended_) fail(where, "this communicator's world has ended; use it inside run_ranks only");
    if (std::this_thread::get_id() != thread_)
      fail(where, "a communicator belongs to its rank: rank {}'s was used by another thread",
           transport_->rank());
    if (running_ != nullptr)
      fail(where, "inside a collective only its channel may be used, not a communicator");
    if (!poison_.empty()) {
      poison_heard_ = true;
      throw CommError(where, poison_);
    }
    transport_->check(where);
    advance();
  }

  // Blocks the strand that runs until the requests are done. Errors: Deadlock, PeerFailed, Timeout.
  void wait(Waiting waiting) {
    if (running_ != nullptr) {
      running_->waiting = waiting;
      while (!is_ready(waiting)) Fiber::suspend();
      return;
    }
    wait_until(waiting, [&] { return is_ready(waiting); });
  }
  // The same for something in flight. Its error, if it has one, is thrown here.
  void wait(Job& job, Where where) {
    Call call = job.call;
    call.where = where;
    wait_until(
        {&call, {}, -1}, [&] { return is_done(job); }, &job);
    if (job.error) std::rethrow_exception(job.error);
  }
  bool is_done(Job& job) { return job.body ? job.ended : transport_->test(job.request); }

  // Puts a collective behind the others of its group, and starts it if it is the first.
  void start(std::shared_ptr<Job> job) {
    std::deque<std::shared_ptr<Job>>& queue = queues_[job->group];
    queue.push_back(std::move(job));
    if (queue.size() == 1) advance();
  }
  // The last collective of a group that has not ended; null if all have.
  std::shared_ptr<Job> last(int group) {
    const auto queue = queues_.find(group);
    return queue == queues_.end() || queue->second.empty() ? nullptr : queue->second.back();
  }

  // Moves on whatever can be moved on. True if anything was.
  bool advance() {
    bool moved = false;
    for (auto& [group, queue] : queues_)
      while (!queue.empty() && resume(*queue.front())) {
        moved = true;
        if (!queue.front()->ended) break;
        queue.pop_front();
      }
    retire_sends();
    return moved;
  }

  // A send that has copied its data and needs nobody to wait for it.
  void post_detached(std::unique_ptr<Job> send, std::vector<std::byte> copy) {
    send->request.data.bytes = copy.data();
    transport_->post(send->request);
    if (!send->request.done) detached_.emplace_back(std::move(send), std::move(copy));
  }

  // A Work that is dropped unfinished leaves the others waiting for a message that will not come.
  void drop(const std::shared_ptr<Job>& job) {
    poison(fmt::format("the Work of {} was dropped before wait(); keep it and wait for it",
                       describe(job->call)));
    abandon(*job);
    if (job->body) std::erase(queues_[job->group], job);
  }

  // The end of the rank's code.
  void end(Where where) {
    ended_ = true;
    for (auto& [group, queue] : queues_)
      while (!queue.empty()) drop(std::shared_ptr<Job>(queue.front()));
    if (!poison_.empty() && !poison_heard_) throw CommError(where, poison_);
  }

 private:
  bool is_ready(const Waiting& waiting) {
    for (Request* request : waiting.requests)
      if (request != nullptr && !transport_->test(*request)) return false;
    return true;
  }

  // The one loop in which a rank's main code waits: look, move fibers on, look again, sleep.
  template <class Ready>
  void wait_until(Waiting waiting, Ready ready, Job* job = nullptr) {
    double deadline = std::numeric_limits<double>::quiet_NaN();
    for (int spins = 0; !ready();) {
      if (advance()) {
        spins = 0;
      } else if (++spins < options_.spins) {
        std::this_thread::yield();
      } else {
        if (std::isnan(deadline)) deadline = now() + options_.timeout;
        sleep(waiting, job, deadline);
        spins = 0;
      }
    }
  }
  void sleep(Waiting waiting, Job* job, double deadline) {
    const double left = deadline - now();
    if (left <= 0) time_out(waiting);
    strands_.assign(1, waiting);
    for (auto& [group, queue] : queues_) {
      if (queue.empty()) continue;
      strands_.push_back(queue.front()->waiting);
      if (job != nullptr && job->body && job->group == group)
        strands_[0].strand = static_cast<int>(strands_.size()) - 1;
    }
    if (job != nullptr && !job->body) strands_[0].requests[0] = &job->request;
    transport_->sleep(strands_, options_.now ? std::min(left, 0.001) : left);
  }
  [[noreturn]] void time_out(const Waiting& waiting) {
    const std::string message =
        fmt::format("rank {} has waited for {} s in {}; the others are alive but have not come",
                    transport_->rank(), options_.timeout, describe(*waiting.call));
    transport_->fail(message);
    throw Timeout(waiting.call->where, message);
  }
  double now() const {
    if (options_.now) return options_.now();
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
  }

  // Runs a fiber until it waits again; false if it has to wait still.
  bool resume(Job& job) {
    if (job.fiber && !is_ready(job.waiting)) return false;
    if (!job.fiber) {
      job.waiting.call = &job.call;
      job.fiber = std::make_unique<Fiber>(job.body);
    }
    running_ = &job;
    try {
      job.fiber->resume();
    } catch (...) {
      job.error = std::current_exception();
    }
    running_ = nullptr;
    if (!job.fiber->done()) return true;
    job.ended = true;
    job.fiber.reset();
    return true;
  }
  void retire_sends() {
    std::erase_if(detached_, [&](auto& send) { return transport_->test(send.first->request); });
  }
  void poison(const std::string& message) {
    if (transport_->failed()) return;  // then this is a consequence
    poison_ = message;
    transport_->fail(message);
  }
  void abandon(Job& job) {
    job.fiber.reset();  // its requests are withdrawn as its stack unwinds
    if (!job.body && !job.request.done) transport_->withdraw(job.request);
    job.ended = true;
  }

  std::shared_ptr<Transport> transport_;
  EngineOptions options_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::map<int, std::deque<std::shared_ptr<Job>>> queues_;  // by group; the first of each runs
  std::vector<std::pair<std::unique_ptr<Job>, std::vector<std::byte>>> detached_;
  std::vector<Waiting> strands_;
  Job* running_ = nullptr;  // whose fiber runs now
  std::string poison_;
  bool poison_heard_ = false;
  bool ended_ = false;
};

}  // namespace yotta
