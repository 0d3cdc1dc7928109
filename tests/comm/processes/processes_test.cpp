#include "yotta/comm/processes/processes.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <map>

#include "support/temporary_folder.hpp"

using namespace yotta;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<ProcessPlace> place(const Variables& variables) {
  return find_place([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("a process knows who has started it, and as which of how many") {
  CHECK_FALSE(place({}));
  const auto open_mpi = place({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  REQUIRE(open_mpi);
  CHECK(open_mpi->rank == 3);
  CHECK(open_mpi->size == 4);
  CHECK(open_mpi->starter == "mpirun");
  CHECK(place({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})->size == 2);
  CHECK(place({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})->size == 1);
  const auto slurm = place({{"SLURM_PROCID", "7"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  REQUIRE(slurm);
  CHECK(slurm->rank == 7);
  CHECK(slurm->starter == "srun");
}

TEST_CASE("inside an mpirun that Slurm has started, mpirun's word counts") {
  const auto found = place({{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"SLURM_PROCID", "1"},
                            {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(found->rank == 5);
  CHECK(found->size == 8);
}

TEST_CASE("alone: a batch script, an interactive step, and numbers that are none") {
  CHECK_FALSE(place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  CHECK_FALSE(place({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  CHECK_FALSE(place({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}));
  CHECK_FALSE(place({{"PMI_RANK", "0"}, {"PMI_SIZE", "4x"}}));
  CHECK_FALSE(place({{"PMI_RANK", ""}, {"PMI_SIZE", "4"}}));
  CHECK_FALSE(place({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}));
}

TEST_CASE("the starter of the MPI at hand is found, and no other MPI's") {
  CHECK(mpi_kind("Open MPI v4.1.4, package: Debian OpenMPI") == MpiKind::open_mpi);
  CHECK(mpi_kind("MPICH Version:      4.0.2") == MpiKind::mpich);
  CHECK(mpi_kind("Cray MPI") == MpiKind::other);
  const yotta_test::TemporaryFolder folder;
  const std::string here = folder.path().string();
  const auto tool = [&](const char* name) {
    std::FILE* file = std::fopen((here + "/" + name).c_str(), "w");
    std::fclose(file);
    chmod((here + "/" + name).c_str(), 0755);
  };
  const auto found = [&](MpiKind kind) {
    return find_program(mpirun_names(kind), "/nowhere:" + here + ":/elsewhere");
  };
  CHECK(found(MpiKind::open_mpi).empty());
  CHECK(find_program({"mpirun"}, "").empty());
  tool("mpirun");
  CHECK(found(MpiKind::open_mpi) == here + "/mpirun");
  CHECK(found(MpiKind::mpich) == here + "/mpirun");
  tool("mpirun.mpich");
  CHECK(found(MpiKind::open_mpi) == here + "/mpirun");
  CHECK(found(MpiKind::mpich) == here + "/mpirun.mpich");
  tool("mpirun.openmpi");
  CHECK(found(MpiKind::open_mpi) == here + "/mpirun.openmpi");
}

TEST_CASE("the command: so many processes, as root too, on fewer cores too") {
  const MpirunCall open = mpirun_call(MpiKind::open_mpi, "/usr/bin/mpirun", 4, {"lesson", "--x"});
  CHECK(fmt::format("{}", fmt::join(open.words, " ")) ==
        "/usr/bin/mpirun -n 4 --oversubscribe --bind-to none lesson --x");
  const auto has = [&](const char* name) {
    for (const auto& [key, value] : open.setting)
      if (key == name) return value == "1";
    return false;
  };
  CHECK(has("OMPI_ALLOW_RUN_AS_ROOT"));
  CHECK(has("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"));
  CHECK(has("OMPI_MCA_mpi_yield_when_idle"));
  const MpirunCall mpich = mpirun_call(MpiKind::mpich, "mpirun.mpich", 2, {"lesson"});
  CHECK(fmt::format("{}", fmt::join(mpich.words, " ")) ==
        R"(mpirun.mpich -n 2 sh -c "$@"; s=$?; [ $s -lt 128 ] || sleep 10; exit $s sh lesson)");
  CHECK(mpich.setting.size() == 2);
}
