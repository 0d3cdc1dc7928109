// Hopper's rungs under the emulator's checks and counters.
#include <doctest/doctest.h>

#include <string>

#include "support/bf16_matmul.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/tensor_cores_hopper_rungs.hpp"

using namespace yotta;

namespace {

void run(const TensorCoreRung& rung, const Bf16Problem& problem) {
  CAPTURE(rung.name);
  check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    rung.run(a, b, c, problem.m, problem.n, problem.k, nullptr);
  }));
}

}  // namespace

TEST_CASE("every rung of Hopper's passes all checks, for sizes that divide and that do not") {
  for (const auto& [m, n, k] : {MatmulSize{64, 64, 128}, {70, 72, 200}}) {
    const Bf16Problem problem(m, n, k);
    for (const TensorCoreRung& rung : hopper_rungs<HopperTiles<64, 2, 1>>) run(rung, problem);
  }
  const Bf16Problem problem(140, 72, 136);
  for (const TensorCoreRung& rung : hopper_rungs<HopperTiles<64, 2, 2>>) run(rung, problem);
}

TEST_CASE("persistent blocks pass all checks when each makes several tiles") {
  const Bf16Problem problem(130, 200, 136);
  check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    launch_persistent<64, 2, 1>(a, b, c, problem.m, problem.n, problem.k, 2);
  }));
}

TEST_CASE("counted: wgmmas, copies, sectors and wavefronts are those of the table") {
  using T = HopperTiles<128, 2, 2>;
  const int m = 256, n = 128, k = 128, steps = k / 64;
  // Tiles of C, steps, a box of A and two of B; the consumers' tiles are twice as high; and slices
  // of C: tiles, groups, slices. Of the last, a box of B for two blocks is another instruction.
  const int copies[] = {0, 4 * steps * 3, 2 * steps * 3, 2 * steps * 3 + 2 * 2 * 4, 2 * steps};
  const double fours = 2.0 * m * n * k / 4096;  // of FLOPs
  const Bf16Problem problem(m, n, k);
  for (size_t i = 0; i < std::size(copies); ++i) {
    const TensorCoreRung& rung = hopper_rungs<T>[i];
    CAPTURE(rung.name);
    const bool stored = std::string(rung.name) == "persistent";
    Profile profile;
    run(rung, problem);
    CHECK(profile.flops() == int64_t{2} * m * n * k);
    CHECK(profile.instructions("wgmma()") == m / 16 * (n / T::BN) * (k / 16));
    CHECK(profile.instructions("cp_async_bulk_tensor()") == copies[i]);
    CHECK(profile.instructions("cp_async_bulk_tensor_multicast()") == (i == 4 ? 2 * steps : 0));
    CHECK(static_cast<double>(profile.global_reads().sectors) == rung.sectors * fours);
    CHECK(static_cast<double>(profile.shared_reads().wavefronts +
                              profile.shared_writes().wavefronts) ==
          doctest::Approx((rung.wavefronts + (stored ? store_wavefronts(k) : 0)) * fours)
              .epsilon(1e-12));
    CHECK(profile.shared_reads().conflict_free());
    CHECK(profile.shared_writes().conflict_free() == !stored);
  }
}
