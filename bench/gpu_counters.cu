#include "gpu_counters.hpp"

#include "gpu_counters_runs.hpp"
#include "gpu_program.hpp"
#include "gpu_tools.hpp"

namespace yotta::bench {

std::string gpu_name() { return first_gpu(); }

void launch_on_gpu() {
  const auto count = [](const char*, const char*, auto run) { run(); };
  count_matmuls(count);
  count_attention(count);
  check_cuda(cudaDeviceSynchronize());
}

}  // namespace yotta::bench
