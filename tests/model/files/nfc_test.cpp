#include "yotta/model/files/nfc.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("text below U+0300 is composed already, with or without utf8proc") {
  CHECK(to_nfc("", "x").empty());
  CHECK(to_nfc("plain\n\n text\n", "x") == "plain\n\n text\n");
  const std::string latin = "caf\xC3\xA9 \xCB\xBF";  // up to U+02FF
  CHECK(to_nfc(latin, "x") == latin);
}

TEST_CASE("letters and accents become one letter, in each line") {
  if (!has_nfc()) YOTTA_NOT_RUN("utf8proc is not installed (apt-get install libutf8proc-dev)");
  CHECK(to_nfc("e\xCC\x81\na\ne\xCC\x81", "x") == "\xC3\xA9\na\n\xC3\xA9");
  CHECK(to_nfc("a\n\xCC\x81", "x") == "a\n\xCC\x81");             // an accent has no letter there
  CHECK(to_nfc("\xE2\x84\xAB", "x") == "\xC3\x85");               // the sign of Angstrom
  CHECK(to_nfc("a\xCC\x80\xCC\x96", "x") == "\xC3\xA0\xCC\x96");  // in another order
  const std::string syllable = "\xEA\xB0\x80", vowel = "\xE1\x86\xA7";
  CHECK(to_nfc("\xE1\x84\x80\xE1\x85\xA1", "x") == syllable);  // Hangul, from its letters
  CHECK(to_nfc(syllable + vowel + vowel, "x") == syllable + vowel + vowel);
}

TEST_CASE("without utf8proc a text that may have to be composed is refused") {
  const std::string said = message_of([] { to_nfc("a\ne\xCC\x81", "lab: normalizer"); });
  CHECK(has_nfc() == (said == "nothing was thrown"));
  CHECK((has_nfc() || contains(said, "apt-get install libutf8proc-dev")));
}
