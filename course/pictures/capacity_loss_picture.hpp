// What a capacity costs in loss: runs of `train` that were measured once and are stored, and their
// picture.
#pragma once

#include <string>
#include <vector>

namespace yotta {

// bench/results/expert_capacity.csv, which says how it was made: the loss on text that a run has
// not seen.
struct CapacityRun {
  double factor = 0;  // 0: nothing is dropped
  int seed = 0;
  double loss = 0;  // nats a token
};
std::vector<CapacityRun> stored_capacity_runs();
// The mean over the seeds of one factor. Errors: no such run.
double mean_loss(const std::vector<CapacityRun>& runs, double factor);

std::string capacity_loss_svg(const std::vector<CapacityRun>& runs);

}  // namespace yotta
