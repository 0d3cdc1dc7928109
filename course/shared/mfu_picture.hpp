// The pictures of lesson 27: a waterfall of lost FLOPs, and the same for several machines as
// columns beside each other.
//
// The files in course/pictures/ are what `./yotta lesson 27 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

#include "course/shared/mfu_run.hpp"

namespace yotta {

// One row per line of the waterfall, from 100% down to the MFU.
std::string waterfall_svg(const Waterfall& waterfall, const std::string& title);
std::string first_waterfall_svg();

// Machines on which the same steps are run: 16 chips, of which the later ones compute faster.
struct NamedMachine {
  std::string name;
  Cluster cluster;
};
std::vector<NamedMachine> faster_machines();
// The steps that they run: whole layers sharded over all 16 chips.
MfuRun faster_run();
std::string faster_svg();

}  // namespace yotta
