// Sharded checkpoint: each rank saves the shards that it holds, and any number of ranks loads them.
//
//     DIR/step_120/rank_0_of_2.safetensors    exp_avg.w[0:12/24]   w[0:12/24]   ...
//     DIR/step_120/rank_1_of_2.safetensors    exp_avg.w[12:24/24]  w[12:24/24]  ...
//     DIR/latest                              "step_120/rank_0_of_2.safetensors", written last
//
//   saved by 2 ranks  [ 0 ............... 11 | 12 .............. 23 ]   numbers of w
//   loaded by 3       [ 0 ...... 7 | 8 ....... 15 | 16 ........ 23 ]   rank 1 reads from both files
//
// With ZeRO or FSDP no rank holds the whole model, and none should have to for a save. So a file
// holds runs of numbers, each named by the parameter and the range of it that it holds. Whoever
// loads takes from all files what overlaps with its own shards: the number of ranks, the units and
// the padding may differ from when it was saved.
//
// A save that is cut short leaves `latest` with the step before; older steps stay until you delete
// them. Cost: written by each rank 1/N of weights and optimizer state, in parallel; held while
// loading: a second copy of its own, and one run of numbers. Contract: all ranks of `comm` call;
// their shards are the model, each number once. (Under tensor parallelism the shards are those of
// one rank of tp: give each rank of tp a folder of its own. Along ep the experts differ and all
// else is the same: one rank of ep passes both, the others pass their experts.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace yotta {

// Numbers [first, last) of the `whole` ones of a tensor, as it is named in a file: "w[0:12/24]".
struct Run {
  std::string tensor;
  int64_t first = 0, last = 0, whole = 0;

  std::string name() const;
};

// Errors: a name that is no run's.
Run parse_run(const std::string& name, const std::string& source, Where where = Where::current());

// Where a rank's shards lie in the folder.
std::string shard_file(int64_t step, int64_t rank, int64_t ranks);

// Saves this rank's shards after `step` steps. The folder is made if it is not there.
void save_sharded(const std::string& folder, Communicator& comm,
                  const std::vector<ParameterShard>& shards, Optimizer& optimizer, int64_t step,
                  Where where = Where::current());

// Loads what this rank holds; returns the steps done. With ZeRO's stages 1 and 2 call gather()
// after it. All is read and checked first: every number is there once, finite, and of the type
// that it has here; all files are of one step. Errors: after one the model is as it was.
int64_t load_sharded(const std::string& folder, const std::vector<ParameterShard>& shards,
                     Optimizer& optimizer, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/sharded_checkpoint.ipp"
#endif
