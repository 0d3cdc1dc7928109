#include "yotta/comm/threads/collective_rendezvous.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "support/thread_state.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

TEST_CASE("after a meeting everyone sees what the others show") {
  for (int p : {1, 2, 3, 8})
    for (const bool async : {false, true})
      run_ranks(p, [&](Communicator& world) {
        std::vector<int32_t> x = {world.rank()}, sum = {0};
        auto body = [&](Channel& channel) {
          auto& shared = dynamic_cast<SharedMemoryChannel&>(channel);
          shared.show(x, {});
          shared.meet();
          for (int r = 0; r < p; ++r) reduce_into(sum, shared.in(r), ReduceOp::sum);
          shared.meet();
          x[0] = -1;  // no rank reads it any more
          shared.count({1, 4, 2, 8});
        };
        for (int round = 0; round < 20; ++round) {
          x[0] = world.rank();
          sum[0] = 0;
          if (async)
            world.collective_async("sum", body).wait();
          else
            world.collective("sum", body);
          CHECK(sum[0] == p * (p - 1) / 2);
        }
        CHECK(context().ledger.traffic("sum").bytes_received == 160);
      });
}

namespace {
const Call sum{"all_reduce", 16, DType::f32, -1, "sum", "ring", Where::current()};
}

TEST_CASE("meetings are counted, and who is missing is known") {
  const std::vector<int> members = {4, 2, 7};
  CollectiveRendezvous rendezvous(members, 4, sum);
  CHECK(rendezvous.complete(0));
  CHECK_FALSE(rendezvous.arrive(0));
  CHECK_FALSE(rendezvous.arrive(2));
  CHECK_FALSE(rendezvous.complete(1));
  CHECK(rendezvous.missing(1) == std::vector<int>{2});
  CHECK(rendezvous.arrive(1));
  CHECK(rendezvous.complete(1));
  CHECK(rendezvous.missing(1).empty());
  CHECK_FALSE(rendezvous.arrive(1));  // at the second barrier
  CHECK(rendezvous.missing(2) == std::vector<int>{4, 7});
}

TEST_CASE("who waits for readers of its buffers sleeps until the last has done") {
  const std::vector<int> members = {0, 1, 2};
  CollectiveRendezvous rendezvous(members, 0, sum);
  rendezvous.start_reading();
  rendezvous.start_reading();
  std::atomic<long> thread = 0;
  std::atomic<bool> done = false;
  std::thread waiter([&] {
    thread = yotta_test::this_thread_number();
    rendezvous.wait_for_readers();
    done = true;
  });
  while (thread == 0) std::this_thread::yield();
  for (int readers = 2; readers > 0; --readers) {
    CHECK(yotta_test::falls_asleep(thread));
    CHECK_FALSE(done);
    rendezvous.stop_reading();
  }
  waiter.join();
}

TEST_CASE("calls are compared in everything but where they stand") {
  const std::vector<int> members = {0, 1};
  const CollectiveRendezvous rendezvous(members, 0, sum);
  Call call = sum;
  call.where = Where::current();
  CHECK(rendezvous.compare(1, call).empty());
  auto differs = [&](auto change) {
    Call changed = sum;
    change(changed);
    return !rendezvous.compare(1, changed).empty();
  };
  CHECK(differs([](Call& c) { c.operation = "reduce"; }));
  CHECK(differs([](Call& c) { c.count = 15; }));
  CHECK(differs([](Call& c) { c.dtype = DType::f64; }));
  CHECK(differs([](Call& c) { c.root = 0; }));
  CHECK(differs([](Call& c) { c.op = "max"; }));
  CHECK(differs([](Call& c) { c.algorithm = "tree"; }));
}

TEST_CASE("groups: the same name gives the same group; collectives go when all have left") {
  ThreadGroups groups(2);
  CHECK(groups.members(0) == std::vector<int>{0, 1});
  const std::vector<int> one = {1};
  const int number = groups.open(0, 0, 5, one);
  CHECK(groups.open(0, 0, 5, one) == number);
  CHECK(groups.open(0, 1, 5, one) != number);
  CollectiveRendezvous& first = groups.enter(0, 0, 0, sum);
  CollectiveRendezvous& second = groups.enter(0, 0, 1, sum);
  CHECK(&groups.enter(1, 0, 0, sum) == &first);
  groups.leave(0, second);
  CHECK_FALSE(second.all_have_left());
  groups.leave(0, second);
  CHECK(second.all_have_left());  // but the first is still in use, so it stays
  CHECK(&groups.enter(1, 0, 1, sum) == &second);
  groups.leave(0, first);
  groups.leave(0, first);
  CHECK(groups.enter(1, 0, 2, sum).missing(1) == std::vector<int>{0, 1});
}

TEST_CASE("a group goes with its last member, and its number does not come back") {
  ThreadGroups groups(2);
  const std::vector<int> both = {0, 1};
  const int number = groups.open(0, 0, 5, both);
  groups.close(number);
  CHECK(groups.members(number) == both);
  CHECK(groups.open(0, 0, 5, both) == number);  // of the other member
  groups.close(number);
  CHECK_THROWS(groups.members(number));
  CHECK(groups.open(0, 0, 5, both) > number);
}
