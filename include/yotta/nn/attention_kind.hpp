// The two ways to compute attention, which give the same numbers (attention.hpp, attention_blockwise.hpp).
//
//     plain       keeps the T x T probabilities of every head for the backward pass
//     blockwise   computes them again, tile by tile: T numbers a head are kept, and a few more FLOPs are done
#pragma once

#include <cstdint>

namespace yotta {

enum class AttentionKind : uint8_t { plain, blockwise };
constexpr const char* name(AttentionKind kind) {
  return kind == AttentionKind::plain ? "plain" : "blockwise";
}

}  // namespace yotta
