// Every mistake that the checks know, as a kernel that must be caught, and its cure as one that
// must not. Then requests, sectors and wavefronts of access patterns whose counts are known.
#include "yotta/device/emulator/access_checker.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

__global__ void copy(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i];  // line: copy
}

__global__ void neighbours(const float* x, float* y) {
  const int i = static_cast<int>(threadIdx.x);
  y[i] = x[i - 1] + 1.0f;  // line: neighbours
}

__global__ void beyond_shared(float* y) {
  __shared__ float part[32];
  part[threadIdx.x] = static_cast<float>(threadIdx.x);  // line: beyond shared
  __syncthreads();
  y[threadIdx.x] = part[31 - threadIdx.x % 32];
}

__global__ void beyond_dynamic(float* y) {
  float* part = dynamic_shared<float>();
  part[threadIdx.x] = 1.0f;  // line: beyond dynamic
  y[threadIdx.x] = part[threadIdx.x];
}

__global__ void reads_unwritten_shared(float* y) {
  __shared__ float part[64];
  if (threadIdx.x < 63) part[threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];  // line: unwritten shared
}

__global__ void reads_all(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];  // line: reads all
}

__global__ void adds_to(float* y) {
  y[threadIdx.x] += 1.0f;  // line: adds
}

__global__ void reads_a_vector(const float* x, float* y, int offset) {
  const float4 v = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + offset);  // line: vector
  y[threadIdx.x] = v.x + v.w;
}

__global__ void reads_through(const float* const* table, float* y) {
  y[threadIdx.x] = table[0][threadIdx.x];  // line: through
}

__global__ void reads_anothers_local(float* y) {
  __shared__ float* of_all[32];
  float mine[2] = {1.0f, 2.0f};
  of_all[threadIdx.x] = mine;
  __syncthreads();
  y[threadIdx.x] = *of_all[(threadIdx.x + 1) % 32];  // line: another's local
}

// Nothing lies directly before or behind the middle one.
__device__ __align__(64) int before_histogram[1] = {1};
__device__ __align__(64) int histogram[8] = {1};
__device__ __align__(64) int behind_histogram[1] = {1};
__device__ float4 corners[2] = {};
__constant__ float weights[3] = {1.0f, 2.0f, 3.0f};

__global__ void counts_without_atomics(const int* bins) {
  histogram[bins[threadIdx.x]] += 1;  // line: counts
}
__global__ void fills(int first) {
  int* const at = first < 100 ? histogram : first < 200 ? before_histogram : behind_histogram;
  at[first + static_cast<int>(threadIdx.x)] = 2;  // line: fills
}
__global__ void reads_askew(float* y, int offset) {
  corners[0].x = corners[1].x = 1.0f;
  const float* const at = &corners[0].x + offset;
  y[threadIdx.x] = reinterpret_cast<const float4*>(at)->x;
  const float4 v = *reinterpret_cast<const float4*>(at);  // line: askew vector
  y[threadIdx.x] += v.x;
}
__global__ void changes_a_constant(float value) {
  float* const at = weights;
  at[threadIdx.x] = value;  // line: constant
}
__global__ void reads_weights(float* y, int first) {
  const float* const at = weights;
  y[threadIdx.x] = at[first + static_cast<int>(threadIdx.x)];  // line: weights
}

template <class... Arguments, class... Given>
std::string error(void (*kernel)(Arguments...), int blocks, int threads, size_t bytes,
                  Given... given) {
  return error_of([&] { launch(kernel, blocks, threads, bytes, nullptr, given...); });
}

__global__ void strided(const float* x, float* y, int stride) {
  y[threadIdx.x] = x[threadIdx.x * stride];
}

template <int Columns>
__global__ void column(float* y) {
  __shared__ float tile[32][Columns];
  for (int i = 0; i < 32; ++i) tile[i][threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x][3];
}

__global__ void broadcast(float* y) {
  __shared__ float part[32];
  part[threadIdx.x] = 2.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < 32; ++i) sum += part[i];
  y[threadIdx.x] = sum;
}

template <class T>
__global__ void shared_vectors(T* y, int stride) {
  T* part = dynamic_shared<T>();
  part[threadIdx.x * stride] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x * stride];
}

// Lanes take different ways and different numbers of steps.
__global__ void out_of_step(const float* x, float* y) {
  float sum = 0.0f;
  if (threadIdx.x % 2 == 0) sum += x[threadIdx.x];
  for (unsigned i = 0; i < threadIdx.x % 4; ++i) sum += x[32 * i + threadIdx.x];
  y[threadIdx.x] = sum;
}

__global__ void many_steps(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += x[i % 32];
  y[threadIdx.x] = sum;
}

template <class... Arguments, class... Given>
std::unique_ptr<Profile> profiled(size_t bytes, void (*kernel)(Arguments...), Given... given) {
  auto profile = std::make_unique<Profile>();
  launch(kernel, 1, 32, bytes, nullptr, given...);
  return profile;
}

}  // namespace

TEST_CASE("out of bounds of global memory") {
  const DeviceArray<float> x(std::vector<float>(100, 1.0f));
  DeviceArray<float> y(100);
  y.named("y");
  CHECK(error(copy, 2, 64, 0, x.data(), y.data(), 100) == "no error");
  const std::string message = error(copy, 2, 64, 0, x.data(), y.data(), 128);
  check_says(message, {line_at("copy"), "block (1, 0, 0)",
                       "reads 4 bytes out of bounds: global memory, element 1", "of 100",
                       "compare the index with the size"});
  const std::vector<float> more(200, 1.0f);
  const DeviceArray<float> longer(more);
  check_says(error(copy, 1, 101, 0, longer.data(), y.data(), 101),
             {"thread (100, 0, 0)", "writes 4 bytes out of bounds: y, element 100 of 100"});
  check_says(
      error(neighbours, 1, 32, 0, x.data(), y.data()),
      {line_at("neighbours"), "thread (0, 0, 0)", "4 bytes before the beginning of", "negative"});
}

TEST_CASE("rows and columns of a named matrix") {
  const DeviceArray<float> x(std::vector<float>(200, 1.0f));
  DeviceArray<float> y(65 * 3);
  y.named("C", 3);
  check_says(error(copy, 1, 196, 0, x.data(), y.data(), 196),
             {"writes 4 bytes out of bounds: C, element 195 of 195: row 65 of 65, column 0 of 3"});
}

TEST_CASE("out of bounds of shared memory") {
  DeviceArray<float> y(64);
  CHECK(error(beyond_shared, 1, 32, 0, y.data()) == "no error");
  check_says(error(beyond_shared, 1, 33, 0, y.data()),
             {line_at("beyond shared"), "thread (32, 0, 0)",
              "index 32 is out of bounds of an array of 32"});
  CHECK(error(beyond_dynamic, 1, 64, 256, y.data()) == "no error");
  check_says(
      error(beyond_dynamic, 1, 64, 252, y.data()),
      {line_at("beyond dynamic"), "thread (63, 0, 0)", "dynamic shared memory, element 63 of 63"});
  check_says(error(beyond_dynamic, 1, 1, 0, y.data()), {"dynamic shared memory, element 0 of 0"});
}

TEST_CASE("reads of what nobody has written") {
  DeviceArray<float> y(64), fresh(64);
  check_says(error(reads_unwritten_shared, 1, 64, 0, y.data()),
             {line_at("unwritten shared"), "thread (63, 0, 0)",
              "reads what nobody has written: part, element 63 of 64", "garbage"});
  CHECK(error(reads_unwritten_shared, 1, 63, 0, y.data()) == "no error");
  check_says(error(reads_all, 1, 64, 0, fresh.data(), y.data()),
             {line_at("reads all"), "reads what nobody has written", "before the launch"});
  DeviceArray<float> sums(64);
  check_says(error(adds_to, 1, 64, 0, sums.data()),
             {line_at("adds"), "reads what nobody has written"});
  sums.fill_zero();
  CHECK(error(adds_to, 1, 64, 0, sums.data()) == "no error");
  CHECK(error(adds_to, 1, 64, 0, sums.data()) == "no error");  // what a kernel wrote is written
}

TEST_CASE("a vector must begin at a multiple of its size") {
  const DeviceArray<float> x(std::vector<float>(140, 1.0f));
  DeviceArray<float> y(32);
  CHECK(error(reads_a_vector, 1, 32, 0, x.data(), y.data(), 4) == "no error");
  check_says(error(reads_a_vector, 1, 32, 0, x.data(), y.data(), 1),
             {line_at("vector"), "reads 16 bytes at an address that is not a multiple of 16",
              "4 bytes too far"});
}

TEST_CASE("memory of the host is none of the device's") {
  std::vector<float> host(100000, 1.0f);
  DeviceArray<float> y(32);
  check_says(error(reads_all, 1, 32, 0, host.data(), y.data()),
             {line_at("reads all"), "memory of the host", "DeviceArray"});
  check_says(error(reads_all, 1, 32, 0, nullptr, y.data()), {"through a null pointer"});
  const DeviceArray<const float*> table(std::vector<const float*>{host.data()});
  check_says(error(reads_through, 1, 32, 0, table.data(), y.data()),
             {line_at("through"), "memory of the host"});
}

TEST_CASE("what is freed stays known, whatever its size") {
  DeviceArray<float> y(32);
  for (const size_t bytes : {size_t{128}, size_t{5000}, size_t{1} << 20, size_t{8} << 20}) {
    float* x = nullptr;
    REQUIRE(cudaMalloc(&x, bytes) == cudaSuccess);
    DeviceMemory::instance().name(x, "x", 0);
    const int line = __LINE__ + 1;
    REQUIRE(cudaFree(x) == cudaSuccess);
    const DeviceArray<float> next(std::vector<float>(bytes / 4, 1.0f));
    check_says(error(reads_all, 1, 32, 0, x, y.data()),
               {line_at("reads all"), fmt::format("of x, {} bytes that were freed at "
                                                  "access_checker_test.cpp:{}",
                                                  bytes, line)});
  }
  const float* freed = DeviceArray<float>(std::vector<float>(32, 1.0f)).data();
  check_says(error(reads_all, 1, 32, 0, freed, y.data()), {"128 bytes that were freed. Keep"});
}

TEST_CASE("an index far out of bounds reaches nothing") {
  DeviceArray<float> y(32);
  const DeviceArray<float> x(std::vector<float>(1 << 20, 1.0f));
  for (const int64_t megabytes : {-64, -32, -16, -8, -4, -2, -1, 5, 8, 64, 100}) {
    const float* far = x.data() + megabytes * (1 << 18);
    check_says(error(reads_all, 1, 32, 0, far, y.data()), {line_at("reads all"), "reads 4 bytes"});
    check_says(error(adds_to, 1, 32, 0, const_cast<float*>(far)), {line_at("adds")});
  }
}

TEST_CASE("a thread's local variables are its own") {
  DeviceArray<float> y(32);
  check_says(error(reads_anothers_local, 1, 32, 0, y.data()),
             {line_at("another's local"), "reads 4 bytes of a local variable of thread (",
              "shared memory or a shuffle"});
}

TEST_CASE("variables of the program are watched as arrays are") {
  const DeviceArray<int> apart(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}),
      one(std::vector<int>(8, 3));
  CHECK(error(counts_without_atomics, 1, 8, 0, apart.data()) == "no error");
  check_says(error(counts_without_atomics, 1, 8, 0, one.data()),
             {line_at("counts"), "race: line", "(histogram, element 3 of 8"});
  CHECK(error(fills, 1, 8, 0, 0) == "no error");
  check_says(error(fills, 1, 1, 0, 8),
             {line_at("fills"), "writes 4 bytes out of bounds: histogram, element 8 of 8"});
  DeviceArray<float> y(32);
  CHECK(error(reads_askew, 1, 1, 0, y.data(), 4) == "no error");
  check_says(error(reads_askew, 1, 1, 0, y.data(), 2),
             {line_at("askew vector"), "not a multiple of 16 (corners, 8 bytes too far)"});
  CHECK(histogram[0] == 2);
}

TEST_CASE("constants are read, and never written") {
  DeviceArray<float> y(32);
  CHECK(error(reads_weights, 1, 3, 0, y.data(), 0) == "no error");
  check_says(error(changes_a_constant, 1, 1, 0, 5.0f),
             {line_at("constant"), "writes 4 bytes of weights, which is constant", "__device__"});
}

TEST_CASE("what a kernel does to variables of the program is counted as global memory") {
  const DeviceArray<int> apart(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  const Profile profile;
  launch(counts_without_atomics, 1, 8, 0, nullptr, apart.data());
  CHECK(profile.global_writes().requests == 1);
  CHECK(profile.global_writes().sectors <= 2);
  CHECK(profile.global_reads().requests == 2);
}

TEST_CASE("an error names the line of the launch first, and the next launch starts afresh") {
  DeviceArray<float> y(32);
  const int line = __LINE__ + 1;
  const std::string message = error_of([&] { launch(beyond_shared, 1, 40, 0, nullptr, y.data()); });
  CHECK(message.starts_with(fmt::format("access_checker_test.cpp:{}: ", line)));
  CHECK(error(beyond_shared, 1, 32, 0, y.data()) == "no error");
}

TEST_CASE("sectors per request: 4 when coalesced, one a lane when not") {
  const DeviceArray<float> x(std::vector<float>(32 * 32, 1.0f));
  DeviceArray<float> y(32);
  for (const auto& [stride, sectors] :
       {std::pair{1, 4}, {2, 8}, {4, 16}, {8, 32}, {32, 32}, {0, 1}}) {
    const auto profile = profiled(0, strided, x.data(), y.data(), stride);
    CHECK(profile->global_reads().requests == 1);
    CHECK(profile->global_reads().sectors_per_request() == sectors);
    CHECK(profile->global_writes().sectors_per_request() == 4);
  }
  const auto shifted = profiled(0, strided, x.data() + 1, y.data(), 1);
  CHECK(shifted->global_reads().sectors_per_request() == 5);
}

TEST_CASE("a column of a tile lies in one bank, unless the rows are padded") {
  DeviceArray<float> y(32);
  const auto plain = profiled(0, column<32>, y.data());
  CHECK(plain->shared_reads().wavefronts_per_request() == 32);
  CHECK_FALSE(plain->shared_reads().conflict_free());
  CHECK(plain->shared_writes().conflict_free());
  CHECK(plain->shared_writes().requests == 32);
  const auto padded = profiled(0, column<33>, y.data());
  CHECK(padded->shared_reads().wavefronts_per_request() == 1);
  CHECK(padded->shared_reads().conflict_free());
}

TEST_CASE("lanes that read one word share it") {
  DeviceArray<float> y(32);
  const auto profile = profiled(0, broadcast, y.data());
  CHECK(profile->shared_reads().requests == 32);
  CHECK(profile->shared_reads().wavefronts == 32);
  CHECK(profile->shared_reads().bytes == 32 * 32 * 4);
}

TEST_CASE("wide accesses take two or four passes at best") {
  DeviceArray<double> y8{std::vector<double>(32, 1.0)};
  const auto doubles = profiled(32 * 8, shared_vectors<double>, y8.data(), 1);
  CHECK(doubles->shared_reads().wavefronts == 2);
  CHECK(doubles->shared_reads().conflict_free());
  DeviceArray<float4> y16{std::vector<float4>(32, make_float4(1.0f, 2.0f, 3.0f, 4.0f))};
  const auto vectors = profiled(32 * 16, shared_vectors<float4>, y16.data(), 1);
  CHECK(vectors->shared_reads().wavefronts == 4);
  CHECK(vectors->shared_reads().conflict_free());
  CHECK(vectors->global_reads().sectors_per_request() == 16);
  const auto apart = profiled(64 * 16, shared_vectors<float4>, y16.data(), 2);
  CHECK(apart->shared_reads().wavefronts == 8);
  CHECK_FALSE(apart->shared_reads().conflict_free());
}

TEST_CASE("lanes out of step: the n-th run of a line is one request") {
  const DeviceArray<float> x(std::vector<float>(128, 1.0f));
  DeviceArray<float> y(32);
  const auto profile = profiled(0, out_of_step, x.data(), y.data());
  // The first line once, with 16 lanes; the loop three times, with 24, 16 and 8.
  CHECK(profile->global_reads().requests == 4);
  CHECK(profile->global_reads().accesses == 16 + 24 + 16 + 8);
  CHECK(profile->global_reads().sectors == 16);
  CHECK(profile->global_writes().requests == 1);
}

TEST_CASE("a log that is full is read, and the lanes go on") {
  const DeviceArray<float> x(std::vector<float>(32, 1.0f));
  DeviceArray<float> y(32);
  const auto profile = profiled(0, many_steps, x.data(), y.data(), 10000);
  CHECK(profile->global_reads().requests == 10000);
  CHECK(profile->global_reads().sectors == 10000);
  CHECK(y.to_host() == std::vector<float>(32, 10000.0f));
}
