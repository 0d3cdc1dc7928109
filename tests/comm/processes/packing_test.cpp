#include "yotta/comm/processes/packing.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("what was put is taken again, in order; texts may hold anything") {
  struct Pair {
    int a;
    double b;
  };
  MessageWriter writer;
  writer.put(7);
  writer.put(std::string("se\0ven", 6));
  writer.put(std::string());
  writer.put(Pair{1, 2.5});
  MessageReader reader(writer.bytes());
  CHECK(reader.take<int>() == 7);
  CHECK(reader.take_text() == std::string("se\0ven", 6));
  CHECK(reader.take_text().empty());
  CHECK(reader.take<Pair>().b == 2.5);
}

TEST_CASE("bytes that end too early") {
  MessageWriter writer;
  writer.put(std::string("seven"));
  const std::string bytes = writer.bytes().substr(0, writer.bytes().size() - 2);
  MessageReader reader(bytes);
  CHECK_THROWS_WITH_AS(reader.take_text(), doctest::Contains("ends 2 bytes too early"), Error);
  MessageReader nothing("");
  CHECK_THROWS_AS(nothing.take<int>(), Error);
}
