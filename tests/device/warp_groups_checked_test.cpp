// Named barriers, and the kernel whose warps do different work, under the emulator's checks.
#include "yotta/device/warp_groups.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/bf16_matmul.hpp"
#include "support/kernel_error.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/tensor_cores_hopper.hpp"

using namespace yotta;

namespace {

// Warp 0 writes, warp 1 reads; a named barrier is between the two, or one for each.
__global__ void hands_over(bool same, int* out) {
  __shared__ int numbers[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x < 32) {
    numbers[lane] = lane;  // line: writes
    bar_arrive(1, 64);
  } else {
    if (same) bar_sync(1, 64);
    out[lane] = numbers[31 - lane];  // line: reads
    if (!same) bar_sync(1, 64);
  }
}

std::string handed_over(bool same) {
  return error_of([=] {
    DeviceArray<int> out(32);
    launch(hands_over, 1, 64, 0, nullptr, same, out.data());
    for (int i = 0; i < 32; ++i) CHECK(out.to_host()[static_cast<size_t>(i)] == 31 - i);
  });
}

}  // namespace

TEST_CASE("a named barrier orders what was before it and what follows") {
  CHECK(handed_over(true) == "no error");
  check_says(handed_over(false), {"race: line "});
}

TEST_CASE("the ring of tiles passes all checks, and executes the wgmmas that it needs") {
  for (const auto& [m, n, k] : {MatmulSize{64, 64, 128}, {70, 72, 200}}) {
    Profile profile;
    const Bf16Problem problem(m, n, k);
    check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
      launch_producer<64, 2, 1>(a, b, c, problem.m, problem.n, problem.k);
    }));
    const int tiles = (m + 63) / 64 * ((n + 63) / 64) * ((k + 63) / 64);
    CHECK(profile.instructions("wgmma()") == 4 * 4 * tiles);  // four steps of 16, four warps
    CHECK(profile.instructions("cp_async_bulk_tensor()") == 2 * tiles);
  }
}
