// The main() of every program of graded cases:  program RECORD [EXCLUDED]
//
// RECORD receives a tab-separated line as each case starts and ends, with the message of a failure (its
// line breaks written "\n"):
//
//     start   10.1: every rank ends with its chunk
//     failed  10.1: every rank ends with its chunk     rank 0's chunk: every chunk is shifted ...
//     end
//
// EXCLUDED names cases to leave out, separated by commas. Signals are not caught: whoever runs the
// program wants to see them.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace {

std::string record_path;

std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return line;
}

class Recorder : public doctest::IReporter {
 public:
  explicit Recorder(const doctest::ContextOptions&) : record_(record_path) {}

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
  void test_run_end(const doctest::TestRunStats&) override {
    case_.clear();
    line("end", "");
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  void say(const std::string& text) { message_ += (message_.empty() ? "" : "\n") + text; }
  void line(const std::string& what, const std::string& message) {
    record_ << what << '\t' << case_ << '\t' << one_line(message) << std::endl;
  }

  std::ofstream record_;
  std::string case_, message_;
};

}  // namespace

REGISTER_REPORTER("record", 0, Recorder);

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  record_path = argv[1];
  doctest::Context context;
  context.addFilter("reporters", "record");
  if (argc > 2 && *argv[2] != '\0') context.addFilter("test-case-exclude", argv[2]);
  return context.run();
}
