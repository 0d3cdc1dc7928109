// The main() of every test program. Beside doctest's own report it leaves a record of what became
// of each case, one tab-separated line each, in the file that YOTTA_TEST_RECORD names:
//
//     start   <case>              written before it runs, so that a crash can be named
//     passed  <case>
//     failed  <case>
//     skipped <case>   <reason>
//     end                         the program came to its end
//
// A case that checks nothing fails: it could never turn red.
// Cases of the suite "long" are left out unless YOTTA_TEST_LONG is set, as `./yotta test --long`
// does. Under MPI every rank runs all cases, and rank r > 0 adds ".r" to the file's name. With
// YOTTA_TEST_ON_PROCESSES the processes are the ranks of run_ranks. With YOTTA_TEST_ON_SOCKETS
// they are so without MPI: the program starts YOTTA_TEST_PROCESSES copies of itself. With
// YOTTA_TEST_ON_NCCL, too, these share the first GPU, and NCCL moves what is sent and reduced.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "support/not_run.hpp"

#ifdef YOTTA_HAVE_MPI
#include <mpi.h>
#endif
#ifdef YOTTA_TEST_ON_PROCESSES
#include "yotta/comm/mpi/mpi_ranks.hpp"
#endif
#ifdef YOTTA_TEST_ON_SOCKETS
#include "yotta/comm/sockets/socket_ranks.hpp"
#endif
#ifdef YOTTA_TEST_ON_NCCL
#include "support/longest_wait.hpp"
#include "support/on_cuda.hpp"
#include "support/ranks_here.hpp"
#include "yotta/comm/nccl/nccl.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"
#endif

namespace yotta_test {
int processes();
bool has_native();
}  // namespace yotta_test

namespace {

int rank = 0, own_processes = 0;
std::string reason_not_run;
bool checked_nothing = false;

// The name of the record, or nothing when nobody asked for one.
std::string record_name() {
  const char* name = std::getenv("YOTTA_TEST_RECORD");
  if (name == nullptr) return "";
#ifdef YOTTA_HAVE_MPI
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
  return rank > 0 ? std::string(name) + "." + std::to_string(rank) : name;
}

// Writes the record as doctest runs the cases.
class Recorder : public doctest::IReporter {
 public:
  explicit Recorder(const doctest::ContextOptions&) {
    if (const std::string name = record_name(); !name.empty()) record_.open(name);
  }

  void test_case_start(const doctest::TestCaseData& data) override {
    case_ = data.m_name;
    reason_not_run.clear();
    line("start", case_);
  }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    namespace reason = doctest::TestCaseFailureReason;
    const bool forgiven = (stats.failure_flags & reason::CouldHaveFailedAndDid) != 0;
    if (!stats.testCaseSuccess) {
      line("failed", case_);
    } else if (!reason_not_run.empty()) {
      std::cout << "not run: " << case_ << ": " << reason_not_run << std::endl;
      line("skipped", case_, reason_not_run);
    } else if (forgiven) {
      line("skipped", case_, "failed, and is marked may_fail()");
    } else if (stats.numAssertsCurrentTest == 0) {
      checked_nothing = true;
      std::cout << "FAILED: " << case_ << ": this case checks nothing" << std::endl;
      line("failed", case_);
    } else {
      line("passed", case_);
    }
  }

  void test_case_skipped(const doctest::TestCaseData& data) override {
    if (!data.m_skip) return;  // left out by a filter on the command line
    const bool said = data.m_description != nullptr && *data.m_description != '\0';
    line("skipped", data.m_name, said ? data.m_description : "marked skip()");
  }

  void test_run_end(const doctest::TestRunStats&) override { line("end", ""); }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}

 private:
  void line(const std::string& status, const std::string& name, const std::string& reason = "") {
    if (record_) record_ << status << '\t' << name << '\t' << reason << std::endl;
  }

  std::ofstream record_;
  std::string case_;
};

int run(int argc, char** argv) {
  doctest::Context context;
  if (std::getenv("YOTTA_TEST_LONG") == nullptr) context.addFilter("test-suite-exclude", "long");
  context.applyCommandLine(argc, argv);
  const int failed = context.run();
  return failed != 0 || checked_nothing ? 1 : 0;
}

}  // namespace

REGISTER_LISTENER("record", 1, Recorder);

void yotta_test::not_run(const std::string& reason) { reason_not_run = reason; }

int yotta_test::processes() {
  int size = own_processes;
#ifdef YOTTA_TEST_ON_PROCESSES
  MPI_Comm_size(MPI_COMM_WORLD, &size);
#endif
  return size;
}

bool yotta_test::has_native() {
#ifdef YOTTA_TEST_ON_NCCL
  return true;
#else
  return own_processes == 0;
#endif
}

#ifdef YOTTA_TEST_ON_NCCL
namespace {

// Why there can be none here; empty: there can.
std::string why_no_gpu() {
  const std::string why_not = yotta::why_no_nccl();
  return why_not.empty() ? yotta::use_cuda() : why_not;
}

std::shared_ptr<yotta::Transport> by_nccl(std::shared_ptr<yotta::Transport> inner) {
  const yotta::NcclOptions options{.timeout = yotta_test::longest_wait};
  return std::make_shared<yotta_test::OnCuda>(
      yotta::make_nccl_transport(std::move(inner), options));
}

}  // namespace
#endif

int main(int argc, char** argv) {
#if defined(YOTTA_TEST_ON_SOCKETS)
  const bool is_rank = yotta::JobLine::find() != nullptr;
#ifdef YOTTA_TEST_ON_NCCL
  if (is_rank) yotta::share_gpu(std::atoi(std::getenv("RANK")));
  if (const std::string why_not = why_no_gpu(); !why_not.empty()) {
    std::cout << "not run: " << why_not << std::endl;
    return 77;
  }
#endif
  if (!is_rank) {
    const char* const wanted = std::getenv("YOTTA_TEST_PROCESSES");
    const yotta::LaunchResult end =
        yotta::run_processes(wanted == nullptr ? 3 : std::atoi(wanted), {argv, argv + argc});
    std::cout << end.text;
    return end.status;
  }
  yotta::SocketRanksOptions options;
  options.sockets.patience = 0.05;
  options.sockets.compare_calls = true;
#ifdef YOTTA_TEST_ON_NCCL
  options.wrap = by_nccl;
  yotta_test::waits_on_device() = true;
#endif
  yotta::SocketRanks job(options);
  rank = job.rank();
  own_processes = job.size();
  const int result = run(argc, argv);
  if (result == 0) return 0;
  job.end("a test has failed");  // the others' last runs end well before this process does
  std::_Exit(result);
#elif defined(YOTTA_HAVE_MPI)
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
#ifdef YOTTA_TEST_ON_PROCESSES
  yotta::MpiRanksOptions options;
  options.mpi.patience = 0.05;
  options.mpi.compare_calls = true;
  std::optional<yotta::MpiRanks> job(std::in_place, options);
  const int result = run(argc, argv);
  if (result != 0) job->end("a test has failed");  // the others' last runs end well before
  if (result == 0) job.reset();
#else
  const int result = run(argc, argv);
#endif
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, result);  // the others may wait for this rank forever
  MPI_Finalize();
  return result;
#else
  return run(argc, argv);
#endif
}
