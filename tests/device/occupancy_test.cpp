#include "yotta/device/occupancy.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "support/message_of.hpp"
#include "yotta/device/flash_attention_rungs.hpp"
#include "yotta/device/tensor_cores_hopper_rungs.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"
#include "yotta/machine/latency_hiding.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("occupancy is what NVIDIA's calculator says") {
  const Multiprocessors& h100 = multiprocessors_of("h100");
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).by_warps == 8);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).by_registers == 6);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).by_shared == 4);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).blocks() == 4);
  CHECK(occupancy(h100, {256, 48 * 1024, 40}).fraction() == 0.5);
  CHECK(occupancy(h100, {32, 0, 32}).blocks() == 32);   // 64 warps, but 32 blocks
  CHECK(occupancy(h100, {1024, 0, 32}).blocks() == 2);  // all of its threads
  CHECK(occupancy(h100, {1024, 0, 33}).blocks() == 1);  // 40 registers a thread are taken
  CHECK(occupancy(h100, {128, 0, 255}).blocks() == 2);
  // Registers are in four parts: each holds 12 such warps, all together 48 and not 51.
  CHECK(occupancy(h100, {17 * 32, 0, 40}).by_registers == 2);
  CHECK(occupancy(h100, {128, 227 * 1024, 0}).blocks() == 1);
  CHECK(occupancy(h100, {128, 113 * 1024, 0}).blocks() == 2);
  CHECK(occupancy(multiprocessors_of("a100"), {128, 81 * 1024, 0}).blocks() == 2);
  CHECK(occupancy(multiprocessors_of("a100"), {128, 82 * 1024, 0}).blocks() == 1);
}

TEST_CASE("a block that is none, or larger than a block may be, fits nowhere") {
  const Multiprocessors& h100 = multiprocessors_of("h100");
  CHECK(occupancy(h100, {0, 0, 32}).blocks() == 0);
  CHECK(occupancy(h100, {-32, 0, 32}).blocks() == 0);
  CHECK(occupancy(h100, {1025, 0, 32}).blocks() == 0);
  CHECK(occupancy(h100, {32, 228 * 1024, 32}).blocks() == 0);
}

TEST_CASE("the report names the limit, and up to how many registers it holds if none are given") {
  CHECK(contains(
      occupancy_report(multiprocessors_of("h100"), {256, 48 * 1024, 40}),
      "4 blocks of 8 warps on each of 132 SMs (50% of its warps), limited by shared memory"));
  const Multiprocessors& h100 = multiprocessors_of("h100");
  CHECK(
      contains(occupancy_report(h100, {256, 48 * 1024, 40}), "4 by shared memory, 6 by registers"));
  const std::string unknown = occupancy_report(h100, {1024, 0, 0});
  CHECK(contains(unknown, "limited by threads"));
  CHECK(contains(unknown, "registers not known: fewer fit if a thread needs more than 32"));
  CHECK(most_registers(h100, {1024, 0, 0}) == 32);
  CHECK(most_registers(h100, {256, 48 * 1024, 0}) == 64);  // 4 blocks of 8 warps
  CHECK(most_registers(h100, {32, 0, 0}) == 64);           // 32 blocks of a warp
  CHECK(most_registers(h100, {128, 227 * 1024, 0}) == 255);
}

TEST_CASE("warps that fit against warps that Little's law asks for") {
  for (const char* chip : {"a100", "h100"}) {
    const Multiprocessors& sm = multiprocessors_of(chip);
    const double full = chip_named(chip).bandwidth;
    // A full SM hides latency with loads of 4 bytes, half of one does not; with 16 bytes it does.
    const Occupancy whole = occupancy(sm, {256, 0, 32}), half = occupancy(sm, {256, 0, 64});
    CHECK(whole.warps() >= warps_needed(sm, 4));
    CHECK(half.warps() < warps_needed(sm, 4));
    CHECK(bandwidth_reached(sm, whole.warps(), 4) == full);
    CHECK(bandwidth_reached(sm, half.warps(), 4) < 0.7 * full);
    CHECK(bandwidth_reached(sm, half.warps(), 16) == full);
  }
}

namespace {

struct SharedOf {
  std::string kernels;  // what their names have in common
  size_t bytes;
};
template <int d>
void add_attention(std::vector<SharedOf>& all) {
  const auto tile = [&](const char* form, size_t bytes) {
    all.push_back({fmt::format(fmt::runtime(form), d), bytes});
  };
  tile("FlashWarps<{}, 128, 64, 32>", FlashWarps<d, 128, 64, 32>::shared_bytes);
  tile("FlashWarps<{}, 16, 64, 16>", FlashWarps<d, 16, 64, 16>::shared_bytes);
  tile("FlashSquare<{}, 64>", FlashSquare<d, 64>::shared_bytes);
  tile("FlashTile<{}, 32, 32, 128>", sizeof(float) * FlashTile<d, 32, 32, 128>::numbers);
}

}  // namespace

// registers.tsv: what bench/gpu_registers compares with, which knows no launcher.
TEST_CASE("the table of registers has the shared memory that launchers ask for") {
  using Small = Tiles<128, 128, 32, 64, 32>;
  using Large = Tiles<128, 256, 32, 64, 64>;
  std::vector<SharedOf> all = {
      {"pipeline<Tiles<128, 128, 32, 64, 32>, 3>", pipeline_bytes<Small, 3>()},
      {"pipeline<Tiles<128, 256, 32, 64, 64>, 4>", pipeline_bytes<Large, 4>()},
      {"matmul_wgmma<256>", wgmma_bytes<256>()},
      {"matmul_tma<256, 4>", TileRing<64, 256, 4>::bytes},
      {"matmul_producer<256, 4, 2>", HopperRing<256, 4, 2>::bytes},
      {"matmul_multicast<256, 4, 2>", HopperRing<256, 4, 2>::bytes},
      {"matmul_persistent<256, 4, 2>", persistent_bytes<HopperRing<256, 4, 2>>()}};
  add_attention<32>(all);
  add_attention<64>(all);
  add_attention<128>(all);
  std::ifstream table(YOTTA_SOURCE_DIR "/tests/device/registers.tsv");
  std::string line, arch, file, kernel, threads, registers, spilled;
  std::vector<bool> seen(all.size());
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    for (std::string* each : {&arch, &file, &kernel, &threads, &registers, &spilled})
      std::getline(fields, *each, '\t');
    size_t shared = 0;
    fields >> shared;
    for (size_t i = 0; i < all.size(); ++i)
      if (contains(kernel, all[i].kernels)) {
        seen[i] = true;
        CHECK_MESSAGE(shared == all[i].bytes, line);
      }
  }
  for (size_t i = 0; i < all.size(); ++i) CHECK_MESSAGE(seen[i], all[i].kernels);
}
