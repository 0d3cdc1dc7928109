#include "yotta/comm/collectives_tree.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("binomial tree: broadcast, reduce and all_reduce") {
  check_broadcast(broadcast_tree, broadcast_tree_sent);
  check_reduce(reduce_tree, reduce_tree_sent);
  check_all_reduce(all_reduce_tree, all_reduce_tree_sent);
}

TEST_CASE("binomial tree: gather and scatter") {
  check_gather(gather_tree, gather_tree_sent);
  check_scatter(scatter_tree, scatter_tree_sent);
}

TEST_CASE("a rank's children and parent in the tree of 8 with root 3") {
  const TreePlace root(8, 3, 3), fifth(8, 7, 3);  // v = 0 and v = 4
  CHECK(root.is_root());
  CHECK(root.span == 8);
  CHECK(root.child(4) == 7);
  CHECK(fifth.span == 4);
  CHECK(fifth.parent() == 3);
  CHECK(fifth.child(2) == 1);
  CHECK_FALSE(TreePlace(5, 4, 0).has_child(1));
}

TEST_CASE("every rank but the root is the child of one other") {
  for (const int p : rank_counts) {
    std::vector<int> heard(static_cast<size_t>(p), 0);
    for (int rank = 0; rank < p; ++rank) {
      const TreePlace place(p, rank, p / 2);
      for (int distance = 1; distance < place.span; distance *= 2)
        if (place.has_child(distance)) ++heard[static_cast<size_t>(place.child(distance))];
    }
    for (int rank = 0; rank < p; ++rank) CHECK(heard[static_cast<size_t>(rank)] == (rank != p / 2));
  }
}
