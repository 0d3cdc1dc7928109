#include "course/shared/comm_choice.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "course/shared/console.hpp"
#include "course/shared/options.hpp"
#include "course/shared/said_once.hpp"
#include "yotta/comm/mpi/mpi_ranks.hpp"
#include "yotta/comm/nccl/nccl.hpp"
#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/comm/tcp/tcp_starter.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"

namespace yotta {

namespace {

// With NCCL the processes of a host take its GPUs in turn, or all share the first.
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

// RANK and WORLD_SIZE without a word of where rank 0 is.
std::optional<LaunchEnvironment> find_lone_environment() {
  const char *const rank = std::getenv("RANK"), *const size = std::getenv("WORLD_SIZE");
  if (size == nullptr || whole_number_of(size).value_or(0) < 1) return {};
  const int64_t ranks = *whole_number_of(size);
  const int64_t own = rank == nullptr ? 0 : whole_number_of(rank).value_or(-1);
  if (own < 0 || own >= ranks)
    fail(Where::current(), "RANK is {}, but WORLD_SIZE is {}: ranks are 0 to {}", rank, ranks,
         ranks - 1);
  if (rank == nullptr && ranks > 1) return {};
  return LaunchEnvironment{static_cast<int>(own), static_cast<int>(ranks), "WORLD_SIZE"};
}

// Ends this process as its job has ended.
[[noreturn]] void end_as(const LaunchResult& result) {
  if (!result.text.empty()) console::error(result.text.substr(0, result.text.size() - 1));
  std::exit(result.status);
}

// Starts mpirun, which starts this program n times, waits for it, and ends with its status.
[[noreturn]] void become_mpirun(const RanksWanted& ranks, int argc, char** argv) {
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
  const int n = static_cast<int>(ranks.count);
  const MpirunCall call = mpirun_call(kind, mpirun, n, program);
  console::hand_on_terminals();
  std::fflush(nullptr);
  end_as(start_mpirun(call, n, ranks.signal_seen));
}

// Starts this program n times on this machine, waits for all, and ends with their status.
[[noreturn]] void become_launcher(const RanksWanted& ranks, int argc, char** argv) {
  std::vector<std::string> program(argv, argv + argc);
  program[0] = own_path(argv[0]);
  console::hand_on_terminals();
  std::fflush(nullptr);
  const int n = static_cast<int>(ranks.count);
  if (ranks.epochs) {
    const LaunchResult result = start_members(
        n, ranks.epochs, program,
        {.spares = ranks.spares, .patience = ranks.patience, .all_wait = ranks.all_wait});
    if (result.status != 0 && ranks.failed) ranks.failed(result.status, result.text);
    end_as(result);
  }
  end_as(start_processes(n, program, ranks.signal_seen));
}
// Ends this process when the launcher that started it ends.
void end_with_launcher() {
  const char* const launcher = std::getenv("YOTTA_LAUNCHER");
  if (launcher == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // before the check below, or it could end unnoticed in between
  const int process = std::atoi(launcher);
  if (getppid() == process) return;
  prctl(PR_SET_PDEATHSIG, 0);  // another process, a shell say, is the parent
  if (kill(process, 0) != 0 && errno == ESRCH) std::raise(SIGTERM);
}

}  // namespace

struct CommChoice::State {
  std::string comm = "auto";
  bool shares_gpu = false;
  std::string link;                   // --link
  std::optional<TcpEnvironment> tcp;  // how this process would find the others without MPI
  std::string problem;                // with the environment variables for that
  std::optional<LaunchEnvironment> launch = find_launch_environment();
  bool by_launcher = launch.has_value();  // by mpirun or srun
  bool is_lone = false;                   // WORLD_SIZE=1, and no more
  std::unique_ptr<ProcessRanks> processes;
  const TcpRanks* tcp_processes = nullptr;  // the same, if they use TCP
  std::unique_ptr<TcpEpochs> epochs;        // in place of processes: they come and go
  int own_stdout = -1;                      // of a process that is mute now

  State() {
    try {
      tcp = find_tcp_environment();
    } catch (const Error& error) {
      problem = error.what();
    }
    if (!launch && tcp) launch = {tcp->rank, tcp->size, "the launcher"};
  }
  // RANK and WORLD_SIZE alone, when nothing else has said what the ranks are. WORLD_SIZE=1 needs no
  // more. Errors: two ranks or more, which would each run the whole program.
  void find_lone() {
    if (launch || comm != "auto") return;
    launch = find_lone_environment();
    is_lone = launch.has_value();
    if (is_one_of_many())
      fail(Where::current(),
           "RANK and WORLD_SIZE={} are set, but nothing says where rank 0 is: set MASTER_ADDR, "
           "MASTER_PORT and YOTTA_JOB_KEY, or YOTTA_RENDEZVOUS_FILE; --comm threads runs all ranks "
           "in this process",
           launch->size);
  }
  // One process, whose one rank needs nobody: it is a thread.
  bool is_alone() const {
    return launch && launch->size == 1 && launch->rank == 0 &&
           (comm == "threads" || is_lone || (comm == "auto" && !why_no_nccl().empty()));
  }
  bool is_one_of_many() const { return launch && launch->size > 1; }
  // What the processes of the same job have in common.
  std::string job() const {
    if (by_launcher) return fmt::format("launcher {}", find_launcher());
    return tcp ? tcp->rank0.text() + tcp->file : "";
  }
  // The error of a process that has not found the others: once for all of this machine that have
  // the same one. (They do not know of each other; the process that has started them may.)
  void say_before_joined(const std::string& error) const {
    const int rank = launch ? launch->rank : 0;
    console::muted() = false;
    if (!is_one_of_many()) return console::error(error);
    OwnWords words(rank);
    if (words.say(error)) return;
    say_once(job(), error, launch->size - 1,
             [&] { console::error(rank > 0 ? fmt::format("rank {}: {}", rank, error) : error); });
  }
  // The errors of processes that have found each other. Where all write to one terminal rank 0
  // prints each once; else the first that has an error prints it too.
  void say_joined(const std::string& error, const std::vector<std::string>& all) const {
    const bool one_terminal = tcp_processes == nullptr || tcp_processes->has_starter();
    const auto rank = static_cast<size_t>(processes->rank());
    const auto first = std::find(all.begin(), all.end(), error);
    const bool is_first = first == all.end() || first == all.begin() + processes->rank();
    if (rank > 0 && !one_terminal && !error.empty() && is_first && console::muted()) {
      console::muted() = false;
      console::error(fmt::format("rank {}: {}", rank, error));
    }
    if (rank > 0 || !one_terminal) return;
    for (size_t each = 0; each < all.size(); ++each)
      if (!all[each].empty() && all[each] != error &&
          std::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(each), all[each]) ==
              all.begin() + static_cast<std::ptrdiff_t>(each))
        console::error(fmt::format("rank {}: {}", each, all[each]));
  }
  // Do the processes find each other without MPI?
  bool by_tcp() const { return comm == "tcp" || !by_launcher || (!built_with_mpi && tcp); }
  // Of the processes of a job only the first rank of each epoch prints.
  void be_heard(bool heard) const {
    std::fflush(stdout);
    if (heard && console::muted()) dup2(own_stdout, STDOUT_FILENO);
    if (!heard && !console::muted()) console::mute();
    console::muted() = !heard;
  }
  void join() {
    epochs = TcpEpochs::find([this](int rank) { be_heard(rank == 0); });
    if (epochs) return end_with_launcher();
    ProcessRanksOptions options = options_of(comm == "nccl", shares_gpu);
    if (!by_tcp()) {
      processes = join_by_mpi(std::move(options));
      return;
    }
    if (!tcp)
      fail(Where::current(),
           "{} says who is who, but not where rank 0 is: set MASTER_ADDR, MASTER_PORT and "
           "YOTTA_JOB_KEY, or YOTTA_RENDEZVOUS_FILE",
           launch->launcher);
    end_with_launcher();
    // A process that does not find the others prints its own error, or leaves it to the process
    // that has started all: many of them say the same.
    OwnWords words(tcp->rank);
    console::muted() = words.has_listener();
    try {
      const LinkSpeed speed = link.empty() ? LinkSpeed{} : parse_link(link);
      auto ranks = std::make_unique<TcpRanks>(
          *tcp, TcpRanksOptions{std::move(options), {.compare_calls = true}, speed},
          Where::current());
      tcp_processes = ranks.get();
      processes = std::move(ranks);
    } catch (const Error& error) {
      words.say(error.what());
      throw;
    }
    console::muted() = tcp->rank > 0;
  }
};

CommChoice::CommChoice() : state_(std::make_unique<State>()) {
  const std::optional<LaunchEnvironment>& launch = state_->launch;
  if (launch)
    setenv("YOTTA_TERMINALS", "", 0);  // mpirun's own, unless this program has started mpirun
  state_->own_stdout = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (launch && launch->rank > 0) console::mute();
}
CommChoice::~CommChoice() {
  if (state_->own_stdout >= 0) close(state_->own_stdout);
}

void CommChoice::add_option(Options& options) {
  options.on_refusal([this](const std::string& problem) {
    state_->say_before_joined(problem + "\nRun with --help for more information.");
  });
  options.add("--comm", state_->comm,
              "what ranks are: threads, mpi (processes; starts mpirun if need be), tcp "
              "(processes without MPI), nccl (GPUs); auto: threads, or the processes of mpirun, "
              "srun or torchrun, with GPUs where they are",
              one_of({"auto", "threads", "mpi", "tcp", "nccl"}));
  options.add_flag(
      "--share-gpu", state_->shares_gpu,
      "with --comm nccl: all ranks on the first GPU, over sockets; for correctness only");
  options.add("--link", state_->link,
              "with --comm tcp: slows down what each process sends, to 20Mbit/s or 1Gbit/s,50ms "
              "(rate, latency)",
              not_empty());
}

bool CommChoice::wants_processes() const {
  if (state_->is_alone()) return false;
  return state_->launch || (state_->comm != "auto" && state_->comm != "threads");
}

bool CommChoice::is_one_of_many() const { return state_->launch && !state_->is_alone(); }

// One rank in this process; with --comm threads as many as are asked for.
int64_t CommChoice::alone(const RanksWanted& ranks) const {
  if (state_->comm == "threads") return ranks.count;
  if (ranks.given != nullptr && ranks.count != 1)
    fail(Where::current(),
         "{} asks for {} ranks, but {} is one process; start {} of them, leave out {}, or add "
         "--comm threads",
         ranks.given, ranks.count, state_->is_lone ? "WORLD_SIZE=1" : state_->launch->launcher,
         ranks.count, ranks.given);
  if (ranks.least > 1)
    fail(Where::current(), "this program has from {} to {} ranks; {} has started one process",
         ranks.least, ranks.most, state_->launch->launcher);
  return 1;
}

int64_t CommChoice::start(int argc, char** argv, const RanksWanted& ranks) {
  State& self = *state_;
  const std::string why_not = why_no_nccl();
  if (!self.problem.empty()) throw Error(Error::Verbatim{}, Where::current(), self.problem);
  self.find_lone();
  const char* const without_gpus = self.launch && self.by_tcp() ? "tcp" : "mpi";
  if (self.is_alone()) return alone(ranks);
  if (self.comm == "auto" && self.launch) self.comm = why_not.empty() ? "nccl" : without_gpus;
  if (self.comm == "nccl" && !why_not.empty())
    fail(Where::current(), "--comm nccl: {}; threads, mpi and tcp do without GPUs", why_not);
  if (!self.link.empty()) {
    parse_link(self.link);
    if (self.comm != "tcp") fail(Where::current(), "--link slows down --comm tcp alone; add that");
  }
  if (!wants_processes()) return ranks.count;
  if (self.comm == "threads")
    fail(Where::current(),
         "{} has started this program {} times; with --comm threads start it once, without {}",
         self.launch->launcher, self.launch->size, self.launch->launcher);
  if (self.comm == "mpi" && !built_with_mpi) fail(Where::current(), "{}", no_mpi);
  if (self.comm == "mpi" && self.launch && !self.by_launcher)
    fail(Where::current(),
         "RANK and WORLD_SIZE are set, and no mpirun has started this program; --comm mpi needs "
         "mpirun, --comm tcp does without");
  if (!self.launch && (ranks.count < ranks.least || ranks.count > ranks.most))
    fail(Where::current(), "this program has from {} to {} ranks, not {}", ranks.least, ranks.most,
         ranks.count);
  const bool starts_by_tcp = !self.launch && (self.comm == "tcp" || !built_with_mpi);
  if (!built_with_zmq() && (self.comm == "tcp" || starts_by_tcp || (self.launch && self.by_tcp())))
    fail(Where::current(), "{}", no_zmq);
  if (starts_by_tcp) become_launcher(ranks, argc, argv);
  if (!self.launch) become_mpirun(ranks, argc, argv);
  self.join();
  const int64_t size = self.epochs ? self.launch->size : self.processes->size();
  if (ranks.given != nullptr && ranks.count != size)
    fail(Where::current(),
         "{} asks for {} ranks, but {} has started {} processes; start {} of them, or leave out {}",
         ranks.given, ranks.count, self.launch->launcher, size, ranks.count, ranks.given);
  if (size < ranks.least || size > ranks.most)
    fail(Where::current(), "this program has from {} to {} ranks; {} has started {} processes",
         ranks.least, ranks.most, self.launch->launcher, size);
  return size;
}

bool CommChoice::has_gpus() const { return state_->processes && state_->comm == "nccl"; }

bool CommChoice::is_first() const {
  if (state_->epochs) return state_->epochs->is_first();
  return !state_->processes || state_->processes->rank() == 0;
}

int CommChoice::finish(const std::string& error) {
  // A process that has lost another prints so itself: process 0, the only one that prints, may be
  // the lost one. (mpirun names lost processes by itself, and so does --comm tcp's starter.)
  const auto unmute_if_lost = [&] {
    if (state_->processes && state_->processes->lost() && state_->tcp_processes != nullptr &&
        !state_->tcp_processes->has_starter())
      console::muted() = false;
  };
  unmute_if_lost();
  if (!state_->processes) {
    if (!error.empty() && !state_->epochs) state_->say_before_joined(error);
    if (!error.empty() && state_->epochs) console::error(error);
    return error.empty() ? 0 : 1;
  }
  if (!error.empty()) console::error(error);
  const std::vector<std::string> others = state_->processes->end(console::without_place(error));
  const bool lost_at_end = error.empty() && state_->processes->lost();
  if (lost_at_end) {
    unmute_if_lost();
    console::error(
        state_->tcp_processes != nullptr
            ? state_->tcp_processes->describe_lost()
            : "a process ended at the very end without reporting an error: was it killed?");
  }
  if (!lost_at_end) state_->say_joined(console::without_place(error), others);
  state_->tcp_processes = nullptr;
  state_->processes.reset();
  return error.empty() && !lost_at_end ? 0 : 1;
}

}  // namespace yotta
