#include "bench/gpu_counters.hpp"

#include "bench/gpu_counters_runs.hpp"
#include "yotta/device/profile.hpp"

namespace yotta::bench {

std::vector<KernelCounters> count_in_emulator() {
  std::vector<KernelCounters> all;
  const auto count = [&](const char* lesson, const char* name, auto run) {
    const Profile profile;
    run();
    const auto conflicts = [](const LineCounts& x) { return x.wavefronts - x.ideal_wavefronts; };
    all.push_back({lesson, name, profile.launches(), profile.global_reads().sectors,
                   profile.global_writes().sectors,
                   conflicts(profile.shared_reads()) + conflicts(profile.shared_writes())});
  };
  count_matmuls(count);
  count_attention(count);
  return all;
}

}  // namespace yotta::bench
