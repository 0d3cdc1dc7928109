// The pictures of lesson 27: the share of the peak that one matmul reaches, by its size; a
// waterfall of lost FLOPs, and the same for several machines as columns beside each other.
//
// The files in course/pictures/ are what `./yotta lesson 27 -- --draw 1` writes.
#pragma once

#include <string>
#include <vector>

#include "course/pictures/mfu_run.hpp"

namespace yotta {

// One matmul n x n x n in bf16 on an H100: what the planner takes it to reach of the peak, and what
// cuBLAS reached (Shankhdhar 2024, "Outperforming cuBLAS on H100", its repository's measurements).
double matmul_hfu(int64_t n);
struct PublishedMatmul {
  int64_t n;
  double flops;  // a second
};
inline constexpr PublishedMatmul cublas_on_h100[] = {
    {6144, 741.1e12}, {8192, 797.8e12}, {12288, 822.8e12}};
std::string hfu_svg();

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
