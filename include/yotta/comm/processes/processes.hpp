// Processes: was this program started several times over, by whom, and how does one start it so.
//
//     mpirun -n 4 program       each process finds its rank, and how many there are, in its environment:
//     srun --ntasks 4 program   Open MPI's, PMI's (MPICH, Intel MPI) or Slurm's own variables
//
// Nothing here needs MPI: a program that was built without it must notice that mpirun has started it four
// times, or it would print everything four times.
// References: mpirun(1) of Open MPI 4.1, section "Environment variables"; srun(1), "output environment
// variables".
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yotta {

// One of several copies of a program.
struct ProcessPlace {
  int rank = 0, size = 1;
  std::string starter;  // "mpirun" or "srun"
};

// The value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;
inline const char* own_environment(const char* name) { return std::getenv(name); }

// The place of this process; empty if it was started alone. (In a batch script Slurm has set its variables
// too, but for no step: what runs there is alone. So is a step of one task, such as an interactive shell.)
inline std::optional<ProcessPlace> find_place(const Environment& get = own_environment) {
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
    const char *rank, *size, *starter;
    int least;
  };
  for (const Names& names : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun", 1},
                             Names{"PMI_RANK", "PMI_SIZE", "mpirun", 1},
                             Names{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun", 2}}) {
    const std::optional<int> rank = number(names.rank), size = number(names.size);
    if (rank && size && *size >= names.least && *rank < *size)
      return ProcessPlace{*rank, *size, names.starter};
  }
  return {};
}

// The MPIs whose mpirun is known, by what MPI_Get_library_version says.
enum class MpiKind { open_mpi, mpich, other };
inline MpiKind mpi_kind(std::string_view library) {
  if (library.find("Open MPI") != library.npos) return MpiKind::open_mpi;
  return library.find("MPICH") != library.npos ? MpiKind::mpich : MpiKind::other;
}

// The names of an MPI's starter, the one that can be no other MPI's first. (Debian has several side by side.)
inline std::vector<std::string> mpirun_names(MpiKind kind) {
  if (kind == MpiKind::open_mpi) return {"mpirun.openmpi", "mpirun", "mpiexec"};
  if (kind == MpiKind::mpich) return {"mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"};
  return {"mpirun", "mpiexec"};
}

// The first of these programs that lies in a folder of `path` (PATH's value); empty if none does.
inline std::string find_program(const std::vector<std::string>& names, std::string_view path) {
  for (const std::string& name : names)
    for (std::string_view rest = path; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      const std::string file = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  return "";
}

struct MpirunCall {
  std::vector<std::string> words;  // mpirun and its arguments
  std::vector<std::pair<std::string, std::string>>
      setting;  // environment, unless it is set already
};

// Starts `program` on n processes of this machine, fewer cores than processes and root included: they are
// bound to no core (four bound to two would share them badly), and yield while they wait.
inline MpirunCall mpirun_call(MpiKind kind, const std::string& mpirun, int n,
                              const std::vector<std::string>& program) {
  MpirunCall call{{mpirun, "-n", std::to_string(n)}, {}};
  if (kind == MpiKind::open_mpi) {
    call.words.insert(call.words.end(), {"--oversubscribe", "--bind-to", "none"});
    call.setting = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                    // One process may not read another's memory in many containers.
                    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
  }
  if (kind == MpiKind::mpich) {
    // Its mpirun ends all processes as soon as one is killed, and names any of them. The shell between them keeps the
    // dead one's connection open for a while, in which the others say which rank it was, and end by themselves.
    call.words.insert(call.words.end(),
                      {"sh", "-c", R"("$@"; s=$?; [ $s -lt 128 ] || sleep 10; exit $s)", "sh"});
    call.setting = {
        {"UCX_TLS", "self,posix"},    // to read a dead process's memory would end them
        {"UCX_LOG_LEVEL", "error"}};  // no word of what a failed run has left unfinished
  }
  call.words.insert(call.words.end(), program.begin(), program.end());
  return call;
}

// What to install, for a program that was built without MPI.
inline constexpr const char* no_mpi =
    "this program was built without MPI. Install it (Debian, Ubuntu: apt-get install "
    "libopenmpi-dev "
    "openmpi-bin) and build again (./yotta clean)";

}  // namespace yotta
