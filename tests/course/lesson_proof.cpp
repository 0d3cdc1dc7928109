// Does the text of a lesson still say what its program prints? YOTTA_LESSON_TEXT and YOTTA_LESSON_PROGRAM
// name the two. `./yotta lesson NN --refresh` rewrites the quotes.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/lesson_text.hpp"

using namespace runner;

TEST_CASE("what the text quotes is what the program prints") {
  const char* text = std::getenv("YOTTA_LESSON_TEXT");
  const char* program = std::getenv("YOTTA_LESSON_PROGRAM");
  REQUIRE(text != nullptr);
  REQUIRE(program != nullptr);
  const Ending ending = run_limited({program}, 100);
  REQUIRE_MESSAGE(ending.well(), ending.output);
  CHECK_MESSAGE(!find_quotes(read_text(text)).empty(), "nothing is quoted");
  for (const std::string& complaint : compare_quotes(read_text(text), ending.output))
    FAIL_CHECK(complaint);
}
