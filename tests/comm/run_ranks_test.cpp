#include "yotta/comm/run_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("each rank is a thread with a context of its own") {
  std::set<std::thread::id> threads;
  std::mutex mutex;
  const auto reports = run_ranks(5, [&](Communicator& world) {
    CHECK(world.size() == 5);
    CHECK(context().rank == world.rank());
    CHECK(context().size == 5);
    CHECK(context().threads >= 1);
    charge({"op", DType::f32, 1.0 + world.rank(), 0, 0});
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(threads.size() == 5);
  for (size_t r = 0; r < 5; ++r)
    CHECK(reports[r].ledger().op("op").flops == 1 + static_cast<double>(r));
}

TEST_CASE("options reach the ranks") {
  RunOptions options;
  options.threads = 3;
  run_ranks(
      2, [](Communicator&) { CHECK(context().threads == 3); }, options);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  run_ranks(2, [&](Communicator&) { CHECK(context().threads == std::max(1, cores / 2)); });
}

TEST_CASE("no ranks is an error") {
  CHECK_THROWS_WITH_AS(run_ranks(0, [](Communicator&) {}), doctest::Contains("run_ranks_test.cpp"),
                       Error);
}

TEST_CASE("worlds within worlds") {
  run_ranks(2, [](Communicator& outer) {
    const int base = outer.rank();
    run_ranks(2, [&](Communicator& inner) {
      std::vector<int32_t> x = {base};
      inner.all_reduce(x);
      CHECK(x[0] == 2 * base);
    });
    outer.barrier();
  });
}

TEST_CASE("a time-out is heard even while the rank that was waited for does not come back") {
  const StderrText said;
  RunOptions options;
  options.timeout = 0.05;
  bool heard = false;
  const std::string thrown = message_of([&] {
    run_ranks(
        2,
        [&](Communicator& world) {
          std::vector<float> x(4);
          if (world.rank() == 0) world.recv(x, 1);
          const yotta_test::GiveUp late;
          while (world.rank() == 1 && !heard && !late)
            heard = contains(said.get(), "not yet: 1\n");  // rank 0 is back
        },
        options);
  });
  CHECK(heard);
  CHECK(contains(thrown, "rank 0 has waited for more than 0.05 s in recv of 4 f32"));
  CHECK(contains(said.get(), "rank 0 has waited for more than 0.05 s in recv of 4 f32"));
}

namespace {

RankReport failed(std::exception_ptr error) { return {nullptr, nullptr, std::move(error)}; }

}  // namespace

TEST_CASE("ranks share the cores of a computer; each has one thread at least") {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(detail::default_threads(1) == cores);
  CHECK(detail::default_threads(cores) == 1);
  CHECK(detail::default_threads(1000 * cores) == 1);
}

TEST_CASE("the root cause is the error of the rank that failed first") {
  const std::exception_ptr one = std::make_exception_ptr(std::runtime_error("of rank 1"));
  const std::exception_ptr two = std::make_exception_ptr(std::runtime_error("of rank 2"));
  const std::vector<RankReport> reports = {{}, failed(one), failed(two)};
  const auto rethrow = [&](int first) {
    return message_of([&] { detail::rethrow_root_cause(reports, first, Where::current()); });
  };
  CHECK(rethrow(2).find("of rank 2") != std::string::npos);
  CHECK(rethrow(1).find("of rank 1") != std::string::npos);
  SUBCASE("if nobody knows which, or that one has no error: of the lowest that has") {
    CHECK(rethrow(-1).find("of rank 1") != std::string::npos);
    CHECK(rethrow(0).find("of rank 1") != std::string::npos);
  }
  SUBCASE("without an error nothing is thrown") {
    detail::rethrow_root_cause({{}, {}}, -1, Where::current());
  }
}
