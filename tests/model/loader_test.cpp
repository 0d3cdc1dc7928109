#include "yotta/model/loader.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// A batch that holds its step.
Batch of_step(int64_t step) {
  return {Tensor::full({1, 2}, static_cast<double>(step), DType::i32),
          Tensor::full({1, 2}, static_cast<double>(step + 1), DType::i32)};
}
double step_of(const Batch& batch) { return batch.inputs.item({0, 0}); }
}  // namespace

TEST_CASE("batches come in the order of their steps, each once, whatever the depth") {
  for (const int64_t depth : {1, 2, 5, 100}) {
    Loader loader(of_step, 3, 40, depth);
    for (int64_t step = 3; step < 40; ++step) CHECK(step_of(loader.next()) == step);
    CHECK(loader.read() == 37);
  }
}

TEST_CASE("back-pressure: no more is read than there is room for") {
  Loader loader(of_step, 0, 100, 4);
  for (int64_t taken = 0; taken <= 96; ++taken) {
    loader.wait_until_full();
    CHECK(loader.read() == taken + 4);
    loader.next();
  }
  CHECK(loader.waits() == 0);  // every batch was there before it was asked for
}

TEST_CASE("exact resume: a run that goes on draws what an unbroken run draws") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::to_string(i * i) + " ";
  const Batches batches(text, 8, 7);
  const auto draw = [&](int64_t step) { return batches.draw(step, 0, 3); };
  Loader all(draw, 0, 20, 3);
  std::vector<std::vector<double>> seen;
  for (int step = 0; step < 20; ++step) seen.push_back(all.next().inputs.values());
  {
    Loader first(draw, 0, 20, 3);  // stops after 7, with batches in its queue
    for (int step = 0; step < 7; ++step) CHECK(first.next().inputs.values() == seen[step]);
    first.wait_until_full();
  }
  Loader second(draw, 7, 20, 3);
  for (size_t step = 7; step < 20; ++step) CHECK(second.next().inputs.values() == seen[step]);
}

TEST_CASE("what reading throws is thrown by next, when that step's turn has come") {
  Loader loader(
      [](int64_t step) {
        if (step == 2) fail(Where::current(), "the disk is gone");
        return of_step(step);
      },
      0, 10, 4);
  loader.wait_until_full();
  CHECK(step_of(loader.next()) == 0);
  CHECK(step_of(loader.next()) == 1);
  CHECK(contains(message_of([&] { loader.next(); }), "the disk is gone"));
  CHECK(step_of(loader.next()) == 3);
}

TEST_CASE("waiting for a slow disk is counted; the queue is not the rank's memory") {
  RankContext rank;
  const ContextScope scope(rank);
  std::atomic<bool> may_read = false;
  Loader loader(
      [&](int64_t step) {
        while (!may_read) std::this_thread::yield();
        return of_step(step);
      },
      0, 3, 2);
  std::thread opens([&] { may_read = true; });
  loader.next();
  opens.join();
  loader.wait_until_full();
  CHECK(rank.ledger.memory()->peak() == 0);
}

TEST_CASE("a loader ends at any time; a depth of 0 and a batch too many are refused") {
  { const Loader unused(of_step, 0, 1000, 2); }
  CHECK(contains(message_of([] { Loader(of_step, 0, 3, 0); }), "reads 0 batches ahead"));
  Loader one(of_step, 0, 1, 1);
  one.next();
  CHECK(contains(message_of([&] { one.next(); }), "the last one is 0"));
}
