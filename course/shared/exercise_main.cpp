// The main() of every program of graded cases:  program RECORD [EXCLUDED [list | empty]]
//
// RECORD receives a tab-separated line as each case starts and ends, with the message of a failure (its
// line breaks written "\n"):
//
//     8be2  start   10.1: every rank ends with its chunk
//     c01f  failed  10.1: every rank ends with its chunk     rank 0's chunk: every chunk is shifted ...
//     337a  end
//
// Each line begins with a word and a tabulator. The words stand in the file RECORD.words, one for every line of the record, if
// there is that file; it is read and removed before any code of a student's runs. A student's program may write into the
// record what it likes: it does not know the words that are still to come.
//
// EXCLUDED names cases to leave out, separated by commas. With "list" no case runs: each has a line "listed". With "empty"
// not_done does nothing. Signals are not caught: whoever runs the program wants to see them.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "yotta/core/exercise.hpp"

namespace {

// No object with a constructor: that would run too late.
char words[1 << 16];

// The system runs what is in this section before all constructors, those of a student's globals too.
void take_words(int argc, char** argv, char**) {
  char path[4096];
  if (argc < 2 || std::snprintf(path, sizeof path, "%s.words", argv[1]) >= int(sizeof path)) return;
  const int file = open(path, O_RDONLY);
  if (file < 0) return;
  size_t size = 0;
  for (ssize_t more = 1; more > 0; size += more > 0 ? static_cast<size_t>(more) : 0)
    more = read(file, words + size, sizeof words - 1 - size);
  close(file);
  unlink(path);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const take_words_first)(int, char**,
                                                                             char**) = take_words;

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

  void report_query(const doctest::QueryData& query) override {
    for (unsigned i = 0; i < query.num_data; ++i) {
      case_ = query.data[i]->m_name;
      line("listed", "");
    }
  }
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  void say(const std::string& text) { message_ += (message_.empty() ? "" : "\n") + text; }
  void line(const std::string& what, const std::string& message) {
    const char* const end = std::strchr(next_word_, '\n');
    record_ << std::string(next_word_, end == nullptr ? next_word_ : end) << '\t' << what << '\t'
            << case_ << '\t' << one_line(message) << std::endl;
    if (end != nullptr) next_word_ = end + 1;
  }

  std::ofstream record_;
  const char* next_word_ = words;
  std::string case_, message_;
};

}  // namespace

REGISTER_REPORTER("record", 0, Recorder);

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "the first argument is the file that the record goes to\n");
    return 2;
  }
  record_path = argv[1];
  doctest::Context context;
  context.addFilter("reporters", "record");
  if (argc > 2 && *argv[2] != '\0') context.addFilter("test-case-exclude", argv[2]);
  const std::string how = argc > 3 ? argv[3] : "";
  if (how == "list") context.setOption("list-test-cases", true);
  yotta::ignore_not_done = how == "empty";
  return context.run();
}
