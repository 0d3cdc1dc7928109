#include "yotta/core/system/fiber.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <vector>

using namespace yotta;

TEST_CASE("two fibers take turns") {
  std::vector<int> order;
  auto body = [&](int id) {
    return [&order, id] {
      for (int i = 0; i < 3; ++i) {
        order.push_back(10 * id + i);
        Fiber::suspend();
      }
    };
  };
  Fiber a(body(1)), b(body(2));
  while (!a.done() || !b.done()) {
    if (!a.done()) a.resume();
    if (!b.done()) b.resume();
  }
  CHECK(order == std::vector<int>{10, 20, 11, 21, 12, 22});
  CHECK(Fiber::current() == nullptr);
}

TEST_CASE("fibers nest") {
  int deepest = 0;
  Fiber outer([&] {
    Fiber inner([&] {
      deepest = 1;
      Fiber::suspend();
      deepest = 2;
    });
    inner.resume();
    Fiber::suspend();
    inner.resume();
  });
  outer.resume();
  CHECK(deepest == 1);
  outer.resume();
  CHECK(deepest == 2);
  CHECK(outer.done());
}

TEST_CASE("an exception arrives at resume") {
  Fiber fiber([] {
    Fiber::suspend();
    throw std::runtime_error("inside");
  });
  fiber.resume();
  CHECK_THROWS_WITH(fiber.resume(), "inside");
  CHECK(fiber.done());
}

TEST_CASE("a fiber destroyed in the middle runs its destructors") {
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  {
    Fiber fiber([held = std::move(alive)] {
      const std::shared_ptr<int> local = held;
      Fiber::suspend();
    });
    fiber.resume();
    CHECK(watch.use_count() == 2);
  }
  CHECK(watch.expired());
  {
    const Fiber never_started([] { FAIL("must not run"); });
  }
}
