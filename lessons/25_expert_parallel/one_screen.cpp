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
  const Tensor y = serial.forward(x, saved), dx = serial.backward_input(y, saved);

  std::vector<Verdict> outputs(2), gradients(2);
  const std::vector<RankReport> reports = run_ranks(2, [&](Communicator& ep) {
    MoeMlp mixture("moe", options, {}, {.ep = ep});
    const int64_t begin = 4 * ep.rank(), end = begin + 4;
    Saved kept;
    const Tensor mine = mixture.forward(x.rows(begin, end), kept);
    outputs[ep.rank()] = compare(mine, y.rows(begin, end), 1e-6);
    gradients[ep.rank()] = compare(mixture.backward_input(mine, kept), dx.rows(begin, end), 1e-6);
  });
  const int64_t held = reports[0].ledger().memory()->peak(MemoryKind::parameters);
  fmt::print("the same outputs and gradients, and {} bytes of weights on each rank\n", held);
  for (int rank = 0; rank < 2; ++rank)
    if (!outputs[rank] || !gradients[rank] || held != 4 * (4 * 8 + 2 * 3 * 8 * 16)) {
      fmt::print("not right: a router and two of four experts must be held; {}{}\n",
                 outputs[rank].text, gradients[rank].text);
      return 1;
    }
}
