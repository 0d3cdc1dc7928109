// Copies of tensor boxes under the emulator's checks.
#include "yotta/device/cp_async_bulk_tensor.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
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

TEST_CASE("boxes: only what is inside of the tensor is counted") {
  Profile profile;
  CHECK(moved(Mistake::none) == "no error");
  CHECK(profile.instructions("cp_async_bulk_tensor()") == 2);
  CHECK(profile.global_reads().sectors == 6 * 2);
  CHECK(profile.global_writes().sectors == 6 * 2 + 4);  // and the sums
}
