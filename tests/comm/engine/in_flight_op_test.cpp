#include "yotta/comm/engine/in_flight_op.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace yotta;

TEST_CASE("a worker runs one body after the other, with stops in between") {
  FiberWorker worker;
  int steps = 0;
  const std::function<void()> body = [&] {
    ++steps;
    Fiber::suspend();
    ++steps;
  };
  for (int round = 1; round <= 3; ++round) {
    CHECK(worker.idle());
    worker.start(body);
    CHECK_FALSE(worker.idle());
    CHECK(steps == 2 * round - 1);
    worker.resume();
    CHECK(worker.idle());
    CHECK(steps == 2 * round);
  }
}

TEST_CASE("an error of a body is kept, and does not spoil the worker") {
  FiberWorker worker;
  const std::function<void()> bad = [] { throw std::runtime_error("no"); };
  const std::function<void()> good = [] {};
  worker.start(bad);
  CHECK(worker.idle());
  CHECK_THROWS_WITH(std::rethrow_exception(worker.error()), "no");
  worker.start(good);
  CHECK(worker.error() == nullptr);
}

TEST_CASE("a worker that is destroyed in the middle unwinds its body") {
  bool unwound = false, went_on = false;
  struct Sign {
    bool& flag;
    ~Sign() { flag = true; }
  };
  const std::function<void()> body = [&] {
    const Sign sign{unwound};
    Fiber::suspend();
    went_on = true;
  };
  {
    FiberWorker worker;
    worker.start(body);
    CHECK_FALSE(unwound);
  }
  CHECK(unwound);
  CHECK_FALSE(went_on);
}
