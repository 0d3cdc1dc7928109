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

namespace yotta {

// What a launcher tells each of the processes it starts.
struct LaunchEnvironment {
  int rank = 0, size = 1;
  std::string launcher;  // "mpirun" or "srun"
};

// Returns the value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;
const char* own_environment(const char* name);

// Empty: this process was started alone. (In a batch script Slurm has set its variables too, but
// there is no step: a program there runs alone. So does a step of one task, such as an interactive
// shell.)
std::optional<LaunchEnvironment> find_launch_environment(const Environment& get = own_environment);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/launch_environment.ipp"
#endif
