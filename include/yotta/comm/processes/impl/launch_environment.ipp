// The bodies of comm/processes/launch_environment.hpp.
#pragma once

#include "yotta/comm/processes/launch_environment.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace yotta {

YOTTA_INLINE const char* own_environment(const char* name) { return std::getenv(name); }

YOTTA_INLINE std::optional<LaunchEnvironment> find_launch_environment(const Environment& get) {
  const auto number = [&](const char* name) -> std::optional<int> {
    const char* text = get(name);
    int value = -1;
    if (text == nullptr) return {};
    const std::string_view digits(text);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc() || end != digits.end() || value < 0) return {};
    return value;
  };
  struct Names {
    const char *rank, *size, *launcher;
    int min_size;
  };
  for (const Names& names : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun", 1},
                             Names{"PMI_RANK", "PMI_SIZE", "mpirun", 1},
                             Names{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun", 2}}) {
    const std::optional<int> rank = number(names.rank), size = number(names.size);
    if (rank && size && *size >= names.min_size && *rank < *size)
      return LaunchEnvironment{*rank, *size, names.launcher};
  }
  return {};
}

}  // namespace yotta
