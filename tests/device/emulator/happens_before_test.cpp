// Shadow memory; and races: every way in which two threads may touch the same place, with and
// without what orders them.
#include "yotta/device/emulator/happens_before.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

template <bool Barrier>
__global__ void write_then_read(int* y) {
  __shared__ int part[64];
  part[threadIdx.x] = 1;  // line: writes
  if (Barrier) __syncthreads();
  const int other = part[63 - threadIdx.x];  // line: reads
  y[threadIdx.x] = other + static_cast<int>(blockIdx.x);
}

// The barrier is there, but half of the threads go past it.
__global__ void barrier_in_a_branch(int* y) {
  __shared__ int part[64];
  part[threadIdx.x] = static_cast<int>(threadIdx.x);  // line: all write theirs
  if (threadIdx.x < 32) {
    __syncthreads();  // line: half meet
  }
  y[threadIdx.x] = part[63 - threadIdx.x];  // line: all read
}

// The classic: the barrier at the end of the loop is missing, so the next tile overwrites what
// others still read.
template <bool SecondBarrier>
__global__ void tiles(const int* x, int* y) {
  __shared__ int tile[64];
  int sum = 0;
  for (int k = 0; k < 4; ++k) {
    tile[threadIdx.x] = x[64 * k + threadIdx.x];  // line: loads tile
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];  // line: uses tile
    if (SecondBarrier) __syncthreads();
  }
  y[threadIdx.x] = sum;
}

__global__ void all_write_one(int* y) {
  *y = static_cast<int>(threadIdx.x + blockIdx.x);  // line: all write
}

template <bool Sync>
__global__ void warp_sum(int* y) {
  __shared__ int part[32];
  const unsigned lane = threadIdx.x;
  part[lane] = 1;
  for (unsigned half = 16; half > 0; half /= 2) {
    if (Sync) __syncwarp();
    const int other = part[(lane + half) % 32];
    if (Sync) __syncwarp();
    part[lane] += other;
  }
  y[lane] = part[lane];
}

// __syncwarp() orders a warp, not a block.
__global__ void warp_barrier_for_a_block(int* y) {
  __shared__ int part[64];
  part[threadIdx.x] = 1;
  __syncwarp();
  y[threadIdx.x] = part[63 - threadIdx.x];
}

__global__ void neighbour_blocks(int* y) {
  y[blockIdx.x * 32 + threadIdx.x] = 1;
  y[(blockIdx.x + 1) * 32 + threadIdx.x] = 2;
}

__global__ void reads_in_place(int* y) {
  const unsigned i = blockIdx.x * 32 + threadIdx.x;
  const int left = i == 0 ? 0 : y[i - 1];
  __syncthreads();
  y[i] = left;
}

__global__ void set(int* y, int value) { y[blockIdx.x * 32 + threadIdx.x] = value; }

// Neighbouring halves of a word belong to two threads: no race.
__global__ void neighbour_bytes(unsigned char* y, unsigned short* z) {
  y[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
  z[threadIdx.x] = static_cast<unsigned short>(threadIdx.x);
}
__global__ void same_bytes(unsigned char* y) {
  y[threadIdx.x / 2] = static_cast<unsigned char>(threadIdx.x);
}

// All of a warp, then half of it: what came before the first is ordered all the same.
__global__ void part_of_a_warp(int* y) {
  __shared__ int part[32];
  part[threadIdx.x] = 1;
  __syncwarp();
  if (threadIdx.x < 16) {
    __syncwarp(0x0000ffff);
    y[threadIdx.x] = part[threadIdx.x + 16];
  }
}

// Thread 0 meets 1, then 1 meets 2.
__global__ void one_after_the_other(int* y) {
  __shared__ int part[32];
  part[threadIdx.x] = 1;
  if (threadIdx.x < 2) __syncwarp(0x3);
  if (threadIdx.x == 1 || threadIdx.x == 2) __syncwarp(0x6);
  if (threadIdx.x == 2) y[0] = part[0];
}

__global__ void all_say_yes(int* found) {
  if (threadIdx.x % 3 == 0) *found = 1;
}

// Three read, one of another warp; then a lane of the first warp writes.
__global__ void a_third_reader(const int* order, int* x, int* y) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (warp == 1) y[threadIdx.x] = lane == static_cast<unsigned>(order[0]) ? x[0] : 0;
  if (warp == 0) {
    if (lane > 0 && lane < 4) y[threadIdx.x] = x[0];
    __syncwarp();
    if (lane == 0) x[0] = 5;
  }
}

struct Padded {
  char c;
  int i;
};
__global__ void copies_padded(const Padded* x, Padded* y) {
  __shared__ Padded part[32];
  part[threadIdx.x].c = 'a';
  part[threadIdx.x].i = 7;
  __syncthreads();
  y[threadIdx.x] = part[31 - threadIdx.x];
  if (x != nullptr) y[threadIdx.x] = x[threadIdx.x];
}

template <class... Arguments, class... Given>
std::string error(void (*kernel)(Arguments...), int blocks, int threads, Given... given) {
  return error_of([&] { launch(kernel, blocks, threads, 0, nullptr, given...); });
}

// Two threads that have one number in the checks: blocks are numbered modulo 2^20.
__global__ void set_by_two_blocks(int* y) {
  if (blockIdx.x % (1u << 20) == 0) *y = static_cast<int>(blockIdx.x);
}

}  // namespace

TEST_CASE("memory is unwritten until somebody writes it") {
  Shadow shadow(16);
  for (const Cell& cell : shadow.cells(0, 16)) CHECK(cell.write.time == 0);
  shadow.write_by_host(4, 8);
  CHECK(shadow.cells(0, 4).begin()->write.time == 0);
  CHECK(shadow.cells(4, 4).begin()->write.time == host_time);
  CHECK(shadow.cells(8, 4).begin()->write.time == host_time);
  CHECK(shadow.cells(12, 4).begin()->write.time == 0);
}

TEST_CASE("cells are split when an access is smaller, and keep what they know") {
  Shadow shadow(16);
  const auto count = [&](size_t offset, size_t bytes) {
    const auto cells = shadow.cells(offset, bytes);
    return cells.end() - cells.begin();
  };
  CHECK(count(0, 16) == 4);
  for (Cell& cell : shadow.cells(8, 4)) cell.write = {7, 3, 100};
  CHECK(count(2, 2) == 1);
  CHECK(count(0, 16) == 8);
  for (const Cell& cell : shadow.cells(8, 4)) CHECK(cell.write.who == 3);
  CHECK(shadow.cells(12, 2).begin()->write.time == 0);
  CHECK(count(5, 3) == 3);
  CHECK(count(0, 16) == 16);
  for (const Cell& cell : shadow.cells(8, 4)) CHECK(cell.write.site == 100);
}

TEST_CASE("a read races with another thread's write unless a barrier is between them") {
  DeviceArray<int> y(64);
  CHECK(error(write_then_read<true>, 2, 64, y.data()).find("block (1, 0, 0)") !=
        std::string::npos);  // y, not part
  CHECK(error(write_then_read<true>, 1, 64, y.data()) == "no error");
  const std::string message = error(write_then_read<false>, 1, 64, y.data());
  const std::string writes = line_at("writes"), reads = line_at("reads");
  check_says(message, {"race: line happens_before_test.cpp:", "part, element",
                       "no barrier is between them", "__syncthreads()"});
  const std::string pair = "race: line " + writes.substr(0, writes.size() - 2) +
                           " writes what line " + reads.substr(0, reads.size() - 2) + " reads";
  check_says(message, {pair});
}

TEST_CASE("a tile loop needs its second barrier") {
  const DeviceArray<int> x(std::vector<int>(256, 1));
  DeviceArray<int> y(64);
  CHECK(error(tiles<true>, 1, 64, x.data(), y.data()) == "no error");
  CHECK(y.to_host() == std::vector<int>(64, 256));
  const std::string loads = line_at("loads tile"), uses = line_at("uses tile");
  check_says(error(tiles<false>, 1, 64, x.data(), y.data()),
             {"race: line " + loads.substr(0, loads.size() - 2) + " writes what line " +
                  uses.substr(0, uses.size() - 2) + " reads",
              "tile, element"});
}

TEST_CASE("two writes race, in a block and between blocks") {
  DeviceArray<int> y(64);
  check_says(error(all_write_one, 1, 32, y.data()),
             {line_at("all write"), "race", "Let one thread write it"});
  check_says(error(all_write_one, 2, 1, y.data()),
             {"the other is block (0, 0, 0)", "Blocks have no order"});
  CHECK(error(all_write_one, 1, 1, y.data()) == "no error");
  DeviceArray<int> z(96);
  check_says(error(neighbour_blocks, 2, 32, z.data()), {"race", "block (1, 0, 0)"});
}

TEST_CASE("__syncwarp() orders the lanes of a warp, and only them") {
  DeviceArray<int> y(64);
  CHECK(error(warp_sum<true>, 1, 32, y.data()) == "no error");
  CHECK(y.to_host()[0] == 32);
  check_says(error(warp_sum<false>, 1, 32, y.data()), {"race", "part, element"});
  check_says(error(warp_barrier_for_a_block, 1, 64, y.data()), {"race"});
  CHECK(error(warp_barrier_for_a_block, 1, 32, y.data()).find("part, element") !=
        std::string::npos);  // 63 - i: unwritten
}

TEST_CASE("what lanes of a warp have met before stays ordered, also through a third one") {
  DeviceArray<int> y(64);
  CHECK(error(part_of_a_warp, 1, 32, y.data()) == "no error");
  CHECK(error(one_after_the_other, 1, 32, y.data()) == "no error");
}

TEST_CASE("threads may write one value to one place") {
  DeviceArray<int> found(std::vector<int>{0});
  CHECK(error(all_say_yes, 3, 64, found.data()) == "no error");
  CHECK(found.to_host()[0] == 1);
}

TEST_CASE("a reader of another warp is remembered, whoever reads after it") {
  DeviceArray<int> x(std::vector<int>{1}), y(64);
  const DeviceArray<int> order(std::vector<int>{9});
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const EmulatorOptions before = emulator_options();
    emulator_options().seed = seed;
    check_says(error(a_third_reader, 1, 64, order.data(), x.data(), y.data()), {"race"});
    emulator_options() = before;
  }
}

TEST_CASE("padding within a struct is nothing that is read") {
  DeviceArray<Padded> y(32);
  CHECK(error(copies_padded, 1, 32, nullptr, y.data()) == "no error");
  CHECK(y.to_host()[3].i == 7);
}

TEST_CASE("a barrier orders no blocks; a launch does") {
  DeviceArray<int> y(96);
  CHECK(error(set, 3, 32, y.data(), 1) == "no error");
  CHECK(error(set, 3, 32, y.data(), 2) == "no error");
  CHECK(error(reads_in_place, 1, 32, y.data()) == "no error");
  check_says(error(reads_in_place, 3, 32, y.data()), {"race", "Blocks have no order"});
}

TEST_CASE("blocks 0 and 2^20 are two") {
  DeviceArray<int> y(1);
  CHECK(error(set_by_two_blocks, 1 << 20, 1, y.data()) == "no error");
  check_says(error(set_by_two_blocks, (1 << 20) + 1, 1, y.data()),
             {"race", "Blocks have no order"});
}

TEST_CASE("bytes and halves of one word are places of their own") {
  DeviceArray<unsigned char> y(64);
  DeviceArray<unsigned short> z(64);
  CHECK(error(neighbour_bytes, 1, 64, y.data(), z.data()) == "no error");
  check_says(error(same_bytes, 1, 64, y.data()), {"race"});
}

TEST_CASE("the same seed finds the same fault") {
  DeviceArray<int> y(64);
  const auto fault = [&](uint64_t seed) {
    const EmulatorOptions before = emulator_options();
    emulator_options().seed = seed;
    const std::string message = error(all_write_one, 4, 64, y.data());
    emulator_options() = before;
    return message;
  };
  CHECK(fault(3) == fault(3));
  CHECK(fault(3) != fault(4));
}

TEST_CASE("a barrier that only some threads reach is named, not asked for again") {
  DeviceArray<int> y(64);
  const std::string barrier = line_at("half meet");
  const EmulatorOptions before = emulator_options();
  int named = 0;  // where the warp that has a barrier ran first
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    emulator_options().seed = seed;
    const std::string message =
        error_of([&] { launch(barrier_in_a_branch, 1, 64, 0, nullptr, y.data()); });
    check_says(message, {"race: line"});
    named += message.find("not all threads reach the __syncthreads() of line " +
                          barrier.substr(0, barrier.size() - 2) +
                          " between them. Move it out of the branch") != std::string::npos;
  }
  emulator_options() = before;
  CHECK(named > 0);
  DeviceArray<int> x(std::vector<int>(256, 1));
  check_says(error_of([&] { launch(tiles<false>, 1, 64, 0, nullptr, x.data(), y.data()); }),
             {"Put a __syncthreads() between the two"});
}
