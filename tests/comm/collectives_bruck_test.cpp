#include "yotta/comm/collectives_bruck.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("Bruck's all_gather") { check_all_gather(all_gather_bruck, all_gather_bruck_sent); }

TEST_CASE("Bruck's all_to_all") { check_all_to_all(all_to_all_bruck, all_to_all_bruck_sent); }

TEST_CASE("dissemination barrier") {
  check_barrier(barrier_dissemination,
                [](int p, int, int64_t, int64_t) { return barrier_dissemination_sent(p); });
}
