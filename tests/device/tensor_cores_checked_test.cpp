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
