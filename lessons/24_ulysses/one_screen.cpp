// Ulysses: four ranks with a quarter of the tokens each swap tokens for heads, and back.
// For the length of attention each has all tokens of one of the four heads, and computes as always.
#include <fmt/format.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/ulysses.hpp"

using namespace yotta;

int main() {
  const int64_t T = 16, H = 4, d = 2;  // tokens, heads, numbers of a head
  const auto heads = [&](const Tensor& rows) { return rows.reshape({1, -1, H, d}); };
  const Tensor x = drawn_rows(3 * T, H * d);
  const Tensor q = x.rows(0, T), k = x.rows(T, 2 * T), v = x.rows(2 * T, 3 * T);
  const FlashAttention all = flash_attention(heads(q), heads(k), heads(v));
  const Tensor dk = flash_attention_backward(all.o, heads(q), heads(k), heads(v), all).dk;

  std::vector<Verdict> outputs(4), gradients(4);
  const std::vector<RankReport> reports = run_ranks(4, [&](Communicator& cp) {
    const auto part = [&](const Tensor& of) {  // this rank's tokens
      return heads(of.reshape({T, H * d}).rows(4 * cp.rank(), 4 * cp.rank() + 4));
    };
    UlyssesSaved saved;
    const Tensor my_o =
        ulysses_attention(part(q), part(k), part(v), cp, saved, ChunkOrder::contiguous);
    const Tensor my_dk = ulysses_attention_backward(my_o, saved, cp, ChunkOrder::contiguous).dk;
    outputs[cp.rank()] = compare(my_o, part(all.o), 1e-6);
    gradients[cp.rank()] = compare(my_dk, part(dk), 1e-6);
  });
  const int64_t sent = reports[0].ledger().total_traffic().bytes_sent;
  fmt::print("the output and gradient of one rank; forward and backward a rank sent {} bytes\n",
             sent);
  for (int rank = 0; rank < 4; ++rank)
    if (!outputs[rank] || !gradients[rank] ||
        sent != 2 * ulysses_bytes(4, T * H * d * 4, T * H * d * 4)) {
      fmt::print("not right: 3/4 of its q, k, v and o must be sent, and of their gradients; {}{}\n",
                 outputs[rank].text, gradients[rank].text);
      return 1;
    }
}
