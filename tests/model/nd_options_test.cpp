#include "yotta/model/nd_options.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a run's sequences are as long as the model's context, unless they are shorter") {
  const TransformerConfig config = gpt2_config(1, 8, 2, 32, 16);
  NdOptions options;
  CHECK(options.tokens(config) == 32);
  options.sequence = 12;
  CHECK(options.tokens(config) == 12);
}

TEST_CASE("tokens are cut over tp only with sequence parallelism") {
  NdOptions options;
  options.keep_gathered = true;
  CHECK(options.cut(12).T == 0);
  options.sequence_parallel = true;
  CHECK(options.cut(12).T == 12);
  CHECK(options.cut(12).keeps_gathered);
}
