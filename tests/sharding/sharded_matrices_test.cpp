#include "yotta/sharding/sharded_matrices.hpp"

#include <doctest/doctest.h>

#include <set>

#include "sharding/spreads/spread_cases.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("the quiz: bf16[256, 2048] as A[I_XY, J] on {X 4, Y 8, Z 2}, by formula and by ledger") {
  const NamedMesh mesh = parse_mesh("{X 4, Y 8, Z 2}");
  const Spread spread = parse_spread("A[I_XY, J]", mesh);
  CHECK(held_bytes({256, 2048}, DType::bf16, spread, mesh, 0) == 32 * 1024);
  CHECK(copies_of(spread, mesh) == 2);
  const auto reports = run_ranks(64, [&](Communicator& world) {
    const MemoryScope scope(MemoryKind::parameters);
    const AxisGroups groups(world, mesh);
    const DeviceScope meta(Device::meta);
    const Tensor held =
        Tensor::empty(held_shape({256, 2048}, spread, mesh, world.rank()), DType::bf16);
    CHECK(held.shape() == Shape{8, 2048});
  });
  int64_t all = 0;
  for (const RankReport& report : reports) {
    CHECK(report.ledger().memory()->peak(MemoryKind::parameters) == 32 * 1024);
    all += report.ledger().memory()->peak(MemoryKind::parameters);
  }
  CHECK(all == 2 * 1024 * 1024);
}

TEST_CASE("I_XY: X outside, Y inside; I_YX gives the same rows to other ranks") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");  // rank = x + 2 y
  const auto rows = [&](const char* axes) {
    std::vector<int64_t> begins;
    for (int rank = 0; rank < 4; ++rank) begins.push_back(held_range(8, axes, mesh, rank).begin);
    return begins;
  };
  CHECK(rows("XY") == std::vector<int64_t>{0, 4, 2, 6});
  CHECK(rows("YX") == std::vector<int64_t>{0, 2, 4, 6});
  CHECK(rows("X") == std::vector<int64_t>{0, 4, 0, 4});
  CHECK(rows("") == std::vector<int64_t>{0, 0, 0, 0});
}

TEST_CASE("for any size the parts cover a dim once, and lie inside the parts of fewer axes") {
  const NamedMesh mesh = parse_mesh("X 2, Y 3, Z 2");
  for (const std::string axes : {"X", "Y", "XY", "YX", "ZYX", "XYZ"})
    for (const int64_t size : {0, 1, 5, 12, 17}) {
      std::set<std::pair<int64_t, int64_t>> parts;
      int64_t longest = 0, shortest = size;
      for (int rank = 0; rank < 12; ++rank) {
        const IndexRange part = held_range(size, axes, mesh, rank);
        const IndexRange outer = held_range(size, axes.substr(0, axes.size() - 1), mesh, rank);
        CHECK((outer.begin <= part.begin && part.end <= outer.end));
        parts.insert({part.begin, part.end});
        longest = std::max(longest, part.size()), shortest = std::min(shortest, part.size());
      }
      int64_t next = 0;
      for (const auto& [begin, end] : parts) {
        CHECK(begin == next);
        next = end;
      }
      CHECK(next == size);
      CHECK(held_range(size, axes, mesh, 0).size() == longest);  // plans count on rank 0
      CHECK(longest - shortest <= std::ssize(axes));
    }
}

TEST_CASE("gathered, reduced and scattered tensors, for sizes that do not divide") {
  const NamedMesh mesh = parse_mesh("X 2, Y 3");
  const Tensor whole = normal_numbers({5, 7}, "whole");
  const auto reports = run_ranks(6, [&](Communicator& world) {
    AxisGroups groups(world, mesh);
    for (const Spread& spread : all_spreads("[I, J]", mesh)) {
      const ShardedMatrix x = part_of(whole, spread, groups);
      for (size_t dim = 0; dim < 2; ++dim)
        for (size_t count = 1; count <= spread.dims[dim].axes.size(); ++count) {
          Spread to = spread;
          to.dims[dim].axes.resize(to.dims[dim].axes.size() - count);
          check_part(gathered(x, dim, count, groups), to, whole, groups);
        }
      if (spread.unreduced.empty()) continue;
      Spread to = spread;
      to.unreduced.clear();
      check_part(reduced(x, spread.unreduced, groups), to, whole, groups);
      for (size_t dim = 0; dim < 2; ++dim) {
        Spread onto = to;
        onto.dims[dim].axes += spread.unreduced;
        check_part(scattered(x, spread.unreduced, dim, groups), onto, whole, groups);
      }
    }
  });
  CHECK(reports[5].ledger().traffic("reduce_scatter").bytes_sent > 0);
}

TEST_CASE("the four cases") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2, Z 2");
  const auto product = [&](const char* a, const char* b) {
    const LocalProduct p = product_of(parse_spread(a, mesh), parse_spread(b, mesh));
    const bool multiplies = p.which == 1 || p.which == 3;
    return fmt::format("{} {}", p.which, multiplies ? str(p.result) : p.between);
  };
  CHECK(product("[I, J]", "[J, K]") == "1 [I, K]");
  CHECK(product("[I_X, J]", "[J, K_YZ]") == "1 [I_X, K_YZ]");
  CHECK(product("[I, J_X]", "[J, K]") == "2 X");
  CHECK(product("[I_Y, J]", "[J_X, K]") == "2 X");
  CHECK(product("[I, J_XY]", "[J_YX, K]") == "2 YX");
  CHECK(product("[I_Z, J_X]", "[J_X, K_Y]") == "3 [I_Z, K_Y]{U_X}");
  CHECK(product("[I, J_YX]", "[J_YX, K]") == "3 [I, K]{U_XY}");
  CHECK(product("[I_X, J]", "[J, K_X]") == "4 X");
  CHECK(product("[I_XY, J_Z]", "[J_Z, K_Y]") == "4 Y");
  // A sum of products: by what X does not touch.
  CHECK(product("[I, J_Z]{U_X}", "[J_Z, K_Y]") == "3 [I, K_Y]{U_XZ}");
  CHECK(product("[I, J]", "[J, K]{U_X}") == "1 [I, K]{U_X}");
  CHECK(product("[I, J]{U_X}", "[J, K_X]") == "4 X");
  CHECK(product("[I, J]{U_X}", "[J, K]{U_X}") == "4 X");
  CHECK(product("[I_X, J]", "[J, K]{U_X}") == "4 X");
}

TEST_CASE("results equal the serial product: every pair of spreads, sizes that do not divide") {
  for (const char* text : {"X 1", "X 2", "X 3", "X 4", "X 2, Y 2", "X 8", "X 4, Y 2"}) {
    const NamedMesh mesh = parse_mesh(text);
    const Tensor a = normal_numbers({5, 7}, "a"), b = normal_numbers({7, 6}, "b");
    const Tensor c = local_matmul(a, b);
    const auto of_a = reduced_spreads("[I, J]", mesh), of_b = reduced_spreads("[J, K]", mesh);
    run_ranks(ranks_of(mesh), [&](Communicator& world) {
      AxisGroups groups(world, mesh);
      int onto = -1;
      for (const Spread& left : of_a)
        for (const Spread& right : of_b) {
          const ShardedMatrix product =
              sharded_matmul(cut(a, left, groups), cut(b, right, groups), onto, groups);
          CHECK(product.spread.unreduced.empty());
          check_part(product, product.spread, c, groups);
          onto = onto == 1 ? -1 : onto + 1;
        }
    });
  }
}

TEST_CASE("one input is gathered, the smaller one; sums are reduced once") {
  const NamedMesh mesh = parse_mesh("X 4");
  const auto sent = [&](const char* left, const char* right, int onto) {
    const auto reports = run_ranks(4, [&](Communicator& world) {
      AxisGroups groups(world, mesh);
      const Spread a = parse_spread(left, mesh), b = parse_spread(right, mesh);
      sharded_matmul(cut(Tensor::zeros({8, 4}, DType::f64), a, groups),
                     cut(Tensor::zeros({4, 16}, DType::f64), b, groups), onto, groups);
    });
    int64_t bytes = 0;  // without those that made the groups
    for (const char* label : {"all_gather", "all_reduce", "reduce_scatter"})
      bytes += reports[0].ledger().traffic(label).bytes_sent;
    return bytes;
  };
  CHECK(sent("[I_X, J]", "[J, K]", -1) == 0);
  CHECK(sent("[I_X, J]", "[J, K_X]", -1) == 8 * 8 * 4 * 3 / 4);  // A
  CHECK(sent("[I, J]", "[J_X, K]", -1) == 8 * 4 * 16 * 3 / 4);   // B, which is cut
  CHECK(sent("[I, J_X]", "[J_X, K]", -1) == 2 * 8 * 8 * 16 * 3 / 4);
  CHECK(sent("[I, J_X]", "[J_X, K]", 1) == 8 * 8 * 16 * 3 / 4);
}

TEST_CASE("no more axes are gathered than must be") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const auto gathered_bytes = [&](const char* left, const char* right) {
    const auto reports = run_ranks(4, [&](Communicator& world) {
      AxisGroups groups(world, mesh);
      const Spread a = parse_spread(left, mesh), b = parse_spread(right, mesh);
      sharded_matmul(cut(Tensor::zeros({8, 4}, DType::f64), a, groups),
                     cut(Tensor::zeros({4, 8}, DType::f64), b, groups), -1, groups);
    });
    return reports[0].ledger().traffic("all_gather").bytes_sent;
  };
  CHECK(gathered_bytes("[I, J_XY]", "[J_X, K]") == 8 * 8 * 2 / 2);      // Y of A
  CHECK(gathered_bytes("[I, J_X]", "[J_XY, K]") == 8 * 2 * 8 / 2);      // Y of B
  CHECK(gathered_bytes("[I_XY, J]", "[J, K_Y]") == 8 * 4 * 4 / 2);      // Y of A
  CHECK(gathered_bytes("[I_XY, J]", "[J, K_X]") == 8 * 8 * 4 * 3 / 4);  // X is the first axis of A
  CHECK(gathered_bytes("[I, J_XY]", "[J, K]") == 8 * 8 * 4 * 3 / 4);
}

TEST_CASE("refused: what is unreduced, and shapes of other dims") {
  run_ranks(2, [](Communicator& world) {
    AxisGroups groups(world, parse_mesh("X 2"));
    const Tensor x = Tensor::zeros({4, 4}, DType::f64);
    const ShardedMatrix whole = cut(x, parse_spread("[I, J]", groups.mesh()), groups);
    const ShardedMatrix sum = cut(x, parse_spread("[I, J]{U_X}", groups.mesh()), groups);
    CHECK(contains(message_of([&] { sharded_matmul(sum, whole, -1, groups); }),
                   "[I, J]{U_X} cannot be multiplied: sum it first"));
    CHECK(contains(message_of([&] { gathered(whole, 0, 1, groups); }), "has no 1 axes to gather"));
    CHECK(contains(message_of([&] {
                     held_shape({4}, parse_spread("[I, J]", groups.mesh()), groups.mesh(), 0);
                   }),
                   "[I, J] has 2 dims, and the tensor's shape is (4)"));
  });
}

TEST_CASE("arithmetic intensity of what a rank multiplies") {
  const NamedMesh mesh = parse_mesh("X 4, Y 2");
  const auto intensity = [&](int64_t I, int64_t J, int64_t K, const char* a, const char* b) {
    return local_intensity(I, J, K, parse_spread(a, mesh), parse_spread(b, mesh), 2, mesh);
  };
  CHECK(intensity(512, 512, 512, "[I, J]", "[J, K]") == doctest::Approx(512 / 3.0));
  // 128 x 512 times 512 x 256: 2 m n k / (2 (m k + k n + m n))
  CHECK(intensity(512, 512, 512, "[I_X, J]", "[J, K_Y]") ==
        doctest::Approx(128.0 * 512 * 256 / (128 * 512 + 512 * 256 + 128 * 256)));
  // A batch that is small beside the weights: about the rank's tokens.
  CHECK(intensity(64, 8192, 8192, "[I_X, J]", "[J, K]") == doctest::Approx(16).epsilon(0.01));
}

TEST_CASE("data parallelism by spreads") {
  const DataParallelSpreads layer = data_parallel('X');
  const NamedMesh mesh = parse_mesh("X 4");
  const auto product = [&](const Spread& a, const Spread& b) {
    return str(product_of(a, b).result);
  };
  const Spread in = parse_spread(layer.in, mesh), w_in = parse_spread(layer.w_in, mesh);
  CHECK(product(in, w_in) == "[B_X, F]");
  CHECK(product(parse_spread("[B_X, F]", mesh), parse_spread(layer.w_out, mesh)) == "[B_X, D]");
  CHECK(product(transposed(in), parse_spread("[B_X, F]", mesh)) ==
        str(parse_spread(layer.dw_in_local, mesh)));
  CHECK(layer.collective == "all_reduce");
}
