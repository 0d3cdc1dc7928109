// Where a rank's part comes from: its own memory, a peer's, the disk; the worst that any rank
// needs.
#include "yotta/resilience/snapshots/snapshot_levels.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/resilience/snapshots/snapshot_files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// What ranks hold from run to run. A part's weight after a step is 10 x step + part.
struct Memory {
  std::vector<std::unique_ptr<SnapshotLevels>> levels;

  Memory(int ranks, int parts, const std::string& folder = "") {
    for (int rank = 0; rank < ranks; ++rank)
      levels.push_back(std::make_unique<SnapshotLevels>(rank % parts, parts, folder, 7));
  }
  SnapshotLevels& of(const Communicator& world) {
    return *levels[static_cast<size_t>(world.rank())];
  }
};

std::vector<int> parts_of(const Communicator& world, int parts) {
  std::vector<int> all;
  for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank % parts);
  return all;
}

// Takes the snapshot of a step on a rank.
void take(SnapshotLevels& levels, int part, int64_t step, bool writes) {
  const ParameterPtr weight = make_parameter("w", {1, 1}, true, zeros(), 0, DType::f32);
  weight->value.fill(static_cast<double>(10 * step + part));
  AdamW optimizer({weight});
  levels.start({7, 1, step, step, {}}, optimizer, writes);
  levels.keeper().wait();
}
float weight_of(const std::string& bytes) {
  const ParameterPtr weight = make_parameter("w", {1, 1}, true, zeros(), 0, DType::f32);
  AdamW optimizer({weight});
  restore_snapshot(bytes, optimizer);
  return weight->value.data<float>()[0];
}

// All ranks find their part, of this step and from this level.
void check_found(Memory& memory, int ranks, int parts, int64_t step, SnapshotLevel level,
                 int64_t moved) {
  run_ranks(ranks, [&](Communicator& world) {
    const FoundSnapshot found = memory.of(world).find(world, parts_of(world, parts));
    CHECK(found.step == step);
    CHECK(found.level == level);
    CHECK(found.moved == moved);
    if (step > 0)
      CHECK(weight_of(found.bytes) == static_cast<float>(10 * step + world.rank() % parts));
  });
}

}  // namespace

TEST_CASE("own memory; a replica's; a step behind; nothing") {
  Memory memory(4, 2);
  check_found(memory, 4, 2, 0, SnapshotLevel::beginning, 0);
  for (size_t rank = 0; rank < 4; ++rank)
    for (const int64_t step : {4, 5})
      take(*memory.levels[rank], static_cast<int>(rank % 2), step, false);
  check_found(memory, 4, 2, 5, SnapshotLevel::own_memory, 0);
  Memory fresh(4, 2);
  std::swap(memory.levels[2], fresh.levels[2]);  // rank 2 is new
  check_found(memory, 4, 2, 5, SnapshotLevel::peer_memory, 1);
  take(*memory.levels[1], 1, 6, false);
  take(*memory.levels[0], 0, 6, false);
  check_found(memory, 4, 2, 6, SnapshotLevel::peer_memory, 2);
  std::swap(memory.levels[0], fresh.levels[0]);  // nobody is left with part 0
  check_found(memory, 4, 2, 0, SnapshotLevel::beginning, 0);
}

TEST_CASE("with a single replica the next rank keeps a rank's part; two neighbours are too many") {
  for (const int lost : {0, 1, 2}) {
    Memory memory(3, 3), fresh(3, 3);
    for (int64_t step = 1; step <= 4; ++step)
      run_ranks(3, [&](Communicator& world) {
        take(memory.of(world), world.rank(), step, false);
        memory.of(world).send_to_next(world);
        memory.of(world).send_to_next(world);  // it has gone already
      });
    std::swap(memory.levels[static_cast<size_t>(lost)], fresh.levels[static_cast<size_t>(lost)]);
    check_found(memory, 3, 3, 4, SnapshotLevel::peer_memory, 1);
    std::swap(memory.levels[static_cast<size_t>((lost + 1) % 3)],
              fresh.levels[static_cast<size_t>((lost + 1) % 3)]);
    check_found(memory, 3, 3, 0, SnapshotLevel::beginning, 0);
  }
}

TEST_CASE(
    "what is in nobody's memory comes from the disk: the last step of which all parts are whole") {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  {
    Memory memory(4, 2, name);
    for (size_t rank = 0; rank < 4; ++rank)
      for (const int64_t step : {2, 4})
        take(*memory.levels[rank], static_cast<int>(rank % 2), step, rank < 2);
    take(*memory.levels[0], 0, 6, true);  // rank 1 has not written its own
  }
  Memory fresh(4, 2, name);
  check_found(fresh, 4, 2, 4, SnapshotLevel::disk, 4);
  const std::string part = snapshot_file(name, 4, {1, 2});
  const std::string whole = read_file(part);
  write_file(part, whole.substr(0, whole.size() - 1));
  check_found(fresh, 4, 2, 0, SnapshotLevel::beginning, 0);  // part 0 of step 2 is gone by now
  CHECK(why_no_step(name, 2) == snapshot_file(name, 6, {1, 2}) + " is not there");
  std::filesystem::remove_all(name + "/step_6");
  CHECK(why_no_step(name, 2) == part + " is cut short or changed");
  CHECK(contains(why_no_step(name, 3), snapshot_file(name, 4, {0, 3}) + " is not there, "));
  CHECK(why_no_step(name + "/nothing", 2).empty());
}

TEST_CASE("memory and disk are searched together: the newest step of all parts counts") {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  Memory memory(2, 2, name), fresh(2, 2, name);
  for (const int64_t step : {4, 6}) {
    for (size_t rank = 0; rank < 2; ++rank)
      take(*memory.levels[rank], static_cast<int>(rank), step, true);
    if (step == 4)  // rank 1 dies before rank 0 has its part of step 6
      run_ranks(2, [&](Communicator& world) { memory.of(world).send_to_next(world); });
  }
  std::swap(memory.levels[1], fresh.levels[1]);
  check_found(memory, 2, 2, 6, SnapshotLevel::disk, 1);
  std::filesystem::remove(snapshot_file(name, 6, {1, 2}));
  check_found(memory, 2, 2, 4, SnapshotLevel::peer_memory, 1);
  memory.levels[0]->forget_after(4);
  CHECK_FALSE(std::filesystem::exists(snapshot_file(name, 6, {0, 2})));
  CHECK(std::filesystem::exists(snapshot_file(name, 4, {0, 2})));
}

TEST_CASE("half a snapshot, as a killed rank leaves it, is none") {
  const TemporaryFolder folder;
  Memory memory(1, 1, folder.path().string());
  take(*memory.levels[0], 0, 3, true);
  const ParameterPtr weight = make_parameter("w", {1, 1}, true, zeros(), 0, DType::f32);
  AdamW optimizer({weight});
  memory.levels[0]->write_half({7, 1, 4, 4, {}}, optimizer);
  CHECK(std::filesystem::exists(partial_name(snapshot_file(folder.path().string(), 4, {0, 1}))));
  Memory fresh(1, 1, folder.path().string());
  check_found(fresh, 1, 1, 3, SnapshotLevel::disk, 1);
}

TEST_CASE("snapshots that do not belong to the run go, in memory of peers too") {
  Memory memory(2, 2), fresh(2, 2);
  for (const int64_t step : {4, 5})
    run_ranks(2, [&](Communicator& world) {
      take(memory.of(world), world.rank(), step, false);
      memory.of(world).send_to_next(world);
    });
  for (const auto& each : memory.levels)
    each->keep_if([](const SnapshotHeader& header) { return header.step <= 4; });
  check_found(memory, 2, 2, 4, SnapshotLevel::own_memory, 0);
  std::swap(memory.levels[0], fresh.levels[0]);
  check_found(memory, 2, 2, 4, SnapshotLevel::peer_memory, 1);
}
