// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/cp_async_bulk_tensor.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/hopper_here.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/block_cluster.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

constexpr int most = 2048;  // words of a tile

// Loads a box and copies the tile to `seen` as it lies; what was in the tile before is 7.
template <int dims>
__global__ void loads_box(const __grid_constant__ CUtensorMap map, const int* at, int words,
                          uint32_t* seen) {
  __shared__ __align__(1024) uint32_t tile[most];
  __shared__ uint64_t full;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += 32) tile[i] = 7;
  if (threadIdx.x == 0) mbarrier_init(&full, 1);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t from[dims];
    for (int i = 0; i < dims; ++i) from[i] = at[i];
    prefetch_tensormap(&map);
    mbarrier_arrive_expect_tx(&full, static_cast<uint32_t>(4 * words));
    cp_async_bulk_tensor(tile, &map, from, &full);
  }
  while (!mbarrier_try_wait_parity(&full, 0)) continue;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += 32) seen[i] = tile[i];
}

// Fills a tile with 1, 2, 3, ... as it lies, and stores it as a box.
__global__ void stores_box(const __grid_constant__ CUtensorMap map, int column, int row,
                           int words) {
  __shared__ __align__(1024) uint32_t tile[most];
  for (int i = static_cast<int>(threadIdx.x); i < words; i += 32)
    tile[i] = static_cast<uint32_t>(i) + 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    cp_async_bulk_tensor(&map, {column, row}, tile);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read<0>();
  }
}

std::vector<uint32_t> numbers(size_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 1000u);
  return all;
}

// The box at (row, column) of a matrix of 32-bit numbers, as it must lie in a swizzled tile.
struct Box {
  int rows, columns, row, column;
  Swizzle swizzle;
};
std::vector<uint32_t> expected_tile(const std::vector<uint32_t>& x, int rows, int columns,
                                    Box box) {
  std::vector<uint32_t> tile(static_cast<size_t>(box.rows * box.columns));
  for (int i = 0; i < box.rows; ++i)
    for (int j = 0; j < box.columns; ++j) {
      const int r = box.row + i, c = box.column + j;
      const bool inside = r >= 0 && r < rows && c >= 0 && c < columns;
      const auto byte = static_cast<uint32_t>(4 * (i * box.columns + j));
      tile[swizzled_byte(byte, box.swizzle) / 4] =
          inside ? x[static_cast<size_t>(r * columns + c)] : 0;
    }
  return tile;
}

void check_load(int rows, int columns, Box box) {
  CAPTURE(box.row);
  CAPTURE(box.column);
  CAPTURE(static_cast<int>(box.swizzle));
  const std::vector<uint32_t> host = numbers(static_cast<size_t>(rows * columns));
  const DeviceArray<uint32_t> x(host);
  const DeviceArray<int> at(std::vector<int>{box.column, box.row});
  const int words = box.rows * box.columns;
  DeviceArray<uint32_t> seen(static_cast<size_t>(words));
  const CUtensorMap map = tensor_map(
      x.data(), {rows, columns},
      {static_cast<uint32_t>(box.rows), static_cast<uint32_t>(box.columns)}, box.swizzle);
  launch(loads_box<2>, 1, 32, 0, nullptr, map, at.data(), words, seen.data());
  CHECK(seen.to_host() == expected_tile(host, rows, columns, box));
}

// Each block of a cluster brings its part of a tile to all blocks whose bits are in `blocks`, into
// static or dynamic shared memory; the others keep 7. Blocks copy what they have.
constexpr int part_rows = 8, part_columns = 16;  // words
__global__ void shares_tile(const __grid_constant__ CUtensorMap map, uint32_t blocks, bool dynamic,
                            uint32_t* seen) {
  __shared__ __align__(1024) uint32_t in_static[8 * part_rows * part_columns];
  __shared__ uint64_t full[2];
  uint32_t* const tile = dynamic ? dynamic_shared<uint32_t>() : in_static;
  const uint32_t rank = cluster_rank(), size = cluster_size();
  const uint32_t part = part_rows * part_columns, words = size * part;
  for (uint32_t i = threadIdx.x; i < words; i += 32) tile[i] = 7;
  if (threadIdx.x == 0) mbarrier_init(&full[1], 1);
  fence_mbarrier_init();
  fence_proxy_async();
  cluster_sync();
  const bool mine = (blocks >> rank & 1) != 0;
  if (threadIdx.x == 0) {
    if (mine) mbarrier_arrive_expect_tx(&full[1], 4 * words);
    cp_async_bulk_tensor_multicast(tile + rank * part, &map,
                                   {0, static_cast<int32_t>(rank) * part_rows}, &full[1], blocks);
  }
  if (mine)
    while (!mbarrier_try_wait_parity(&full[1], 0)) continue;
  for (uint32_t i = threadIdx.x; i < words; i += 32) seen[blockIdx.x * words + i] = tile[i];
  cluster_sync();
}

// All blocks add the same tile of zeros, ones and twos to a box, twice.
template <class T>
__global__ void adds_box(const __grid_constant__ CUtensorMap map, int column) {
  __shared__ __align__(1024) T tile[8 * 32];
  for (int i = static_cast<int>(threadIdx.x); i < 8 * 32; i += 32)
    tile[i] = T(static_cast<float>(i % 3));
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) cp_reduce_async_bulk_tensor_add(&map, {column, 0}, tile);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read<0>();
  }
}

// So many blocks that some add at the same time; bfloat16 has whole numbers up to 256.
constexpr int adders = 60;
template <class T>
void check_sums(CUtensorMapDataType type) {
  CAPTURE(static_cast<int>(type));
  DeviceArray<T> y(std::vector<T>(8 * 40, T(3.0f)));
  TensorMapArguments arguments{.type = type, .rank = 2, .data = y.data()};
  arguments.size = {40, 8};
  arguments.stride = {40 * sizeof(T)};
  arguments.box = {32, 8};
  launch(adds_box<T>, adders, 32, 0, nullptr, encode_tensor_map(arguments), 16);
  const std::vector<T> got = y.to_host();
  int wrong = 0;
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 40; ++column) {
      const int added = column < 16 ? 0 : 2 * adders * ((32 * row + column - 16) % 3);
      wrong += !(static_cast<float>(got[static_cast<size_t>(40 * row + column)]) ==
                 static_cast<float>(3 + added));
    }
  CHECK(wrong == 0);
}

#if !defined(__CUDACC__)
enum class Odd { map, dimensions, tile };
template <Odd odd>
__global__ void loads_oddly(const __grid_constant__ CUtensorMap map) {
  __shared__ __align__(128) uint32_t tile[64];
  __shared__ uint64_t full;
  mbarrier_init(&full, 1);
  fence_mbarrier_init();
  mbarrier_arrive_expect_tx(&full, 128);
  if (odd == Odd::dimensions)
    cp_async_bulk_tensor(tile, &map, {0, 0, 0}, &full);
  else
    cp_async_bulk_tensor(tile + (odd == Odd::tile ? 4 : 0), &map, {0, 0}, &full);
}
#endif

}  // namespace

TEST_CASE("loads: boxes inside and at every edge, in each swizzle" *
          doctest::skip(!hopper_is_here())) {
  for (const auto& [swizzle, columns] :
       {std::pair{Swizzle::none, 32}, {Swizzle::b128, 32}, {Swizzle::b64, 16}, {Swizzle::b32, 8}})
    for (const auto& [row, column] :
         {std::pair{0, 0}, {8, 4}, {-3, 0}, {0, -5}, {30, 50}, {-3, 61}, {100, 0}, {33, -31}})
      check_load(40, 64, {16, columns, row, column, swizzle});
}

TEST_CASE("stores: what lies outside of the tensor is not written" *
          doctest::skip(!hopper_is_here())) {
  constexpr int rows = 20, columns = 24, box_rows = 8, box_columns = 16;
  for (const auto& [row, column] : {std::pair{0, 0}, {4, 8}, {-2, -4}, {15, 20}}) {
    DeviceArray<uint32_t> y(std::vector<uint32_t>(rows * columns, 0));
    const CUtensorMap map =
        tensor_map(y.data(), {rows, columns}, {box_rows, box_columns}, Swizzle::b64);
    launch(stores_box, 1, 32, 0, nullptr, map, column, row, box_rows * box_columns);
    const std::vector<uint32_t> got = y.to_host();
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        const int i = r - row, j = c - column;
        const bool inside = i >= 0 && i < box_rows && j >= 0 && j < box_columns;
        const auto byte = static_cast<uint32_t>(4 * (i * box_columns + j));
        const uint32_t wanted = inside ? swizzled_byte(byte, Swizzle::b64) / 4 + 1 : 0;
        CHECK(got[static_cast<size_t>(r * columns + c)] == wanted);
      }
  }
}

TEST_CASE("one and five dimensions, a step between elements, and numbers of two bytes" *
          doctest::skip(!hopper_is_here())) {
  const std::vector<uint32_t> host = numbers(2 * 3 * 4 * 5 * 8);
  const DeviceArray<uint32_t> x(host);
  DeviceArray<uint32_t> seen(most);
  const DeviceArray<int> at(std::vector<int>{0, 1, 2, 1, 1});
  const CUtensorMap five = tensor_map(x.data(), {2, 3, 4, 5, 8}, {1, 2, 2, 3, 8});
  launch(loads_box<5>, 1, 32, 0, nullptr, five, at.data(), 96, seen.data());
  std::vector<uint32_t> got = seen.to_host();
  size_t i = 0;
  for (int b = 1; b < 3; ++b)
    for (int c = 2; c < 4; ++c)
      for (int d = 1; d < 4; ++d)
        for (int e = 0; e < 8; ++e)
          CHECK(got[i++] == host[static_cast<size_t>((((3 + b) * 4 + c) * 5 + d) * 8 + e)]);

  const DeviceArray<int> at_100(std::vector<int>{100});
  const CUtensorMap one = tensor_map(x.data(), {120}, {64});
  launch(loads_box<1>, 1, 32, 0, nullptr, one, at_100.data(), 64, seen.data());
  got = seen.to_host();
  for (size_t k = 0; k < 64; ++k) CHECK(got[k] == (k < 20 ? host[100 + k] : 0));

  TensorMapArguments halves{
      .type = CU_TENSOR_MAP_DATA_TYPE_UINT16, .rank = 2, .data = const_cast<uint32_t*>(x.data())};
  halves.size = {15, 24};  // 7 words and a half
  halves.stride = {32};
  halves.box = {16, 8};
  halves.element_stride = {1, 2};  // 4 rows
  const DeviceArray<int> at_row(std::vector<int>{0, 3});
  const CUtensorMap map = encode_tensor_map(halves);
  launch(loads_box<2>, 1, 32, 0, nullptr, map, at_row.data(), 32, seen.data());
  got = seen.to_host();
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 0; c < 8; ++c) {
      const uint32_t word = host[(3 + 2 * r) * 8 + c];
      CHECK(got[r * 8 + c] == (c < 7 ? word : word & 0xffff));
    }
}

TEST_CASE("multicast: one load brings a tile to several blocks of a cluster" *
          doctest::skip(!hopper_is_here())) {
  for (const uint32_t size : {2u, 4u, 8u})
    for (const bool dynamic : {false, true})
      for (const uint32_t blocks : {(1u << size) - 1, 2u, (1u << (size - 1)) + 1}) {
        CAPTURE(size);
        CAPTURE(dynamic);
        CAPTURE(blocks);
        const size_t words = size * part_rows * part_columns;
        const std::vector<uint32_t> host = numbers(words);
        const DeviceArray<uint32_t> x(host);
        DeviceArray<uint32_t> seen(2 * size * words);
        const CUtensorMap map =
            tensor_map(x.data(), {static_cast<int64_t>(size) * part_rows, part_columns},
                       {part_rows, part_columns});
        launch_cluster(shares_tile, 2 * size, size, 32, dynamic ? 4 * words : 0, nullptr, map,
                       blocks, dynamic, seen.data());
        const std::vector<uint32_t> got = seen.to_host();
        int wrong = 0;
        for (size_t block = 0; block < 2 * size; ++block)
          for (size_t i = 0; i < words; ++i)
            wrong += got[block * words + i] != ((blocks >> block % size & 1) != 0 ? host[i] : 7);
        CHECK(wrong == 0);
      }
}

TEST_CASE("reductions: stores that add, in each type, and nothing outside of the tensor" *
          doctest::skip(!hopper_is_here())) {
  check_sums<float>(CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  check_sums<float16>(CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  check_sums<bfloat16>(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  check_sums<int32_t>(CU_TENSOR_MAP_DATA_TYPE_INT32);
  check_sums<uint64_t>(CU_TENSOR_MAP_DATA_TYPE_UINT64);
}

#if !defined(__CUDACC__)
TEST_CASE("multicast and reductions: masks and types that are not there are refused") {
  const DeviceArray<uint32_t> x(numbers(4 * part_rows * part_columns));
  const CUtensorMap map =
      tensor_map(x.data(), {4 * part_rows, part_columns}, {part_rows, part_columns});
  DeviceArray<uint32_t> seen(4 * 4 * part_rows * part_columns);
  for (const uint32_t blocks : {0u, 0x11u})
    check_says(error_of([&] {
                 launch_cluster(shares_tile, 4, 4, 32, 0, nullptr, map, blocks, false, seen.data());
               }),
               {"cp_async_bulk_tensor_multicast() for the blocks of mask", "has 4 blocks"});
  DeviceArray<double> y(8 * 32);
  const CUtensorMap of_doubles = tensor_map(y.data(), {8, 32}, {8, 32});
  check_says(error_of([&] { launch(adds_box<double>, 1, 32, 0, nullptr, of_doubles, 0); }),
             {"cp_reduce_async_bulk_tensor_add() adds int32", "the tensor map names another type"});
  check_says(error_of([&] { launch(adds_box<float>, 1, 32, 0, nullptr, CUtensorMap{}, 0); }),
             {"cp_reduce_async_bulk_tensor_add(): this is no tensor map"});
  check_says(error_of([&] {
               launch_cluster(shares_tile, 4, 4, 32, 0, nullptr, CUtensorMap{}, 1u, false,
                              seen.data());
             }),
             {"cp_async_bulk_tensor_multicast(): this is no tensor map"});
}

TEST_CASE("a copy that does not fit its map is refused") {
  const DeviceArray<uint32_t> x(numbers(256));
  const CUtensorMap map = tensor_map(x.data(), {8, 32}, {1, 32});
  const auto run = [](void (*kernel)(CUtensorMap), const CUtensorMap& with) {
    return error_of([&] { launch(kernel, 1, 1, 0, nullptr, with); });
  };
  check_says(run(loads_oddly<Odd::map>, {}), {"this is no tensor map", "__grid_constant__"});
  check_says(run(loads_oddly<Odd::dimensions>, map), {"3 coordinates for a tensor map of 2"});
  check_says(run(loads_oddly<Odd::tile>, map), {"in shared memory must be a multiple of 128"});
}
#endif
