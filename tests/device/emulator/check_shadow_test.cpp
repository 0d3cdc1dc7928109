#include "yotta/device/emulator/check_shadow.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("memory is unwritten until somebody writes it") {
  Shadow shadow(16);
  for (const Cell& cell : shadow.cells(0, 16)) CHECK(cell.write.time == 0);
  shadow.write_by_host(4, 8);
  CHECK(shadow.cells(0, 4).begin()->write.time == 0);
  CHECK(shadow.cells(4, 4).begin()->write.time == host_time);
  CHECK(shadow.cells(8, 4).begin()->write.time == host_time);
  CHECK(shadow.cells(12, 4).begin()->write.time == 0);
}

TEST_CASE("cells are split when an access is smaller, and keep what they know") {
  Shadow shadow(16);
  const auto count = [&](size_t offset, size_t bytes) {
    const auto cells = shadow.cells(offset, bytes);
    return cells.end() - cells.begin();
  };
  CHECK(count(0, 16) == 4);
  for (Cell& cell : shadow.cells(8, 4)) cell.write = {7, 3, 100};
  CHECK(count(2, 2) == 1);
  CHECK(count(0, 16) == 8);
  for (const Cell& cell : shadow.cells(8, 4)) CHECK(cell.write.who == 3);
  CHECK(shadow.cells(12, 2).begin()->write.time == 0);
  CHECK(count(5, 3) == 3);
  CHECK(count(0, 16) == 16);
  for (const Cell& cell : shadow.cells(8, 4)) CHECK(cell.write.site == 100);
}
