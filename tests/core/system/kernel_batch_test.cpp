#include "yotta/core/system/kernel_batch.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {

struct AloneBody {
  int value = 0;
};
struct BatchBody {
  int value = 0;
};
std::vector<int> launched;  // -1 before each launch of several

}  // namespace

TEST_CASE("bodies of a type are gathered, and run by one launch; without a batch at once") {
  launched.clear();
  KernelOf<AloneBody>::launch = [](const AloneBody& body, int64_t, Where) {
    launched.push_back(body.value);
  };
  KernelOf<BatchBody>::launch = [](const BatchBody& body, int64_t, Where) {
    launched.push_back(body.value);
  };
  KernelOfMany<BatchBody>::launch = [](std::span<const BatchBody> bodies,
                                       std::span<const int64_t> items, Where) {
    launched.push_back(-1);
    for (size_t i = 0; i < bodies.size(); ++i)
      launched.push_back(bodies[i].value * static_cast<int>(items[i]));
  };
  const Where where = Where::current();
  run_together("op", BatchBody{1}, 10, where);
  {
    KernelBatch batch;
    run_together("op", BatchBody{2}, 10, where);
    run_together("op", AloneBody{3}, 10, where);  // it has no kernel for several
    run_together("op", BatchBody{4}, 0, where);   // nothing to do
    run_together("op", BatchBody{5}, 10, where);
    CHECK(launched == std::vector{1, -1, 20, 3});  // what came before it is launched before it
    batch.run(where);
  }
  run_together("op", BatchBody{6}, 10, where);
  CHECK(launched == std::vector{1, -1, 20, 3, -1, 50, 6});
}

TEST_CASE("what comes after a launch waits for it; where nothing is gathered it comes at once") {
  launched.clear();
  const Where where = Where::current();
  const auto note = [](int value) { return [value] { launched.push_back(value); }; };
  after_launch(note(100));
  {
    KernelBatch outer;
    after_launch(note(101));
    run_together("op", BatchBody{1}, 10, where);
    after_launch(note(102));
    {
      KernelBatch inner;  // launches what the outer one has gathered
      CHECK(launched == std::vector{100, 101, -1, 10, 102});
      run_together("op", BatchBody{2}, 10, where);
      after_launch(note(103));
      launch_gathered(where);
    }
    run_together("op", BatchBody{3}, 10, where);
    after_launch(note(104));
  }  // never run
  CHECK(launched == std::vector{100, 101, -1, 10, 102, -1, 20, 103});
}

TEST_CASE("a launch that launches more comes before what is to follow it") {
  launched.clear();
  const Where where = Where::current();
  KernelOf<AloneBody>::launch = [](const AloneBody& body, int64_t, Where) {
    launched.push_back(body.value);
  };
  KernelOfMany<BatchBody>::launch = [](std::span<const BatchBody>, std::span<const int64_t>,
                                       Where at) {
    run_kernel("op", AloneBody{1}, 1, at);
    launched.push_back(2);
  };
  KernelBatch batch;
  run_together("op", BatchBody{}, 1, where);
  after_launch([] { launched.push_back(3); });
  batch.run(where);
  CHECK(launched == std::vector{1, 2, 3});
}
