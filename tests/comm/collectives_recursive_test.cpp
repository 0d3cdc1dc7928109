#include "yotta/comm/collectives_recursive.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("recursive doubling all_reduce") {
  check_all_reduce(all_reduce_recursive_doubling, all_reduce_recursive_doubling_sent);
}

TEST_CASE("Rabenseifner's all_reduce") {
  check_all_reduce(all_reduce_rabenseifner, all_reduce_rabenseifner_sent);
}

TEST_CASE("recursive halving reduce_scatter, recursive doubling all_gather") {
  check_reduce_scatter(reduce_scatter_recursive_halving, reduce_scatter_recursive_halving_sent);
  check_all_gather(all_gather_recursive_doubling, all_gather_recursive_doubling_sent);
}

TEST_CASE("six ranks are four teams: 0+1, 2+3, 4, 5") {
  const Fold zero(6, 0), three(6, 3), five(6, 5);
  CHECK(zero.folded);
  CHECK(zero.partner == 1);
  CHECK_FALSE(three.folded);
  CHECK(three.team == 1);
  CHECK(five.team == 3);
  CHECK(five.partner == -1);
  CHECK(five.rank_of(1) == 3);
  CHECK(five.rank_of(2) == 4);
  CHECK(five.first_rank(4) == 6);
}

TEST_CASE("all ranks end with the same bits, also where the operation's sides are not alike") {
  for (const int p : {2, 3, 4, 6, 8})
    for (const auto all_reduce : {all_reduce_recursive_doubling, all_reduce_rabenseifner})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        std::vector<Tensor> results(static_cast<size_t>(p));
        LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
          const float sign = rank.rank() % 2 == 0 ? 1.0f : -1.0f;
          Tensor data =
              Tensor::from<float>({sign * 0.0f, 1.0f / static_cast<float>(3 + rank.rank())}, {2});
          all_reduce(rank, data, op);
          results[static_cast<size_t>(rank.rank())] = data;
        });
        CAPTURE(p);
        for (const Tensor& result : results) {
          CHECK(std::signbit(result.data<float>()[0]) == std::signbit(results[0].data<float>()[0]));
          CHECK(result.data<float>()[1] == results[0].data<float>()[1]);
        }
      }
}
