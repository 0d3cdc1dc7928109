#include "yotta/parallel/nd_options.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a run's sequences are as long as the model's context, unless they are shorter") {
  const TransformerConfig config = gpt2_config(1, 8, 2, 32, 16);
  NdOptions options;
  CHECK(options.tokens(config) == 32);
  options.sequence = 12;
  CHECK(options.tokens(config) == 12);
}

TEST_CASE("tokens are shared over tp with sequence parallelism, and where they travel in pieces") {
  NdOptions options;
  options.keep_gathered = true;
  CHECK_FALSE(options.shares_tokens());
  options.sequence_parallel = true;
  CHECK(options.shares_tokens());
  CHECK(NdOptions{.pieces = Pieces::one_way}.shares_tokens());
}
