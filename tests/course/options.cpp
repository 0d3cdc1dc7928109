// What the options of all programs refuse, and in which words.
#include "course/options/options.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::contains;

namespace {

struct Values {
  int64_t layers = 1, steps = 1;
  double rate = 0.1;
  uint64_t seed = 1;
  std::string text = "a text", optimizer = "adamw";
};

// What is wrong with a command line; empty: nothing.
std::string problem(std::vector<const char*> words, Values values = {}) {
  std::string said;
  Options options("program", "For tests.");
  options.on_refusal([&](const std::string& one) { said = one; });
  options.add("--layers", values.layers, "", at_least(1));
  options.add("--steps", values.steps, "", at_least(1));
  options.add("--lr", values.rate, "");
  options.add("--seed", values.seed, "", whole_number());
  options.add("--text", values.text, "", not_empty());
  options.add("--optimizer", values.optimizer, "", one_of({"adamw", "sgd"}));
  words.insert(words.begin(), "program");
  const std::optional<int> status = options.parse(static_cast<int>(words.size()), words.data());
  CHECK(status.value_or(0) == (said.empty() ? 0 : 2));
  return said;
}

void check_problems(
    const std::vector<std::pair<std::vector<const char*>, std::string>>& lines_and_words) {
  for (const auto& [line, words] : lines_and_words)
    CHECK_MESSAGE(contains(problem(line), words), problem(line));
}

}  // namespace

TEST_CASE("an empty value, as of an empty variable of the shell, is no value") {
  check_problems({{{"--lr", ""}, "--lr: it is empty; give a number"},
                  {{"--steps", ""}, "--steps: it is empty; give a number"},
                  {{"--steps="}, "--steps"},
                  {{"--seed", ""}, "is not from 0 to 2^64 - 1"},
                  {{"--text", ""}, "it is empty; leave the option out"}});
}

TEST_CASE("what is no number, too large a one, or none of some words is refused") {
  for (const char* seed : {"-1", "99999999999999999999999", "1x"})
    check_problems({{{"--seed", seed}, "is not from 0 to 2^64 - 1"}});
  for (const char* steps : {"1.5", "1x", "x", "1e-3"})
    check_problems({{{"--steps", steps}, std::string(steps) + "' is no whole number, as 1000"}});
  check_problems({{{"--lr", "1e-3x"}, "'1e-3x' is no number, as 0.001 or 1e-3"},
                  {{"--steps", "-1e3"}, "-1000 not in range"},
                  {{"--optimizer", "adam"}, "not in {adamw,sgd}"}});
}

TEST_CASE("an option that there is not: the one that was meant") {
  check_problems({{{"--laers", "3"}, "there is no option --laers; did you mean --layers?"},
                  {{"--laers=3"}, "did you mean --layers?"},
                  {{"--steps", "3", "--steps", "4"}, "--steps stands there more than once"}});
  CHECK(problem({"--zzzzzzzzzzz", "3"}) == "there is no option --zzzzzzzzzzz");
  CHECK(problem({"--steps", "2e0", "--lr", "1e-3"}).empty());
}
