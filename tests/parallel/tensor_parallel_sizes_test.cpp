#include "yotta/parallel/tensor_parallel_sizes.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("what does not divide is refused with the nearest number of ranks that works") {
  const auto said = [](const TransformerConfig& c, int tp) {
    return message_of([&] { expect_divides(c, tp); });
  };
  CHECK(contains(said(llama3_70b(), 16), "8 key/value heads are not divisible by 16"));
  CHECK(contains(said(llama3_70b(), 7), "model: tp 8"));
  TransformerConfig c = gpt2_config(2, 16, 8, 8, 25);
  expect_divides(c, 2);  // the vocabulary is padded
  c.vocabulary = 3;
  CHECK(contains(said(c, 4), "3 tokens of the vocabulary leave some of 4 ranks without any"));
  const auto works = [](int tp) { return tp < 2; };
  CHECK(contains(message_of([&] { expect_divides(c, 3, Where::current(), works); }),
                 "The nearest that works for this model: tp 1"));
}
