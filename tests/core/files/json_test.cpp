#include "yotta/core/files/json.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
std::string problem_of(const std::string& text) {
  try {
    parse_json(text);
  } catch (const JsonProblem& problem) {
    return problem.what();
  }
  return "nothing was thrown";
}
std::string nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}
}  // namespace

TEST_CASE("what is read is what nlohmann::json reads") {
  for (const char* text :
       {"{}", "[]", "3", "-3", "18446744073709551615", "2.5e3", "\"g\\u00e9nial\"", "null",
        R"({"a": [1, [2, {"b": [], "c": {}}], true], "b": {"a": "x"}, "": null})"})
    CHECK(parse_json(text) == nlohmann::json::parse(text));
}

TEST_CASE("however deep it is nested, the limit is said and nothing overflows") {
  for (const auto& [open, close] : {std::pair{"[", "]"}, {"{\"a\":", "}"}}) {
    CHECK(problem_of(nested(most_json_depth, open, close)) == "nothing was thrown");
    for (const size_t depth : {most_json_depth + 1, size_t{200'000}})
      CHECK(problem_of(nested(depth, open, close)) == "it is nested more than 64 deep");
    CHECK(problem_of(nested(200'000, open, "")) == "it is nested more than 64 deep");
  }
}

TEST_CASE("what has no value, or two, is refused with the reason, in printable letters") {
  CHECK(contains(problem_of("{\"a\": 1e400}"), "number overflow parsing '1e400'"));
  CHECK(problem_of("{\"a\": 1, \"a\": 1}") == "the name 'a' appears twice");
  CHECK(problem_of("{\"b\": {\"a\\u001b[2J\": 1, \"a\\u001b[2J\": 1}}") ==
        "the name 'a\\u001b[2J' appears twice");
  CHECK(problem_of("{\"a\": {}, \"b\": {\"a\": 1}}") == "nothing was thrown");
  const std::string bytes = problem_of("[\n\"x\xFF\x1B[2J\"]");
  CHECK(contains(bytes, "parse error at line 2, column 3"));
  CHECK(contains(bytes, "ill-formed UTF-8"));
  CHECK(contains(problem_of("[\"\x1B[2J\"]"), "control character"));
  CHECK(contains(problem_of(""), "parse error"));
  CHECK(contains(problem_of("[1, 2"), "parse error"));
  for (const std::string& text : {bytes, problem_of("\x1B[2J"), problem_of("\xFF\xFE"),
                                  problem_of(std::string("\"a\0b\"", 5))})
    CHECK_FALSE(has_control_characters(text));
}

TEST_CASE("a text is read in time that grows with its length, up to so many names") {
  const auto with_names = [](size_t count) {
    std::string text = "{";
    for (size_t i = 0; i < count; ++i) text += fmt::format("{}\"{}\":{{}}", i > 0 ? "," : "", i);
    return text + "}";
  };
  CHECK(parse_json(with_names(80'000)).size() == 80'000);  // a quadratic reader: minutes
  std::string many = "[{}";
  const std::string next = "," + with_names(10'000);
  for (int i = 0; i < 101; ++i) many += next;
  CHECK(problem_of(many + "]") == "it holds more than 1000000 names");
}

TEST_CASE("names from files are shown without what terminals obey") {
  CHECK(visible("g\xC3\xA9nial \"x\"") == "g\xC3\xA9nial \"x\"");
  CHECK(visible("a\x1B[2J\n\x7F") == "a\\u001b[2J\\n\\u007f");
  CHECK(visible("\xC2\x9B"
                "2J") == "\\u009b2J");
  CHECK(json_excerpt("a\nb") == "\"a\\nb\"");
  CHECK(json_excerpt(std::string(1000, 'x')).size() == 63);
}

TEST_CASE("a file that is too large for JSON is not read") {
  const TemporaryFolder folder;
  write_file(folder / "a", "{}");
  CHECK(read_json_text(folder / "a") == "{}");
  std::filesystem::resize_file(folder / "a", 200'000'000'000);  // a hole
  CHECK(contains(message_of([&] { read_json_text(folder / "a"); }),
                 "a: this file has 200000000000 bytes, and a JSON file 100000000 at most"));
}
