// Pictures of three collectives, as SVG, drawn from the messages that the library's own code sends:
//
//     ring_svg     all_reduce_ring on 4 ranks: whose numbers each chunk holds, step by step
//     tree_svg     all_reduce_tree on 8 ranks: who sends to whom in which round
//     rabenseifner_svg     all_reduce_rabenseifner on 4 ranks: recursive halving, then doubling
//
// Every rank's array holds one power of two a chunk, each rank's another one. So a sum tells whose
// numbers are in it. The files in course/pictures/ are what `./yotta lesson 10 -- --draw 1` writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/comm/channel.hpp"

namespace yotta {

// One chunk in a message of a collective: in which round it arrives (the first is 1), and whose
// numbers of which chunk it carries. A message of several chunks is as many of these.
struct CollectiveMessage {
  int round, from, to, chunk;
  unsigned whose;  // bit r: rank r's

  bool operator==(const CollectiveMessage&) const = default;
};

// An all_reduce in place, such as all_reduce_ring.
using AllReduce = std::function<void(Channel&, Data, ReduceOp)>;

// The messages of an all_reduce of `chunks` numbers on p ranks, by round, sender and chunk. A
// message takes a round.
std::vector<CollectiveMessage> collective_messages(int p, int chunks, const AllReduce& all_reduce);

std::string ring_svg();
std::string rabenseifner_svg();
std::string tree_svg();

}  // namespace yotta
