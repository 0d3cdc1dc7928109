// The tensor-core kernels under the emulator's checks and counters.
#include <doctest/doctest.h>

#include <string>

#include "support/bf16_matmul.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"

using namespace yotta;

namespace {

using Small = Tiles<64, 64, 32, 32, 32>;
constexpr const char* mma = "mma_m16n8k16_bf16()";

void run(const TensorCoreRung& rung, const Bf16Problem& problem) {
  CAPTURE(rung.name);
  check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    rung.run(a, b, c, problem.m, problem.n, problem.k, nullptr);
  }));
}

// Lane l copies elements 8 l to 8 l + 7 and reads them through ldmatrix; `mistake` says what is
// forgotten.
enum class MismatchDiagnosis { none, wait, barrier, alignment, edge };
template <MismatchDiagnosis mistake>
__global__ void one_block(const bfloat16* x, uint32_t* y) {
  __shared__ __align__(16) uint16_t tile[256];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (warp == 0) cp_async<16>(tile + 8 * lane, x + 8 * lane);  // line: copy
  cp_async_commit();
  if (mistake != MismatchDiagnosis::wait) cp_async_wait<0>();
  if (mistake != MismatchDiagnosis::barrier) __syncthreads();
  uint32_t block[1];
  const uint16_t* row = tile + 8 * lane;
  if (mistake == MismatchDiagnosis::alignment) row += 2;
  if (mistake == MismatchDiagnosis::edge) row += 31 * 8;
  ldmatrix_x1(block, row);  // line: load
  y[threadIdx.x] = block[0];
}

template <MismatchDiagnosis mistake>
std::string made() {
  return error_of([] {
    const DeviceArray<bfloat16> x(std::vector<bfloat16>(256, bfloat16(1.0f)));
    DeviceArray<uint32_t> y(64);
    launch(one_block<mistake>, 1, 64, 0, nullptr, x.data(), y.data());
  });
}

// One thread, one copy of 16 bytes: what is wrong with it.
enum class BadCopy { none, askew, from_shared, from_local, to_global, twice, overwritten };
template <BadCopy bad>
__global__ void one_copy(float* x, float* y) {
  __shared__ __align__(16) float tile[8], other[8];
  __align__(16) float mine[4] = {};
  for (unsigned i = threadIdx.x; i < 8; i += 32) other[i] = 1.0f;
  __syncthreads();
  if (threadIdx.x != 0) return;
  const float* from = bad == BadCopy::askew         ? x + 2
                      : bad == BadCopy::from_shared ? other
                      : bad == BadCopy::from_local  ? mine
                                                    : x;
  float* to = bad == BadCopy::to_global ? y : tile;
  const int bytes = bad == BadCopy::askew ? 8 : 16;
  cp_async<16>(to, from, bytes);                         // line: one copy
  if (bad == BadCopy::twice) cp_async<16>(tile, x + 4);  // line: again
  if (bad == BadCopy::overwritten) x[1] = 5.0f;          // line: overwrites
  cp_async_commit();
  cp_async_wait<0>();
  y[0] = tile[0];
}

template <BadCopy bad>
std::string copied() {
  return error_of([] {
    DeviceArray<float> x(std::vector<float>(16, 1.0f)), y(std::vector<float>(16, 0.0f));
    x.named("x");
    y.named("y");
    launch(one_copy<bad>, 1, 32, 0, nullptr, x.data(), y.data());
  });
}

__global__ void loads_from_global(const bfloat16* x, uint32_t* y) {
  uint32_t block[1];
  ldmatrix_x1(block, x + 8 * threadIdx.x);  // line: from global
  y[threadIdx.x] = block[0];
}

}  // namespace

TEST_CASE("every rung passes all checks, for sizes that divide and that do not") {
  for (const auto& [m, n, k] : {MatmulSize{64, 128, 64}, {70, 72, 40}, {33, 17, 50}}) {
    const Bf16Problem problem(m, n, k);
    for (const TensorCoreRung& rung : tensor_core_rungs<Small>) run(rung, problem);
  }
}

TEST_CASE("counted: as many mma's, sectors and wavefronts as the table says") {
  const Bf16Problem problem(128, 128, 128);
  for (const TensorCoreRung& rung : tensor_core_rungs<Small>) {
    CAPTURE(rung.name);
    Profile profile;
    run(rung, problem);
    const auto count = static_cast<double>(mma_count(128, 128, 128));
    CHECK(profile.instructions(mma) == mma_count(128, 128, 128));
    CHECK(profile.flops() == 2 * 128 * 128 * 128);
    CHECK(static_cast<double>(profile.global_reads().sectors) == rung.sectors * count);
    CHECK(static_cast<double>(profile.shared_reads().wavefronts +
                              profile.shared_writes().wavefronts) == rung.wavefronts * count);
  }
}

TEST_CASE("swizzled rows have no bank conflicts, plain ones have") {
  const Bf16Problem problem(64, 64, 64);
  for (const TensorCoreRung& rung : tensor_core_rungs<Small>) {
    CAPTURE(rung.name);
    Profile profile;
    run(rung, problem);
    const bool plain =
        std::string(rung.name) == "shared tile" || std::string(rung.name) == "ldmatrix";
    CHECK(profile.shared_reads().conflict_free() == !plain);
    CHECK(profile.shared_writes().conflict_free());
  }
}

TEST_CASE("what is forgotten around cp.async and ldmatrix is caught, with line and cure") {
  const std::string copy = line_at("copy"), load = line_at("load");
  CHECK(made<MismatchDiagnosis::none>() == "no error");
  check_says(
      made<MismatchDiagnosis::wait>(),
      {load, "reads tile", "too early: the cp.async of line " + copy.substr(0, copy.size() - 2),
       "cp_async_wait", "__syncthreads()"});
  check_says(made<MismatchDiagnosis::barrier>(),
             {"race: line", "writes what line", "Put a __syncthreads() between"});
  check_says(made<MismatchDiagnosis::alignment>(), {load, "not a multiple of 16", "tile"});
  check_says(made<MismatchDiagnosis::edge>(), {load, "reads 16 bytes out of bounds: tile"});
}

TEST_CASE("cp.async: alignment, memory spaces, one place twice, a source that changes") {
  const std::string first = line_at("one copy");
  CHECK(copied<BadCopy::none>() == "no error");
  check_says(copied<BadCopy::askew>(), {first, "not a multiple of 16", "x, 8 bytes too far"});
  check_says(copied<BadCopy::from_shared>(),
             {first, "reads 16 bytes of other, which is shared memory", "from global to shared"});
  check_says(copied<BadCopy::from_local>(),
             {first, "of a local variable", "from global to shared"});
  check_says(copied<BadCopy::to_global>(),
             {first, "writes 16 bytes of y, which is global memory", "from global to shared"});
  check_says(copied<BadCopy::twice>(), {line_at("again"), "writes tile, element 0 of 2 too early",
                                        "cp.async of line " + first.substr(0, first.size() - 2)});
  const std::string overwrites = line_at("overwrites");
  check_says(copied<BadCopy::overwritten>(),
             {first, "copies x, element 0",
              "which line " + overwrites.substr(0, overwrites.size() - 2) + " has overwritten"});
}

TEST_CASE("ldmatrix reads shared memory only") {
  const DeviceArray<bfloat16> x(std::vector<bfloat16>(256, bfloat16(1.0f)));
  DeviceArray<uint32_t> y(32);
  check_says(
      error_of([&] { launch(loads_from_global, 1, 32, 0, nullptr, x.data(), y.data()); }),
      {line_at("from global"), "which is global memory", "ldmatrix reads shared memory only"});
}
