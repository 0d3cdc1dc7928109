#include "yotta/comm/engine/native_traffic.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
// What all ranks of a collective count: `n` is the whole array, given to each as the operation
// wants it.
Traffic total(Operation operation, int p, int64_t n, int root) {
  Traffic sum;
  std::vector<std::byte> bytes(static_cast<size_t>(p * (n + 1)));
  for (int rank = 0; rank < p; ++rank) {
    const Data whole(bytes.data(), n, DType::u8);
    NativeCall call{operation, whole, whole, ReduceOp::sum, root};
    if (operation == Operation::all_to_all)
      call.out = Data(bytes.data(), p * chunk_count(n, p, rank), DType::u8);
    sum += native_traffic(p, rank, call);
  }
  return sum;
}
}  // namespace

TEST_CASE("what is sent is received, by as many messages, for any p, n and root") {
  for (int p : {1, 2, 3, 4, 8})
    for (int64_t n : {0, 1, 17, 1000})
      for (int root : {0, p - 1})
        for (const Operation operation :
             {Operation::broadcast, Operation::reduce, Operation::all_reduce,
              Operation::reduce_scatter, Operation::all_gather, Operation::all_to_all,
              Operation::gather, Operation::scatter, Operation::barrier}) {
          CAPTURE(p);
          CAPTURE(n);
          CAPTURE(static_cast<int>(operation));
          const Traffic sum = total(operation, p, n, root);
          CHECK(sum.bytes_sent == sum.bytes_received);
          CHECK(sum.messages_sent == sum.messages_received);
        }
}

TEST_CASE("all ranks together: what the formulas of the books say") {
  const int p = 4;
  const int64_t n = 1000;
  CHECK(total(Operation::all_reduce, p, n, 0).bytes_sent == 2 * (p - 1) * n);
  CHECK(total(Operation::reduce_scatter, p, n, 0).bytes_sent == (p - 1) * n);
  CHECK(total(Operation::all_gather, p, n, 0).bytes_sent == (p - 1) * n);
  CHECK(total(Operation::all_to_all, p, n, 0).bytes_sent == (p - 1) * n);
  CHECK(total(Operation::broadcast, p, n, 1).bytes_sent == (p - 1) * n);
  CHECK(total(Operation::gather, p, n, 1).bytes_sent == (p - 1) * n / p);
  CHECK(total(Operation::scatter, p, n, 1).bytes_sent == (p - 1) * n / p);
}

TEST_CASE("counts by rank: all but a rank's own") {
  const std::vector<int64_t> to = {1, 2, 3}, from = {2, 2, 2};
  std::vector<std::byte> bytes(24);
  const Data six(bytes.data(), 6, DType::f32);
  const Traffic traffic =
      native_traffic(3, 1, {Operation::all_to_all_v, six, six, ReduceOp::sum, 0, to, from});
  CHECK(traffic.bytes_sent == (1 + 3) * 4);
  CHECK(traffic.bytes_received == (2 + 2) * 4);
  CHECK(traffic.messages_sent == 2);
}
