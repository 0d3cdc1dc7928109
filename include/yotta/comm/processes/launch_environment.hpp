// LaunchEnvironment: was this program started several times over, and by whom?
//
//   mpirun -n 4 program      each process finds its rank, and how many there are, in its
//   srun --ntasks 4 program  environment: Open MPI's, PMI's (MPICH, Intel MPI) or Slurm's variables
//
// Nothing here needs MPI: a program that was built without it must notice that mpirun has started
// it four times, or it would print everything four times.
//
// References: mpirun(1) of Open MPI 4.1, section "Environment variables"; srun(1), "output
// environment variables".
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "yotta/core/system/build.hpp"

#if YOTTA_BODIES_OF(comm)
#include <charconv>
#include <cstdlib>
#include <string_view>
#endif  // YOTTA_BODIES

namespace yotta {

// What a launcher tells each of the processes it starts.
struct LaunchEnvironment {
  int rank = 0, size = 1;
  std::string launcher;  // "mpirun" or "srun"
};

// Returns the value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;
YOTTA_API const char* own_environment(const char* name);

// Empty: this process was started alone. (In a batch script Slurm has set its variables too, but
// there is no step: a program there runs alone. So does a step of one task, such as an interactive
// shell.)
YOTTA_API std::optional<LaunchEnvironment> find_launch_environment(
    const Environment& get = own_environment);

#if YOTTA_BODIES_OF(comm)

const char* own_environment(const char* name) { return std::getenv(name); }

std::optional<LaunchEnvironment> find_launch_environment(const Environment& get) {
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

#endif  // YOTTA_BODIES

}  // namespace yotta
