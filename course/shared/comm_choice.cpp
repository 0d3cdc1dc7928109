#include "course/shared/comm_choice.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <optional>

#include "course/shared/console.hpp"
#include "yotta/comm/mpi/mpi_ranks.hpp"
#include "yotta/comm/nccl/nccl_support.hpp"
#include "yotta/comm/processes/processes.hpp"
#include "yotta/comm/tcp/tcp_launch.hpp"
#include "yotta/comm/tcp/tcp_ranks.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"

namespace yotta {

namespace {

// With NCCL each process has a GPU of its host, in turn, or all have the first.
ProcessRanksOptions options_of(bool by_nccl, bool shares_gpu) {
  ProcessRanksOptions options;
  if (!by_nccl) return options;
  options.wrap = [](std::shared_ptr<Transport> inner) { return make_nccl_transport(inner); };
  options.begin = [shares_gpu](RankContext& self, int rank_on_host) {
    if (shares_gpu) share_gpu(self.rank);
    const std::string why_not = use_cuda(shares_gpu ? 0 : rank_on_host);
    if (!why_not.empty())
      fail(Where::current(),
           "{}; --share-gpu puts all ranks on the first GPU, --comm mpi or tcp does without",
           why_not);
  };
  return options;
}

#ifdef YOTTA_HAVE_MPI
constexpr bool built_with_mpi = true;
std::unique_ptr<ProcessRanks> join_by_mpi(ProcessRanksOptions options) {
  return std::make_unique<MpiRanks>(MpiRanksOptions{std::move(options), {}}, Where::current());
}
#else
constexpr bool built_with_mpi = false;
std::string mpi_library() { return ""; }
std::unique_ptr<ProcessRanks> join_by_mpi(const ProcessRanksOptions& /*options*/) {
  fail(Where::current(), "{}", no_mpi);
}
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

// Starts this program n times on this machine, waits for all, and ends as they do.
[[noreturn]] void become_launcher(int64_t n, int argc, char** argv) {
  std::vector<std::string> program(argv, argv + argc);
  program[0] = own_path(argv[0]);
  console::hand_on_terminals();
  std::fflush(nullptr);
  const JobEnd end = start_processes(static_cast<int>(n), program);
  if (!end.text.empty()) console::error(end.text.substr(0, end.text.size() - 1));
  std::exit(end.status);
}
// Whoever was started so ends with who has started it.
void follow_launcher() {
  const char* const launcher = std::getenv("YOTTA_LAUNCHER");
  if (launcher == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // before we look, or it could end in between, unnoticed
  const int process = std::atoi(launcher);
  if (getppid() == process) return;
  prctl(PR_SET_PDEATHSIG, 0);  // a shell stands between us, say
  if (kill(process, 0) != 0 && errno == ESRCH) std::raise(SIGTERM);
}

}  // namespace

struct CommChoice::State {
  std::string comm = "auto";
  bool shares_gpu = false;
  std::optional<TcpPlace> tcp;  // where this process would find the others without MPI
  std::string problem;          // with the variables that say so
  std::optional<ProcessPlace> place = find_place();
  bool is_mpis = place.has_value();  // started by mpirun or srun
  std::unique_ptr<ProcessRanks> job;
  const TcpRanks* tcp_job = nullptr;  // the same, if it is one

  State() {
    try {
      tcp = find_tcp_place();
    } catch (const Error& error) {
      problem = error.what();
    }
    if (!place && tcp) place = {tcp->rank, tcp->size, "the launcher"};
  }
  // Are the processes to find each other without MPI?
  bool by_tcp() const { return comm == "tcp" || !is_mpis || (!built_with_mpi && tcp); }
  void join() {
    ProcessRanksOptions options = options_of(comm == "nccl", shares_gpu);
    if (!by_tcp()) {
      job = join_by_mpi(std::move(options));
      return;
    }
    if (!tcp)
      fail(Where::current(),
           "{} says who is who, but not where rank 0 is: set MASTER_ADDR and MASTER_PORT, or "
           "YOTTA_RENDEZVOUS_FILE",
           place->starter);
    follow_launcher();
    console::muted() = false;  // who does not find the others must say so himself
    auto ranks = std::make_unique<TcpRanks>(
        *tcp, TcpRanksOptions{std::move(options), {.compare_calls = true}}, Where::current());
    tcp_job = ranks.get();
    job = std::move(ranks);
    console::muted() = tcp->rank > 0;
  }
};

CommChoice::CommChoice() : state_(std::make_unique<State>()) {
  const std::optional<ProcessPlace>& place = state_->place;
  if (place) setenv("YOTTA_TERMINALS", "", 0);  // mpirun's own, unless we have started it
  if (place && place->rank > 0) console::mute();
}
CommChoice::~CommChoice() = default;

void CommChoice::add_option(CLI::App& app) {
  app.add_option("--comm", state_->comm,
                 "what ranks are: threads, mpi (processes; starts mpirun if need be), tcp "
                 "(processes without MPI), nccl (GPUs); auto: threads, or the processes of mpirun, "
                 "srun or torchrun, with GPUs where they are")
      ->check(CLI::IsMember({"auto", "threads", "mpi", "tcp", "nccl"}))
      ->capture_default_str();
  app.add_flag("--share-gpu", state_->shares_gpu,
               "with --comm nccl: all ranks on the first GPU, over sockets; for correctness only");
}

bool CommChoice::wants_processes() const {
  return state_->place || (state_->comm != "auto" && state_->comm != "threads");
}

bool CommChoice::is_one_of_many() const { return state_->place.has_value(); }

int64_t CommChoice::start(int argc, char** argv, const RanksWanted& ranks) {
  State& self = *state_;
  const std::string why_not = why_no_nccl();
  if (!self.problem.empty()) throw Error(Error::Verbatim{}, Where::current(), self.problem);
  const char* const without_gpus = self.place && self.by_tcp() ? "tcp" : "mpi";
  if (self.comm == "auto" && self.place) self.comm = why_not.empty() ? "nccl" : without_gpus;
  if (self.comm == "nccl" && !why_not.empty()) {
    self.comm = self.place ? without_gpus : "threads";
    if (!console::muted())
      fmt::print(stderr, "--comm nccl: {}; the ranks are {} instead\n", why_not,
                 self.place ? "processes without GPUs" : "threads");
  }
  if (!wants_processes()) return ranks.count;
  if (self.comm == "threads")
    fail(Where::current(),
         "{} has started this program {} times; with --comm threads start it once, without {}",
         self.place->starter, self.place->size, self.place->starter);
  if (self.comm == "mpi" && !built_with_mpi) fail(Where::current(), "{}", no_mpi);
  if (self.comm == "mpi" && self.place && !self.is_mpis)
    fail(Where::current(),
         "RANK and WORLD_SIZE are set, and no mpirun has started this program; --comm mpi needs "
         "mpirun, --comm tcp does without");
  if (!self.place && (ranks.count < ranks.least || ranks.count > ranks.most))
    fail(Where::current(), "this program has from {} to {} ranks, not {}", ranks.least, ranks.most,
         ranks.count);
  if (!self.place && (self.comm == "tcp" || !built_with_mpi))
    become_launcher(ranks.count, argc, argv);
  if (!self.place) become_mpirun(ranks.count, argc, argv);
  self.join();
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
  // Who has lost another says so himself: it may have been the one that is heard. (mpirun names the lost.)
  const auto speak_if_lost = [&] {
    if (state_->job && state_->job->lost() && state_->tcp_job != nullptr) console::muted() = false;
  };
  speak_if_lost();
  if (!error.empty()) console::error(error);
  if (!state_->job) return error.empty() ? 0 : 1;
  const std::vector<std::string> others = state_->job->end(error);
  const bool lost_at_end = error.empty() && state_->job->lost();
  if (lost_at_end) {
    speak_if_lost();
    console::error(state_->tcp_job != nullptr
                       ? state_->tcp_job->describe_lost()
                       : "a process has ended without a word, at the very end: was it killed?");
  }
  if (error.empty() && is_first())
    for (size_t process = 0; process < others.size(); ++process)
      if (!others[process].empty())
        console::error(fmt::format("process {}: {}", process, others[process]));
  state_->tcp_job = nullptr;
  state_->job.reset();
  return error.empty() && !lost_at_end ? 0 : 1;
}

}  // namespace yotta
