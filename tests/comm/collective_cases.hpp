// What every test of the collectives shares: values that differ in every place, the serial answers, and
// one check for each operation. An algorithm is tested by handing it in:
//
//     check_all_reduce(all_reduce_ring, all_reduce_ring_sent);
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "comm/local_ranks.hpp"
#include "yotta/core/random.hpp"

namespace yotta_test {

inline const std::vector<int> rank_counts = {1, 2, 3, 4, 5, 6, 7, 8};
inline const std::vector<int64_t> element_counts = {0, 1, 2, 17, 1000};
inline const std::vector<DType> dtypes = {DType::f64,      DType::f32,      DType::bf16,
                                          DType::f16,      DType::i64,      DType::i32,
                                          DType::fp8_e5m2, DType::fp8_e4m3, DType::u8};
inline const std::vector<ReduceOp> reduce_ops = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max,
                                                 ReduceOp::min, ReduceOp::prod};

// One thing to try: p ranks, n elements of a type, an operation, a root.
struct Case {
  int p;
  int64_t n;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;

  std::string text() const {
    return fmt::format("{} ranks, {} x {}, {}, root {}", p, n, name(dtype), name(op), root);
  }
  int64_t width() const { return bytes_of(dtype); }
  int64_t chunk(int rank) const { return chunk_count(n, p, rank); }

  // Element i of a rank: 1, 2 or 3 in an irregular order, so that every sum and product over 8 ranks of
  // any type but fp8 is exact, whatever the order.
  double value(int rank, int64_t i) const {
    return static_cast<double>(1 + hash_name(std::to_string(rank * 7919 + i)) % modulus());
  }
  uint64_t modulus() const {
    return dtype == DType::fp8_e5m2 || dtype == DType::fp8_e4m3 || dtype == DType::u8 ? 1 : 3;
  }
  Tensor values(int rank, int64_t begin, int64_t end) const {
    std::vector<double> all;
    for (int64_t i = begin; i < end; ++i) all.push_back(value(rank, i));
    return Tensor::from(all, {end - begin}).to(dtype);
  }
  Tensor input(int rank) const { return values(rank, 0, n); }

  // Element i reduced over all ranks.
  double reduced(int64_t i) const {
    double result = value(0, i);
    for (int rank = 1; rank < p; ++rank) {
      const double x = value(rank, i);
      if (op == ReduceOp::max)
        result = std::max(result, x);
      else if (op == ReduceOp::min)
        result = std::min(result, x);
      else if (op == ReduceOp::prod)
        result *= x;
      else
        result += x;
    }
    return result;
  }
  std::vector<double> reduced(int64_t begin, int64_t end) const {
    std::vector<double> all;
    for (int64_t i = begin; i < end; ++i) all.push_back(reduced(i));
    return all;
  }
  int64_t begin(int rank) const { return chunk_begin(n, p, rank); }
};

// Every number of ranks and elements in f32, then every type and operation, then every root.
template <class Try>
void for_each_case(Try attempt, bool reduces, bool rooted) {
  for (const int p : rank_counts)
    for (const int64_t n : element_counts) attempt(Case{p, n});
  for (const DType dtype : dtypes)
    for (const ReduceOp op : reduce_ops)
      if (reduces || op == ReduceOp::sum) attempt(Case{5, 17, dtype, op});
  if (rooted)
    for (const int p : {3, 4, 6})
      for (int root = 1; root < p; ++root) attempt(Case{p, 17, DType::f32, ReduceOp::sum, root});
}

// Calls an algorithm's cost function, with a root if it takes one.
template <class Formula>
Sent cost(Formula formula, const Case& c, int rank) {
  if constexpr (requires { formula(1, 0, int64_t{1}, int64_t{1}, 0); })
    return formula(c.p, rank, c.n, c.width(), c.root);
  else
    return formula(c.p, rank, c.n, c.width());
}

// The sending half of a native collective's traffic formula.
template <class Formula>
auto sends(Formula traffic) {
  return [=](auto... arguments) requires requires { traffic(arguments...); }
  {
    const Traffic t = traffic(arguments...);
    return Sent{t.messages_sent, t.bytes_sent};
  };
}

// Runs body(rank, case) on all ranks and checks what each has sent.
template <class Body, class Formula>
void run_case(const Case& c, Body body, Formula formula) {
  INFO(c.text());
  std::vector<Sent> sent;
  REQUIRE_NOTHROW(sent = LocalRanks::run(c.p, [&](LocalRanks::Rank& rank) { body(rank); }));
  for (int rank = 0; rank < c.p; ++rank) {
    CAPTURE(rank);
    const Sent expected = cost(formula, c, rank);
    CHECK(sent[static_cast<size_t>(rank)].messages == expected.messages);
    CHECK(sent[static_cast<size_t>(rank)].bytes == expected.bytes);
  }
}

// Throws (a doctest assertion may not run on several threads at once).
inline void expect(const Tensor& actual, const std::vector<double>& expected, int rank) {
  const std::vector<double> values = actual.values();
  if (values.size() != expected.size())
    fail(Where::current(), "rank {}: {} values, not {}", rank, values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (!(values[i] == expected[i]))
      fail(Where::current(), "rank {}: element {} is {}, not {}", rank, i, values[i], expected[i]);
}

inline Tensor empty(int64_t count, DType dtype) { return Tensor::full({count}, 77, dtype); }

template <class Algorithm, class Formula>
void check_all_reduce(Algorithm all_reduce, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              Tensor data = c.input(rank.rank());
              all_reduce(rank, Data(data), c.op);
              expect(data, c.reduced(0, c.n), rank.rank());
            },
            formula);
      },
      true, false);
}

template <class Algorithm, class Formula>
void check_reduce_scatter(Algorithm reduce_scatter, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              const int r = rank.rank();
              const Tensor in = c.input(r);
              Tensor out = empty(c.chunk(r), c.dtype);
              reduce_scatter(rank, ConstData(in), Data(out), c.op);
              expect(out, c.reduced(c.begin(r), c.begin(r + 1)), r);
              expect(in, c.input(r).values(), r);
            },
            formula);
      },
      true, false);
}

template <class Algorithm, class Formula>
void check_reduce(Algorithm reduce, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              Tensor data = c.input(rank.rank());
              reduce(rank, Data(data), c.op, c.root);
              const bool root = rank.rank() == c.root;
              expect(data, root ? c.reduced(0, c.n) : c.input(rank.rank()).values(), rank.rank());
            },
            formula);
      },
      true, true);
}

template <class Algorithm, class Formula>
void check_broadcast(Algorithm broadcast, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              Tensor data = c.input(rank.rank());
              broadcast(rank, Data(data), c.root);
              expect(data, c.input(c.root).values(), rank.rank());
            },
            formula);
      },
      false, true);
}

template <class Algorithm, class Formula>
void check_all_gather(Algorithm all_gather, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              const int r = rank.rank();
              const Tensor in = c.values(0, c.begin(r), c.begin(r + 1));
              Tensor out = empty(c.n, c.dtype);
              all_gather(rank, ConstData(in), Data(out));
              expect(out, c.input(0).values(), r);
            },
            formula);
      },
      false, false);
}

template <class Algorithm, class Formula>
void check_gather(Algorithm gather, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              const int r = rank.rank();
              const Tensor in = c.values(0, c.begin(r), c.begin(r + 1));
              Tensor out = empty(r == c.root ? c.n : 0, c.dtype);
              gather(rank, ConstData(in), Data(out), c.root, c.n);
              if (r == c.root) expect(out, c.input(0).values(), r);
            },
            formula);
      },
      false, true);
}

template <class Algorithm, class Formula>
void check_scatter(Algorithm scatter, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              const int r = rank.rank();
              const Tensor in = c.values(0, 0, r == c.root ? c.n : 0);
              Tensor out = empty(c.chunk(r), c.dtype);
              scatter(rank, ConstData(in), Data(out), c.root, c.n);
              expect(out, c.values(0, c.begin(r), c.begin(r + 1)).values(), r);
            },
            formula);
      },
      false, true);
}

// What rank r holds after an all_to_all: its chunk of every rank.
inline std::vector<double> transposed(const Case& c, int r) {
  std::vector<double> all;
  for (int from = 0; from < c.p; ++from)
    for (int64_t i = c.begin(r); i < c.begin(r + 1); ++i) all.push_back(c.value(from, i));
  return all;
}

template <class Algorithm, class Formula>
void check_all_to_all(Algorithm all_to_all, Formula formula) {
  for_each_case(
      [&](const Case& c) {
        run_case(
            c,
            [&](auto& rank) {
              const int r = rank.rank();
              const Tensor in = c.input(r);
              Tensor out = empty(c.p * c.chunk(r), c.dtype);
              all_to_all(rank, ConstData(in), Data(out));
              expect(out, transposed(c, r), r);
            },
            formula);
      },
      false, false);
}

// Nobody may leave before the last has come.
template <class Algorithm, class Formula>
void check_barrier(Algorithm barrier, Formula formula) {
  for (const int p : rank_counts) {
    std::atomic<int> come = 0;
    run_case(
        Case{p, 0},
        [&](auto& rank) {
          ++come;
          barrier(rank);
          if (come != p)
            fail(Where::current(), "rank {} left when {} had come", rank.rank(), come.load());
        },
        formula);
  }
}

}  // namespace yotta_test
