// Does the text of a lesson still say what its program prints, and what the library's headers say?
// YOTTA_LESSON_TEXT and YOTTA_LESSON_PROGRAM name the two. Are the answers folded? `./yotta lesson
// NN --refresh` rewrites the quotes.
#include <doctest/doctest.h>

#include <string>

#include "runner/exercise.hpp"
#include "runner/lesson_answers.hpp"
#include "runner/lesson_text.hpp"
#include "support/from_ctest.hpp"

using namespace runner;
using yotta_test::from_ctest;

TEST_CASE("what the text quotes is what the program prints, with the options that it names") {
  const std::string text = from_ctest("YOTTA_LESSON_TEXT");
  const std::string program = from_ctest("YOTTA_LESSON_PROGRAM");
  std::string quoting = read_text(text);
  CHECK_MESSAGE(!find_quotes(quoting).empty(), "nothing is quoted");
  for (const std::string& complaint : compare_with_runs(quoting, program)) FAIL_CHECK(complaint);
}

TEST_CASE("what the text quotes of the library's headers stands there") {
  const std::string text = from_ctest("YOTTA_LESSON_TEXT");
  const auto complaints = compare_header_quotes(read_text(text), YOTTA_SOURCE_DIR "/include/yotta");
  for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
  CHECK(complaints.empty());
}

TEST_CASE("every item of Try and every question has its folded answer, or none has") {
  const std::string text = from_ctest("YOTTA_LESSON_TEXT");
  const auto complaints = compare_answers(read_text(text));
  for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
  CHECK(complaints.empty());
}
