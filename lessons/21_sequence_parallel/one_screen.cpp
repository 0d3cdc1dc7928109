// Sequence parallelism: between the cut layers each of two ranks holds half of the tokens.
// A gather and a reduce_scatter stand in place of an all_reduce, and send as many bytes.
#include <fmt/format.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

using namespace yotta;

int main() {
  const MlpOptions options = {.width = 8, .hidden = 32};
  const Tensor x = drawn_rows(4, 8);
  Mlp serial("mlp", options);
  Saved saved;
  const Tensor whole = serial.forward(x, saved);

  std::vector<Verdict> verdicts(2);
  const std::vector<RankReport> reports = run_ranks(2, [&](Communicator& tp) {
    Mlp half("mlp", options, {}, tp, {.T = 4});
    const int64_t begin = 2 * tp.rank(), end = begin + 2;
    Saved kept;
    const Tensor y = half.forward(x.rows(begin, end), kept);
    verdicts[tp.rank()] = compare(y, whole.rows(begin, end), 1e-6);
  });
  const int64_t sent = reports[0].ledger().total_traffic().bytes_sent;
  fmt::print("each rank has half of the tokens before and after; {} bytes sent\n", sent);
  for (const Verdict& verdict : verdicts)
    if (!verdict.equal || sent != x.nbytes()) {
      fmt::print("{} bytes are right; {}\n", x.nbytes(), verdict.text);
      return 1;
    }
}
