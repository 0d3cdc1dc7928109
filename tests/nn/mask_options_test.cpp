#include "yotta/nn/mask_options.hpp"

#include <doctest/doctest.h>

#include "support/refused.hpp"
#include "yotta/nn/flex_core.hpp"
#include "yotta/nn/transformer_config.hpp"

using namespace yotta;

TEST_CASE("without options a mask is causal, and any of them makes another") {
  const MaskOptions causal;
  CHECK((!causal.document && causal.window == 0 && causal.prefix == 0 && !causal.alibi));
  const MaskOptions others[] = {{.document = true}, {.window = 1}, {.prefix = 1}, {.alibi = true}};
  for (const MaskOptions& other : others) CHECK(other != causal);
}

TEST_CASE("a mask that counts below zero, or has no tile, is refused by whoever takes it") {
  yotta_test::check_refused({
      {"MaskOptions::tile is 0, expected 1 or more; by default it is 64",
       [] { FlexCore({.tile = 0}, 2); }},
      {"MaskOptions::window is -1, expected 0 or more", [] { FlexCore({.window = -1}, 2); }},
      {"MaskOptions::prefix is -3, expected 0 or more", [] { whole_tiles({.prefix = -3}, {}, 8); }},
      {"MaskOptions::tile is -4, expected 1 or more", [] { whole_tiles({.tile = -4}, {}, 8); }},
      {"MaskOptions::tile is 0, expected 1 or more",
       [] {
         TransformerConfig config = llama_config(1, 8, 16, 2, 2, 8, 16);
         config.attention = AttentionKind::flex;
         config.mask.tile = 0;
         config.check();
       }},
  });
}
