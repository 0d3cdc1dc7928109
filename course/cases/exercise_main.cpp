// The main() of every program of graded cases:  program [CHANNEL [EXCLUDED [list | empty]]]
//
// CHANNEL is the number of an open descriptor, by which the grader first sends a key. The program
// answers there with its record (course/cases/record.hpp): a line as each case starts and ends.
// Without CHANNEL the record goes to standard output, and there is no key.
//
// The key is read before any code of a student's can run, the constructors of global objects too.
// The program ends as soon as the record is closed: destructors and threads that a student's code
// has left behind do not run any more.
//
// EXCLUDED names cases to leave out, separated by commas. With "list" no case runs: each has a line
// "listed". With "empty" not_done does nothing. The variable YOTTA_CASES is a filter of cases, of
// which those that YOTTA_OTHER_CASES names are left out; then it ends with the first that fails.
// Signals are not caught: whoever runs the program wants to see them.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "course/cases/record.hpp"
#include "yotta/core/cpu/block_cache.hpp"
#include "yotta/core/exercise.hpp"

// There is one when the solution is instrumented (`./yotta check --asan`), else its address is
// null.
extern "C" [[gnu::weak]] void __asan_init();

namespace {

// What not_done throws, compiled here: linked before the body in files of kernels, whose accesses
// the emulator takes for a kernel's.
[[gnu::used]] yotta::Error error_of_no_kernel(yotta::Where where) { return {where, ""}; }

// No objects with constructors: those would run too late.
int channel = STDOUT_FILENO;
char key[record::key_letters + 1];

// The system runs what is in this section before all constructors, those of a student's globals
// too.
void take_key(int argc, char** argv, char**) {
  if (argc < 2) return;
  channel = std::atoi(argv[1]);
  for (size_t size = 0; size < record::key_letters;) {
    const ssize_t more = read(channel, key + size, record::key_letters - size);
    if (more <= 0) return;
    size += static_cast<size_t>(more);
  }
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const take_key_first)(int, char**,
                                                                           char**) = take_key;

class Recorder : public doctest::IReporter {
 public:
  explicit Recorder(const doctest::ContextOptions&) : digests_(key) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    case_ = data.m_name;
    message_.clear();
    line("start", "");
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    const bool checked = stats.numAssertsCurrentTest > 0;
    if (stats.testCaseSuccess && !checked) message_ = "this case checks nothing";
    line(stats.testCaseSuccess && checked ? "passed" : "failed", message_);
  }
  void test_case_exception(const doctest::TestCaseException& error) override {
    say(error.error_string.c_str());
  }
  void log_assert(const doctest::AssertData& data) override {
    if (data.m_failed) say(std::string(data.m_expr) + ", but " + data.m_decomp.c_str());
  }
  void log_message(const doctest::MessageData& data) override { say(data.m_string.c_str()); }
  void test_run_end(const doctest::TestRunStats&) override { close(); }

  void report_query(const doctest::QueryData& query) override {  // instead of a run
    for (unsigned i = 0; i < query.num_data; ++i) {
      case_ = query.data[i]->m_name;
      line("listed", "");
    }
    close();
  }
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  void say(const std::string& text) { message_ += (message_.empty() ? "" : "\n") + text; }
  void line(const std::string& what, const std::string& message) {
    const std::string text = record::sealed({what, case_, message}, digests_);
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t more = write(channel, text.data() + sent, text.size() - sent);
      if (more < 0) _exit(3);  // nobody listens any more
      sent += static_cast<size_t>(more);
    }
  }

  void close() {
    case_.clear();
    line("end", "");
  }

  record::Digests digests_;
  std::string case_, message_;
};

}  // namespace

REGISTER_REPORTER("record", 0, Recorder);

int main(int argc, char** argv) {
  doctest::Context context;
  context.addFilter("reporters", "record");
  if (argc > 2 && *argv[2] != '\0') context.addFilter("test-case-exclude", argv[2]);
  if (const char* const cases = std::getenv("YOTTA_CASES")) {
    const char* const others = std::getenv("YOTTA_OTHER_CASES");
    context.addFilter("test-case", cases);
    if (others != nullptr && *others != '\0') context.addFilter("test-case-exclude", others);
    context.setOption("abort-after", 1);
  }
  const std::string how = argc > 3 ? argv[3] : "";
  const char* const list[] = {"", "--list-test-cases"};  // which setOption does not know
  if (how == "list") context.applyCommandLine(2, list);
  // Memory of tensors that is kept to be used again looks as if it were not freed.
  if (__asan_init != nullptr) yotta::BlockCache::keep_nothing();
  yotta::ignore_not_done = how == "empty";
  if (how == "reference") unsetenv("YOTTA_TOLD");  // the library does what the usual statement says
  const int status = context.run();
  std::fflush(nullptr);
  _exit(status);
}
