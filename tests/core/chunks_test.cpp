#include "yotta/core/chunks.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("chunks cover the items once, the longer ones first") {
  for (int64_t count : {0, 1, 4, 17, 18})
    for (int64_t p : {1, 2, 3, 4, 8}) {
      CHECK(chunk_begin(count, p, 0) == 0);
      CHECK(chunk_begin(count, p, p) == count);
      for (int64_t i = 0; i < p; ++i)
        CHECK(chunk_count(count, p, i) == count / p + (i < count % p ? 1 : 0));
    }
}
