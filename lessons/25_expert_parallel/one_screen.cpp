// Expert parallelism: two ranks with two of four experts each. Tokens travel to an expert and back.
// Each rank has half of the tokens. Their outputs are those of one rank with all experts.
#include <fmt/format.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/expert_parallel.hpp"

using namespace yotta;

int main() {
  MoeOptions options;
  options.router = {.width = 8, .experts = 4, .top_k = 2};
  options.experts.hidden = 16;
  const Tensor x = drawn_rows(8, 8);
  MoeMlp serial("moe", options);
  Saved saved;
  const Tensor whole = serial.forward(x, saved);

  std::vector<Verdict> verdicts(2);
  const std::vector<RankReport> reports = run_ranks(2, [&](Communicator& ep) {
    MoeMlp mixture("moe", options, {}, {.ep = ep});
    const int64_t begin = 4 * ep.rank(), end = begin + 4;
    Saved kept;
    const Tensor y = mixture.forward(x.rows(begin, end), kept);
    verdicts[ep.rank()] = compare(y, whole.rows(begin, end), 1e-6);
  });
  const int64_t one = reports[0].ledger().memory()->peak(MemoryKind::parameters);
  fmt::print("the same outputs, and {} bytes of weights on each rank\n", one);
  for (const Verdict& verdict : verdicts)
    if (!verdict.equal || one != 4 * (4 * 8 + 2 * 3 * 8 * 16)) {
      fmt::print("a router and two of four experts must be held; {}\n", verdict.text);
      return 1;
    }
}
