// Two pictures of sequence parallelism, as SVG. One: which tokens two ranks hold between the layers
// of tensor parallelism, without it and with it, and what is sent where. Two: what a rank keeps of
// two published models' activations. What they say is asked of the library's layers and formulas.
#pragma once

#include <cstdint>
#include <string>

namespace yotta {

// What a rank of two holds of the tokens, and sends: in numbers, for the 6 tokens that are drawn.
struct SequenceParallelShare {
  int64_t first_token = 0, tokens = 0;
  int64_t gathered = 0, scattered = 0;  // sent by g and by its conjugate, forward
  int64_t reduced = 0;                  // sent by the all_reduce of tensor parallelism alone
};
SequenceParallelShare sequence_parallel_share(int rank);

std::string sequence_parallel_svg();
std::string sequence_parallel_memory_svg();

}  // namespace yotta
