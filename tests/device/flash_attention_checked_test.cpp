// Attention kernels under the emulator's checks, and what they ask of memory against the formulas.
#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

using Tile = FlashTile<32, 32, 16, 64>;

MemoryTraffic counted(const Profile& profile) {
  return {profile.global_reads().bytes, profile.global_writes().bytes};
}

// Runs the kernels as run(arrays) launches them, under all checks; what they asked of memory.
template <class T, class Out = T, class Run>
MemoryTraffic traffic(const AttentionProblem& problem, double unit, Run run) {
  const Profile profile;
  check_attention<T, Out>(problem, unit, run);
  return counted(profile);
}

constexpr AttentionShape whole = {.B = 1, .Tq = 64, .Tk = 64, .H = 2, .Hkv = 1, .d = 32};
constexpr AttentionShape ragged = {
    .B = 2, .Tq = 37, .Tk = 41, .H = 2, .Hkv = 2, .d = 32, .causal = true};

}  // namespace

TEST_CASE("f32 kernels are clean, and ask for as many bytes as the formulas say") {
  for (const AttentionShape& shape : {whole, ragged}) {
    const AttentionProblem problem(shape);
    DeviceArray<float> s(static_cast<size_t>(shape.query_rows() * shape.Tk));
    DeviceArray<float> l(static_cast<size_t>(shape.query_rows()));
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) {
            run_unfused_attention(x, s.data(), shape);
          }) == unfused_attention_traffic(shape, 32));
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) { run_online_attention(x, shape); }) ==
          online_attention_traffic(shape));
    CHECK(traffic<float>(problem, 1e-6, [&](const auto& x) {
            run_flash_tile<Tile>(x, l.data(), shape);
          }) == flash_tile_traffic<Tile>(shape));
  }
}
