// Sharded matrices: A (I, J) times B (J, K) on two ranks, each of which has half of J.
// Each rank has a part of every sum, so an all_reduce of C is all that must be sent.
#include <fmt/format.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/sharding/sharded_matrices.hpp"

using namespace yotta;

int main() {
  const std::vector<double> expected = {19, 22, 43, 50};
  std::vector<std::vector<double>> products(2);
  const std::vector<RankReport> reports = run_ranks(2, [&](Communicator& world) {
    const NamedMesh mesh = parse_mesh("X 2");
    AxisGroups groups(world, mesh);
    const Tensor a = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
    const Tensor b = Tensor::from<float>({5, 6, 7, 8}, {2, 2});
    const ShardedMatrix my_a = cut(a, parse_spread("A[I, J_X]", mesh), groups);
    const ShardedMatrix my_b = cut(b, parse_spread("B[J_X, K]", mesh), groups);
    const ShardedMatrix c = sharded_matmul(my_a, my_b, -1, groups);
    products[world.rank()] = c.local.values();
  });
  for (int rank = 0; rank < 2; ++rank) {
    const int64_t sent = reports[rank].ledger().traffic("all_reduce").bytes_sent;
    const std::vector<double>& c = products[rank];
    fmt::print("rank {}: C = {} {} {} {}; {} bytes sent\n", rank, c[0], c[1], c[2], c[3], sent);
    if (c != expected || sent != 16) {
      fmt::print("19 22 43 50 is right, and 16 bytes: a C of 2 x 2 numbers\n");
      return 1;
    }
  }
}
