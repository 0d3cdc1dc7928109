#include "yotta/comm/collectives_choose.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace yotta;

namespace {
// Names each algorithm once.
template <class Offers>
void check_list(const Offers& offers) {
  std::set<Algorithm> seen;
  for (const auto& offer : offers) {
    CHECK(seen.insert(offer.algorithm).second);
    CHECK(&choose("operation", offers, offer.algorithm) == &offer);
  }
}
}  // namespace

TEST_CASE("each list names an algorithm once, and finds it") {
  check_list(all_reduce_offers);
  check_list(reduce_scatter_offers);
  check_list(all_gather_offers);
  check_list(all_to_all_offers);
  check_list(broadcast_offers);
  check_list(reduce_offers);
  check_list(gather_offers);
  check_list(scatter_offers);
  check_list(barrier_offers);
}

TEST_CASE("automatic is the ring for sums, and depends on the size where that pays") {
  CHECK(choose("all_reduce", all_reduce_offers, Algorithm::automatic).algorithm == Algorithm::ring);
  CHECK(broadcast_algorithm(Algorithm::automatic, 16 * 1024) == Algorithm::tree);
  CHECK(broadcast_algorithm(Algorithm::automatic, 16 * 1024 + 1) == Algorithm::scatter_all_gather);
  CHECK(broadcast_algorithm(Algorithm::chain, 1) == Algorithm::chain);
  CHECK(all_to_all_algorithm(Algorithm::automatic, 1024, 4) == Algorithm::bruck);
  CHECK(all_to_all_algorithm(Algorithm::automatic, 1028, 4) == Algorithm::pairwise);
}

TEST_CASE("an algorithm that an operation does not have is an error that names those it has") {
  CHECK_THROWS_WITH_AS(
      choose("all_reduce", all_reduce_offers, Algorithm::bruck),
      doctest::Contains("all_reduce has no algorithm 'Bruck'; choose one of: ring, naive, tree"),
      Error);
}
