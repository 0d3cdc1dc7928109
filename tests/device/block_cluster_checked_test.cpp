// Clusters under the emulator's checks: each mistake has its line.
#include "yotta/device/block_cluster.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// Each block writes a number, reads that of the next block, and writes into a place there.
// `mistake` says what is forgotten.
enum class Mistake {
  none,
  no_meeting,
  syncthreads,
  two_writers,
  ends_early,
  out_of_bounds,
  returns,
  unwritten,
  one_stays,
  dynamic
};
__global__ void reads_next(Mistake mistake, int* out) {
  __shared__ int number[32], given[32];
  int* const more = dynamic_shared<int>();
  const uint32_t next = (cluster_rank() + 1) % cluster_size();
  const unsigned lane = threadIdx.x;
  if (mistake != Mistake::unwritten) number[lane] = static_cast<int>(lane);  // line: writes
  more[lane] = 5;                                                            // line: writes more
  if (mistake == Mistake::returns && blockIdx.x == 3) return;
  if (mistake == Mistake::one_stays && blockIdx.x == 2 && lane == 7) return;
  if (mistake == Mistake::no_meeting || mistake == Mistake::syncthreads)
    __syncthreads();
  else if (mistake != Mistake::dynamic)
    cluster_sync();  // line: first meeting
  const unsigned at = mistake == Mistake::out_of_bounds ? lane + 20 : lane;
  const int* const from = map_shared(mistake == Mistake::dynamic ? more : number, next);
  const int sum = from[at];  // line: reads
  const uint32_t to = mistake == Mistake::two_writers ? 0 : next;
  map_shared(given, to)[lane] = sum + static_cast<int>(cluster_rank());  // line: gives
  if (mistake != Mistake::ends_early) cluster_sync();
  out[32 * blockIdx.x + lane] = sum;
}

std::string read(Mistake mistake) {
  return error_of([&] {
    DeviceArray<int> out(4 * 32);
    launch_cluster(reads_next, 4, 2, 32, 128, nullptr, mistake, out.data());
    CHECK(out.to_host()[3 * 32 + 5] == 5);
  });
}
// What the launches say whose threads run in the orders of 8 seeds: an error each.
std::string with_seeds(std::string (*run)(int), int mistake) {
  std::string all;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    emulator_options().seed = seed;
    const std::string one = run(mistake);
    CHECK(one != "no error");
    all += one + "\n";
  }
  emulator_options() = {};
  return all;
}
std::string read_by_number(int mistake) { return read(static_cast<Mistake>(mistake)); }
std::string read_with_seeds(Mistake mistake) {
  return with_seeds(read_by_number, static_cast<int>(mistake));
}

// Block 0 writes into block 1, which meets itself only before it reads.
__global__ void pushes(int* out) {
  __shared__ int given[32];
  if (cluster_rank() == 0) map_shared(given, 1)[threadIdx.x] = 3;  // line: pushes
  __syncthreads();
  if (cluster_rank() == 1) out[threadIdx.x] = given[threadIdx.x];  // line: pops
  cluster_sync();
}
std::string pushed(int) {
  return error_of([] {
    DeviceArray<int> out(32);
    launch_cluster(pushes, 2, 2, 32, 0, nullptr, out.data());
  });
}

// A thread of every second block returns at once; the others meet.
__global__ void meets(int* out) {
  if (cluster_rank() == 1 && threadIdx.x == 7) return;
  cluster_sync();
  cluster_sync();
  out[32 * blockIdx.x + threadIdx.x] = 1;
}

// One thread returns, as it may, and another one stays at a barrier of its block.
__global__ void stays_behind() {
  if (cluster_rank() == 1 && threadIdx.x == 7) return;
  if (cluster_rank() == 1 && threadIdx.x == 9) __syncthreads();
  cluster_sync();
}

// Block 0 hands numbers to block 1 through one place; mbarriers say that it is full and free.
enum class Forgets { nothing, full, order, arrival, last_wait, initialised };
__global__ void hands_over(Forgets forgets, int* out) {
  __shared__ int place[32];
  __shared__ uint64_t full, empty;
  const uint32_t rank = cluster_rank();
  const unsigned lane = threadIdx.x;
  if (lane == 0) {
    mbarrier_init(&full, 32);
    mbarrier_init(&empty, 32);
  }
  if (forgets != Forgets::initialised) cluster_sync();
  int sum = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    if (rank == 0) {
      while (!mbarrier_try_wait_parity_cluster(&empty, 1 - i % 2)) continue;
      map_shared(place, 1)[lane] = static_cast<int>(i);                         // line: fills
      if (forgets != Forgets::arrival || i == 0) mbarrier_arrive_at(&full, 1);  // line: arrives
    } else {
      if (forgets != Forgets::full)
        while (!mbarrier_try_wait_parity_cluster(&full, i % 2)) continue;
      if (forgets == Forgets::order) mbarrier_arrive_at(&empty, 0);
      sum += place[31 - lane];                                       // line: takes
      if (forgets != Forgets::order) mbarrier_arrive_at(&empty, 0);  // line: frees
    }
  }
  if (forgets == Forgets::last_wait) {
    if (rank == 0) return;
  } else if (rank == 0) {
    while (!mbarrier_try_wait_parity_cluster(&empty, 0)) continue;
  }
  out[32 * rank + lane] = sum;
}
std::string handed_over(Forgets forgets) {
  return error_of([&] {
    DeviceArray<int> out(2 * 32);
    launch_cluster(hands_over, 2, 2, 32, 0, nullptr, forgets, out.data());
    CHECK(out.to_host()[40] == 3);
  });
}
std::string handed_by_number(int forgets) { return handed_over(static_cast<Forgets>(forgets)); }
std::string handed_with_seeds(Forgets forgets) {
  return with_seeds(handed_by_number, static_cast<int>(forgets));
}

}  // namespace

TEST_CASE("clusters: what one block writes and another reads is ordered by a meeting of both") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    emulator_options().seed = seed;
    CHECK(read(Mistake::none) == "no error");
  }
  emulator_options() = {};
  for (const Mistake mistake : {Mistake::no_meeting, Mistake::syncthreads})
    check_says(read_with_seeds(mistake),
               {"race: line " + line_at("writes").substr(0, line_at("writes").size() - 2),
                " writes what line " + line_at("reads").substr(0, line_at("reads").size() - 2),
                " reads (number", "the other is block (",
                "Let the blocks of the cluster meet in cluster_sync()"});
  check_says(read_with_seeds(Mistake::dynamic),
             {"race: line ", line_at("writes more").substr(0, line_at("writes more").size() - 2),
              line_at("reads").substr(0, line_at("reads").size() - 2), "(dynamic shared memory",
              "cluster_sync()"});
}

TEST_CASE("clusters: two blocks that write into one place, and places outside of an array") {
  check_says(read_with_seeds(Mistake::two_writers),
             {line_at("gives"), "race: line ", "(given", "the other is block ("});
  check_says(read(Mistake::out_of_bounds),
             {line_at("reads"), "out of bounds: number of block (", "element 32 of 32"});
  check_says(read(Mistake::unwritten), {line_at("reads"), "reads what nobody has written: number"});
}

TEST_CASE("clusters: a block's own barrier orders nothing between blocks") {
  check_says(with_seeds(pushed, 0),
             {"race: line " + line_at("pushes").substr(0, line_at("pushes").size() - 2),
              " writes what line " + line_at("pops").substr(0, line_at("pops").size() - 2),
              " reads (given"});
}

TEST_CASE("clusters: a block does not end while others may be in its shared memory") {
  check_says(
      read_with_seeds(Mistake::ends_early),
      {" of block (", "that block may have ended by then", "cluster_sync() before both return"});
}

TEST_CASE("clusters: a barrier that some threads never reach") {
  check_says(read(Mistake::returns),
             {line_at("first meeting"), "waits in cluster_wait() in vain: 32 of 64 threads",
              "block (3, 0, 0), thread (", "has returned"});
  check_says(read(Mistake::one_stays), {line_at("first meeting"), "63 of 64 threads",
                                        "block (2, 0, 0), thread (7, 0, 0) has returned"});
}

TEST_CASE("clusters: threads that may return early do not hold up the others") {
  emulator_options().may_return_early = true;
  DeviceArray<int> out(4 * 32);
  launch_cluster(meets, 4, 2, 32, 0, nullptr, out.data());
  const std::string error = error_of([] { launch_cluster(stays_behind, 2, 2, 32, 0, nullptr); });
  emulator_options() = {};
  check_says(error, {"62 of 64 threads of the cluster have arrived",
                     "block (1, 0, 0), thread (9, 0, 0) waits"});
  CHECK(out.to_host()[30] == 1);
  check_says(error_of([&] { launch_cluster(meets, 4, 2, 32, 0, nullptr, out.data()); }),
             {"63 of 64 threads of the cluster have arrived"});
}

TEST_CASE("clusters: arrivals at mbarriers of other blocks order what was before them") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    emulator_options().seed = seed;
    CHECK(handed_over(Forgets::nothing) == "no error");
  }
  emulator_options() = {};
  check_says(handed_with_seeds(Forgets::full), {"place", line_at("takes")});
  check_says(handed_with_seeds(Forgets::order), {"race: line ", "(place", line_at("fills")});
  check_says(handed_over(Forgets::arrival),
             {"waits for parity 1 of the mbarrier", "in vain", "has 0 of 32 arrivals"});
  check_says(handed_with_seeds(Forgets::initialised), {"mbarrier"});
}

TEST_CASE("clusters: a block waits for all arrivals at its mbarriers before it ends") {
  check_says(handed_with_seeds(Forgets::last_wait), {line_at("frees"), "ended"});
}
