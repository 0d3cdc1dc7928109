// Snapshots: a run restored from one computes the same bits; what was cut or changed is not used;
// copies are made beside training.
#include "yotta/resilience/snapshots/snapshot.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "support/message_of.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/resilience/silent_corruption.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Two weights and their optimizer, which step by gradients that depend on the step alone.
struct Model {
  std::vector<ParameterPtr> parameters;
  AdamW optimizer;

  explicit Model(DType dtype = DType::f32, int64_t n = 5)
      : parameters({make_parameter("a", {1, n}, true, normal(1), 0, dtype),
                    make_parameter("b", {2, 3}, true, normal(1), 0, dtype)}),
        optimizer(parameters) {}
  void step(int64_t step) {
    for (const ParameterPtr& each : parameters)
      each->grad = Tensor::full(each->value.shape(), 0.5 + static_cast<double>(step % 3));
    optimizer.step(0.1);
  }
  std::string bytes() { return pack_snapshot({}, memory_of(optimizer)); }
};

}  // namespace

TEST_CASE("a run that is restored goes on with the same bits") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Model all(dtype), other(dtype);
    for (int64_t step = 0; step < 3; ++step) all.step(step);
    const std::string kept = pack_snapshot({7, 2, 3, all.optimizer.steps(), {{1.5, 8}, {1.25, 8}}},
                                           memory_of(all.optimizer));
    for (int64_t step = 3; step < 6; ++step) all.step(step);
    other.step(11);
    const SnapshotHeader header = restore_snapshot(kept, other.optimizer);
    CHECK((header.run == 7 && header.epoch == 2 && header.step == 3));
    CHECK(header.history == std::vector<StepRecord>{{1.5, 8}, {1.25, 8}});
    CHECK(other.optimizer.steps() == 3);
    for (int64_t step = 3; step < 6; ++step) other.step(step);
    CHECK(other.bytes() == all.bytes());
  }
}

TEST_CASE("a snapshot that was cut short, or of which any bit has changed, is not used") {
  Model model;
  model.step(0);
  const std::string whole = pack_snapshot({1, 1, 1, 1, {{2.0, 4}}}, memory_of(model.optimizer));
  REQUIRE(read_snapshot(whole));
  for (size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(read_snapshot(std::string_view(whole).substr(0, size)));
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    CHECK_FALSE(read_snapshot(changed));
  }
  const std::string before = model.bytes();
  CHECK(contains(message_of([&] { restore_snapshot(whole.substr(9), model.optimizer); }),
                 "is not whole"));
  Model larger(DType::f32, 6);
  CHECK(contains(message_of([&] { restore_snapshot(whole, larger.optimizer); }),
                 "holds 132 bytes of weights and optimizer state, and this rank has 144"));
  CHECK(model.bytes() == before);
}

TEST_CASE("a snapshot that counts more steps than it has bytes is not used") {
  Model model;
  std::string forged = pack_snapshot({1, 1, 1, 1, {{2.0, 4}}}, memory_of(model.optimizer));
  const size_t end = forged.size() - sizeof(uint64_t);
  for (const int64_t records : {int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{1} << 40}) {
    std::memcpy(forged.data() + 40, &records, sizeof records);  // after the mark and four numbers
    const uint64_t sum = checksum(std::string_view(forged).substr(0, end));
    std::memcpy(forged.data() + end, &sum, sizeof sum);
    CHECK_FALSE(read_snapshot(forged));
  }
}

TEST_CASE("copies are made beside training, two are kept, and the disk gets each") {
  Model model;
  SnapshotKeeper keeper;
  std::vector<std::string> at_step, on_disk;
  for (int64_t step = 1; step <= 4; ++step) {
    model.step(step);
    at_step.push_back(pack_snapshot({0, 1, step, step, {}}, memory_of(model.optimizer)));
    keeper.start({0, 1, step, step, {}}, model.optimizer,
                 [&](int64_t, std::string_view bytes) { on_disk.emplace_back(bytes); });
    keeper.wait_copied();
    model.parameters[0]->value.zero();  // the weights change after the copy
  }
  keeper.wait();
  CHECK(on_disk == at_step);
  REQUIRE(keeper.in_memory().size() == 2);
  CHECK(keeper.in_memory().at(3) == at_step[2]);
  CHECK(keeper.in_memory().at(4) == at_step[3]);
  keeper.keep_if([](const SnapshotHeader& header) { return header.step <= 3; });
  CHECK(keeper.in_memory().size() == 1);
  keeper.add(9, "x");
  CHECK(keeper.in_memory().at(9) == "x");
}

TEST_CASE(
    "a copy is there while it is still being written; a full disk is counted, and ends nothing") {
  Model model;
  SnapshotKeeper keeper;
  std::atomic<bool> may_end = false;
  keeper.start({0, 1, 1, 1, {}}, model.optimizer, [&](int64_t, std::string_view) {
    while (!may_end) std::this_thread::yield();
    fail(Where::current(), "the disk is full");
  });
  keeper.wait_copied();
  CHECK(keeper.in_memory().count(1) == 1);
  CHECK(keeper.unwritten() == 0);
  may_end = true;
  keeper.wait();
  CHECK(keeper.unwritten() == 1);
  CHECK(contains(keeper.disk_problem(), "the disk is full"));
  bool is_written = false;
  keeper.start({0, 1, 2, 2, {}}, model.optimizer,
               [&](int64_t, std::string_view) { is_written = true; });
  keeper.wait();
  CHECK((is_written && keeper.unwritten() == 1 && keeper.in_memory().count(2) == 1));
}
