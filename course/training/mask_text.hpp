// train's --mask: "document,window=256" and what else can be said of who sees whom.
#pragma once

#include <string>

#include "yotta/nn/mask_options.hpp"

namespace yotta {

// Errors: a word that is none, or twice; a number that is none, or below 1.
MaskOptions parse_mask(const std::string& text);

// The same text of what parse_mask has read; "causal" without any.
std::string describe_mask(const MaskOptions& mask);

}  // namespace yotta
