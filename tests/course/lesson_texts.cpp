#include <doctest/doctest.h>

#include <stdexcept>

#include "runner/lesson_text.hpp"

using namespace runner;

namespace {
const std::string text =
    "# A lesson\n\n```output 10.ring\nring:  rank 0 sent 6000 bytes\nring:  rank 1 sent 6,000 "
    "bytes\n```\n\n"
    "```cpp\nint x;\n```\n\n```output 10.loss\nloss 2.3456 after 10 steps\n```\n";
const std::string output =
    "== The ring\nring: rank 0 sent 6000 bytes\nring: rank 1 sent 6,000 bytes\n\nloss 2.3460 after "
    "10 steps\n";

std::string replaced(std::string where, const std::string& what, const std::string& with) {
  return where.replace(where.find(what), what.size(), with);
}
}  // namespace

TEST_CASE("quotes are found with their names and places") {
  const auto quotes = find_quotes(text);
  REQUIRE(quotes.size() == 2);
  CHECK(quotes[0].name == "10.ring");
  CHECK(quotes[0].line == 4);
  CHECK(quotes[0].lines.size() == 2);
  CHECK(quotes[1].lines[0] == "loss 2.3456 after 10 steps");
  CHECK_THROWS_AS(find_quotes("```output a\nx\n"), std::runtime_error);
  CHECK_THROWS_AS(find_quotes("```output a\n```\n"), std::runtime_error);
  CHECK_THROWS_AS(find_quotes("```output a\nx\n```\n```output a\ny\n```\n"), std::runtime_error);
}

TEST_CASE("counts are compared exactly, losses to three digits, times not at all") {
  CHECK(same_line("sent 6000  bytes", "  sent 6000 bytes"));
  CHECK_FALSE(same_line("sent 6000 bytes", "sent 6001 bytes"));
  CHECK_FALSE(same_line("sent 6000 bytes", "sent 6000 Bytes"));
  CHECK_FALSE(same_line("sent 6,000", "sent 6,001"));
  CHECK(same_line("loss 2.3456", "loss 2.3460"));
  CHECK_FALSE(same_line("loss 2.3456", "loss 2.3560"));
  CHECK_FALSE(same_line("loss 2.345", "loss nan"));
  CHECK_FALSE(same_line("loss 2.5", "loss 2"));
  CHECK(same_line("1.5e-3 off", "1.5004e-3 off"));
  CHECK(same_line("took 1.5 ms, 12 tokens/s", "took 9.5 ms, 99 tokens/s"));
  CHECK(same_line("in 3 s", "in 4 s"));
  CHECK_FALSE(same_line("after 3 steps", "after 4 steps"));
  CHECK(same_line("... 0 waits for 1", "lesson.cpp:12: deadlock: rank 0 waits for 1"));
  CHECK_FALSE(same_line("... 0 waits for 1", "rank 0 waits for 1 or 2"));
  CHECK_FALSE(same_line("3 min ago", "3 max ago"));
}

TEST_CASE("a quote that the program does not print is named with what it prints instead") {
  CHECK(compare_quotes(text, output).empty());
  CHECK(compare_quotes(text, "\033[1m" + output + "\033[0m").empty());
  const auto complaints =
      compare_quotes(text, replaced(output, "rank 1 sent 6,000", "rank 1 sent 7,000"));
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0] ==
        "line 5: 10.ring\n    quoted:  ring:  rank 1 sent 6,000 bytes\n    printed: ring: rank 1 "
        "sent 7,000 bytes");
  const auto apart = compare_quotes(text, replaced(output, "bytes\nring", "bytes\n\nring"));
  REQUIRE(apart.size() == 1);
  CHECK(apart[0].find("not one after the other") != std::string::npos);
  CHECK(compare_quotes(text, "").size() == 2);
}

TEST_CASE("refreshing replaces what has changed and leaves the rest as it was") {
  CHECK(refresh_quotes(text, output) == text);
  const std::string now =
      replaced(replaced(output, "1 sent 6,000", "1 sent 7,000"), "2.3460", "1.2");
  const std::string fresh = refresh_quotes(text, now);
  CHECK(compare_quotes(fresh, now).empty());
  CHECK(fresh.find("ring: rank 1 sent 7,000 bytes\n```") != std::string::npos);
  CHECK(fresh.find("loss 1.2 after 10 steps") != std::string::npos);
  CHECK(fresh.find("```cpp\nint x;\n```") != std::string::npos);
  CHECK(refresh_quotes(text, "something else\n") == text);
}
