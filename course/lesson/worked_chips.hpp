// The machines of the sections "Who breaks first" in lessons 14 and 15: what a chip computes and
// holds, and how fast an array that all chips need reaches each of them.
//
//     h100    nodes of 8. An array comes into a node once, over all its network cards, and is
//             passed on over NVLink: 8 x 50 GB/s
//     v5p     a torus. An array comes over every link of the chip: 6 x 90 GB/s
#pragma once

#include <string>
#include <vector>

#include "yotta/machine/cluster.hpp"

namespace yotta {

struct WorkedChip {
  std::string name;
  double flops;   // FLOP/s, bf16, dense
  double memory;  // bytes
  double sends;   // bytes/s

  // Tokens a rank from which on computing takes as long as the trips of data parallelism.
  double tokens_to_hide() const { return flops / sends; }
};

// `faster`: the chips compute so many times as fast, and their network and memory stay as they are.
inline std::vector<WorkedChip> worked_chips(double faster = 1) {
  const Cluster nodes = cluster_named("h100x16");
  const Chip &h100 = nodes.chip, &v5p = chip_named("v5p");
  return {
      {"H100", faster * peak(h100, DType::bf16), h100.memory, h100.domain / nodes.levels[1].beta},
      {"TPU v5p", faster * peak(v5p, DType::bf16), v5p.memory, v5p.links * v5p.link}};
}

// The same torus if the ranks lie on one of its three axes: a third of the links brings the array.
inline WorkedChip on_one_axis(WorkedChip torus) {
  torus.name += ", one axis";
  torus.sends /= 3;
  return torus;
}

}  // namespace yotta
