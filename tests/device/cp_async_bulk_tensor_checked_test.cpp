// Copies of tensor boxes under the emulator's checks.
#include "yotta/device/cp_async_bulk_tensor.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/block_cluster.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

constexpr int rows = 8, columns = 32;  // of a box of 16-bit numbers

// A pipeline of one place for boxes below each other: a box is loaded, read, and stored elsewhere.
enum class Mistake { none, no_wait, bytes, replaced, unfenced, too_many_rows };
__global__ void moves_boxes(Mistake mistake, const __grid_constant__ CUtensorMap from,
                            const __grid_constant__ CUtensorMap to, int* sums) {
  __shared__ __align__(1024) uint16_t tile[rows * columns], out[rows * columns];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    const uint32_t bytes = mistake == Mistake::bytes ? sizeof tile / 2 : sizeof tile;
    mbarrier_arrive_expect_tx(&full, bytes);
    cp_async_bulk_tensor(tile, &from, {0, -2}, &full);  // line: load
    if (mistake == Mistake::replaced) tile[3] = 1;      // line: replaces
  }
  __syncthreads();
  if (mistake != Mistake::no_wait)
    while (!mbarrier_try_wait_parity(&full, 0)) continue;  // line: wait
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += 32)
    out[i] = tile[i];  // line: reads
  if (mistake != Mistake::unfenced) fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    cp_async_bulk_tensor(&to, {0, 4}, out);  // line: store
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read<0>();
  }
  sums[threadIdx.x] = tile[threadIdx.x];
}

std::string moved(Mistake mistake) {
  return error_of([&] {
    DeviceArray<uint16_t> x(std::vector<uint16_t>(10 * columns, 5));
    DeviceArray<uint16_t> y(std::vector<uint16_t>(10 * columns, 0));
    DeviceArray<int> sums(32);
    x.named("x");
    const int64_t height = mistake == Mistake::too_many_rows ? 5 : 10;
    DeviceArray<uint16_t> few(std::vector<uint16_t>(3 * columns, 5));
    few.named("few");
    const uint16_t* const source = height == 5 ? few.data() : x.data();
    const CUtensorMap from = tensor_map(source, {height, columns}, {rows, columns}, Swizzle::b64);
    const CUtensorMap to = tensor_map(y.data(), {10, columns}, {rows, columns}, Swizzle::b64);
    launch(moves_boxes, 1, 32, 0, nullptr, mistake, from, to, sums.data());
    const std::vector<uint16_t> got = y.to_host();
    for (int row = 0; row < 10; ++row)
      CHECK(got[static_cast<size_t>(row * columns + row)] == (row < 6 ? 0 : 5));
  });
}

// Two blocks bring each other halves of a tile, `rounds` times into the same place. Each tells both
// when it has read.
enum class Shares { rightly, no_wait, own_arrivals, other_bytes, no_fence, no_meeting, ends };
constexpr int rounds = 3;
__global__ void shares_tiles(Shares how, const __grid_constant__ CUtensorMap map, int* sums) {
  __shared__ __align__(1024) uint16_t tile[2][rows * columns];
  __shared__ uint64_t full, empty;
  const uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, how == Shares::own_arrivals ? 32 : 64);
    if (how != Shares::no_fence) fence_mbarrier_init();
  }
  if (how == Shares::no_meeting)
    __syncthreads();
  else
    cluster_sync();
  int sum = 0;
  for (uint32_t i = 0; i < rounds; ++i) {
    if (threadIdx.x == 0) {
      while (!mbarrier_try_wait_parity(&empty, 1 - i % 2)) continue;
      mbarrier_arrive_expect_tx(&full, sizeof tile * (how == Shares::other_bytes ? 2 : 1));
      const auto row = static_cast<int32_t>(rank);
      cp_async_bulk_tensor_multicast(tile[rank], &map, {0, row}, &full, 3);  // line: multicast
    }
    __syncwarp();
    if (how != Shares::no_wait || i < 2)
      while (!mbarrier_try_wait_parity(&full, i % 2)) continue;  // line: waits for both
    sum += tile[1 - rank][threadIdx.x];                          // line: reads the other half
    mbarrier_arrive(&empty);
    if (how != Shares::own_arrivals) mbarrier_arrive_at(&empty, 1 - rank);  // line: tells
  }
  sums[32 * blockIdx.x + threadIdx.x] = sum;
  if (how != Shares::ends) cluster_sync();
}

std::string shared(Shares how) {
  return error_of([&] {
    DeviceArray<uint16_t> x(std::vector<uint16_t>(10 * columns, 5));
    DeviceArray<int> sums(64);
    launch_cluster(shares_tiles, 2, 2, 32, 0, nullptr, how,
                   tensor_map(x.data(), {10, columns}, {rows, columns}, Swizzle::b64), sums.data());
    CHECK(sums.to_host()[40] == 5 * rounds);
  });
}
// What the launches say whose threads run in the orders of 8 seeds.
std::string shared_with_seeds(Shares how) {
  std::string all;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    emulator_options().seed = seed;
    all += shared(how) + "\n";
  }
  emulator_options() = {};
  return all;
}

// Blocks add tiles to one box.
enum class Adds { rightly, unfenced, overwritten, read_back, one_awaited, and_writes };
__global__ void adds_tiles(Adds how, const __grid_constant__ CUtensorMap map, float* y) {
  __shared__ __align__(128) float tile[rows * columns];
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += 32) tile[i] = 1.0f;
  if (how != Adds::unfenced) fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  cp_reduce_async_bulk_tensor_add(&map, {0, 0}, tile);  // line: adds
  if (how == Adds::one_awaited) cp_async_bulk_commit_group();
  cp_reduce_async_bulk_tensor_add(&map, {0, 0}, tile);
  cp_async_bulk_commit_group();
  if (how == Adds::overwritten) tile[3] = 2.0f;
  if (how == Adds::read_back) tile[0] = y[3];  // line: reads back
  if (how == Adds::one_awaited) {
    cp_async_bulk_wait_group<1>();
    tile[0] = y[3];  // line: reads back one
  }
  if (how == Adds::and_writes && blockIdx.x == 1) y[5] = 1.0f;  // line: writes there
  cp_async_bulk_wait_group<0>();
}

std::string added(Adds how) {
  return error_of([&] {
    DeviceArray<float> y(std::vector<float>(rows * columns, 2.0f));
    y.named("y");
    launch(adds_tiles, 2, 32, 0, nullptr, how,
           tensor_map(y.data(), {rows, columns}, {rows, columns}), y.data());
    CHECK(y.to_host() == std::vector<float>(rows * columns, 6.0f));
  });
}

// Two threads add a tile to boxes that overlap, the second waits for its own sum, and reads y[at];
// or waits, after a barrier, until the first has waited too.
__global__ void adds_twice(bool meets, const __grid_constant__ CUtensorMap map, const float* y,
                           float* out, int at) {
  __shared__ __align__(128) float tile[rows * columns];
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += 64) tile[i] = 1.0f;
  fence_proxy_async();
  __syncthreads();
  for (int adder = 0; adder < 64; adder += 32) {
    if (threadIdx.x == static_cast<unsigned>(adder))
      cp_reduce_async_bulk_tensor_add(&map, {adder / 4, adder / 16}, tile);
    cp_async_bulk_commit_group();
    __syncthreads();
  }
  if (meets && threadIdx.x == 0) cp_async_bulk_wait_group<0>();
  if (meets) __syncthreads();
  if (threadIdx.x == 32) cp_async_bulk_wait_group<0>();
  if (threadIdx.x == 32) *out = y[at];  // line: reads one of two sums
  cp_async_bulk_wait_group<0>();
}
constexpr int wide = 2 * columns;
std::string twice(bool meets, int row, int column, float sum) {
  return error_of([&] {
    DeviceArray<float> y(std::vector<float>(2 * rows * wide, 2.0f)), out(1);
    y.named("y");
    launch(adds_twice, 1, 64, 0, nullptr, meets,
           tensor_map(y.data(), {2 * rows, wide}, {rows, columns}), y.data(), out.data(),
           row * wide + column);
    CHECK(out.to_host() == std::vector<float>(1, sum));
  });
}

// Block 0 says by an atomic operation that x is there. Block 1 starts a reduction into the same
// place, or asks by an atomic operation, and reads x.
__global__ void asks_by_adding(bool reduces, const __grid_constant__ CUtensorMap map, float* y,
                               int* x) {
  float* const tile = dynamic_shared<float>();
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += 32) tile[i] = 1.0f;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0) {
    *x = 5;  // line: writes x
    __threadfence();
    atomicAdd(y, 1.0f);
    return;
  }
  if (reduces)
    cp_reduce_async_bulk_tensor_add(&map, {0, 0}, tile);
  else
    atomicAdd(y, 1.0f);
  tile[0] = static_cast<float>(*x);  // line: hears
  cp_async_bulk_commit_group();
  cp_async_bulk_wait_group<0>();
}
std::string asked(bool reduces) {
  return error_of([&] {
    DeviceArray<float> y(std::vector<float>(rows * columns, 2.0f));
    DeviceArray<int> x(1);
    x.named("x");
    launch(asks_by_adding, 2, 32, 4 * rows * columns, nullptr, reduces,
           tensor_map(y.data(), {rows, columns}, {rows, columns}), y.data(), x.data());
  });
}

}  // namespace

TEST_CASE("boxes: what holds for bulk copies holds for them") {
  CHECK(moved(Mistake::none) == "no error");
  check_says(moved(Mistake::no_wait), {line_at("reads"), "reads tile, element ", "too early"});
  check_says(moved(Mistake::bytes), {line_at("wait"), "512 of 256 bytes have come"});
  check_says(moved(Mistake::replaced),
             {line_at("replaces"), "writes tile, element 3 of 256 too early"});
  check_says(moved(Mistake::unfenced), {line_at("store"), "no fence_proxy_async()"});
}

TEST_CASE("boxes: a map of more rows than the array has is out of bounds") {
  check_says(moved(Mistake::too_many_rows),
             {line_at("load"), "reads 4 bytes out of bounds: few, element 48 of 48"});
}

TEST_CASE("multicast: each block waits for its bytes, and all say when they have read") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    emulator_options().seed = seed;
    CHECK(shared(Shares::rightly) == "no error");
  }
  emulator_options() = {};
  check_says(
      shared_with_seeds(Shares::no_wait),
      {line_at("multicast"), "race: line ", " reads (tile of block (",
       line_at("reads the other half").substr(0, line_at("reads the other half").size() - 2)});
  check_says(shared_with_seeds(Shares::own_arrivals),
             {line_at("multicast"), "writes tile of block (", "has not waited for its mbarrier"});
  check_says(shared(Shares::other_bytes),
             {line_at("waits for both"), "1024 of 2048 bytes have come"});
}

TEST_CASE("multicast: copies know the mbarriers of all blocks, which end after them") {
  check_says(shared(Shares::no_fence), {"copies do not know the mbarrier"});
  check_says(shared_with_seeds(Shares::no_meeting), {line_at("multicast"), "mbarrier"});
  check_says(shared_with_seeds(Shares::ends), {line_at("tells"), "ended"});
}

TEST_CASE("reductions: what holds for stores holds for them, and they never race with each other") {
  CHECK(added(Adds::rightly) == "no error");
  check_says(added(Adds::unfenced), {line_at("adds"), "no fence_proxy_async()"});
  check_says(added(Adds::overwritten),
             {line_at("adds"), "a bulk copy reads tile, element 3 of ", "has overwritten"});
  check_says(added(Adds::read_back), {line_at("reads back"), "reads y, element 3 of 256 too early",
                                      "cp_async_bulk_wait_group"});
  check_says(added(Adds::one_awaited),
             {line_at("reads back one"), "reads y, element 3 of 256 too early"});
  check_says(added(Adds::and_writes), {line_at("writes there"), "y, element 5 of 256"});
}

TEST_CASE("reductions: those of blocks that are there at once are no race, and all count") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    emulator_options().seed = seed;
    emulator_options().blocks_at_once = true;
    CHECK(added(Adds::rightly) == "no error");
  }
  emulator_options() = {};
}

TEST_CASE("reductions: the end of one does not hide another into the same place") {
  CHECK(twice(true, 3, 9, 4) == "no error");
  check_says(twice(false, 3, 9, 4),
             {line_at("reads one of two sums"), "reads y, element 201 of 1024 too early"});
  CHECK(twice(false, 3, columns, 3) == "no error");  // beside the first one's box
  CHECK(twice(false, rows, 9, 3) == "no error");     // below it
}

TEST_CASE("reductions: the start of one orders nothing between blocks") {
  CHECK(asked(false) == "no error");
  check_says(asked(true),
             {"race: line ", line_at("writes x").substr(0, line_at("writes x").size() - 2),
              line_at("hears").substr(0, line_at("hears").size() - 2), "(x"});
}

TEST_CASE("boxes: only what is inside of the tensor is counted") {
  Profile profile;
  CHECK(moved(Mistake::none) == "no error");
  CHECK(profile.instructions("cp_async_bulk_tensor()") == 2);
  CHECK(profile.global_reads().sectors == 6 * 2);
  CHECK(profile.global_writes().sectors == 6 * 2 + 4);  // and the sums
}
