#include "yotta/comm/engine/buffer_guard.hpp"

#include <cmath>

#include "support/rank_errors.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;

namespace {
RunOptions checked() {
  RunOptions options;
  options.check_buffers = true;
  return options;
}
}  // namespace

TEST_CASE("unwatched, a watch hands out the caller's own buffers") {
  std::vector<float> x(3, 1);
  BufferGuard watch(false, x, x);
  CHECK(watch.out().bytes == Data(x).bytes);
  watch.finish({});
  CHECK(x[0] == 1);
}

TEST_CASE("watched, what is received stays poisoned until it is waited for") {
  std::vector<float> x(3, 1);
  BufferGuard watch(true, x, x);
  CHECK(std::isnan(x[0]));
  reinterpret_cast<float*>(watch.out().bytes)[2] = 7;
  watch.finish({});
  CHECK(x == std::vector<float>{1, 1, 7});
}

TEST_CASE_TEMPLATE("adding to what an all_reduce still owns is noticed", Real, float, double) {
  const std::string text = error_of<RankFailed>(
      2,
      [](Communicator& world) {
        std::vector<Real> gradient(3, 1);
        Work work = world.all_reduce_async(gradient);
        gradient[1] += 1;
        work.wait();
      },
      checked());
  check_says(text, {"the buffer of all_reduce_async", "was written while in flight"});
}

TEST_CASE("right programs give the same results when buffers are checked") {
  for (int p : {1, 2, 3}) {
    run_ranks(
        p,
        [](Communicator& world) {
          const int size = world.size(), rank = world.rank();
          std::vector<double> sum(5, 1), all(static_cast<size_t>(size)), mine(1, rank), none;
          Work a = world.all_reduce_async(sum);
          Work b = world.all_gather_async(all, mine);
          Work c = world.broadcast_async(none, 0);
          CHECK(std::isnan(sum[0]));
          c.wait();
          b.wait();
          a.wait();
          CHECK(sum[4] == size);
          CHECK(all.back() == size - 1);
          std::vector<double> in(1, rank), out(1);
          Work receive = world.recv_async(out, (rank + 1) % size);
          Work send = world.send_async(in, (rank + size - 1) % size);
          CHECK(std::isnan(out[0]));
          send.wait();
          receive.wait();
          CHECK(out[0] == (rank + 1) % size);
          // In place: this rank's chunk lies in the whole array.
          all.assign(static_cast<size_t>(size), rank);
          world.all_gather_async(all, Data(all).chunk(rank, size)).wait();
          for (int r = 0; r < size; ++r) CHECK(all[static_cast<size_t>(r)] == r);
        },
        checked());
  }
}

TEST_CASE("a buffer written while in flight is reported with the call") {
  auto run = [](auto body) {
    return error_of<RankFailed>(
        2,
        [&](Communicator& world) {
          std::vector<float> x(4, 1);
          body(world, x);
        },
        checked());
  };
  check_says(run([](Communicator& w, std::vector<float>& x) {
               Work work = w.all_reduce_async(x);
               if (w.rank() == 1) x[2] = 0;
               work.wait();
             }),
             {"rank 1 failed", "the buffer of all_reduce_async at buffer_guard_test.cpp:",
              "was written while in flight"});
  check_says(run([](Communicator& w, std::vector<float>& x) {
               Work work = w.rank() == 0 ? w.send_async(x, 1) : w.recv_async(x, 0);
               if (w.rank() == 0) x[3] += 1;
               work.wait();
             }),
             {"rank 0 failed", "the buffer of send_async at"});
  check_says(run([](Communicator& w, std::vector<float>& x) {
               Work work = w.rank() == 0 ? w.send_async(x, 1) : w.recv_async(x, 0);
               if (w.rank() == 1) x[0] = 5;
               work.wait();
             }),
             {"rank 1 failed", "the buffer of recv_async at"});
}
