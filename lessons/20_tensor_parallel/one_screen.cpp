// Tensor parallelism: an MLP on two ranks, of which each has half of the hidden numbers.
// Its output is that of one rank. One all_reduce of it is all that is sent forward.
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
    Mlp half("mlp", options, {}, tp);
    Saved kept;
    verdicts[tp.rank()] = compare(half.forward(x, kept), whole, 1e-6);
  });
  const int64_t sent = reports[0].ledger().total_traffic().bytes_sent;
  fmt::print("half of an MLP on each of two ranks gives the whole one's output; {} bytes sent\n",
             sent);
  for (const Verdict& verdict : verdicts)
    if (!verdict.equal || sent != x.nbytes()) {
      fmt::print("{} bytes are right; {}\n", x.nbytes(), verdict.text);
      return 1;
    }
}
