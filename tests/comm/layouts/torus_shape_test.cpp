#include "yotta/comm/layouts/torus_shape.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

using namespace yotta;

namespace {
const std::vector<TorusShape> shapes = {{{3}, 2}, {{4}, 1}, {{3, 4}, 2}, {{2, 3, 2}, 1}};
}  // namespace

TEST_CASE("in every phase each part has a ring to itself, and after all phases it had every axis") {
  for (const TorusShape& shape : shapes)
    for (int phase = 0; phase < shape.axis_count(); ++phase) {
      std::set<int> rings;
      for (int part = 0; part < shape.rings(); ++part) rings.insert(shape.ring(part, phase));
      CHECK(std::ssize(rings) == shape.rings());
    }
  const TorusShape square{{4, 4}, 2};
  CHECK(square.ring(0, 0) == 0);
  CHECK(square.ring(0, 1) == 2);
  CHECK(square.name(0) == "axis 0");
  CHECK(square.name(3) == "axis 1 back");
}

TEST_CASE("every rank has a slot of its own in each part, and its last cut is that chunk") {
  for (const TorusShape& shape : shapes) {
    const int p = shape.ranks();
    std::vector<float> x(static_cast<size_t>(p * 5));
    for (int part = 0; part < shape.rings(); ++part) {
      std::set<int> slots;
      for (int rank = 0; rank < p; ++rank) {
        const Data whole = x;
        slots.insert(shape.slot(part, rank));
        const Data last = shape.cuts(rank, part, whole).back();
        CHECK(last.bytes == whole.chunk(shape.slot(part, rank), p).bytes);
        CHECK(last.count == 5);
      }
      CHECK(std::ssize(slots) == p);
    }
  }
}

TEST_CASE("the pieces of a chunk, over all parts, are the chunk") {
  const TorusShape shape{{3}, 2};
  std::vector<float> x(10);
  for (int rank = 0; rank < 3; ++rank) {
    const Data chunk = Data(x).chunk(rank, 3);
    int64_t count = 0;
    for (int part = 0; part < shape.rings(); ++part) count += shape.piece_of(chunk, part, 10).count;
    CHECK(count == chunk.count);
  }
  CHECK(shape.buffers(Data(x)).size() == 2);
  CHECK(shape.buffers(Data(x))[0].numel() == 3 * shape.piece(10));
}
