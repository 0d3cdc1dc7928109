#include "bench/gpu_counters.hpp"

#include "bench/fused_chains.hpp"
#include "bench/gpu_counters_runs.hpp"
#include "fused_kernels.hpp"  // printed when this is built
#include "yotta/device/fusion_codegen.hpp"
#include "yotta/device/profile.hpp"

namespace yotta::bench {
namespace {

// Lesson 05's kernel of a chain, on arrays in device memory.
template <class Arrays, class Count>
void count_fused(const Chain& chain, void (*kernel)(Arrays), Arrays arrays, Count count) {
  const FusedChain fused = counted(chain);
  const LaunchValues values = values_of(fused.launches[0]);
  std::vector<DeviceArray<float>> memory;
  const auto numbers = [&](int n) {
    memory.push_back(small_numbers<float>(fused.graph.node(n).size.count()));
    return memory.back().data();
  };
  std::transform(values.reads.begin(), values.reads.end(), arrays.in, numbers);
  std::transform(values.writes.begin(), values.writes.end(), arrays.out, numbers);
  const auto blocks = static_cast<unsigned>(tasks_of(fused.graph, fused.launches[0], cuda_kernel));
  count("05", chain.name, [&] { launch(kernel, blocks, cuda_threads, 0, nullptr, arrays); });
}

}  // namespace

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
  for_each_fused([&](const Chain& chain, auto kernel, auto arrays) {
    count_fused(chain, kernel, arrays, count);
  });
  return all;
}

}  // namespace yotta::bench
