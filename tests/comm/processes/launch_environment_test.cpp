#include "yotta/comm/processes/launch_environment.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace yotta;
using Variables = std::map<std::string, std::string>;

namespace {

std::optional<LaunchEnvironment> launch_of(const Variables& variables) {
  return find_launch_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("a process knows its launcher, its rank, and the number of ranks") {
  CHECK_FALSE(launch_of({}));
  const auto open_mpi = launch_of({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  REQUIRE(open_mpi);
  CHECK(open_mpi->rank == 3);
  CHECK(open_mpi->size == 4);
  CHECK(open_mpi->launcher == "mpirun");
  CHECK(launch_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})->size == 2);
  CHECK(launch_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})->size == 1);
  const auto slurm = launch_of({{"SLURM_PROCID", "7"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  REQUIRE(slurm);
  CHECK(slurm->rank == 7);
  CHECK(slurm->launcher == "srun");
}

TEST_CASE("inside an mpirun that Slurm has started, mpirun's word counts") {
  const auto found = launch_of({{"OMPI_COMM_WORLD_RANK", "5"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"SLURM_PROCID", "1"},
                                {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(found->rank == 5);
  CHECK(found->size == 8);
}

TEST_CASE("alone: a batch script, an interactive step, and numbers that are none") {
  CHECK_FALSE(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  CHECK_FALSE(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  CHECK_FALSE(launch_of({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}));
  CHECK_FALSE(launch_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "4x"}}));
  CHECK_FALSE(launch_of({{"PMI_RANK", ""}, {"PMI_SIZE", "4"}}));
  CHECK_FALSE(launch_of({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}));
}
