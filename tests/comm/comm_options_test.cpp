#include "yotta/comm/comm_options.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace yotta;

TEST_CASE("every algorithm has a name of its own") {
  std::set<std::string> names;
  const int last = static_cast<int>(Algorithm::native);
  for (int i = 0; i <= last; ++i) names.insert(name(static_cast<Algorithm>(i)));
  CHECK(std::ssize(names) == last + 1);
  CHECK(name(Algorithm::multi_rail) == std::string("multi-rail"));
  CHECK(name(Algorithm::native) == std::string("native"));
}

TEST_CASE("options under another label differ in nothing else") {
  const CommOptions options{Algorithm::multi_rail, "a", 4, 2};
  const CommOptions other = options.labelled("b");
  CHECK(other.label == std::string("b"));
  CHECK(other.algorithm == options.algorithm);
  CHECK(other.node == 4);
  CHECK(other.rails == 2);
}
