// What runs one rank of a world, whatever its transport; run_ranks_bodies.hpp has the bodies.
#pragma once

#include <memory>
#include <vector>

#include "yotta/comm/run_ranks.hpp"

namespace yotta {

class ThreadWorld;
class Transport;

namespace detail {
// How many threads a rank may compute with if n ranks share this computer.
YOTTA_API int default_threads(int ranks);
// Rethrows the root cause: the error of the rank that failed first, or else of the lowest that did.
YOTTA_API void rethrow_root_cause(const std::vector<RankReport>& reports, int first, Where where);
// Runs one rank on its own thread. `transport` is that of a rank of the world, or built upon it.
YOTTA_API void run_rank(int rank, const std::shared_ptr<ThreadWorld>& world,
                        const std::shared_ptr<Transport>& transport, const RankBody& body,
                        const RunOptions& options, RankReport& report, Where where);
}  // namespace detail

}  // namespace yotta
