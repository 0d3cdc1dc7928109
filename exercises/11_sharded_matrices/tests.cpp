// The graded cases of exercise 11. Everything is compared with the library's held_box and with
// products on one rank, in double; and what was sent with what one gather or one sum sends.
#include <algorithm>
#include <cmath>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/sharding/sharded_matrices.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Part;
using exercise::solution;

namespace {

// 1, 2, 3, ...: every number tells its place, and none is 0.
Tensor counting(const Shape& shape, double first = 1) {
  Tensor made = Tensor::empty(shape, DType::f64);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data<double>()[i] = first + static_cast<double>(i);
  return made;
}

Part part_of(const Tensor& whole, const Spread& spread, const AxisGroups& groups) {
  const ShardedMatrix x = cut(whole, spread, groups);
  return {x.local, x.spread, x.whole};
}

// Bytes of collectives that rank 0 sent while body(groups) ran on the mesh. Errors become the text
// of the case.
template <class Body>
int64_t run(const NamedMesh& mesh, Body body, const char* advice = "") {
  RunOptions options;
  options.threads = 1;
  options.timeout = 3;
  int64_t sent = 0;
  try {
    const auto reports = run_ranks(
        ranks_of(mesh),
        [&](Communicator& world) {
          AxisGroups groups(world, mesh);
          body(groups);
        },
        options);
    for (const char* label : {"all_gather", "all_reduce", "reduce_scatter"})
      sent += reports[0].ledger().traffic(label).bytes_sent;
  } catch (const RankFailed& error) {
    exercise::rethrow_not_done(error.cause());
    expect(false, error.what());
  } catch (const NotDone&) {
    throw;
  } catch (const std::exception& error) {
    expect(false, std::string(error.what()) + advice);
  }
  CHECK(sent >= 0);
  return sent;
}

// The parts of a result against the whole.
void expect_part(const Part& x, const Tensor& whole, const AxisGroups& groups,
                 const std::string& what) {
  if (!x.spread.unreduced.empty())
    fail(Where::current(),
         "{}: the result is {}, still unreduced: each rank has a part of every sum", what,
         str(x.spread));
  const ShardedMatrix expected = cut(whole, x.spread, groups);
  if (!x.local.defined() || x.local.shape() != expected.local.shape())
    fail(Where::current(), "{}: rank {} has {}, and of {} it should have {}", what, groups.rank(),
         x.local.defined() ? x.local.describe() : "nothing", str(x.spread),
         expected.local.describe());
  const std::vector<double> actual = x.local.values(), wanted = expected.local.values();
  const auto ratio = [&](size_t i) { return actual[i] / wanted[i]; };
  bool multiple = !actual.empty() && ratio(0) > 1.5;  // all of them, by the same number?
  for (size_t i = 0; i < actual.size(); ++i)
    multiple = multiple && std::abs(ratio(i) - std::round(ratio(0))) < 1e-9;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - wanted[i]) <= 1e-9) continue;
    fail(Where::current(), "{}: on rank {} number {} is {:g} instead of {:g}{}", what,
         groups.rank(), i, actual[i], wanted[i],
         multiple ? fmt::format(": every number is {:g}x too large. Was it summed twice?", ratio(0))
                  : "");
  }
}

// The first row that no rank holds by the student's answers; -1: there is none.
int64_t lost_row(int64_t size, const std::string& axes, const NamedMesh& mesh) {
  for (int64_t row = 0; row < size; ++row) {
    bool held = false;
    for (int rank = 0; rank < ranks_of(mesh); ++rank) {
      const IndexRange answer = solution.held_range(size, axes, mesh, rank);
      held = held || (answer.begin <= row && row < answer.end);
    }
    if (!held) return row;
  }
  return -1;
}

std::string rows_text(const IndexRange& rows) {
  return rows.size() < 1 ? "no row" : fmt::format("{} to {}", rows.begin, rows.end - 1);
}

void expect_rows(int64_t size, const char* axes, const char* mesh_text) {
  const NamedMesh mesh = parse_mesh(mesh_text);
  const std::string in_order = axes, turned(in_order.rbegin(), in_order.rend());
  for (int rank = 0; rank < ranks_of(mesh); ++rank) {
    const IndexRange answer = solution.held_range(size, axes, mesh, rank);
    const IndexRange right = held_range(size, axes, mesh, rank);
    if (answer == right) continue;
    const int64_t lost = lost_row(size, axes, mesh);
    std::string why;
    if (answer == held_range(size, turned, mesh, rank) && turned != axes)
      why =
          fmt::format(": these are the rows of I_{}. The first axis is the outermost cut", turned);
    else if (lost >= 0)
      why = fmt::format(": then row {} is held by no rank", lost);
    else if (answer.size() != right.size())
      why = ". Parts differ by one row at most, and the first ones are the longer ones";
    expect(false, fmt::format("{} rows as I_{} on {}: rank {} holds {}, your answer is {}{}", size,
                              axes, str(mesh), rank, rows_text(right), rows_text(answer), why));
  }
  CHECK(size > 0);
}

std::string text_of(const exercise::Product& product) {
  const bool multiplies = product.which == 1 || product.which == 3;
  std::string axes = product.between;  // in any order
  std::sort(axes.begin(), axes.end());
  return multiplies ? str(product.result) : "between " + axes;
}

// A product's case, and its result or what is in the way.
void expect_case(const char* a, const char* b, int which, const char* result, const char* why) {
  const NamedMesh mesh = parse_mesh("X 2, Y 2, Z 2");
  const exercise::Product answer =
      solution.product_of(parse_spread(a, mesh), parse_spread(b, mesh));
  if (answer.which == which && text_of(answer) == result) {
    CHECK(answer.which == which);
    return;
  }
  if (answer.which != which)
    expect(false, fmt::format("A{} B{} is case {}, your answer is {}. {}", a, b, which,
                              answer.which, why));
  const bool no_u = answer.result.unreduced.empty() && which == 3;
  expect(false,
         fmt::format("A{} B{}: {} is right, your answer is {}. {}{}", a, b, result, text_of(answer),
                     no_u ? fmt::format("You forgot {}: ",
                                        std::string(result).substr(std::string(result).find('{')))
                          : "",
                     why));
}

}  // namespace

TEST_CASE("11.1: the first axis is the outermost cut") {
  expect_rows(8, "X", "X 2, Y 2");
  expect_rows(8, "XY", "X 2, Y 2");
  expect_rows(24, "YX", "X 2, Y 3");
  expect_rows(24, "ZXY", "X 2, Y 3, Z 2");
}

TEST_CASE("11.1: parts of sizes that do not divide") {
  expect_rows(7, "X", "X 2, Y 2");
  expect_rows(7, "XY", "X 2, Y 2");
  expect_rows(5, "YX", "X 4, Y 2");
  expect_rows(5, "X", "X 4");  // 2, 1, 1, 1
  const int64_t rows = exercise::variant("rows", 11, 9, 60);
  for (const char* axes : {"YX", "XY"}) expect_rows(rows, axes, "X 3, Y 2");
}

TEST_CASE("11.2: a gather of rows") {
  const Tensor whole = counting({7, 3});
  for (const auto& [text, count] :
       {std::pair{"[I_X, J]", size_t{1}}, {"[I_XY, J]", size_t{2}}, {"[I_XY, J]", size_t{1}}}) {
    const NamedMesh mesh = parse_mesh("X 2, Y 2");
    run(mesh, [&](AxisGroups& groups) {
      const Part x = part_of(whole, parse_spread(text, mesh), groups);
      expect_part(solution.gathered(x, 0, count, groups), whole, groups,
                  fmt::format("a gather of {}", text));
    });
  }
}

TEST_CASE("11.2: a gather of columns") {
  const Tensor whole = counting({3, 6});
  for (const char* text : {"[I, J_X]", "[I, J_YX]", "[I_Y, J_X]"}) {
    const NamedMesh mesh = parse_mesh("X 2, Y 2");
    run(mesh, [&](AxisGroups& groups) {
      const Part x = part_of(whole, parse_spread(text, mesh), groups);
      const size_t count = x.spread.dims[1].axes.size();
      const Part y = solution.gathered(x, 1, count, groups);
      std::vector<double> stacked;  // the parts, as they arrive
      for (const int member : members_along(mesh, x.spread.dims[1].axes, groups.rank())) {
        const Box part = held_box(whole.shape(), x.spread, mesh, member);
        const std::vector<double> values = part_of_box(whole, {{0, 3}, {0, 6}}, part).values();
        stacked.insert(stacked.end(), values.begin(), values.end());
      }
      if (x.local.dim(0) > 1 && y.local.values() == stacked)
        fail(Where::current(),
             "a gather of {}: the parts lie one below the other, and those of a cut J belong side "
             "by side",
             text);
      expect_part(y, whole, groups, fmt::format("a gather of {}", text));
    });
  }
}

TEST_CASE("11.2: numbers of another type") {
  const NamedMesh mesh = parse_mesh("X 3");
  run(mesh, [&](AxisGroups& groups) {
    const Tensor whole = Tensor::full({4, 2}, 1.5, DType::f32);
    const Part x = part_of(whole, parse_spread("[I_X, J]", mesh), groups);
    expect_part(solution.gathered(x, 0, 1, groups), whole, groups, "a gather of f32 [I_X, J]");
  });
}

TEST_CASE("11.2: one all_gather, of all parts but the neighbour's") {
  const NamedMesh mesh = parse_mesh("X 4");
  const int64_t sent = run(mesh, [&](AxisGroups& groups) {
    const Part x = part_of(counting({8, 4}), parse_spread("[I_X, J]", mesh), groups);
    solution.gathered(x, 0, 1, groups);
  });
  expect(sent == 3 * 8 * 8,
         fmt::format("rank 0 sent {} bytes in its all_gather; a ring of 4 sends 3/4 of 256", sent));
  const NamedMesh two_axes = parse_mesh("X 2, Y 2");
  const int64_t of_half = run(two_axes, [&](AxisGroups& groups) {
    const Part x = part_of(counting({8, 4}), parse_spread("[I_XY, J]", two_axes), groups);
    solution.gathered(x, 0, 1, groups);
  });
  expect(of_half == 64, fmt::format("[I_XY, J] to [I_X, J]: rank 0 sent {} bytes; a ring of the 2 "
                                    "ranks along Y sends half of 128",
                                    of_half));
}

TEST_CASE("11.3: J whole in both") {
  const char* const why = "J is whole in both, so every rank has whole sums.";
  expect_case("[I, J]", "[J, K]", 1, "[I, K]", why);
  expect_case("[I_X, J]", "[J, K_YZ]", 1, "[I_X, K_YZ]", why);
}

TEST_CASE("11.3: J whole in both, and an input that is unreduced") {
  const char* const why = "What is unreduced in A or in B is unreduced in C, in case 1 too.";
  expect_case("[I, J]{U_X}", "[J, K]", 1, "[I, K]{U_X}", why);
  expect_case("[I, J]", "[J, K_X]{U_Y}", 1, "[I, K_X]{U_Y}", why);
  expect_case("[I_Z, J]{U_Y}", "[J, K]{U_X}", 1, "[I_Z, K]{U_XY}", why);
}

TEST_CASE("11.3: J cut in one, or cut otherwise") {
  expect_case("[I, J_X]", "[J, K]", 2, "between X", "One input's J is cut and the other's is not.");
  expect_case("[I_Y, J]", "[J_ZX, K]", 2, "between XZ",
              "One input's J is cut and the other's is not.");
  const char* const of_j =
      "X cuts J of one input. Case 4 is an axis of I and K, or one of an unreduced input.";
  expect_case("[I_X, J]", "[J_X, K]", 2, "between X", of_j);
  expect_case("[I, J_X]", "[J, K_X]", 2, "between X", of_j);
  expect_case("[I, J_XY]", "[J_YX, K]", 2, "between XY",
              "J_XY and J_YX give a rank different parts of J: what it would multiply does not "
              "belong together.");
}

TEST_CASE("11.3: J cut alike leaves sums unreduced") {
  const char* const why = "each rank has a part of every sum.";
  expect_case("[I, J_X]", "[J_X, K]", 3, "[I, K]{U_X}", why);
  expect_case("[I_Z, J_YX]", "[J_YX, K]", 3, "[I_Z, K]{U_XY}", why);
}

TEST_CASE("11.3: one axis for I and K") {
  const char* const why = "C would be cut over one axis twice; ask this first.";
  expect_case("[I_X, J]", "[J, K_X]", 4, "between X", why);
  expect_case("[I_XY, J_Z]", "[J, K_Y]", 4, "between Y", why);
}

TEST_CASE("11.3: several axes that clash") {
  const char* const why = "All axes that stand in the way are asked for.";
  expect_case("[I_XY, J]", "[J, K_YX]", 4, "between XY", why);
  expect_case("[I_XZ, J]", "[J, K_X]{U_Z}", 4, "between XZ", why);
  expect_case("[I_X, J]{U_Y}", "[J_Y, K_X]", 4, "between XY", why);
  expect_case("[I_X, J_Y]", "[J, K_X]{U_Y}", 4, "between XY", why);
}

TEST_CASE("11.3: sums that are unreduced before the product") {
  expect_case("[I, J_Z]{U_X}", "[J_Z, K_Y]", 3, "[I, K_Y]{U_XZ}",
              "The sum over X times what X does not cut is the sum of the products.");
  expect_case("[I, J]{U_X}", "[J, K_X]", 4, "between X", "X is unreduced in A and cuts B.");
  expect_case("[I_X, J]", "[J, K]{U_X}", 4, "between X", "X cuts A and is unreduced in B.");
  expect_case("[I, J_X]", "[J, K]{U_X}", 4, "between X", "X cuts A and is unreduced in B.");
  expect_case("[I, J]{U_X}", "[J, K]{U_X}", 4, "between X",
              "A sum times a sum is not the sum of the products.");
}

TEST_CASE("11.4: sums over J are complete") {
  const Tensor a = counting({6, 8}, -20), b = counting({8, 4}, 3), c = local_matmul(a, b);
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  for (const auto& [left, right] : {std::pair{"[I, J]", "[J, K]"},
                                    {"[I, J_X]", "[J_X, K]"},
                                    {"[I, J_X]", "[J, K]"},
                                    {"[I_Y, J]", "[J_X, K]"},
                                    {"[I_Y, J_X]", "[J_X, K]"},
                                    {"[I, J_XY]", "[J_YX, K]"}})
    run(mesh, [&](AxisGroups& groups) {
      const Part y =
          solution.sharded_matmul(part_of(a, parse_spread(left, mesh), groups),
                                  part_of(b, parse_spread(right, mesh), groups), -1, groups);
      expect_part(y, c, groups, fmt::format("A{} B{}", left, right));
    });
}

TEST_CASE("11.4: sums are scattered onto a dim") {
  const Tensor a = counting({6, 8}, -20), b = counting({8, 4}, 3), c = local_matmul(a, b);
  const NamedMesh mesh = parse_mesh("X 2");
  for (const int onto : {0, 1}) {
    const int64_t sent = run(mesh, [&](AxisGroups& groups) {
      const Part y =
          solution.sharded_matmul(part_of(a, parse_spread("[I, J_X]", mesh), groups),
                                  part_of(b, parse_spread("[J_X, K]", mesh), groups), onto, groups);
      expect_part(y, c, groups,
                  fmt::format("A[I, J_X] B[J_X, K] scattered onto dim {} of C", onto));
      if (y.spread.dims[static_cast<size_t>(onto)].axes != "X")
        fail(Where::current(), "the sums were to be scattered onto dim {}, and C is {}", onto,
             str(y.spread));
    });
    expect(sent == 6 * 4 * 8 / 2,
           fmt::format("rank 0 sent {} bytes; a reduce_scatter sends 96", sent));
  }
}

TEST_CASE("11.4: sums over two axes are one collective") {
  const Tensor a = counting({8, 8}, -20), b = counting({8, 4}, 3), c = local_matmul(a, b);
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  for (const auto& [onto, bytes] : {std::pair{-1, int64_t{384}}, {0, int64_t{192}}}) {
    const int64_t sent = run(mesh, [&](AxisGroups& groups) {
      const Part y = solution.sharded_matmul(part_of(a, parse_spread("[I, J_XY]", mesh), groups),
                                             part_of(b, parse_spread("[J_XY, K]", mesh), groups),
                                             onto, groups);
      expect_part(y, c, groups, "A[I, J_XY] B[J_XY, K]");
    });
    expect(
        sent == bytes,
        fmt::format("A[I, J_XY] B[J_XY, K], onto {}: right values, but rank 0 sent {} bytes; one "
                    "collective over X and Y sends {}",
                    onto, sent, bytes));
  }
}

TEST_CASE("11.4: one input is gathered, the smaller one") {
  const NamedMesh mesh = parse_mesh("X 4");
  struct Gather {
    const char *left, *right;
    int64_t I, K, gathered;  // J is 4; gathered: numbers of the matrix that is gathered
  };
  for (const Gather& each : {Gather{"[I_X, J]", "[J, K_X]", 8, 16, 8 * 4},
                             {"[I_X, J]", "[J, K_X]", 16, 8, 4 * 8},
                             {"[I, J]", "[J_X, K]", 8, 16, 4 * 16}}) {
    const Tensor a = counting({each.I, 4}), b = counting({4, each.K}), c = local_matmul(a, b);
    const int64_t bytes = each.gathered * 8 * 3 / 4;
    const std::string what =
        fmt::format("A{} ({}, 4) times B{} (4, {})", each.left, each.I, each.right, each.K);
    const int64_t sent = run(mesh, [&](AxisGroups& groups) {
      const Part y =
          solution.sharded_matmul(part_of(a, parse_spread(each.left, mesh), groups),
                                  part_of(b, parse_spread(each.right, mesh), groups), -1, groups);
      expect_part(y, c, groups, what);
    });
    expect(sent == bytes,
           fmt::format("{}: right values, but rank 0 sent {} bytes, and {} are enough: gather one "
                       "of the two, the smaller one",
                       what, sent, bytes));
  }
}

TEST_CASE("11.4: no more axes are gathered than must be") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  struct Gather {
    const char *left, *right;
    int64_t bytes;  // of Y's all_gather, and of the all_reduce if there is one
    const char* which;
  };
  const Tensor a = counting({8, 4}), b = counting({4, 8}), c = local_matmul(a, b);
  for (const Gather& each : {Gather{"[I_XY, J]", "[J, K_Y]", 8 * 4 * 4 / 2, "A"},
                             {"[I, J_XY]", "[J_X, K]", 8 * 8 * 2 / 2 + 8 * 8 * 8, "A"},
                             {"[I, J_X]", "[J_XY, K]", 8 * 2 * 8 / 2 + 8 * 8 * 8, "B"}}) {
    const int64_t sent = run(mesh, [&](AxisGroups& groups) {
      const Part y =
          solution.sharded_matmul(part_of(a, parse_spread(each.left, mesh), groups),
                                  part_of(b, parse_spread(each.right, mesh), groups), -1, groups);
      expect_part(y, c, groups, fmt::format("A{} B{}", each.left, each.right));
    });
    expect(sent == each.bytes,
           fmt::format("A{} B{}: right values, but rank 0 sent {} bytes, not {}: only Y of {} has "
                       "to go (axes_to_gather)",
                       each.left, each.right, sent, each.bytes, each.which));
  }
}

TEST_CASE("11.4: in case 2 the input is gathered where more axes cut J, though it is larger") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const Tensor a = counting({16, 4}), b = counting({4, 2}), c = local_matmul(a, b);
  const int64_t sent = run(mesh, [&](AxisGroups& groups) {
    const Part y =
        solution.sharded_matmul(part_of(a, parse_spread("[I, J_XY]", mesh), groups),
                                part_of(b, parse_spread("[J_X, K]", mesh), groups), -1, groups);
    expect_part(y, c, groups, "A[I, J_XY] (16, 4) times B[J_X, K] (4, 2)");
  });
  const int64_t gather = 16 * 2 * 8 / 2, sum = 16 * 2 * 8;  // Y of A, then over X
  expect(
      sent == gather + sum,
      fmt::format("A[I, J_XY] (16, 4) times B[J_X, K] (4, 2): rank 0 sent {} bytes, not {}: more "
                  "axes cut J in A, so Y of A is gathered",
                  sent, gather + sum));
}

TEST_CASE("11.4: in case 4 what rank 0 holds decides, and A is gathered if that is equal") {
  const NamedMesh mesh = parse_mesh("X 4");
  struct Sizes {
    int64_t I, K;  // J is 3
    const char *result, *why;
  };
  for (const Sizes& each :
       {Sizes{8, 8, "[I, K_X]", "both hold 6 numbers there: of A if they are equal"},
        {8, 5, "[I, K_X]", "6 of A and 6 of B there, whatever the whole matrices have"},
        {5, 4, "[I_X, K]", "6 of A and 3 of B there: of B"}}) {
    const Tensor a = counting({each.I, 3}), b = counting({3, each.K}), c = local_matmul(a, b);
    run(mesh, [&](AxisGroups& groups) {
      const Part y =
          solution.sharded_matmul(part_of(a, parse_spread("[I_X, J]", mesh), groups),
                                  part_of(b, parse_spread("[J, K_X]", mesh), groups), -1, groups);
      const std::string what =
          fmt::format("A[I_X, J] ({}, 3) times B[J, K_X] (3, {})", each.I, each.K);
      expect_part(y, c, groups, what);
      if (str(y.spread) != each.result)
        fail(Where::current(), "{}: C is {}, not {}. Compare what rank 0 holds: {}", what,
             str(y.spread), each.result, each.why);
    });
  }
}

TEST_CASE("11.4: an input that is unreduced is an error") {
  const NamedMesh mesh = parse_mesh("X 2");
  for (const auto& [left, right] : {std::pair{"[I, J]{U_X}", "[J, K]"}, {"[I, J]", "[J, K]{U_X}"}})
    run(mesh, [&](AxisGroups& groups) {
      const Part a{counting({4, 4}), parse_spread(left, mesh), {4, 4}},
          b{counting({4, 4}), parse_spread(right, mesh), {4, 4}};
      const std::string said =
          exercise::error_of([&] { solution.sharded_matmul(a, b, -1, groups); });
      if (said.empty())
        fail(Where::current(),
             "A{} times B{} went through: an input that is unreduced is an error "
             "(expect_summed)",
             left, right);
    });
}

TEST_CASE("11.4: all ranks decide alike") {
  const Tensor a = counting({5, 3}), b = counting({3, 5}), c = local_matmul(a, b);
  const Tensor d = counting({6, 2}), e = counting({2, 5}), f = local_matmul(d, e);
  const char* const advice =
      "\n    Where sizes do not divide, one rank gathers A and another B: decide by sizes that all "
      "ranks know alike, such as rank 0's";
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  run(
      mesh,
      [&](AxisGroups& groups) {
        const Part y =
            solution.sharded_matmul(part_of(a, parse_spread("[I_XY, J]", mesh), groups),
                                    part_of(b, parse_spread("[J, K_X]", mesh), groups), -1, groups);
        expect_part(y, c, groups, "A[I_XY, J] B[J, K_X]");
        const Part z =
            solution.sharded_matmul(part_of(d, parse_spread("[I_X, J]", mesh), groups),
                                    part_of(e, parse_spread("[J, K_X]", mesh), groups), -1, groups);
        expect_part(z, f, groups, "A[I_X, J] B[J, K_X]");
      },
      advice);
}

TEST_CASE("11.5: FLOPs a byte of what a rank multiplies") {
  const NamedMesh mesh = parse_mesh("X 4, Y 2");
  constexpr int64_t I = 509, J = 253, K = 1021;
  for (const auto& [a, b, m, k, n] : {std::tuple{"[I, J]", "[J, K]", 509.0, 253.0, 1021.0},
                                      {"[I_X, J]", "[J, K_Y]", 128.0, 253.0, 511.0},
                                      {"[I, J_X]", "[J_X, K]", 509.0, 64.0, 1021.0},
                                      {"[I_Y, J]", "[J, K_X]", 255.0, 253.0, 256.0}})
    for (const int64_t width : {2, 4}) {
      const double answer = solution.local_intensity(I, J, K, parse_spread(a, mesh),
                                                     parse_spread(b, mesh), width, mesh);
      const double bytes = static_cast<double>(width);
      const double right = 2 * m * k * n / (bytes * (m * k + k * n + m * n));
      const double whole = matmul_intensity(I, K, J, width);
      if (std::abs(answer - right) <= 1e-9 * right) continue;
      expect(false,
             fmt::format("A{} (509, 253) times B{} (253, 1021) on {}, {} bytes per number: rank 0 "
                         "multiplies ({}, {}) by ({}, {}) and does {:.4g} FLOPs per byte, your "
                         "answer is {:.4g}{}",
                         a, b, str(mesh), width, m, k, k, n, right, answer,
                         std::abs(answer - whole) < 1e-9 * whole
                             ? ": that is the intensity of the whole product"
                             : ""));
    }
  CHECK(true);
}

TEST_CASE("11.6: the batch is cut and the weights are whole") {
  const NamedMesh mesh = parse_mesh("X 4, Z 2");
  for (const char axis : {'X', 'Z'}) {
    const exercise::Layer layer = solution.data_parallel(axis);
    const std::pair<std::string, std::string> texts[] = {{layer.in, fmt::format("[B_{}, D]", axis)},
                                                         {layer.w_in, "[D, F]"},
                                                         {layer.w_out, "[F, D]"}};
    for (const auto& [answer, right] : texts) {
      const std::string read = answer.empty() ? "" : str(parse_spread(answer, mesh));
      expect(read == right,
             fmt::format("data parallelism over {}: {} is right, your answer is '{}'", axis, right,
                         answer));
    }
  }
}

TEST_CASE("11.6: the gradient of a weight is a sum over tokens") {
  const NamedMesh mesh = parse_mesh("X 4, Z 2");
  for (const char axis : {'X', 'Z'}) {
    const exercise::Layer layer = solution.data_parallel(axis);
    const std::string read =
        layer.dw_in_local.empty() ? "" : str(parse_spread(layer.dw_in_local, mesh));
    const std::string right = fmt::format("[D, F]{{U_{}}}", axis);
    expect(read == right,
           fmt::format("In'[D, B_{}] dHidden[B_{}, F] leaves {}, your answer is '{}': {} cuts the "
                       "tokens, so each rank has the terms of its own tokens",
                       axis, axis, right, layer.dw_in_local, axis));
    expect(
        layer.collective == "all_reduce",
        fmt::format("dW_in is spread as W_in, which is whole: an all_reduce, your answer is '{}'",
                    layer.collective));
  }
}
