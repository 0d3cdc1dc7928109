// Async-TP: tokens go round a ring in pieces, and a piece is multiplied while the next one travels.
// An all_gather takes three hops and the product four; in pieces both together take four.
#include <fmt/format.h>

#include "yotta/comm/run_on.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/async_tp.hpp"

using namespace yotta;

int main() {
  const Tensor x = drawn_rows(8, 8), w = drawn_rows(16, 8).rows(8, 16), whole = linear(x, w);
  // On this machine a product of two tokens takes 256 s, and a message of two tokens as long.
  const Cluster machine = ideal(4, 1, 0.25);
  std::vector<Verdict> verdicts(4);
  const Timed gathered = run_on(machine, 4, [&](Communicator& tp) {
    Tensor all = Tensor::empty({8, 8});
    tp.all_gather(all, x.rows(2 * tp.rank(), 2 * tp.rank() + 2), {.algorithm = Algorithm::ring});
    linear(all, w);
  });
  const Timed in_pieces = run_on(machine, 4, [&](Communicator& tp) {
    Tensor y = Tensor::empty({8, 8});
    all_gather_in_pieces(x.rows(2 * tp.rank(), 2 * tp.rank() + 2), 8, tp, Pieces::one_way,
                         [&](int64_t first, const Tensor& rows) {
                           y.rows(first, first + 2).copy_from(linear(rows, w));
                         });
    verdicts[tp.rank()] = compare(y, whole, 1e-6);
  });
  fmt::print("gathered and then multiplied {:.0f} s, in pieces {:.0f} s\n", gathered.seconds(),
             in_pieces.seconds());
  for (const Verdict& verdict : verdicts)
    if (!verdict.equal || !(gathered.seconds() == 7 * 256) || !(in_pieces.seconds() == 4 * 256)) {
      fmt::print("7 x 256 and 4 x 256 s are right; {}\n", verdict.text);
      return 1;
    }
}
