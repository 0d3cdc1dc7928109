#include "yotta/model/files/split_regex.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;
using Words = std::vector<std::string>;

namespace {

#define NEEDS_PCRE2 \
  if (!has_split_regex()) YOTTA_NOT_RUN("PCRE2 is not installed (apt-get install libpcre2-dev)")

Words words(const std::string& pattern, const std::string& text,
            SplitRegex::Kind kind = SplitRegex::Kind::regex) {
  Words all;
  SplitRegex(pattern, kind, "lab").split(text, [&](std::string_view word) {
    all.emplace_back(word);
  });
  return all;
}
std::string refusal(const std::string& pattern) {
  return message_of([&] { to_pcre2(pattern, "lab: pre_tokenizer"); });
}

const std::string gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string space = "\\t-\\r\\x{85}\\p{Z}";

}  // namespace

TEST_CASE("an expression keeps its meaning in PCRE2's words") {
  CHECK(to_pcre2("a|b.c*?d++(?:e)(?i:f)(?=g)(?!h)(?<=i)(?<!j)(k)", "") ==
        "a|b.c*?d++(?:e)(?i:f)(?=g)(?!h)(?<=i)(?<!j)(k)");
  CHECK(to_pcre2("\\s\\S[\\s\\d\\D]\\d", "") ==
        "[" + space + "][^" + space + "][" + space + "\\p{Nd}\\P{Nd}]\\p{Nd}");
  CHECK(to_pcre2("\\p{Lu}\\P{N}[^\\p{M}]\\r\\n\\t\\.\\[\\ ", "") ==
        "\\p{Lu}\\P{N}[^\\p{M}]\\r\\n\\t\\.\\[\\ ");
  CHECK(to_pcre2("\\p{N}{1,3}x{2}y{2,}[a-z*+?{^$]", "") == "\\p{N}{1,3}x{2}y{2,}[a-z*+?{^$]");
}

TEST_CASE("what Oniguruma and PCRE2 read differently is refused, and where it stands") {
  CHECK(contains(refusal("ab\\w"),
                 "lab: pre_tokenizer: the expression 'ab\\w' holds '\\w' at byte 2"));
  const Words refused = {
      "^a",    "a$",      "\\b",     "\\h",    "\\A",     "\\z",      "\\R",       "\\X",
      "\\K",   "\\1",     "\\x41",   "\\v",    "\\",      "\\pL",     "\\p{Han}",  "\\p{^L}",
      "\\p{L", "\\p{}",   "[[:a:]]", "[a[b]]", "[a&&b]",  "[]a]",     "[^]a]",     "[\\S]",
      "[\\b]", "(?<n>a)", "(?m)a",   "(?#c)a", "(*UTF)a", "(?P<n>a)", "a{,3}",     "a{2}+",
      "a{2}?", "a{",      "a{2,3",   "a{x}",   "(?-i:a)", "(?R)",     "\\\xC3\xA9"};
  for (const std::string& pattern : refused) {
    CAPTURE(pattern);
    CHECK(contains(refusal(pattern), "which is not among what is supported"));
  }
  CHECK(contains(refusal("\x1B\\w"), "'\\u001b"));  // no colours in a terminal
}

TEST_CASE("matches and what lies between them are words, and nothing is lost") {
  NEEDS_PCRE2;
  CHECK(words(gpt2, "I'll  go!") == Words{"I", "'ll", " ", " go", "!"});
  CHECK(words(gpt2, "").empty());
  CHECK(words("b+", "abbac") == Words{"a", "bb", "ac"});
  CHECK(words("b", "bb") == Words{"b", "b"});
  CHECK(words("a.c", "xa.cabc", SplitRegex::Kind::literal) == Words{"x", "a.c", "abc"});
  CHECK(words("(?<=a)b", "bab") == Words{"ba", "b"});
  CHECK(words("(a)(b)(c)", "xabc") == Words{"x", "abc"});  // groups
}

TEST_CASE("space is Unicode's White_Space: U+0085 is, U+180E is not") {
  NEEDS_PCRE2;
  int spaces = 0;
  const SplitRegex regex("\\s", SplitRegex::Kind::regex, "lab");
  for (uint32_t code = 1; code < 0x3100; ++code) {
    std::string text;
    if (code < 0x80)
      text = {static_cast<char>(code)};
    else if (code < 0x800)
      text = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    else
      text = {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
              static_cast<char>(0x80 | (code & 63))};
    int parts = 0;
    regex.split("a" + text + "b", [&](std::string_view) { ++parts; });
    spaces += parts == 3;
  }
  CHECK(spaces == 25);
  CHECK(words("\\s+",
              "a\xC2\x85"
              "b") == Words{"a", "\xC2\x85", "b"});
  CHECK(words("\\s+",
              "a\xE1\xA0\x8E"
              "b") == Words{"a\xE1\xA0\x8E"
                            "b"});
}

TEST_CASE("expressions that are none, that match nothing, or that never end") {
  NEEDS_PCRE2;
  const auto said = [](const std::string& pattern, const std::string& text) {
    return message_of([&] { words(pattern, text); });
  };
  CHECK(contains(said("(a", "x"), "lab: the expression '(a' is not one: "));
  CHECK(contains(said("[a", "x"), "is not one: "));
  CHECK(contains(said("a\xFF", "x"), "is not one: "));
  CHECK(contains(said(std::string(100000, '('), "x"), "is not one: "));
  for (const char* pattern : {"a*", "(?=a)", "a|", ""})
    CHECK(contains(said(pattern, "x"), "can match nothing"));
  CHECK(contains(said("(?:a|a)+b", std::string(60, 'a') + "xb"),
                 "was given up at byte 0 of a text of 62"));
}

TEST_CASE("a text without a place to cut takes one pass") {
  NEEDS_PCRE2;
  for (const std::string& text : {std::string(2'000'000, ' ') + "x", std::string(2'000'000, 'a')})
    CHECK(words(gpt2, text).size() <= 2);
  const std::string llama =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(words(llama, std::string(12'000'000, ' ') + "x").size() == 2);
  CHECK(words(llama, std::string(2'000'000, '\n') + "x").size() == 2);
}

TEST_CASE("with PCRE2 an expression can be made; without, the error says what to install") {
  const std::string said = message_of([] { SplitRegex("a", SplitRegex::Kind::regex, "lab"); });
  CHECK(has_split_regex() == (said == "nothing was thrown"));
  CHECK((has_split_regex() || contains(said, "apt-get install libpcre2-dev")));
}
