#include "yotta/nn/mask_options.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("without options a mask is causal, and any of them makes another") {
  const MaskOptions causal;
  CHECK((!causal.document && causal.window == 0 && causal.prefix == 0 && !causal.alibi));
  const MaskOptions others[] = {{.document = true}, {.window = 1}, {.prefix = 1}, {.alibi = true}};
  for (const MaskOptions& other : others) CHECK(other != causal);
}
