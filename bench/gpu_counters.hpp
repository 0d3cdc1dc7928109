// Sectors and bank conflicts of the kernels of lessons 02 to 08: as the emulator counts them, and
// as ncu has counted them on a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace yotta::bench {

// One kernel, or the few that one step of a lesson launches.
struct KernelCounters {
  std::string lesson, name;
  int64_t launches = 0;
  int64_t sectors_read = 0, sectors_written = 0;  // of 32 bytes, of global memory
  int64_t conflicts = 0;                          // passes through shared memory beyond the fewest
  bool operator==(const KernelCounters&) const = default;
};

// Runs each under the emulator's checks (checked/gpu_counters.cpp).
std::vector<KernelCounters> count_in_emulator();

// Launches each once, in the same order; in builds with nvcc (gpu_counters.cu). The kernels that
// NVRTC compiles come last, where it is installed.
inline constexpr const char* compiled_by_nvrtc = "05";  // a lesson
void launch_on_gpu();

// ---- what ncu --csv --print-units base --metrics ncu_metrics() prints ----

// With commas between them, as ncu takes them.
std::string ncu_metrics();

// One launch of a kernel, with its metrics.
struct NcuLaunch {
  std::string kernel;
  std::map<std::string, double> metrics;
};
// What else the program printed may stand between the lines. Errors: there are no such columns.
std::vector<NcuLaunch> read_ncu(std::string_view csv);

// The same kernels, as the GPU ran them; without those of compiled_by_nvrtc if none of them was
// launched. Errors: ncu saw other launches, or lacks a metric.
std::vector<KernelCounters> as_on_gpu(const std::vector<KernelCounters>& emulated,
                                      const std::vector<NcuLaunch>& launches);

}  // namespace yotta::bench
