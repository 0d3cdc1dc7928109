#include "yotta/core/system/late_checks.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("what a device found is thrown once, in the words and from the line of its check") {
  LateChecks checks;
  LateFinding finding;
  const auto says = [](const char* what) {
    return
        [what](int64_t item, int64_t value) { return fmt::format("{} {} {}", what, item, value); };
  };
  checks.add(says("first"), Where::current());
  const int line = __LINE__ + 1;
  const int32_t second = checks.add(says("second"), Where::current());
  CHECK_NOTHROW(checks.raise(finding));
  finding = {second, 7, -3};
  const std::string text = message_of([&] { checks.raise(finding); });
  CHECK(contains(text, "second 7 -3"));
  CHECK(contains(text, fmt::format("late_checks_test.cpp:{}", line)));
  CHECK_NOTHROW(checks.raise(finding));
}

TEST_CASE("a check so old that its words are gone is not taken for another one") {
  LateChecks checks;
  const auto says = [](int64_t, int64_t) { return std::string("mine"); };
  const int32_t old = checks.add(says, Where::current());
  for (int i = 0; i < 1024; ++i) checks.add(says, Where::current());
  LateFinding finding{old, 4, 9};
  const std::string text = message_of([&] { checks.raise(finding); });
  CHECK(contains(text, "the wrong value 9 at 4"));
  CHECK_FALSE(contains(text, "mine"));
}

TEST_CASE("a graph's checks keep their words for as long as it lives, and no longer") {
  LateChecks checks;
  const auto says = [](const char* what) {
    return [what](int64_t, int64_t) { return std::string(what); };
  };
  std::optional<LateChecks::OfGraph> graph(checks), other(checks);
  checks.record(&*graph);
  const int32_t recorded = checks.add(says("the graph's"), Where::current());
  checks.record(&*other);
  const int32_t others = checks.add(says("another graph's"), Where::current());
  checks.record(nullptr);
  for (int i = 0; i < 2000; ++i) checks.add(says("later"), Where::current());
  const auto words_of = [&](int32_t check) {
    LateFinding finding{check, 4, 9};
    return message_of([&] { checks.raise(finding); });
  };
  for (int i = 0; i < 2; ++i) CHECK(contains(words_of(recorded), "the graph's"));
  graph.reset();
  CHECK(contains(words_of(recorded), "the wrong value 9 at 4"));
  CHECK(contains(words_of(others), "another graph's"));
}

// Without the lock ThreadSanitizer says so.
TEST_CASE("of ranks that are threads one is told, and each check has a number of its own") {
  LateChecks checks;
  std::vector<LateFinding> findings(2000);
  for (size_t i = 0; i < findings.size(); ++i) findings[i].check = static_cast<int32_t>(i) + 1;
  std::atomic<size_t> told = 0;
  std::atomic<int32_t> last = 0;
  const auto rank = [&] {
    for (LateFinding& each : findings) {
      try {
        checks.raise(each);
      } catch (const Error&) {
        ++told;
      }
      const int32_t number =
          checks.add([](int64_t, int64_t) { return std::string(); }, Where::current());
      if (number > last) last = number;
    }
  };
  std::thread other(rank);
  rank();
  other.join();
  CHECK(told == findings.size());
  CHECK(last == 2 * static_cast<int32_t>(findings.size()));
}
