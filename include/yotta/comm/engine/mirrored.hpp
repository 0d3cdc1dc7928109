// Mirrored ranks: one rank stands for many that do the same, so 16,384 chips are a handful of
// threads.
//
// In data parallelism all replicas do the same things at the same time; only the numbers differ. So
// on Device::meta, where there are no numbers, one of them is enough:
//
//     tp 2, pp 3, dp 4: 24 chips               alive: 3 threads, one per stage
//
//     dp 0   [ 0  1]──[ 2  3]──[ 4  5]    [0]─────[2]─────[4]
//     dp 1   [ 6  7]──[ 8  9]──[10 11]     :       :       :
//     dp 2   [12 13]──[14 15]──[16 17]     :       :       :      chip c has images at c + 1 (tp)
//     dp 3   [18 19]──[20 21]──[22 23]     :       :       :      and at c + 6, c + 12, c + 18 (dp)
//
//     Communicator dp = world.mirrored({c, c + 6, c + 12, c + 18});    size 4, rank 0, one alive
//     dp.all_reduce(gradient);                     a ring of 4, which takes as long as the real one
//
// What an image sends to this rank is what this rank sends to another image, at the same time: so a
// message to an image comes back as the message from one. It is counted and timed like any other,
// over the link between the two chips.
//
// Contract: chips[0] is this rank's own; all tensors are on meta; only collectives in which all
// ranks do the same (no root, a count that the ranks divide, an algorithm without roles: rings,
// Bruck, pairwise, dissemination; recursive doubling and halving for powers of two). Under a clock
// all chips must see the same network, or they would not stay in step: one level of the cluster, as
// many chips of each node, or one ring of a torus; and where this rank sends to another live one,
// its images must send to theirs over equal links. All else is refused with its reason, but for
// point-to-point messages: that what is sent to image i is received from image p - i is the
// caller's to see to.
//
// Of several levels multi-rail and hierarchical algorithms use both links, in the node and between
// nodes: each rank sends as many messages over either, so what leaves the node comes back as what
// enters it. In all others some ranks wait for the slowest link, and then all do: so each of their
// messages is timed as one over that link.
// Cost: that of one rank, whatever the number of images.
#pragma once

#include "yotta/comm/engine/point_to_point.hpp"

namespace yotta {

// A group of this rank and its images on these chips, its own first; see above.
inline std::shared_ptr<Group> mirror_group(const std::shared_ptr<Group>& group_of_all,
                                           std::vector<int> chips, Where where) {
  const Group& parent = group_or_fail(group_of_all, where);
  parent.engine->enter(where);
  if (chips.empty()) fail(where, "a mirrored communicator has at least one chip, this rank's own");
  if (CostSink* clock = context().clock) clock->mirror(chips, where);
  const int self = parent.world(parent.rank);
  auto group = std::make_shared<Group>();
  group->engine = parent.engine;
  group->name = kept(fmt::format("{} mirrored ranks", chips.size()));
  group->lane = parent.engine->new_lane();
  group->members.assign(chips.size(), self);  // messages to images are messages to itself
  group->images = std::move(chips);
  group->number =
      parent.engine->transport().open_group(parent.number, group->lane, self, std::span(&self, 1));
  return group;
}

}  // namespace yotta
