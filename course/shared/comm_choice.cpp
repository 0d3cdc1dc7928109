#include "course/shared/comm_choice.hpp"

#include <CLI/CLI.hpp>
#include <optional>

#include "course/shared/console.hpp"
#include "yotta/comm/mpi_ranks.hpp"
#include "yotta/comm/nccl_support.hpp"
#include "yotta/comm/processes.hpp"
#include "yotta/core/error.hpp"
#include "yotta/nn/cuda.hpp"

namespace yotta {

namespace {

#ifdef YOTTA_HAVE_MPI
constexpr bool built_with_mpi = true;
// Joins the job. With NCCL each process has a GPU of its host, in turn, or all have the first.
void join(std::optional<MpiRanks>& job, bool by_nccl, bool shares_gpu) {
  MpiRanksOptions options;
  if (by_nccl) {
    options.wrap = [](std::shared_ptr<Transport> mpi) { return make_nccl_transport(mpi); };
    options.begin = [shares_gpu](RankContext& self, int rank_on_host) {
      if (shares_gpu) share_gpu(self.rank);
      const std::string why_not = use_cuda(shares_gpu ? 0 : rank_on_host);
      if (!why_not.empty())
        fail(Where::current(),
             "{}; --share-gpu puts all ranks on the first GPU, --comm mpi does without", why_not);
    };
  }
  job.emplace(options, Where::current());
}
#else
constexpr bool built_with_mpi = false;
// Stands for the job of a program that has no MPI, and is never made.
struct MpiRanks {
  int rank() const { return 0; }
  int size() const { return 1; }
  std::vector<std::string> end(const std::string&) { return {}; }
};
std::string mpi_library() { return ""; }
void join(std::optional<MpiRanks>&, bool, bool) {}
#endif

std::string own_path(const char* first_argument) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : first_argument;
}

// Becomes mpirun, which starts this program n times.
[[noreturn]] void become_mpirun(int64_t n, int argc, char** argv) {
  std::vector<std::string> program(argv, argv + argc);
  program[0] = own_path(argv[0]);
  const MpiKind kind = mpi_kind(mpi_library());
  const std::vector<std::string> names = mpirun_names(kind);
  const char* const path = std::getenv("PATH");
  const std::string mpirun = find_program(names, path == nullptr ? "" : path);
  if (mpirun.empty())
    fail(Where::current(),
         "{} is here, but not its {} (Debian, Ubuntu: apt-get install openmpi-bin)", mpi_library(),
         fmt::join(names, " or "));
  const MpirunCall call = mpirun_call(kind, mpirun, static_cast<int>(n), program);
  for (const auto& [name, value] : call.setting) setenv(name.c_str(), value.c_str(), 0);
  console::hand_on_terminals();
  std::vector<char*> words;
  for (const std::string& word : call.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::fflush(nullptr);
  execv(words[0], words.data());
  fail(Where::current(), "cannot start {}: {}", mpirun, std::strerror(errno));
}

}  // namespace

struct CommChoice::State {
  std::string comm = "auto";
  bool shares_gpu = false;
  std::optional<ProcessPlace> place = find_place();
  std::optional<MpiRanks> job;
};

CommChoice::CommChoice() : state_(std::make_unique<State>()) {
  const std::optional<ProcessPlace>& place = state_->place;
  if (place) setenv("YOTTA_TERMINALS", "", 0);  // mpirun's own, unless we have started it
  if (place && place->rank > 0) console::mute();
}
CommChoice::~CommChoice() = default;

void CommChoice::add_option(CLI::App& app) {
  app.add_option("--comm", state_->comm,
                 "what ranks are: threads, mpi (processes; starts mpirun if need be), nccl (GPUs); "
                 "auto: threads, or under mpirun or srun its processes, with GPUs where they are")
      ->check(CLI::IsMember({"auto", "threads", "mpi", "nccl"}))
      ->capture_default_str();
  app.add_flag("--share-gpu", state_->shares_gpu,
               "with --comm nccl: all ranks on the first GPU, over sockets; for correctness only");
}

bool CommChoice::wants_processes() const {
  return state_->place || state_->comm == "mpi" || state_->comm == "nccl";
}

int64_t CommChoice::start(int argc, char** argv, const RanksWanted& ranks) {
  State& self = *state_;
  const std::string why_not = why_no_nccl();
  if (self.comm == "auto" && self.place) self.comm = why_not.empty() ? "nccl" : "mpi";
  if (self.comm == "nccl" && !why_not.empty()) {
    self.comm = self.place ? "mpi" : "threads";
    if (!console::muted())
      fmt::print(stderr, "--comm nccl: {}; the ranks are {} instead\n", why_not,
                 self.place ? "processes without GPUs" : "threads");
  }
  if (!wants_processes()) return ranks.count;
  if (self.comm == "threads")
    fail(Where::current(),
         "{} has started this program {} times; with --comm threads start it once, without {}",
         self.place->starter, self.place->size, self.place->starter);
  if (!built_with_mpi) fail(Where::current(), "{}", no_mpi);
  if (!self.place) become_mpirun(ranks.count, argc, argv);
  join(self.job, self.comm == "nccl", self.shares_gpu);
  const int64_t size = self.job->size();
  if (ranks.given != nullptr && ranks.count != size)
    fail(Where::current(),
         "{} asks for {} ranks, but {} has started {} processes; start {} of them, or leave out {}",
         ranks.given, ranks.count, self.place->starter, size, ranks.count, ranks.given);
  if (size < ranks.least || size > ranks.most)
    fail(Where::current(), "this program has from {} to {} ranks; {} has started {} processes",
         ranks.least, ranks.most, self.place->starter, size);
  return size;
}

bool CommChoice::has_gpus() const { return state_->job && state_->comm == "nccl"; }

bool CommChoice::is_first() const { return !state_->job || state_->job->rank() == 0; }

int CommChoice::finish(const std::string& error) {
  if (!error.empty()) console::error(error);
  if (!state_->job) return error.empty() ? 0 : 1;
  const std::vector<std::string> others = state_->job->end(error);
  if (error.empty() && is_first())
    for (size_t process = 0; process < others.size(); ++process)
      if (!others[process].empty())
        console::error(fmt::format("process {}: {}", process, others[process]));
  state_->job.reset();
  return error.empty() ? 0 : 1;
}

}  // namespace yotta
