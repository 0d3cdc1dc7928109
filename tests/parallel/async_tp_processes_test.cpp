// The pieces of async_tp.hpp on every transport: ranks that are threads, and ranks that are
// processes under MPI and on sockets.
#include "yotta/parallel/async_tp.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "nn/gradient_check.hpp"
#include "support/parts_check.hpp"
#include "support/ranks_here.hpp"
#include "yotta/nn/linear_ops.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr Pieces both_kinds[] = {Pieces::one_way, Pieces::both_ways};

Tensor own_rows(const Tensor& all, const Communicator& tp) {
  const int p = tp.size(), rank = tp.rank();
  return all.rows(chunk_begin(all.dim(0), p, rank), chunk_begin(all.dim(0), p, rank + 1));
}

}  // namespace

TEST_CASE("a gather in pieces and its matmul are one rank's product on every transport") {
  for (const int p : ranks_here({1, 2, 3, 4, 8}))
    for (const Pieces pieces : both_kinds) {
      const Tensor x = random_tensor({4 * p + 1, 3}, "x"), w = random_tensor({5, 3}, "w");
      run_ranks(p, [&](Communicator& tp) {
        Tensor y = Tensor::zeros({x.dim(0), 5}, DType::f64);
        const Tensor all = all_gather_in_pieces(
            own_rows(x, tp), x.dim(0), tp, pieces, [&](int64_t first, const Tensor& rows) {
              y.rows(first, first + rows.dim(0)).copy_from(linear(rows, w));
            });
        check_equal(all, x, "gathered", 0, p);
        check_equal(y, linear(x, w), "product", 1e-14, p);
      });
    }
}

TEST_CASE("a matmul and its sum in pieces are the sum of all ranks' products on every transport") {
  for (const int p : ranks_here({1, 2, 3, 4, 8}))
    for (const Pieces pieces : both_kinds) {
      const int64_t N = 4 * p + 1;
      const auto x = [&](int r) { return random_tensor({N, 3}, fmt::format("x{}", r)); };
      const auto w = [](int r) { return random_tensor({5, 3}, fmt::format("w{}", r)); };
      Tensor sum = Tensor::zeros({N, 5}, DType::f64);
      for (int r = 0; r < p; ++r) add_into(sum, linear(x(r), w(r)));
      run_ranks(p, [&](Communicator& tp) {
        const Tensor own_x = x(tp.rank()), own_w = w(tp.rank());
        const Tensor y = reduce_scatter_in_pieces(N, tp, pieces, [&](int64_t first, int64_t n) {
          return linear(own_x.rows(first, first + n), own_w);
        });
        check_equal(y, own_rows(sum, tp), "sums", 1e-13, p);
      });
    }
}
