// Whole tensors from what the ranks of a mesh hold, and back: for checkpoints and for sampling. A
// file holds whole tensors under the names of the serial model, so a run may be saved on one layout
// and continued on another.
//
//     whole (4, 6)      tp: rows  FSDP, ZeRO: a run of that part, row-major
//     . . . . . .
//     . . . . . .
//     # # # # # #   ┐             # # # # # # # #        Held{part: rows 2, 3; first: 0; 8 numbers}
//     # # + + + +   ┘ rows 2, 3           + + + +        Held{the same part;   first: 8; 4 numbers}
//
// Exactly one rank contributes a number: of those that hold it, the lowest on each axis. The others
// contribute zeros, and a sum puts the whole together, one tensor at a time. Cost: one reduce of
// every tensor over all ranks; one whole tensor beside the model on each rank, all of them on rank
// 0. Contract: all ranks of the world make the same calls.
#pragma once

#include <string>
#include <vector>

#include "yotta/comm/mesh.hpp"
#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/shard_range.hpp"

namespace yotta {

// What a rank holds of a parameter: numbers [first, first + n) of its ShardRange, row-major.
// Without FSDP or ZeRO all of it.
struct Held {
  ParameterPtr parameter;
  int64_t first = 0;
};

// A tensor of the serial model.
struct WholeShape {
  std::string name;
  Shape shape;
};

// Axes along which ranks hold different runs: cp and dp_shard with FSDP; cp, ep and dp_replicate
// with ZeRO. Along ep ranks hold different experts in any case.
using RunAxes = std::vector<Axis>;

// Whether this rank, of all that hold these numbers, is the one that contributes them.
bool gives(const Parameter& parameter, const RunAxes& runs, Mesh& mesh);

// Whole tensors on rank 0 (elsewhere nothing), in the order of `shapes`. values[i] are the numbers
// of held[i].
std::vector<NamedTensor> gather_whole(const std::vector<WholeShape>& shapes,
                                      const std::vector<Held>& held,
                                      const std::vector<Tensor>& values, DType dtype,
                                      const RunAxes& runs, Mesh& mesh);

// Throws unless `whole` are finite tensors of these names and shapes, and no others. `source` names
// the file in errors.
void expect_whole(const std::string& source, const std::vector<WholeShape>& shapes,
                  const std::vector<NamedTensor>& whole, Where where = Where::current());

// The way back, without messages: every rank has the whole tensors and takes what it holds.
void take_held(const std::vector<NamedTensor>& whole, const std::vector<Held>& held,
               std::vector<Tensor>& values, Where where = Where::current());
// The same for the parameters of layers that are not yet sharded.
void take_all(const std::vector<NamedTensor>& whole, Layers layers, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/whole_tensors.ipp"
#endif
