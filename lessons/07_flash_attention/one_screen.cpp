// Flash attention: what plain attention computes, without its T x T matrix of probabilities.
// Tiles of scores are used where they are made; backward makes them again from one number a row.
#include <fmt/format.h>

#include "yotta/core/compare.hpp"
#include "yotta/nn/flash_attention.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;

int main() {
  const int64_t T = 1000, H = 2, d = 32;  // tokens, heads, numbers of a head
  const Tensor x = drawn_rows(4 * T, H * d);
  const auto part = [&](int64_t i) { return x.rows(i * T, (i + 1) * T).reshape({1, T, H, d}); };
  const Tensor q = part(0), k = part(1), v = part(2), dout = part(3);

  const PlainAttention plain = attention_plain(q, k, v);
  const FlashAttention flash = flash_attention(q, k, v);
  const AttentionGradients expected = attention_plain_backward(dout, q, k, v, plain);
  const AttentionGradients d_flash = flash_attention_backward(dout, q, k, v, flash);

  fmt::print("kept beside q, k, v and o: plain {} bytes, flash {}\n", plain.probabilities.nbytes(),
             flash.log_sum_exp.nbytes());
  for (const Verdict& same :
       {compare(flash.o, plain.o, 1e-5), compare(d_flash.dq, expected.dq, 1e-5),
        compare(d_flash.dk, expected.dk, 1e-5), compare(d_flash.dv, expected.dv, 1e-5)})
    if (!same || flash.log_sum_exp.nbytes() != 4 * H * T) {
      fmt::print("the same results, and {} bytes, are right; {}\n", 4 * H * T, same.text);
      return 1;
    }
}
