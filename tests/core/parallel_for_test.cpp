#include "yotta/core/parallel_for.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

using namespace yotta;

TEST_CASE("every item is visited once, for any count, grain and number of threads") {
  RankContext rank;
  const ContextScope scope(rank);
  for (const int threads : {1, 2, 3, 7})
    for (const int64_t count : {0, 1, 2, 5, 64, 100})
      for (const int64_t grain : {0, 1, 10, 1000}) {
        rank.threads = threads;
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          CHECK_UNARY(begin < end);
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (const auto& visit : visits) CHECK(visit == 1);
      }
}

TEST_CASE("chunks cover everything and differ by at most one") {
  for (const int64_t parts : {1, 2, 3, 8})
    for (const int64_t count : {0, 1, 7, 8, 17}) {
      CHECK(chunk_begin(count, parts, 0) == 0);
      CHECK(chunk_begin(count, parts, parts) == count);
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t size = chunk_begin(count, parts, i + 1) - chunk_begin(count, parts, i);
        CHECK_UNARY(size == count / parts || size == count / parts + 1);
      }
    }
}
