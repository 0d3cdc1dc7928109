// The pictures of lesson 16. The first is a step of HSDP on rank 0, from the timeline of Hsdp
// itself on a machine that is only described: what it computes, what travels inside its group, and
// what between groups. The second shows the seconds of a step for every group size (hsdp_sweep).
//
// The files in course/pictures/ are what `./yotta lesson 16 -- --draw 1` writes.
#pragma once

#include <string>

#include "yotta/machine/trace.hpp"
#include "yotta/parallel/hsdp_cost.hpp"

namespace yotta {

constexpr int hsdp_picture_group = 2, hsdp_picture_replicas = 2, hsdp_picture_units = 4;

// Forward takes 1 s per unit, backward 2 s; a gather or a reduction 0.75 s, an all_reduce of a
// shard `between` s.
Trace hsdp_picture_trace(double between, bool overlap = true);

// A step with all_reduces that are faster than backward, and one whose all_reduces set the pace.
std::string hsdp_svg();

// 8e9 parameters, 2048 tokens per rank, on 512 H100.
inline constexpr int hsdp_sweep_ranks = 512;
HsdpWork hsdp_sweep_work();
std::string hsdp_sweep_svg();

}  // namespace yotta
