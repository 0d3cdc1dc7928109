// A run of DiLoCo in a checkpoint. Its workers differ from each other between two means, so each
// rank saves what it holds itself, as bytes: its weights and optimizer, where the workers last
// agreed, what rounding has taken off, a mean that is on its way.
//
//     training_state.safetensors    diloco.rank0 (u8)  diloco.rank1 (u8) ...
//
// Continued with as many workers of the same layout, a run computes the same bits as if it had
// never stopped. Contract: between two steps. All ranks save together, and so do all that restore.
#pragma once

#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/model/named_tensor.hpp"
#include "yotta/nn/ema.hpp"
#include "yotta/parallel/diloco.hpp"

namespace yotta {

// What a rank has; no average: null. Must outlive what is made of it.
struct DilocoRank {
  Diloco& diloco;
  Optimizer& inner;
  DilocoOptions options;  // that `diloco` was made with
  Ema* average = nullptr;
};

// Waits for means that are on their way. They are taken when their step comes, as before.
void await_means(Diloco& diloco);

// The bytes of all ranks, on rank 0 of `world`; the others get none.
std::vector<NamedTensor> gather_diloco(DilocoRank rank, const Communicator& world);

// Sets this rank to its part of what was gathered. Errors: nothing for this rank, not of its size,
// or counts that no run has; `source` is named.
void restore_diloco(DilocoRank rank, const Communicator& world, const std::vector<NamedTensor>& all,
                    const std::string& source);

}  // namespace yotta
