#include "comm/local_ranks.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "support/longest_wait.hpp"

namespace yotta_test {
namespace {

struct Message {
  ConstData data;
  bool taken = false;
};

class World;

class LocalRank : public LocalRanks::Rank {
 public:
  LocalRank(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override;

  void send(ConstData data, int to, Where) override;
  void recv(Data data, int from, Where where) override;
  void send_recv(ConstData out, int to, Data in, int from, Where where) override;

  void show(ConstData in, Data out) override;
  void meet() override;
  ConstData in(int rank) const override;
  Data out(int rank) const override;
  void count(const Traffic& crossed) override {
    sent_ = sent_ + Sent{crossed.messages_sent, crossed.bytes_sent};
    received_ = received_ + Sent{crossed.messages_received, crossed.bytes_received};
  }

  Sent sent() const override { return sent_; }
  Sent received() const override { return received_; }

 private:
  void post(Message& message, int to);

  World& world_;
  int rank_;
  int64_t barriers_ = 0;
  ConstData in_;
  Data out_;
  Sent sent_, received_;
};

class World {
 public:
  explicit World(int p) : size(p) {
    for (int r = 0; r < size; ++r) {
      ranks.push_back(std::make_unique<LocalRank>(*this, r));
      for (int from = 0; from < size; ++from) messages[{from, r}];
    }
  }

  template <class Ready>
  void wait(Ready ready) {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, std::chrono::duration<double>(longest_wait), ready))
      fail(Where::current(), "nothing has come for {} s: the ranks stand still", longest_wait);
  }

  int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<Message*>> messages;
  std::vector<std::unique_ptr<LocalRank>> ranks;
  int64_t arrivals = 0;
};

int LocalRank::size() const { return world_.size; }

void LocalRank::post(Message& message, int to) {
  const std::lock_guard lock(world_.mutex);
  world_.messages[{rank_, to}].push_back(&message);
  sent_ = sent_ + Sent{1, message.data.nbytes()};
  world_.changed.notify_all();
}

void LocalRank::send(ConstData data, int to, Where) {
  Message message{data};
  post(message, to);
  world_.wait([&] { return message.taken; });
}

void LocalRank::recv(Data data, int from, Where where) {
  std::deque<Message*>& queue = world_.messages[{from, rank_}];
  world_.wait([&] { return !queue.empty(); });
  const std::lock_guard lock(world_.mutex);
  const ConstData arrived = queue.front()->data;
  if (arrived.count != data.count || arrived.dtype != data.dtype)
    fail(where, "rank {} sent {} {}, rank {} expected {} {}", from, arrived.count,
         name(arrived.dtype), rank_, data.count, name(data.dtype));
  copy_data(arrived, data);
  queue.front()->taken = true;
  queue.pop_front();
  world_.changed.notify_all();
}

void LocalRank::send_recv(ConstData out, int to, Data in, int from, Where where) {
  Message message{out};
  post(message, to);
  recv(in, from, where);
  world_.wait([&] { return message.taken; });
}

void LocalRank::show(ConstData in, Data out) {
  const std::lock_guard lock(world_.mutex);
  in_ = in;
  out_ = out;
}

void LocalRank::meet() {
  const int64_t barrier = ++barriers_;
  {
    const std::lock_guard lock(world_.mutex);
    ++world_.arrivals;
    world_.changed.notify_all();
  }
  world_.wait([&] { return world_.arrivals >= barrier * world_.size; });
}

ConstData LocalRank::in(int rank) const { return world_.ranks[static_cast<size_t>(rank)]->in_; }
Data LocalRank::out(int rank) const { return world_.ranks[static_cast<size_t>(rank)]->out_; }

}  // namespace

std::vector<Sent> LocalRanks::run(int size, const std::function<void(Rank&)>& body) {
  World world(size);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      try {
        RankContext self;
        const ContextScope scope(self);
        body(*world.ranks[static_cast<size_t>(r)]);
      } catch (...) {
        errors[static_cast<size_t>(r)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  std::vector<Sent> sent;
  for (const auto& rank : world.ranks) sent.push_back(rank->sent());
  return sent;
}

}  // namespace yotta_test
