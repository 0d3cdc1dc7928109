// Ring attention: four ranks with a quarter of the tokens each. Keys and values go round a ring.
// Every token sees all tokens before it, as on one rank, and no rank ever holds all keys.
#include <fmt/format.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/ring_attention.hpp"

using namespace yotta;

int main() {
  const int64_t T = 16, H = 2, d = 4;  // tokens, heads, numbers of a head
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
    const FlashAttention mine =
        ring_attention(part(q), part(k), part(v), cp, ChunkOrder::contiguous);
    const Tensor my_o = mine.o, my_dk = ring_attention_backward(my_o, part(q), part(k), part(v),
                                                                mine, cp, ChunkOrder::contiguous)
                                            .dk;
    outputs[cp.rank()] = compare(my_o, part(all.o), 1e-6);
    gradients[cp.rank()] = compare(my_dk, part(dk), 1e-6);
  });
  const int64_t sent = reports[0].ledger().total_traffic().bytes_sent;
  fmt::print("the output and gradient of one rank; a rank sent {} bytes\n", sent);
  for (int rank = 0; rank < 4; ++rank)
    if (!outputs[rank] || !gradients[rank] || sent != 3 * ring_bytes(4, 2 * 4 * H * d * 4)) {
      fmt::print("not right: k and v go round forward, and backward with dk and dv; {}{}\n",
                 outputs[rank].text, gradients[rank].text);
      return 1;
    }
}
