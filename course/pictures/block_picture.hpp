// One block of a transformer, forward and backward, and what it keeps in between, as SVG.
//
//     forward (F)          Saved                  backward (I, W)
//     │ norm1 ───────────> x, mean, rstd ───────> dx; dw, db  ▲
//     │ q, k, v ─────────> x ───────────────────> dx; dW, db  │
//     ▼ ...                                       ...         │
//
// The layer itself says what it keeps: a block without data is run forward, and its Saved is read.
// Bars are as long as bytes. The file in course/pictures/ is what `./yotta lesson 12 -- --draw 1`
// writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yotta {

// Tensors that one layer of the block keeps.
struct KeptRow {
  std::string layer;               // "attention.q"; the block's own layers, in the order of forward
  std::vector<std::string> slots;  // those that no layer before it keeps too
  std::vector<int64_t> bytes;      // of each
};

struct KeptByBlock {
  std::vector<KeptRow> rows;
  int64_t after_forward = 0, after_dgrad = 0;  // bytes of the whole Saved
};

// Of the block that lesson 12 counts: GPT-2, C 128, 4 heads, 4 sequences of 512 tokens, f32.
KeptByBlock kept_by_block();

std::string block_svg();

}  // namespace yotta
