// What every test of the collectives shares: values that differ in every place, the serial answers,
// and one check for each operation. An algorithm is tested by handing it in:
//
//     check_all_reduce(all_reduce_ring, all_reduce_ring_sent);
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "comm/local_ranks.hpp"
#include "yotta/core/random.hpp"

namespace yotta_test {

inline const std::vector<int> rank_counts = {1, 2, 3, 4, 5, 6, 7, 8};
inline const std::vector<int64_t> element_counts = {0, 1, 2, 17, 1000};

// One thing to try: p ranks, n elements of a type, an operation, a root.
struct Case {
  int p;
  int64_t n;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;

  std::string text() const;
  int64_t width() const { return bytes_of(dtype); }
  int64_t chunk(int rank) const { return chunk_count(n, p, rank); }
  int64_t begin(int rank) const { return chunk_begin(n, p, rank); }

  // Element i of a rank: 1, 2 or 3 in an irregular order, so that every sum and product over 8
  // ranks of any type but fp8 is exact, whatever the order.
  double value(int rank, int64_t i) const;
  Tensor values(int rank, int64_t begin, int64_t end) const;
  Tensor input(int rank) const { return values(rank, 0, n); }

  // Elements reduced over all ranks.
  double reduced(int64_t i) const;
  std::vector<double> reduced(int64_t begin, int64_t end) const;
};

// Calls an algorithm's cost function, with a root if it takes one.
template <class Formula>
Sent cost(Formula formula, const Case& c, int rank) {
  if constexpr (requires { formula(1, 0, int64_t{1}, int64_t{1}, 0); })
    return formula(c.p, rank, c.n, c.width(), c.root);
  else
    return formula(c.p, rank, c.n, c.width());
}

// Such a cost function, of either kind.
class CostFormula {
 public:
  template <class Formula>
  CostFormula(Formula formula)
      : sent_([formula](const Case& c, int rank) { return cost(formula, c, rank); }) {}
  Sent operator()(const Case& c, int rank) const { return sent_(c, rank); }

 private:
  std::function<Sent(const Case&, int)> sent_;
};

// The sending half of a native collective's traffic formula.
template <class Formula>
auto sends(Formula traffic) {
  return [=](auto... arguments) requires requires { traffic(arguments...); }
  {
    const Traffic t = traffic(arguments...);
    return Sent{t.messages_sent, t.bytes_sent};
  };
}

// What an algorithm is to fill: no value of any case.
Tensor empty(int64_t count, DType dtype);

// What rank r holds after an all_to_all: its chunk of every rank.
std::vector<double> transposed(const Case& c, int r);

// Throws unless a tensor holds these values (a doctest assertion may not run on several threads at
// once).
void expect(const Tensor& actual, const std::vector<double>& expected, int rank);

// Each runs an algorithm on every number of ranks and elements in f32, then in every type and
// operation, then with every root, and checks every rank's values and what it has sent.
template <class... Arguments>
using OnRank = const std::function<void(LocalRanks::Rank&, Arguments...)>&;

void check_all_reduce(OnRank<Data, ReduceOp> all_reduce, const CostFormula& formula);
void check_reduce_scatter(OnRank<ConstData, Data, ReduceOp> reduce_scatter,
                          const CostFormula& formula);
void check_reduce(OnRank<Data, ReduceOp, int> reduce, const CostFormula& formula);
void check_broadcast(OnRank<Data, int> broadcast, const CostFormula& formula);
void check_all_gather(OnRank<ConstData, Data> all_gather, const CostFormula& formula);
void check_gather(OnRank<ConstData, Data, int, int64_t> gather, const CostFormula& formula);
void check_scatter(OnRank<ConstData, Data, int, int64_t> scatter, const CostFormula& formula);
void check_all_to_all(OnRank<ConstData, Data> all_to_all, const CostFormula& formula);
// Nobody may leave before the last has come.
void check_barrier(OnRank<> barrier, const CostFormula& formula);

}  // namespace yotta_test
