#include "yotta/nn/attention_core.hpp"

#include <doctest/doctest.h>

#include "nn/attention_inputs.hpp"
#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("the blockwise core is flash attention, and keeps what its backward pass takes") {
  const Inputs x = inputs(2, 9, 4, 2, 6);
  BlockwiseCore core;
  Saved saved;
  const FlashAttention expected = flash_attention(x.q, x.k, x.v);
  CHECK(same_bits(core.forward(x.q, x.k, x.v, saved), expected.o));
  CHECK(same_bits(saved.get("log_sum_exp"), expected.log_sum_exp));
  const AttentionGradients d = core.backward(x.dout, saved);
  const auto wanted = flash_attention_backward(x.dout, x.q, x.k, x.v, expected);
  CHECK(same_bits(d.dq, wanted.dq));
  CHECK(same_bits(d.dk, wanted.dk));
  CHECK(same_bits(d.dv, wanted.dv));
  CHECK(saved.empty());
}
