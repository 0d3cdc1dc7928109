// A training step of GPT-2 small as kernels of an H100, and its picture: who waits for whom.
//
//     gpt2_step     one sequence and 64: the same 736 kernels, of other sizes
//     launch_svg    host and chip over a step, with 1, 8 and 64 sequences
//     buffers_svg   copies beside steps: which event keeps whom off which buffer
//
// The files course/pictures/launch_overhead.svg and two_buffers.svg are what
// `./yotta lesson 06 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

#include "yotta/machine/launch_programs.hpp"

namespace yotta {

// Forward, loss, backward and AdamW on so many sequences of 1024 tokens, in bf16, as charged by the
// code of nn/ on tensors without data.
std::vector<HostCall> gpt2_step(int64_t sequences);

std::string launch_svg(const Host& host = {});
std::string buffers_svg();

}  // namespace yotta
