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

TEST_CASE(
    "counts, ranks, enums and truths that cannot be are refused, and no room is made for them") {
  enum class Three : uint8_t { one, two, three };
  MessageWriter writer;
  for (const size_t count : {size_t{2}, size_t{1} << 40}) writer.put(count);
  for (const int byte : {1, 2, 2, 3}) writer.put(static_cast<uint8_t>(byte));
  for (const int rank : {2, 3}) writer.put(rank);
  writer.put(std::ptrdiff_t{-1});
  MessageReader reader(writer.bytes());
  CHECK(reader.take_count() == 2);
  CHECK_THROWS_WITH(reader.take_count(), doctest::Contains("things, not 1099511627776"));
  CHECK(reader.take_bool());
  CHECK_THROWS_WITH(reader.take_bool(), doctest::Contains("2 for true or false"));
  CHECK(reader.take_enum(Three::three) == Three::three);
  CHECK_THROWS_WITH(reader.take_enum(Three::three), doctest::Contains("3 for an enum"));
  CHECK(reader.take_rank(3) == 2);
  CHECK_THROWS_WITH(reader.take_rank(3), doctest::Contains("rank 3 of 3"));
  CHECK_THROWS_WITH(reader.take_text(), doctest::Contains("bytes too early"));
}
