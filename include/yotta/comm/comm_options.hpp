// How a collective is run: which reduction, which algorithm. The same on all ranks of a call.
//
//     comm.all_reduce(gradients, ReduceOp::sum, {.algorithm = Algorithm::ring, .label = "ddp"});
//
// The algorithms are in collectives.hpp. Algorithm::automatic takes the transport's own way if it
// has one, else one by the number of bytes and by the network (collective_choice.hpp).
#pragma once

#include <cstdint>
#include <span>

namespace yotta {

// How the numbers of two ranks become one. The names are NCCL's; mean is a sum that is divided by
// the number of ranks at the end. A NaN survives every operation, so that no rank hides another's.
// Small floats are combined in f32 and rounded once.
enum class ReduceOp : uint8_t { sum, mean, max, min, prod };
constexpr const char* name(ReduceOp op) {
  constexpr const char* names[] = {"sum", "mean", "max", "min", "prod"};
  return names[static_cast<int>(op)];
}

// What a collective does: communicator.hpp.
enum class Operation : uint8_t {
  broadcast,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  all_to_all_v,
  gather,
  scatter,
  barrier
};

enum class Algorithm : uint8_t {
  automatic,
  naive,
  ring,
  tree,
  recursive_doubling,
  recursive_halving,
  rabenseifner,
  bruck,
  pairwise,
  dissemination,
  chain,
  scatter_all_gather,
  hierarchical,
  pipelined,
  multi_rail,
  native
};
constexpr const char* name(Algorithm algorithm) {
  constexpr const char* names[] = {"automatic",
                                   "naive",
                                   "ring",
                                   "tree",
                                   "recursive doubling",
                                   "recursive halving",
                                   "Rabenseifner",
                                   "Bruck",
                                   "pairwise",
                                   "dissemination",
                                   "chain",
                                   "scatter + all_gather",
                                   "hierarchical",
                                   "pipelined",
                                   "multi-rail",
                                   "native"};
  return names[static_cast<int>(algorithm)];
}

// How a collective is run: the same on all ranks.
struct CommOptions {
  Algorithm algorithm = Algorithm::automatic;
  const char* label = nullptr;  // in the ledger; default: the operation's name
  int node = 8;                 // ranks per node, for hierarchical, pipelined and multi_rail
  int rails = 0;  // rings of multi_rail, one per network card; 0: one card per rank of a node

  // The same under another label.
  constexpr CommOptions labelled(const char* text) const { return {algorithm, text, node, rails}; }
};

// Elements by rank: to or from each.
using Counts = std::span<const int64_t>;

}  // namespace yotta
