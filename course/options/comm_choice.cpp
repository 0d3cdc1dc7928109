#include "course/options/comm_choice.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "course/options/console.hpp"
#include "course/options/options.hpp"
#include "course/options/said_once.hpp"
#include "yotta/comm/mpi/mpi_ranks.hpp"
#include "yotta/comm/nccl/nccl.hpp"
#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/comm/sockets/run_members.hpp"
#include "yotta/comm/sockets/socket_epochs.hpp"
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
           "{}; --share-gpu puts all ranks on the first GPU, --comm mpi or processes does without",
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

// RANK and WORLD_SIZE, as torchrun sets them.
std::optional<LaunchEnvironment> find_rank_and_size() {
  const char *const rank = std::getenv("RANK"), *const size = std::getenv("WORLD_SIZE");
  if (size == nullptr) return {};
  const int64_t ranks = whole_number_of(size).value_or(0);
  if (ranks < 1 && rank == nullptr) return {};
  if (ranks < 1)
    fail(Where::current(), "WORLD_SIZE is \"{}\": it should be a number of ranks, 1 or more", size);
  const int64_t own = rank == nullptr ? 0 : whole_number_of(rank).value_or(-1);
  if (own < 0 || own >= ranks)
    fail(Where::current(), "RANK is {}, but WORLD_SIZE is {}: ranks are 0 to {}", rank, ranks,
         ranks - 1);
  if (rank == nullptr && ranks > 1) return {};
  return LaunchEnvironment{static_cast<int>(own), static_cast<int>(ranks), "WORLD_SIZE"};
}

// The same variables, as run_processes and run_members set them. (A spare's rank is the number of
// ranks.)
LaunchEnvironment place_by_starter() {
  const auto number = [](const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? 0 : std::atoi(text);
  };
  return {number("RANK"), number("WORLD_SIZE"), "--comm processes"};
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
    const LaunchResult result = run_members(
        n, ranks.epochs, program,
        {.spares = ranks.spares, .patience = ranks.patience, .all_wait = ranks.all_wait});
    if (result.status != 0 && ranks.failed) ranks.failed(result.status, result.text);
    end_as(result);
  }
  end_as(run_processes(n, program, ranks.signal_seen));
}

}  // namespace

struct CommChoice::State {
  std::string comm = "auto";
  bool shares_gpu = false;
  std::string link;                                 // --link
  std::shared_ptr<JobLine> line = JobLine::find();  // to the starter; null: another launcher's
  std::optional<LaunchEnvironment> launch = find_launch_environment();
  bool by_launcher = launch.has_value();  // by mpirun or srun
  bool is_lone = false;                   // WORLD_SIZE=1, and no more
  std::unique_ptr<ProcessRanks> processes;
  std::unique_ptr<SocketEpochs> epochs;  // in place of processes: they come and go
  int own_stdout = -1;                   // of a process that is mute now

  State() {
    if (line == nullptr) return;
    launch = place_by_starter();
    by_launcher = false;
  }
  // RANK and WORLD_SIZE alone, when nothing else has said what the ranks are. WORLD_SIZE=1 needs no
  // more. Errors: two ranks or more, which would each run the whole program.
  void find_lone() {
    if (launch || comm == "threads") return;
    const std::optional<LaunchEnvironment> lone = find_rank_and_size();
    if (!lone || (lone->size == 1 && comm != "auto")) return;
    launch = lone;
    is_lone = lone->size == 1;
    if (!is_lone)
      fail(Where::current(),
           "RANK and WORLD_SIZE={} are set, as torchrun does, but processes that are started one "
           "by one do not find each other: start the program once with --comm processes, by mpirun "
           "on several machines, or with --comm threads",
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
    return fmt::format("launcher {}", by_launcher ? find_launcher() : getppid());
  }
  // The error of a process that has not found the others: once for all of this machine that have
  // the same one. (They do not know of each other; the process that has started them may.)
  void say_before_joined(const std::string& error) const {
    const int rank = launch ? launch->rank : 0;
    console::muted() = false;
    if (!is_one_of_many()) return console::error(error);
    if (line != nullptr) return line->say(error);
    OwnWords words(rank);
    if (words.say(error)) return;
    say_once(job(), error, launch->size - 1,
             [&] { console::error(rank > 0 ? fmt::format("rank {}: {}", rank, error) : error); });
  }
  // The errors of processes that have found each other: rank 0 prints each once.
  void say_joined(const std::string& error, const std::vector<std::string>& all) const {
    if (processes->rank() > 0) return;
    for (auto each = all.begin(); each != all.end(); ++each)
      if (!each->empty() && *each != error && std::find(all.begin(), each, *each) == each)
        console::error(fmt::format("rank {}: {}", each - all.begin(), *each));
  }
  // Of the processes of a job only the first rank of each epoch prints.
  void be_heard(bool heard) const {
    std::fflush(stdout);
    if (heard && console::muted()) dup2(own_stdout, STDOUT_FILENO);
    if (!heard && !console::muted()) console::mute();
    console::muted() = !heard;
  }
  void join() {
    const LinkSpeed speed = link.empty() ? LinkSpeed{} : parse_link(link);
    epochs = SocketEpochs::find([this](int rank) { be_heard(rank == 0); }, speed);
    if (epochs) return;
    ProcessRanksOptions options = options_of(comm == "nccl", shares_gpu);
    if (line == nullptr) {
      processes = join_by_mpi(std::move(options));
      return;
    }
    processes = std::make_unique<SocketRanks>(
        SocketRanksOptions{std::move(options), {.compare_calls = true}, speed}, Where::current());
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
    state_->say_before_joined(
        problem.starts_with("--comm: tcp ")
            ? "--comm tcp is --comm processes now, on one machine; on several take --comm mpi"
            : problem + "\nRun with --help for more information.");
  });
  options.add("--comm", state_->comm,
              "what ranks are: threads, processes (of this machine; starts them), mpi (processes; "
              "starts mpirun if need be), nccl (GPUs); auto: threads, or the processes of mpirun "
              "or srun, with GPUs where they are",
              one_of({"auto", "threads", "processes", "mpi", "nccl"}));
  options.add_flag(
      "--share-gpu", state_->shares_gpu,
      "with --comm nccl: all ranks on the first GPU, over sockets; for correctness only");
  options.add("--link", state_->link,
              "with --comm processes: slows down what each sends, to 20Mbit/s or 1Gbit/s,50ms "
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
  self.find_lone();
  const char* const without_gpus = self.line != nullptr ? "processes" : "mpi";
  if (self.is_alone()) return alone(ranks);
  if (self.comm == "auto" && self.launch) self.comm = why_not.empty() ? "nccl" : without_gpus;
  if (self.comm == "nccl" && !why_not.empty())
    fail(Where::current(), "--comm nccl: {}; threads, processes and mpi do without GPUs", why_not);
  if (!self.link.empty()) {
    parse_link(self.link);
    if (self.comm != "processes")
      fail(Where::current(), "--link slows down --comm processes alone; add that");
  }
  if (!wants_processes()) return ranks.count;
  if (self.comm == "threads")
    fail(Where::current(),
         "{} has started this program {} times; with --comm threads start it once, without {}",
         self.launch->launcher, self.launch->size, self.launch->launcher);
  if (self.comm == "mpi" && !built_with_mpi) fail(Where::current(), "{}", no_mpi);
  if (self.comm == "processes" && self.by_launcher)
    fail(Where::current(),
         "{} has started this program {} times; with --comm processes start it once, without {}",
         self.launch->launcher, self.launch->size, self.launch->launcher);
  if (!self.launch && (ranks.count < ranks.least || ranks.count > ranks.most))
    fail(Where::current(), "this program has from {} to {} ranks, not {}", ranks.least, ranks.most,
         ranks.count);
  const bool starts_own = !self.launch && (self.comm == "processes" || !built_with_mpi);
  if (starts_own) become_launcher(ranks, argc, argv);
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
  if (!state_->processes) {
    if (!error.empty() && !state_->epochs) state_->say_before_joined(error);
    if (!error.empty() && state_->epochs) console::error(error);
    return error.empty() ? 0 : 1;
  }
  if (!error.empty()) console::error(error);
  const std::vector<std::string> others = state_->processes->end(console::without_place(error));
  const bool lost_at_end = error.empty() && state_->processes->lost();
  if (lost_at_end && !state_->processes->describe_lost().empty())
    console::error(state_->processes->describe_lost());
  else if (lost_at_end)
    console::error("a process ended at the very end without reporting an error: was it killed?");
  if (!lost_at_end) state_->say_joined(console::without_place(error), others);
  state_->processes.reset();
  return error.empty() && !lost_at_end ? 0 : 1;
}

}  // namespace yotta
