#include "counts.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/matmul_rungs.hpp"
#include "yotta/device/profile.hpp"

namespace yotta {
namespace {

std::vector<float> whole_numbers(int count, int different) {
  std::vector<float> x(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(i % different - different / 2);
  return x;
}

RungCounts counts_of(const MatmulRung& rung, const Profile& profile, double flops) {
  const double fmas = flops / 64;  // multiply-adds of a warp
  const LineCounts global = profile.global_reads(), shared = profile.shared_reads();
  RungCounts counts;
  counts.name = rung.name;
  counts.idea = rung.idea;
  counts.sectors_per_request = global.sectors_per_request();
  counts.sectors = static_cast<double>(global.sectors) / fmas;
  counts.wavefronts = static_cast<double>(shared.wavefronts) / fmas;
  if (shared.ideal_wavefronts > 0)
    counts.conflicts =
        static_cast<double>(shared.wavefronts) / static_cast<double>(shared.ideal_wavefronts);
  counts.global_bytes_per_flop = static_cast<double>(profile.global_bytes()) / flops;
  counts.expected_sectors = rung.sectors;
  counts.expected_wavefronts = rung.wavefronts;
  counts.attainable = rung.attainable();
  counts.a6000_gflops = rung.a6000_gflops;
  return counts;
}

}  // namespace

std::vector<RungCounts> count_rungs(int m, int n, int k) {
  const DeviceArray<float> a(whole_numbers(m * k, 7)), b(whole_numbers(k * n, 5));
  std::vector<RungCounts> all;
  std::vector<float> expected;
  for (const MatmulRung& rung : matmul_rungs) {
    DeviceArray<float> c(static_cast<size_t>(m * n));
    Profile profile;
    rung.run(a.data(), b.data(), c.data(), m, n, k, nullptr);
    if (expected.empty()) expected = c.to_host();
    if (c.to_host() != expected)
      fail(Where::current(), "{} differs from the first rung", rung.name);
    all.push_back(counts_of(rung, profile, matmul_flops(m, n, k)));
  }
  return all;
}

}  // namespace yotta
