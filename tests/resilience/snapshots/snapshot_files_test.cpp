// Snapshots on the disk: the last good one is found, whatever lies beside it.
#include "yotta/resilience/snapshots/snapshot_files.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
std::string bytes_of(int64_t step, uint64_t run = 5) {
  return pack_snapshot({run, 1, step, step, {}}, {});
}
}  // namespace

TEST_CASE("the steps of a part that are whole, the newest first; two are kept") {
  const TemporaryFolder folder;
  const std::string name = (folder / "snapshots").string();
  CHECK(good_steps(name, {0, 2}, 5).empty());
  CHECK(good_steps("", {0, 2}, 5).empty());
  write_snapshot(name, 2, {0, 2}, bytes_of(2));
  write_file(partial_name(snapshot_file(name, 2, {0, 2})).string(), "half");
  for (const int64_t step : {4, 6}) write_snapshot(name, step, {0, 2}, bytes_of(step));
  write_snapshot(name, 4, {1, 2}, bytes_of(4));
  CHECK(good_steps(name, {0, 2}, 5) == std::vector<int64_t>{6, 4});
  CHECK(good_steps(name, {1, 2}, 5) == std::vector<int64_t>{4});
  CHECK(good_steps(name, {0, 4}, 5).empty());
  CHECK(good_steps(name, {0, 2}, 5, 4) == std::vector<int64_t>{6});
  CHECK_FALSE(std::filesystem::exists(name + "/step_2"));
  remove_snapshots(name, {0, 2}, 4);
  CHECK(good_steps(name, {0, 2}, 5) == std::vector<int64_t>{4});
  remove_snapshots(name, {0, 2}, 0);
  CHECK(good_steps(name, {0, 2}, 5).empty());
  CHECK(good_steps(name, {1, 2}, 5) == std::vector<int64_t>{4});  // another part's stay
  CHECK(snapshot_file("x", 6, {1, 2}) == "x/step_6/part_1_of_2.snapshot");
}

TEST_CASE("the newest step of which all parts are there stays, although one part cannot write") {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  const auto write = [&](int64_t step, std::initializer_list<int> parts) {
    for (const int part : parts) write_snapshot(name, step, {part, 2}, bytes_of(step));
  };
  const auto good = [&](int part) { return good_steps(name, {part, 2}, 5); };
  for (const int64_t step : {2, 4}) write(step, {0, 1});
  for (const int64_t step : {6, 8, 10, 12}) write(step, {1});  // no space is left for part 0
  CHECK(good(0) == std::vector<int64_t>{4, 2});
  CHECK(good(1) == std::vector<int64_t>{12, 10, 4});
  write(14, {0, 1});
  CHECK(good(0) == std::vector<int64_t>{14, 4});
  write(16, {0, 1});
  CHECK(good(0) == std::vector<int64_t>{16, 14});
  CHECK(good(1) == std::vector<int64_t>{16, 14});
}

TEST_CASE("what was cut short, changed or is no snapshot does not count") {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  for (const int64_t step : {4, 6}) write_snapshot(name, step, {0, 1}, bytes_of(step));
  const std::string newest = snapshot_file(name, 6, {0, 1});
  const std::string whole = read_file(newest);
  SUBCASE("cut") { write_file(newest, whole.substr(0, whole.size() / 2)); }
  SUBCASE("changed") { write_file(newest, "Y" + whole.substr(1)); }
  SUBCASE("empty") { write_file(newest, ""); }
  SUBCASE("of another step") { write_file(newest, bytes_of(7)); }
  SUBCASE("half of it, under its partial name") {
    std::filesystem::remove(newest);
    write_file(partial_name(newest).string(), whole.substr(0, 9));
  }
  std::filesystem::create_directories(folder / "step_x");
  std::filesystem::create_directories(folder / "step_99");
  CHECK(good_steps(name, {0, 1}, 5) == std::vector<int64_t>{4});
}

TEST_CASE("snapshots of another run are not taken for this one's") {
  const TemporaryFolder folder;
  write_snapshot(folder.path().string(), 3, {0, 1}, bytes_of(3, 8));
  CHECK(contains(message_of([&] {
                   good_steps(folder.path().string(), {0, 1}, 5);
                 }),
                 "is of another run: give a folder of its own"));
}
