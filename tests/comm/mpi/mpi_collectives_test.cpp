// Every process runs every case; mpirun starts 1 to 4 of them. What the collectives give is in the
// tests of the communicator; here: in one call of MPI, and cut into pieces because they are too
// long for one.
#include "yotta/comm/mpi/mpi_collectives.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const MpiComm& comm() {
  static const MpiComm all = MpiComm::duplicate(MPI_COMM_WORLD, Where::current());
  return all;
}
int rank() {
  int number = 0;
  MPI_Comm_rank(comm().get(), &number);
  return number;
}
int size() {
  int count = 0;
  MPI_Comm_size(comm().get(), &count);
  return count;
}
void run(const NativeCall& call, int64_t max_count) {
  MpiCollective collective(comm().get(), call, max_count, 1, Where::current());
  while (!collective.test()) continue;
}
// Number i of a rank.
std::vector<int32_t> numbers(int of, int64_t n) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(static_cast<int32_t>(100 * of + i));
  return all;
}
std::vector<int32_t> sums(int64_t n) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < n; ++i)
    all.push_back(static_cast<int32_t>(50 * size() * (size() - 1) + size() * i));
  return all;
}
std::vector<int32_t> chunk(const std::vector<int32_t>& x, int of) {
  const auto n = std::ssize(x);
  return {x.begin() + chunk_begin(n, size(), of), x.begin() + chunk_begin(n, size(), of + 1)};
}

}  // namespace

TEST_CASE("every collective, whole and in pieces of 5") {
  const int p = size(), me = rank(), root = p - 1;
  for (const int64_t max_count : {1000, 5})
    for (const int64_t n : {0, 1, 17, 60}) {
      CAPTURE(max_count);
      CAPTURE(n);
      using X = std::vector<int32_t>;
      const X mine = numbers(me, n);
      X x = mine;
      run({Operation::all_reduce, x, x}, max_count);
      CHECK(x == sums(n));
      x = mine;
      run({Operation::reduce, x, x, ReduceOp::sum, root}, max_count);
      CHECK(x == (me == root ? sums(n) : mine));
      x = mine;
      run({Operation::broadcast, x, x, ReduceOp::sum, root}, max_count);
      CHECK(x == numbers(root, n));
      X part(chunk(mine, me).size()), all(mine.size(), -1);
      run({Operation::reduce_scatter, mine, part}, max_count);
      CHECK(part == chunk(sums(n), me));
      run({Operation::all_gather, part, all}, max_count);
      CHECK(all == sums(n));
      x = mine;  // the result may lie in its place in the input
      run({Operation::reduce_scatter, x, Data(x).chunk(me, p)}, max_count);
      CHECK(chunk(x, me) == chunk(sums(n), me));
      all.assign(mine.size(), -1);
      run({Operation::gather,
           part,
           me == root ? Data(all) : Data(nullptr, n, DType::i32),
           {},
           root},
          max_count);
      CHECK(all == (me == root ? sums(n) : X(mine.size(), -1)));
      part.assign(part.size(), -1);
      run({Operation::scatter,
           me == root ? ConstData(all) : ConstData(nullptr, n, DType::i32),
           part,
           {},
           root},
          max_count);
      CHECK(part == chunk(sums(n), me));
      X turned(part.size() * static_cast<size_t>(p)), expected;
      run({Operation::all_to_all, mine, turned}, max_count);
      for (int from = 0; from < p; ++from)
        for (const int32_t number : chunk(numbers(from, n), me)) expected.push_back(number);
      CHECK(turned == expected);
      run({Operation::barrier}, max_count);
    }
}

TEST_CASE("counts by rank, and two sides that disagree") {
  const auto p = static_cast<size_t>(size());
  std::vector<int64_t> to, from(p, rank() + 1);
  for (int64_t count = 1; count <= size(); ++count) to.push_back(count);
  const std::vector<int32_t> in(p * (p + 1) / 2, rank());
  std::vector<int32_t> out(p * static_cast<size_t>(rank() + 1), -1), expected;
  for (int other = 0; other < size(); ++other)
    expected.insert(expected.end(), static_cast<size_t>(rank() + 1), other);
  run({Operation::all_to_all_v, in, out, {}, 0, to, from}, 1000);
  CHECK(out == expected);
  if (size() < 2) return;
  for (const int64_t more : {1, -1}) {  // rank 0 expects more, or less, of rank 1 than it sends
    from.assign(p, 1), to.assign(p, 1);
    if (rank() == 0) from[1] += more;
    const std::vector<int32_t> ones(p, 1);
    std::vector<int32_t> box(rank() == 0 ? p + static_cast<size_t>(more) : p);
    const NativeCall call{Operation::all_to_all_v, ones, box, {}, 0, to, from};
    MpiCollective collective(comm().get(), call, 1000, 1, Where::current());
    std::vector<std::string> errors;
    for (bool done = false; !done && errors.size() < 2;) {
      const std::string text = message_of([&] { done = collective.test(); });
      if (text != "nothing was thrown") errors.push_back(text);
    }
    // It is told once, and the messages of the others arrive all the same.
    CHECK(errors.size() == (rank() == 0 ? 1 : 0));
    if (rank() == 0) CHECK(contains(errors[0], "rank 1 of the group sends "));
    if (rank() == 0 && p > 2) CHECK(box.back() == 1);
    MPI_Barrier(comm().get());
  }
}
