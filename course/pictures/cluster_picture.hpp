// Two pictures of machines, as SVG, drawn from what the library says of them:
//
//     torus_svg     a torus of 4 x 4 chips: its wires, and which part of an array takes which ring
//     levels_svg    llama3_24k: GPU, node, rack, pod, cluster, and what a link of each level gives
//
// The files in course/pictures/ are what `./yotta lesson 09 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

namespace yotta {

// A step of one part of the array, in one phase: from a chip to the next of its ring.
struct TorusStep {
  int part, from, to;
  bool wraps;  // over the edge of the grid

  bool operator==(const TorusStep&) const = default;
};

// All steps of a phase on a torus of `side` x `side` chips, by part and sender.
std::vector<TorusStep> torus_steps(int side, int phase);

std::string torus_svg();
std::string levels_svg();

}  // namespace yotta
