// The main() of every test program. Beside doctest's own report it leaves a record of what became of each
// case, one tab-separated line each, in the file that YOTTA_TEST_RECORD names:
//
//     start   <case>              written before it runs, so that a crash can be named
//     passed  <case>
//     failed  <case>
//     skipped <case>   <reason>
//     end                         the program came to its end
//
// A case that checks nothing fails: it could never turn red.
// Under MPI every rank runs all cases, and rank r > 0 adds ".r" to the file's name. With YOTTA_TEST_ON_PROCESSES the
// processes are the ranks of run_ranks.
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
#include "yotta/comm/mpi_ranks.hpp"
#endif

namespace yotta_test {
int processes();
}

namespace {

std::string reason_not_run;
bool checked_nothing = false;

// The name of the record, or nothing when nobody asked for one.
std::string record_name() {
  const char* name = std::getenv("YOTTA_TEST_RECORD");
  if (name == nullptr) return "";
#ifdef YOTTA_HAVE_MPI
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank > 0) return std::string(name) + "." + std::to_string(rank);
#endif
  return name;
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
  doctest::Context context(argc, argv);
  const int failed = context.run();
  return failed != 0 || checked_nothing ? 1 : 0;
}

}  // namespace

REGISTER_LISTENER("record", 1, Recorder);

void yotta_test::not_run(const std::string& reason) { reason_not_run = reason; }

int yotta_test::processes() {
  int size = 0;
#ifdef YOTTA_TEST_ON_PROCESSES
  MPI_Comm_size(MPI_COMM_WORLD, &size);
#endif
  return size;
}

int main(int argc, char** argv) {
#ifdef YOTTA_HAVE_MPI
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
#ifdef YOTTA_TEST_ON_PROCESSES
  yotta::MpiRanksOptions options;
  options.mpi.patience = 0.05;
  options.mpi.compare_calls = true;
  std::optional<yotta::MpiRanks> job(std::in_place, options);
  const int result = run(argc, argv);
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
