// The ring: p ranks add up N bytes each, and every rank sends 2 (p-1)/p N bytes.
// No all_reduce in which only ranks add can do with less.
#include <fmt/format.h>

#include <vector>

#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

int main() {
  const int p = 4, n = 1000;
  std::vector<std::vector<float>> sums(p);
  const std::vector<RankReport> reports = run_ranks(p, [&](Communicator& world) {
    std::vector<float> x(n, static_cast<float>(world.rank()));
    world.collective("ring", [&](Channel& ring) { all_reduce_ring(ring, x, ReduceOp::sum); });
    sums[world.rank()] = x;
  });
  for (int rank = 0; rank < p; ++rank) {
    const int64_t sent = reports[rank].ledger().total_traffic().bytes_sent;
    fmt::print("rank {}: sent {} bytes, has the sum {}\n", rank, sent, sums[rank][0]);
    if (sums[rank] != std::vector<float>(n, 6) || sent != 2 * (p - 1) * n * 4 / p) {
      fmt::print("{} bytes and a sum of 6 in every place are right\n", 2 * (p - 1) * n * 4 / p);
      return 1;
    }
  }
}
