#include "yotta/comm/processes/rank_words.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <memory>

using namespace yotta;

namespace {

// Ranks that find these words, as if they had been started with them.
class Started {
 public:
  explicit Started(const RankWords& words) { setenv(words_variable, words.name().c_str(), 1); }
  ~Started() { unsetenv(words_variable); }
};

}  // namespace

TEST_CASE("the starter knows which ranks have ended well") {
  RankWords words(3);
  const Started started(words);
  OwnWords zero(0);
  {
    OwnWords two(2);
    two.say_well();
  }
  words.read(1000);
  CHECK(zero.has_listener());
  CHECK_FALSE(words.ended_well(0));
  CHECK(words.ended_well(2));
  zero.say_well();
  words.read(1000);
  CHECK(words.ended_well(0));
}

TEST_CASE("what several ranks say is printed once, with its lines") {
  RankWords words(3);
  const Started started(words);
  OwnWords zero(0), one(1);
  CHECK(zero.say("two\nlines"));
  CHECK(one.say("two\nlines"));
  CHECK(one.say("another"));
  words.read(1000);
  CHECK(words.said().size() == 2);
  CHECK(std::count(words.said().begin(), words.said().end(), "two\nlines") == 1);
}

TEST_CASE("without a starter, or after its end, nobody listens") {
  unsetenv(words_variable);
  OwnWords alone(0);
  CHECK_FALSE(alone.has_listener());
  CHECK_FALSE(alone.say("an error"));
  CHECK_NOTHROW(alone.say_well());
  auto words = std::make_unique<RankWords>(1);
  const Started started(*words);
  words.reset();
  CHECK_FALSE(OwnWords(0).has_listener());
}

TEST_CASE("a rank that does not exist, and words without end, are not believed") {
  RankWords words(2);
  const Started started(words);
  OwnWords seven(7), zero(0), negative(-1);
  seven.say_well();
  zero.say(std::string(1 << 20, 'x'));
  words.read(1000);
  for (const int rank : {0, 1}) CHECK_FALSE(words.ended_well(rank));
  for (const std::string& each : words.said()) CHECK(each.size() < 1 << 17);
}
