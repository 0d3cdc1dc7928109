// Do the texts of a lesson still say what its program prints, and what the library's headers say?
// YOTTA_LESSON_TEXT and YOTTA_LESSON_PROGRAM name the first text and the program. Does that text
// begin with the lesson's shortest program, and are the answers folded? `./yotta lesson NN
// --refresh` rewrites the quotes.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "runner/exercise.hpp"
#include "runner/lesson_answers.hpp"
#include "runner/lesson_text.hpp"
#include "support/from_ctest.hpp"

using namespace runner;
using yotta_test::from_ctest;

namespace {

// From the first heading of a section to the second one.
std::string first_section(const std::string& page) {
  const size_t begin = page.find("\n## ");
  return begin == page.npos ? "" : page.substr(begin, page.find("\n## ", begin + 1) - begin);
}

int64_t count_options(const std::vector<Quote>& quotes, const std::string& options) {
  return std::count_if(quotes.begin(), quotes.end(),
                       [&](const Quote& quote) { return quote.options == options; });
}

}  // namespace

TEST_CASE("what the text quotes is what the program prints, with the options that it names") {
  const std::string text = from_ctest("YOTTA_LESSON_TEXT");
  const std::string program = from_ctest("YOTTA_LESSON_PROGRAM");
  CHECK_MESSAGE(!find_quotes(read_text(text)).empty(), "nothing is quoted");
  for (const std::string& each : texts_of_lesson(text)) {
    std::string quoting = read_text(each);
    if (find_quotes(quoting).empty()) continue;
    CAPTURE(each);
    for (const std::string& complaint : compare_with_runs(quoting, program)) FAIL_CHECK(complaint);
  }
}

TEST_CASE("what the text quotes of the library's headers stands there") {
  for (const std::string& text : texts_of_lesson(from_ctest("YOTTA_LESSON_TEXT"))) {
    CAPTURE(text);
    const auto complaints =
        compare_header_quotes(read_text(text), YOTTA_SOURCE_DIR "/include/yotta");
    for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
    CHECK(complaints.empty());
  }
}

TEST_CASE("the first section shows the lesson's shortest program, whole, and what it prints") {
  const std::filesystem::path text = from_ctest("YOTTA_LESSON_TEXT");
  const std::string page = read_text(text), first = first_section(page);
  CHECK_MESSAGE(find_program_quotes(first).size() == 1, "its block is ```cpp one_screen.cpp");
  CHECK_MESSAGE(count_options(find_quotes(first), "one_screen") == 1,
                "its output is ```output NN.one_screen one_screen");
  for (const std::string& complaint : compare_program_quotes(page, text.parent_path()))
    FAIL_CHECK(complaint);
}

TEST_CASE("every item of Try and every question has its folded answer, or none has") {
  for (const std::string& text : texts_of_lesson(from_ctest("YOTTA_LESSON_TEXT"))) {
    CAPTURE(text);
    const auto complaints = compare_answers(read_text(text));
    for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
    CHECK(complaints.empty());
  }
}
