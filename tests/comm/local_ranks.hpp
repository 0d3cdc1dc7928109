// Ranks for tests of the algorithms alone: p threads, each with a Channel and a SharedMemoryChannel
// that count what they carry. Sends are never buffered, so an order that works only with buffers
// stands still (and fails after longest_wait instead of hanging).
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/longest_wait.hpp"
#include "yotta/comm/collectives_common.hpp"
#include "yotta/comm/threads/collective_rendezvous.hpp"

namespace yotta_test {

using namespace yotta;

class LocalRanks {
 public:
  explicit LocalRanks(int size) : size_(size) {}

  class Rank : public Channel, public SharedMemoryChannel {
   public:
    Rank(LocalRanks& world, int rank) : world_(world), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return world_.size_; }

    void send(ConstData data, int to, Where) override {
      Message message{data};
      post(message, to);
      world_.wait([&] { return message.taken; });
    }
    void recv(Data data, int from, Where where) override {
      std::deque<Message*>& queue = world_.messages_[{from, rank_}];
      world_.wait([&] { return !queue.empty(); });
      const std::lock_guard lock(world_.mutex_);
      const ConstData arrived = queue.front()->data;
      if (arrived.count != data.count || arrived.dtype != data.dtype)
        fail(where, "rank {} sent {} {}, rank {} expected {} {}", from, arrived.count,
             name(arrived.dtype), rank_, data.count, name(data.dtype));
      copy_data(arrived, data);
      queue.front()->taken = true;
      queue.pop_front();
      world_.changed_.notify_all();
    }
    void send_recv(ConstData out, int to, Data in, int from, Where where) override {
      Message message{out};
      post(message, to);
      recv(in, from, where);
      world_.wait([&] { return message.taken; });
    }

    void show(ConstData in, Data out) override {
      const std::lock_guard lock(world_.mutex_);
      in_ = in;
      out_ = out;
    }
    void meet() override {
      const int64_t barrier = ++barriers_;
      {
        const std::lock_guard lock(world_.mutex_);
        ++world_.arrivals_;
        world_.changed_.notify_all();
      }
      world_.wait([&] { return world_.arrivals_ >= barrier * world_.size_; });
    }
    ConstData in(int rank) const override { return world_.ranks_[static_cast<size_t>(rank)]->in_; }
    Data out(int rank) const override { return world_.ranks_[static_cast<size_t>(rank)]->out_; }
    void count(const Traffic& crossed) override {
      sent_.messages += crossed.messages_sent;
      sent_.bytes += crossed.bytes_sent;
      received_.messages += crossed.messages_received;
      received_.bytes += crossed.bytes_received;
    }

    Sent sent() const { return sent_; }
    Sent received() const { return received_; }

   private:
    struct Message {
      ConstData data;
      bool taken = false;
    };
    void post(Message& message, int to) {
      const std::lock_guard lock(world_.mutex_);
      world_.messages_[{rank_, to}].push_back(&message);
      sent_ = sent_ + Sent{1, message.data.nbytes()};
      world_.changed_.notify_all();
    }
    LocalRanks& world_;
    int rank_;
    int64_t barriers_ = 0;
    ConstData in_;
    Data out_;
    Sent sent_, received_;
    friend class LocalRanks;
  };

  // Runs body(rank) on every rank and returns what each has sent; rethrows the first error.
  template <class Body>
  static std::vector<Sent> run(int size, Body body) {
    LocalRanks world(size);
    std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) {
      world.ranks_.push_back(std::make_unique<Rank>(world, r));
      for (int from = 0; from < size; ++from) world.messages_[{from, r}];
    }
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r)
      threads.emplace_back([&, r] {
        try {
          RankContext self;
          const ContextScope scope(self);
          body(*world.ranks_[static_cast<size_t>(r)]);
        } catch (...) {
          errors[static_cast<size_t>(r)] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
    std::vector<Sent> sent;
    for (const auto& rank : world.ranks_) sent.push_back(rank->sent());
    return sent;
  }

 private:
  template <class Ready>
  void wait(Ready ready) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(longest_wait), ready))
      fail(Where::current(), "nothing has come for {} seconds: the ranks stand still",
           longest_wait);
  }

  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<typename Rank::Message*>> messages_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  int64_t arrivals_ = 0;
};

}  // namespace yotta_test
