// mbarriers and bulk copies under the emulator's checks: each mistake has its line.
#include "yotta/device/cp_async_bulk.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

// Warp 0 loads two tiles into one place, one after the other; warp 1 adds them up. `mistake` says
// what is forgotten.
enum class Load {
  right,
  no_wait,
  other_parity,
  one_waits,
  one_waits_and_meets,
  other_barrier,
  no_fence,
  no_meeting,
  overwritten,
  twice,
  exchanged,
  out_of_bounds
};
__global__ void adds_tiles(Load mistake, int* x, int* y) {
  __shared__ __align__(16) int tile[32];
  __shared__ uint64_t full, empty;
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);  // line: init
    mbarrier_init(&empty, 32);
    if (mistake != Load::no_fence) fence_mbarrier_init();
  }
  if (mistake != Load::no_meeting) __syncthreads();
  int sum = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) {
      uint64_t* const free = mistake == Load::other_barrier ? &full : &empty;
      while (!mbarrier_try_wait_parity(free, (i + 1) % 2)) continue;
      mbarrier_arrive_expect_tx(&full, sizeof tile);
      int* from = x + 32 * i + (mistake == Load::out_of_bounds ? 4 : 0);
      if (mistake == Load::exchanged)
        cp_async_bulk(from, tile, sizeof tile, &full);                   // line: exchanged
      cp_async_bulk(tile, from, sizeof tile, &full);                     // line: load
      if (mistake == Load::twice) cp_async_bulk(tile, from, 16, &full);  // line: twice
      if (mistake == Load::overwritten) x[32 * i + 3] = 8;               // line: overwrites
    }
    if (i == 0 && mistake != Load::no_meeting) __syncthreads();  // the first copy has begun
    if (warp == 0) continue;
    const bool waits =
        mistake != Load::no_wait &&
        ((mistake != Load::one_waits && mistake != Load::one_waits_and_meets) || lane == 3);
    const uint32_t parity = mistake == Load::other_parity ? 1 - i % 2 : i % 2;
    if (waits)
      while (!mbarrier_try_wait_parity(&full, parity)) continue;
    if (mistake == Load::one_waits_and_meets) __syncwarp();
    sum += tile[31 - lane];  // line: reads
    mbarrier_arrive(&empty);
  }
  if (warp == 1) y[lane] = sum;
}

std::string loaded(Load mistake) {
  return error_of([&] {
    DeviceArray<int> x(std::vector<int>(64, 1)), y(32);
    x.named("x");
    launch(adds_tiles, 1, 64, 0, nullptr, mistake, x.data(), y.data());
    CHECK(y.to_host() == std::vector<int>(32, 2));
  });
}

// What the launches say whose threads run in the orders of 16 seeds.
std::string with_many_seeds(Load mistake) {
  std::string all;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    emulator_options().seed = seed;
    const std::string one = loaded(mistake);
    CHECK(one != "no error");
    all += one + "\n";
  }
  emulator_options() = {};
  return all;
}

// All threads write a tile, and the first one stores it.
enum class Store {
  right,
  no_fence,
  fence_too_early,
  fence_of_the_copier,
  no_meeting,
  overwritten,
  read_back,
  wait_for_read_only,
  exchanged
};
__global__ void stores_tile(Store mistake, int* y, int* seen) {
  __shared__ __align__(16) int tile[64];
  if (mistake == Store::fence_too_early) fence_proxy_async();
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);  // line: writes
  if (mistake != Store::no_fence && mistake != Store::fence_too_early &&
      mistake != Store::fence_of_the_copier)
    fence_proxy_async();
  if (mistake != Store::no_meeting) __syncthreads();
  if (threadIdx.x == 0) {
    if (mistake == Store::fence_of_the_copier) fence_proxy_async();
    if (mistake == Store::exchanged) cp_async_bulk(tile, y, sizeof tile);  // line: exchanged store
    cp_async_bulk(y, tile, sizeof tile);                                   // line: store
    cp_async_bulk_commit_group();
    if (mistake == Store::overwritten) tile[5] = 77;  // line: replaces
    if (mistake == Store::read_back) seen[0] = y[3];  // line: reads back
    cp_async_bulk_wait_group_read<0>();
    if (mistake == Store::wait_for_read_only) seen[0] = y[3];  // line: reads after
    cp_async_bulk_wait_group<0>();
    seen[0] = y[3];
  }
}

std::string stored(Store mistake) {
  return error_of([&] {
    DeviceArray<int> y(64), seen(1);
    y.named("y");
    launch(stores_tile, 1, 64, 0, nullptr, mistake, y.data(), seen.data());
    CHECK(seen.to_host()[0] == 3);
  });
}

}  // namespace

TEST_CASE("loads: whoever reads must know that they have come") {
  CHECK(loaded(Load::right) == "no error");
  CHECK(loaded(Load::one_waits_and_meets) == "no error");
  check_says(
      loaded(Load::no_wait),
      {line_at("reads"), "reads tile, element ", "too early: the bulk copy of line ",
       line_at("load").substr(0, line_at("load").size() - 2), "has not waited for its mbarrier"});
  check_says(loaded(Load::one_waits), {line_at("reads"), "has not waited for its mbarrier"});
  check_says(loaded(Load::other_parity),
             {line_at("reads"), "last waited for parity 1", "belongs to a phase of parity 0"});
}

TEST_CASE("loads: the place is free, the source stays, nobody else copies there") {
  check_says(with_many_seeds(Load::other_barrier),
             {"race: line ", " writes what line ", " reads (tile, element ",
              "wait for it before the copy that replaces them"});
  check_says(loaded(Load::overwritten), {line_at("load"), "a bulk copy reads x, element 3 of 64",
                                         "has overwritten", "phase has completed"});
  check_says(loaded(Load::twice), {line_at("twice"), "writes tile, element 0 of 32 too early"});
  check_says(loaded(Load::out_of_bounds),
             {line_at("load"), "reads 4 bytes out of bounds: x, element 64"});
  check_says(loaded(Load::exchanged),
             {line_at("exchanged"), "copies from global to shared memory"});
}

TEST_CASE("loads: copies and threads know the mbarrier") {
  check_says(loaded(Load::no_fence),
             {line_at("load"), "copies do not know the mbarrier", "fence_mbarrier_init()"});
  check_says(with_many_seeds(Load::no_meeting),
             {"no barrier is between them", "on an address where no mbarrier is"});
}

TEST_CASE("stores: a fence is between what threads wrote and the copy") {
  CHECK(stored(Store::right) == "no error");
  CHECK(stored(Store::fence_of_the_copier) == "no error");
  for (const std::string& message : {stored(Store::no_fence), stored(Store::fence_too_early)})
    check_says(message, {line_at("store"), "a bulk copy reads tile, element 0 of 64",
                         "no fence_proxy_async()"});
  check_says(stored(Store::no_meeting), {"race: line "});
}

TEST_CASE("stores: what they read stays, and what they write is waited for") {
  check_says(stored(Store::overwritten),
             {line_at("store"), "reads tile, element 5 of 64", "cp_async_bulk_wait_group_read"});
  check_says(stored(Store::read_back), {line_at("reads back"), "reads y, element 3 of 64 too early",
                                        "cp_async_bulk_wait_group"});
  check_says(stored(Store::wait_for_read_only), {line_at("reads after"), "too early"});
  check_says(stored(Store::exchanged),
             {line_at("exchanged store"), "copies from shared to global memory"});
}

TEST_CASE("counted: the bytes of a copy, 512 at a time, and one instruction") {
  Profile profile;
  CHECK(loaded(Load::right) == "no error");
  CHECK(profile.instructions("cp_async_bulk()") == 2);
  CHECK(profile.global_reads().sectors == 8);
}
