#include "comm/collective_cases.hpp"

#include <atomic>

namespace yotta_test {
namespace {

const std::vector<DType> dtypes = {DType::f64,      DType::f32,      DType::bf16,
                                   DType::f16,      DType::i64,      DType::i32,
                                   DType::fp8_e5m2, DType::fp8_e4m3, DType::u8};
const std::vector<ReduceOp> reduce_ops = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max,
                                          ReduceOp::min, ReduceOp::prod};

using Rank = LocalRanks::Rank;

// Runs body(rank) on all ranks and checks what each has sent.
void run_case(const Case& c, const std::function<void(Rank&)>& body, const CostFormula& formula) {
  INFO(c.text());
  std::vector<Sent> sent;
  REQUIRE_NOTHROW(sent = LocalRanks::run(c.p, body));
  for (int rank = 0; rank < c.p; ++rank) {
    CAPTURE(rank);
    const Sent expected = formula(c, rank);
    CHECK(sent[static_cast<size_t>(rank)].messages == expected.messages);
    CHECK(sent[static_cast<size_t>(rank)].bytes == expected.bytes);
  }
}

struct Tries {
  bool every_op = false;
  bool every_root = false;
};

void for_each_case(Tries tries, const CostFormula& formula,
                   const std::function<void(const Case&, Rank&)>& body) {
  const auto attempt = [&](const Case& c) {
    run_case(
        c, [&](Rank& rank) { body(c, rank); }, formula);
  };
  for (const int p : rank_counts)
    for (const int64_t n : element_counts) attempt(Case{p, n});
  for (const DType dtype : dtypes)
    for (const ReduceOp op : reduce_ops)
      if (tries.every_op || op == ReduceOp::sum) attempt(Case{5, 17, dtype, op});
  if (tries.every_root)
    for (const int p : {3, 4, 6})
      for (int root = 1; root < p; ++root) attempt(Case{p, 17, DType::f32, ReduceOp::sum, root});
}

}  // namespace

std::string Case::text() const {
  return fmt::format("{} ranks, {} x {}, {}, root {}", p, n, name(dtype), name(op), root);
}

double Case::value(int rank, int64_t i) const {
  const bool narrow = dtype == DType::fp8_e5m2 || dtype == DType::fp8_e4m3 || dtype == DType::u8;
  return static_cast<double>(1 + hash_name(std::to_string(rank * 7919 + i)) % (narrow ? 1 : 3));
}

Tensor Case::values(int rank, int64_t begin, int64_t end) const {
  std::vector<double> all;
  for (int64_t i = begin; i < end; ++i) all.push_back(value(rank, i));
  return Tensor::from(all, {end - begin}).to(dtype);
}

double Case::reduced(int64_t i) const {
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

std::vector<double> Case::reduced(int64_t begin, int64_t end) const {
  std::vector<double> all;
  for (int64_t i = begin; i < end; ++i) all.push_back(reduced(i));
  return all;
}

Tensor empty(int64_t count, DType dtype) { return Tensor::full({count}, 77, dtype); }

std::vector<double> transposed(const Case& c, int r) {
  std::vector<double> all;
  for (int from = 0; from < c.p; ++from)
    for (int64_t i = c.begin(r); i < c.begin(r + 1); ++i) all.push_back(c.value(from, i));
  return all;
}

void expect(const Tensor& actual, const std::vector<double>& expected, int rank) {
  const std::vector<double> values = actual.values();
  if (values.size() != expected.size())
    fail(Where::current(), "rank {}: {} values, not {}", rank, values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (!(values[i] == expected[i]))
      fail(Where::current(), "rank {}: element {} is {}, not {}", rank, i, values[i], expected[i]);
}

void check_all_reduce(OnRank<Data, ReduceOp> all_reduce, const CostFormula& formula) {
  for_each_case({.every_op = true}, formula, [&](const Case& c, Rank& rank) {
    Tensor data = c.input(rank.rank());
    all_reduce(rank, Data(data), c.op);
    expect(data, c.reduced(0, c.n), rank.rank());
  });
}

void check_reduce_scatter(OnRank<ConstData, Data, ReduceOp> reduce_scatter,
                          const CostFormula& formula) {
  for_each_case({.every_op = true}, formula, [&](const Case& c, Rank& rank) {
    const int r = rank.rank();
    const Tensor in = c.input(r);
    Tensor out = empty(c.chunk(r), c.dtype);
    reduce_scatter(rank, ConstData(in), Data(out), c.op);
    expect(out, c.reduced(c.begin(r), c.begin(r + 1)), r);
    expect(in, c.input(r).values(), r);
  });
}

void check_reduce(OnRank<Data, ReduceOp, int> reduce, const CostFormula& formula) {
  for_each_case({.every_op = true, .every_root = true}, formula, [&](const Case& c, Rank& rank) {
    Tensor data = c.input(rank.rank());
    reduce(rank, Data(data), c.op, c.root);
    const bool root = rank.rank() == c.root;
    expect(data, root ? c.reduced(0, c.n) : c.input(rank.rank()).values(), rank.rank());
  });
}

void check_broadcast(OnRank<Data, int> broadcast, const CostFormula& formula) {
  for_each_case({.every_root = true}, formula, [&](const Case& c, Rank& rank) {
    Tensor data = c.input(rank.rank());
    broadcast(rank, Data(data), c.root);
    expect(data, c.input(c.root).values(), rank.rank());
  });
}

void check_all_gather(OnRank<ConstData, Data> all_gather, const CostFormula& formula) {
  for_each_case({}, formula, [&](const Case& c, Rank& rank) {
    const int r = rank.rank();
    const Tensor in = c.values(0, c.begin(r), c.begin(r + 1));
    Tensor out = empty(c.n, c.dtype);
    all_gather(rank, ConstData(in), Data(out));
    expect(out, c.input(0).values(), r);
  });
}

void check_gather(OnRank<ConstData, Data, int, int64_t> gather, const CostFormula& formula) {
  for_each_case({.every_root = true}, formula, [&](const Case& c, Rank& rank) {
    const int r = rank.rank();
    const Tensor in = c.values(0, c.begin(r), c.begin(r + 1));
    Tensor out = empty(r == c.root ? c.n : 0, c.dtype);
    gather(rank, ConstData(in), Data(out), c.root, c.n);
    if (r == c.root) expect(out, c.input(0).values(), r);
  });
}

void check_scatter(OnRank<ConstData, Data, int, int64_t> scatter, const CostFormula& formula) {
  for_each_case({.every_root = true}, formula, [&](const Case& c, Rank& rank) {
    const int r = rank.rank();
    const Tensor in = c.values(0, 0, r == c.root ? c.n : 0);
    Tensor out = empty(c.chunk(r), c.dtype);
    scatter(rank, ConstData(in), Data(out), c.root, c.n);
    expect(out, c.values(0, c.begin(r), c.begin(r + 1)).values(), r);
  });
}

void check_all_to_all(OnRank<ConstData, Data> all_to_all, const CostFormula& formula) {
  for_each_case({}, formula, [&](const Case& c, Rank& rank) {
    const int r = rank.rank();
    const Tensor in = c.input(r);
    Tensor out = empty(c.p * c.chunk(r), c.dtype);
    all_to_all(rank, ConstData(in), Data(out));
    expect(out, transposed(c, r), r);
  });
}

void check_barrier(OnRank<> barrier, const CostFormula& formula) {
  for (const int p : rank_counts) {
    std::atomic<int> come = 0;
    run_case(
        Case{p, 0},
        [&](Rank& rank) {
          ++come;
          barrier(rank);
          if (come != p)
            fail(Where::current(), "rank {} left when {} had come", rank.rank(), come.load());
        },
        formula);
  }
}

}  // namespace yotta_test
