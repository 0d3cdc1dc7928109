// What the hooks see: accesses of every size, whole structs and vectors, and not the host's code in
// the same file; indices beyond what they index, where the address alone would look right; and
// atomics of the host's code.
#include "yotta/device/emulator/compiler_hooks.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

template <class T>
__global__ void copy(const T* x, T* y) {
  y[threadIdx.x] = x[threadIdx.x];
}

template <class T>
__global__ void add(const T* x, T* y) {
  y[threadIdx.x] += x[threadIdx.x];
}

struct Pair {
  double a;
  float b;
};

struct Complex {  // aligned to 4 bytes
  float re, im;
};
struct Tagged {
  int tag;
  Complex value;
};
struct alignas(16) Row {
  float x[16];
};
// What the compiler calls for a volatile struct; of this one, the second half is padding.
extern "C" void __tsan_unaligned_volatile_read8(void*);
__global__ void looks_twice(int* x) {
  if (threadIdx.x == 0) x[0] = 1;
  __syncthreads();
  __tsan_unaligned_volatile_read8(x);
  __tsan_unaligned_volatile_read8(x);
}
__global__ void takes_values(const Tagged* x, Complex* y) { y[threadIdx.x] = x[threadIdx.x].value; }

// The padding of a Pair is never written.
__global__ void passes_pairs(Pair* y, bool all) {
  __shared__ Pair part[32];
  if (all) part[threadIdx.x].a = 1.0;
  if (all) part[threadIdx.x].b = 2.0f;
  __syncthreads();
  y[threadIdx.x] = part[31 - threadIdx.x];  // line: pairs
}

__global__ void scale_vector(float4* x, float factor) {
  float4 v = x[threadIdx.x];
  v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
  x[threadIdx.x] = v;
}

__global__ void in_registers(const float* x, float* y) {
  float part[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) part[i][j] = x[4 * i + j];
  float sum = 0.0f;
  for (int step = 1; step <= 3; ++step)
    for (int i = 0; i < 4; ++i) sum += part[i][(step * i) % 4];
  *y = sum;
}

__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__global__ void reads_a_table(float* y) { y[threadIdx.x] = table[threadIdx.x % 4]; }

// The bytes that one thread's run read and wrote.
template <class T, class Kernel>
void check_bytes(Kernel kernel, int64_t read, int64_t written) {
  const DeviceArray<T> x{std::vector<T>(32)};
  DeviceArray<T> y{std::vector<T>(32)};
  const Profile profile;
  launch(kernel, 1, 32, 0, nullptr, x.data(), y.data());
  CHECK(profile.global_reads().bytes == 32 * read);
  CHECK(profile.global_writes().bytes == 32 * written);
}

// The whole tile is (4, 32): 32 columns of row 0 are followed by row 1.
__global__ void beyond_a_row(float* y, int column) {
  __shared__ float tile[4][32];
  for (int row = 0; row < 4; ++row) tile[row][threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = tile[0][column];  // line: row
}

__global__ void beyond_registers(float* y, int n) {
  float sums[8] = {};
  for (int i = 0; i < n; ++i) sums[i] += 1.0f;  // line: registers
  y[threadIdx.x] = sums[0];
}

// Two arrays without a gap, whichever of them comes first.
__global__ void into_the_neighbour(float* y, bool second, int offset) {
  __shared__ float one[32], other[32];
  one[threadIdx.x] = other[threadIdx.x] = 1.0f;
  __syncthreads();
  const float* const from = second ? other : one;
  y[threadIdx.x] = from[offset];  // line: neighbour
}

// Two whole pages, the size that tiles are most often of.
__global__ void into_the_next_page(float* y, bool second, int offset) {
  __shared__ __align__(128) float one[32][32];
  __shared__ float other[32][32];
  for (int row = 0; row < 32; ++row) one[row][threadIdx.x] = other[row][threadIdx.x] = 1.0f;
  __syncthreads();
  const float* const from = second ? &other[0][0] : &one[0][0];
  y[threadIdx.x] = from[offset];  // line: page
}

__global__ void ends(float* y) {
  __shared__ float part[32];
  for (float* at = &part[0]; at != &part[32]; at += 32) at[threadIdx.x] = 1.0f;
  y[threadIdx.x] = part[threadIdx.x];
}

template <class... Arguments, class... Given>
std::string error(void (*kernel)(Arguments...), int threads, Given... given) {
  return error_of([&] { launch(kernel, 1, threads, 0, nullptr, given...); });
}

template <class T>
void check_integer() {
  std::atomic<T> n = 5;
  CHECK(n.fetch_add(3) == 5);
  CHECK(n.fetch_sub(1) == 8);
  CHECK(n.fetch_or(8) == 7);
  CHECK(n.fetch_and(12) == 15);
  CHECK(n.fetch_xor(5) == 12);
  CHECK(n.exchange(20) == 9);
  T expected = 21;
  CHECK_FALSE(n.compare_exchange_strong(expected, 1));
  CHECK(expected == 20);
  CHECK(n.compare_exchange_strong(expected, 1));
  while (!n.compare_exchange_weak(expected, 2)) {
  }
  n.store(static_cast<T>(n.load() + 1));
  CHECK(n == 3);
}

// A size that the compiler does not know: a call of the C library's function.
__global__ void copies_rows(const float* x, float* y, int bytes) {
  memcpy(y + 8 * threadIdx.x, x, static_cast<size_t>(bytes));  // line: copies
  memmove(y + 8 * threadIdx.x + 1, y + 8 * threadIdx.x, 4);
}
__global__ void clears_rows(float* y, int bytes) {
  memset(y + 8 * threadIdx.x, 0, static_cast<size_t>(bytes));  // line: clears
}

}  // namespace

TEST_CASE("loads and stores of every size are seen, once each") {
  check_bytes<unsigned char>(copy<unsigned char>, 1, 1);
  check_bytes<short>(copy<short>, 2, 2);
  check_bytes<float>(copy<float>, 4, 4);
  check_bytes<double>(copy<double>, 8, 8);
  check_bytes<float>(add<float>, 8, 4);
  check_bytes<int64_t>(add<int64_t>, 16, 8);
  check_bytes<Pair>(copy<Pair>, 16, 16);
}

TEST_CASE("a struct's padding need not be written, the struct must be") {
  DeviceArray<Pair> y(32);
  CHECK(error(passes_pairs, 32, y.data(), true) == "no error");
  check_says(error(passes_pairs, 32, y.data(), false),
             {line_at("pairs"), "reads what nobody has written: part"});
}

TEST_CASE("a struct's padding need not be written, though others run between two looks at it") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    emulator_options().seed = seed;
    DeviceArray<int> x(2);
    CHECK(error_of([&] { launch(looks_twice, 1, 2, 0, nullptr, x.data()); }) == "no error");
  }
  emulator_options() = {};
}

TEST_CASE("a struct in a struct need not be aligned to its size") {
  const DeviceArray<Tagged> x{std::vector<Tagged>(32, {1, {2.0f, 3.0f}})};
  DeviceArray<Complex> y(32);
  CHECK(error(takes_values, 32, x.data(), y.data()) == "no error");
  CHECK(y.to_host()[31].im == 3.0f);
}

TEST_CASE("a struct of 64 bytes moves by vectors of 16") {
  const DeviceArray<Row> x{std::vector<Row>(32)};
  DeviceArray<Row> y{std::vector<Row>(32)};
  const Profile profile;
  launch(copy<Row>, 1, 32, 0, nullptr, x.data(), y.data());
  CHECK(profile.global_reads().requests == 4);
  CHECK(profile.global_reads().sectors == 4 * 32);
  CHECK(profile.global_writes().sectors == 4 * 32);
}

TEST_CASE("a vector is one access") {
  DeviceArray<float4> x{std::vector<float4>(32, make_float4(1.0f, 2.0f, 3.0f, 4.0f))};
  const Profile profile;
  launch(scale_vector, 1, 32, 0, nullptr, x.data(), 2.0f);
  CHECK(profile.global_reads().requests == 1);
  CHECK(profile.global_reads().accesses == 32);
  CHECK(profile.global_reads().bytes == 512);
  CHECK(profile.global_reads().sectors == 16);
  CHECK(profile.global_writes().requests == 1);
  const auto scaled = x.to_host();
  CHECK((scaled[31].x == 2.0f && scaled[31].w == 8.0f));
}

TEST_CASE("local arrays and the program's tables are not memory of the device") {
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0f);
  const DeviceArray<float> x(values);
  DeviceArray<float> y(1), z(32);
  const Profile profile;
  launch(in_registers, 1, 1, 0, nullptr, x.data(), y.data());
  CHECK(profile.global_reads().accesses == 16);
  CHECK(profile.shared_reads().accesses == 0);
  launch(reads_a_table, 1, 32, 0, nullptr, z.data());
  CHECK(profile.global_reads().accesses == 16);
  CHECK(z.to_host()[6] == 3.0f);
}

TEST_CASE("the host's code in a checked file runs as always") {
  const auto shared = std::make_shared<std::vector<int>>(100, 1);
  const auto again = shared;
  CHECK(std::accumulate(again->begin(), again->end(), 0) == 100);
  CHECK(shared.use_count() == 2);
}

TEST_CASE("a row's end is not the tile's") {
  DeviceArray<float> y(32);
  CHECK(error(beyond_a_row, 32, y.data(), 31) == "no error");
  check_says(error(beyond_a_row, 32, y.data(), 32),
             {line_at("row"), "block (0, 0, 0), thread (",
              "index 32 is out of bounds of an array of 32 ('float", "Compare the index"});
  check_says(error(beyond_a_row, 32, y.data(), -1), {line_at("row"), "index -1 is out of bounds"});
}

TEST_CASE("an array in registers has its size too") {
  DeviceArray<float> y(32);
  CHECK(error(beyond_registers, 32, y.data(), 8) == "no error");
  check_says(error(beyond_registers, 32, y.data(), 9),
             {line_at("registers"), "index 8 is out of bounds of an array of 8"});
}

TEST_CASE(
    "one __shared__ array does not run into the next, though the pointer has forgotten its size") {
  DeviceArray<float> y(32);
  for (const bool second : {false, true}) {
    const std::string name = second ? "other" : "one";
    for (const int inside : {0, 31})
      CHECK(error(into_the_neighbour, 32, y.data(), second, inside) == "no error");
    for (const int beyond : {32, 40, 63})
      check_says(error(into_the_neighbour, 32, y.data(), second, beyond),
                 {line_at("neighbour"),
                  fmt::format("reads 4 bytes out of bounds: {}, element {} of 32", name, beyond)});
    for (const int before : {-1, -32})
      check_says(
          error(into_the_neighbour, 32, y.data(), second, before),
          {line_at("neighbour"),
           fmt::format("{} bytes before the beginning of {}", -4 * before, name), "negative"});
    CHECK(error(into_the_next_page, 32, y.data(), second, 1023) == "no error");
    check_says(error(into_the_next_page, 32, y.data(), second, 1024),
               {line_at("page"), fmt::format("out of bounds: {}, element 1024 of 1024", name)});
  }
}

TEST_CASE("a pointer may point behind the last element") {
  DeviceArray<float> y(32);
  CHECK(error(ends, 32, y.data()) == "no error");
}

TEST_CASE("an index comes as bits and a note on its type") {
  using emulator::signed_index;
  CHECK(signed_index(5 << 1 | 1, 0xffffffff) == -1);
  CHECK(signed_index(5 << 1, 0xffffffff) == 0xffffffff);
  CHECK(signed_index(3 << 1 | 1, 0x80) == -128);
  CHECK(signed_index(6 << 1 | 1, ~uint64_t{0}) == -1);
}

TEST_CASE("host atomics of every size work in a checked file") {
  check_integer<uint8_t>();
  check_integer<uint16_t>();
  check_integer<uint32_t>();
  check_integer<uint64_t>();
}

TEST_CASE("they are atomic") {
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) ++sum;
    });
  for (auto& each : threads) each.join();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  CHECK(sum == 40000);
}

TEST_CASE("copies of a size that only the run knows are seen") {
  const DeviceArray<float> x(std::vector<float>(8, 3.0f));
  DeviceArray<float> y(256);
  launch(copies_rows, 1, 32, 0, nullptr, x.data(), y.data(), 32);
  CHECK(y.to_host()[255] == 3.0f);
  launch(clears_rows, 1, 32, 0, nullptr, y.data(), 0);
  CHECK(y.to_host()[255] == 3.0f);
  launch(clears_rows, 1, 32, 0, nullptr, y.data(), 32);
  CHECK(y.to_host()[254] == 0.0f);
  check_says(error_of([&] { launch(copies_rows, 1, 32, 0, nullptr, x.data(), y.data(), 36); }),
             {line_at("copies"), "reads 4 bytes out of bounds"});
  check_says(error_of([&] { launch(clears_rows, 1, 33, 0, nullptr, y.data(), 32); }),
             {line_at("clears"), "writes 16 bytes out of bounds"});
}
