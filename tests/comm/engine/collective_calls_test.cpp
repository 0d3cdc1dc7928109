#include "yotta/comm/engine/collective_calls.hpp"

#include "support/rank_errors.hpp"

using namespace yotta;
using yotta_test::check_says;
using yotta_test::error_of;

namespace {
using C = Communicator;
using F = std::vector<float>;
template <class Call>
void check_refused(Call call, std::initializer_list<const char*> words) {
  check_says(error_of<RankFailed>(2, call), words);
}
}  // namespace

TEST_CASE("counts and types of the two arrays must fit") {
  F two(2), four(4), three(3);
  std::vector<double> wide(2);
  check_refused([&](C& w) { w.reduce_scatter(three, four); }, {"3 elements; 2 are expected"});
  check_refused([&](C& w) { w.all_gather(four, three); }, {"3 elements; 2 are expected"});
  check_refused([&](C& w) { w.all_gather(four, wide); }, {"is f64, but the other array is f32"});
  check_refused([&](C& w) { w.all_to_all(three, four); }, {"3 elements; 4 are expected"});
  check_refused([&](C& w) { w.gather(four, three, 0); }, {"3 elements; 2 are expected"});
  check_refused([&](C& w) { w.scatter(three, four, 0); }, {"3 elements; 2 are expected"});
}

TEST_CASE("nodes have ranks and rails, whatever the algorithm") {
  F four(4);
  check_refused([&](C& w) { w.all_reduce(four, ReduceOp::sum, {.node = 0}); },
                {"CommOptions::node is 0, expected 1 or more"});
  check_refused([&](C& w) { w.broadcast(four, 0, {.rails = -1}); },
                {"CommOptions::rails is -1, expected 0 or more"});
}

TEST_CASE("the counts of all_to_all_v must fit the arrays and each other") {
  F x(4), y(4);
  const std::vector<int64_t> good = {2, 2}, one = {4}, short_sum = {1, 2}, negative = {-1, 5};
  const std::vector<int64_t> other = {1, 3};
  check_refused([&](C& w) { w.all_to_all_v(x, one, y, good); }, {"out has 1 counts for 2 ranks"});
  check_refused([&](C& w) { w.all_to_all_v(x, good, y, short_sum); },
                {"in has 4 elements, but its counts add up to 3"});
  check_refused([&](C& w) { w.all_to_all_v(x, negative, y, good); }, {"negative count, -1"});
  check_refused([&](C& w) { w.all_to_all_v(x, other, y, good); },
                {"this rank sends 2 elements to itself but expects "});
}

TEST_CASE("off the root, gather and scatter need no array if p divides n") {
  run_ranks(2, [](C& world) {
    const bool root = world.rank() == 1;
    F part = {static_cast<float>(world.rank())}, all(2), back(1);
    world.gather(root ? Data(all) : Data(), part, 1);
    CHECK((!root || all == F{0, 1}));
    world.scatter(back, root ? ConstData(all) : ConstData(), 1);
    CHECK(back == part);
  });
}
