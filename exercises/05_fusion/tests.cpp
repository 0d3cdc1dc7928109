// The graded cases of exercise 05. Graphs are captured from functions; kernels and phases are
// compared with the library's; lines are executed by its interpreter.
#include <fmt/format.h>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/device/capture.hpp"
#include "yotta/device/compile/interpreter.hpp"
#include "yotta/device/fusion_codegen.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

Array softmax(const Array& x) {
  const Array e = exp(x - row_max(x));
  return e / row_sum(e);
}
Array layernorm(const Array& x, const Array& gain) {
  const double columns = static_cast<double>(x.size().columns);
  const Array centred = x - row_sum(x) / columns;
  return centred / sqrt(row_sum(centred * centred) / columns + 1e-5) * gain;
}
Array chain(const Array& x, const Array& bias) { return exp((x + bias) * 2.0) / (x + 3.0); }

// A number a row that is known before the columns are walked over.
Array centred_by(const Array& x, const Array& m) { return (x - m) * row_sum(x - m); }

Tensor numbers(Shape shape) {
  std::vector<float> made;
  for (int64_t i = 0; i < product(shape); ++i)
    made.push_back(static_cast<float>(i * 37 % 19) / 10 - 0.9f);
  return Tensor::from<float>(made, shape);
}
Tensor matrix(int64_t rows = 4, int64_t columns = 8) { return numbers({rows, columns}); }
Tensor row(int64_t columns = 8) { return numbers({1, columns}); }

exercise::Kernel plain(const Kernel& kernel) {
  return {kernel.nodes, kernel.reads, kernel.writes, kernel.space};
}
Kernel first_kernel(const Graph& graph) { return kernels(graph, fuse(graph)).at(0); }
std::string name_of(const Graph& graph, int n) {
  return fmt::format("node {} ({})", n, info(graph.node(n).op).name);
}

// ---- 05.3

void expect_kernels(const char* what, const Graph& graph, size_t expected) {
  Owners owner;
  const std::vector<int> made = solution.fuse(graph);
  owner.assign(made.begin(), made.end());
  expect(made.size() == graph.nodes.size(),
         fmt::format("{}: an owner for each of {} nodes was expected, got {}", what, graph.size(),
                     made.size()));
  std::string circle;
  size_t count = 0;
  try {
    count = kernels(graph, owner).size();
  } catch (const Error& error) {
    circle = error.what();
  }
  expect(circle.empty(), fmt::format("{}: {}", what, circle));
  const char* advice = count > expected ? ": try every operand of every node, and move the whole "
                                          "kernel of the operand"
                                        : ": what one walk cannot compute was merged";
  expect(count == expected, fmt::format("{}: {} kernels, expected {}{}\n{}", what, count, expected,
                                        advice, print(graph)));
}

// ---- 05.4

void expect_leaves(const Graph& graph) {
  const Owners owner = fuse(graph);
  for (int n = 0; n < graph.size(); ++n) {
    if (!needs_kernel(graph.node(n).op)) continue;
    const bool expected = leaves_kernel(graph, owner, n), got = solution.leaves(graph, owner, n);
    expect(got == expected,
           fmt::format("{} {}\n{}", name_of(graph, n),
                       expected ? "must be written: the caller or another kernel reads it, and "
                                  "would find nothing in memory"
                                : "is read by its own kernel alone: it stays in registers, and to "
                                  "write it costs bytes",
                       print(graph)));
  }
}

// ---- 05.5

void expect_phases(const Graph& graph, const char* advice, size_t which = 0) {
  const Kernel kernel = kernels(graph, fuse(graph)).at(which);
  const Walk walk = walk_of(graph, kernel);
  const std::vector<int> got = solution.phases(graph, plain(kernel));
  expect(got.size() == graph.nodes.size(), "walk.phase has an entry for each node of the graph");
  for (const int n : walk.values)
    expect(got[static_cast<size_t>(n)] == walk.phase[n],
           fmt::format("{}: phase expected {}, got {}: {}\n{}", name_of(graph, n), walk.phase[n],
                       got[static_cast<size_t>(n)], advice, print(graph)));
}

// ---- 05.6

std::vector<Line> lines_by_student(const Graph& graph, const Kernel& kernel, const Walk& walk) {
  const exercise::Walk given{walk.space, walk.flat,  walk.reduces, walk.values,
                             walk.phase, walk.a_row, walk.crosses, walk.reduced};
  std::vector<Line> lines;
  int last = 0;
  for (const int n : kernel.nodes) last = std::max(last, walk.phase[n]);
  for (int phase = 0; phase <= last; ++phase)
    for (const exercise::Line& line : solution.lines(graph, plain(kernel), given, phase))
      lines.push_back({static_cast<LineStep>(line.step), line.node});
  for (const int n : kernel.writes)
    if (walk.a_row[n]) lines.push_back({LineStep::store, n});
  return lines;
}

struct Executed {
  Moved moved;
  OpCost formula;
};
// Runs the student's lines of a graph that is one kernel, and compares its output.
Executed execute(const char* what, const Graph& graph, const std::vector<Tensor>& in) {
  const Kernel kernel = first_kernel(graph);
  const Walk walk = walk_of(graph, kernel);
  const std::vector<Line> lines = lines_by_student(graph, kernel, walk);
  std::map<int, void*> memory;
  std::vector<Tensor> arguments = in, rooms;
  for (size_t i = 0; const int n : graph.inputs()) memory[n] = arguments[i++].data<float>();
  for (int n = 0; n < graph.size(); ++n)  // room for all, so that a store too many does no harm
    if (graph.node(n).op != Op::input) {
      rooms.push_back(Tensor::zeros({graph.node(n).size.rows, walk.space.columns}));
      memory[n] = rooms.back().data<float>();
    }
  Tensor out = Tensor::zeros(
      {graph.node(graph.outputs[0]).size.rows, graph.node(graph.outputs[0]).size.columns});
  memory[graph.outputs[0]] = out.data<float>();
  std::string problem;
  Moved moved;
  try {
    moved = interpret(graph, walk, lines, memory);
  } catch (const Error& error) {
    problem = error.what();
  }
  expect(problem.empty(), fmt::format("{}: {}\n{}", what, problem, print(graph)));
  Clues clues;
  clues.what = what;
  expect(compare(out, run(graph, in)[0], 1e-5, clues));
  return {moved, cost_of(graph, kernel)};
}

}  // namespace

TEST_CASE("05.1: each input once, each output once") {
  const Graph two_outputs = capture_list(
      [](const std::vector<Array>& in) {
        const Array e = exp(in[0] + in[1]);
        return std::vector<Array>{e, e * 2};
      },
      {matrix(), row()});
  for (const Graph& graph : {merge_equal(capture(chain, matrix(), row())), two_outputs}) {
    const Kernel kernel = first_kernel(graph);
    const OpCost expected = cost_of(graph, kernel), got = solution.cost(graph, plain(kernel));
    expect(got.bytes_read == expected.bytes_read,
           fmt::format("bytes read: expected {}, got {}: {} inputs, each once", expected.bytes_read,
                       got.bytes_read, kernel.reads.size()));
    expect(got.bytes_written == expected.bytes_written,
           fmt::format("bytes written: expected {}, got {}: {}", expected.bytes_written,
                       got.bytes_written,
                       got.bytes_written > expected.bytes_written
                           ? "what one node passes to the next stays in registers"
                           : "what it writes crosses the bus too, each value of it"));
  }
}
TEST_CASE("05.1: FLOPs of all nodes") {
  for (const auto& [what, graph] : {std::pair{"softmax", capture(softmax, matrix())},
                                    {"layernorm", capture(layernorm, matrix(), row())}}) {
    const Kernel kernel = first_kernel(graph);
    const double got = solution.cost(graph, plain(kernel)).flops;
    expect(got == cost_of(graph, kernel).flops,
           fmt::format("FLOPs of {} on (4, 8): expected {}, got {}: those of each node, and some "
                       "have one number a row",
                       what, cost_of(graph, kernel).flops, got));
  }
}
TEST_CASE("05.1: bytes of the type") {
  const Graph graph = capture(softmax, matrix().to(DType::f64));
  const Kernel kernel = first_kernel(graph);
  const OpCost got = solution.cost(graph, plain(kernel));
  expect(got.bytes_read == 8 * 32 && got.bytes_written == 8 * 32,
         fmt::format("softmax of (4, 8) in f64: 256 bytes are read and 256 written, got {} and {}; "
                     "bytes_of knows the type",
                     got.bytes_read, got.bytes_written));
}

TEST_CASE("05.1: the name is that of its one operation, or \"fused\"") {
  for (const auto& [graph, name] :
       {std::pair{capture([](const Array& x) { return exp(x); }, matrix()), "exp"},
        {capture(softmax, matrix()), "fused"}}) {
    const char* const got = solution.cost(graph, plain(first_kernel(graph))).name;
    expect(got != nullptr && std::string(got) == name,
           fmt::format("a kernel of {} is called \"{}\", yours \"{}\"",
                       std::string(name) == "fused" ? "several operations" : "one operation", name,
                       got == nullptr ? "" : got));
  }
}

TEST_CASE("05.2: what stands alone joins nobody") {
  const exercise::Shape walk{{4, 8}, false, false}, product{{4, 8}, true, false};
  expect(
      !solution.same_walk(walk, product) && !solution.same_walk(product, walk),
      "a matmul of (4, 8) may not join a walk over (4, 8): it needs other rows than its own, and "
      "would be computed again for each");
}
TEST_CASE("05.2: rows agree") {
  const auto both = [](Size a, Size b) {
    return solution.same_walk({a, false, false}, {b, false, false});
  };
  expect(both({4, 8}, {4, 8}), "two walks over (4, 8) are the same walk");
  expect(both({4, 8}, {4, 1}) && both({4, 1}, {4, 8}),
         "(4, 8) and (4, 1): what is one number a row is computed once a row, on the way");
  expect(!both({4, 8}, {1, 8}) && !both({1, 8}, {4, 8}),
         "(4, 8) and (1, 8): each of the 4 rows would compute it again");
  expect(!both({4, 8}, {8, 8}), "(4, 8) and (8, 8) have different rows");
  expect(!both({4, 8}, {4, 6}), "(4, 8) and (4, 6) have different columns");
}
TEST_CASE("05.2: a reduction walks over its own columns") {
  const exercise::Shape wide{{4, 8}, false, false}, sum{{4, 8}, false, true},
      narrow_sum{{4, 1}, false, true};
  expect(solution.same_walk(wide, sum) && solution.same_walk(sum, {{4, 1}, false, false}),
         "a sum over rows of 8 joins a walk over rows of 8, and what is one number a row joins it");
  expect(!solution.same_walk(wide, narrow_sum) && !solution.same_walk(narrow_sum, wide),
         "a sum over (4, 1) in a walk over (4, 8): its one number would be added up once for each "
         "of 8 columns");
}
TEST_CASE("05.2: rows that registers cannot hold are not fused across a reduction") {
  const Size longer{4, longest_row + 1}, longest{4, longest_row};
  expect(!solution.same_walk({longer, false, true}, {longer, false, false}),
         fmt::format("a row of {} is longer than longest_row", longest_row + 1));
  expect(!solution.same_walk({longer, false, false}, {longer, false, true}),
         fmt::format("a row of {} and a reduction, either way round", longest_row + 1));
  expect(!solution.same_walk({longer, false, true}, {{4, 1}, false, false}),
         fmt::format("a row of {} and a reduction, beside one number a row: the longer row counts",
                     longest_row + 1));
  expect(solution.same_walk({longer, false, false}, {longer, false, false}),
         "without a reduction the length of a row does not matter");
  expect(solution.same_walk({longest, false, true}, {longest, false, false}),
         "a row of longest_row fits");
}

TEST_CASE("05.3: chains, softmax and layernorm are one kernel each") {
  expect_kernels("a chain", merge_equal(capture(chain, matrix(), row())), 1);
  expect_kernels("softmax", capture(softmax, matrix()), 1);
  expect_kernels("layernorm", capture(layernorm, matrix(), row()), 1);
  expect_kernels("two branches that meet",
                 capture([](const Array& x) { return exp(x) + sqrt(x * x); }, matrix()), 1);
}
TEST_CASE("05.3: every operand has its turn") {
  expect_kernels("matmul(x, x) + exp(x)",
                 capture([](const Array& x) { return matmul(x, x) + exp(x); }, matrix(8, 8)), 2);
  expect_kernels("exp(x) + matmul(x, x)",
                 capture([](const Array& x) { return exp(x) + matmul(x, x); }, matrix(8, 8)), 2);
}
TEST_CASE("05.3: the whole kernels are compared") {
  expect_kernels("a sum over one column, then over eight",
                 capture([](const Array& x, const Array& s) { return x * (row_sum(exp(s)) * 2); },
                         matrix(8, 8), matrix(8, 1)),
                 2);
}
TEST_CASE("05.3: no path leads out of a kernel and back") {
  const Graph around =
      merge_equal(capture([](const Array& x) { return exp(x) + matmul(exp(x), x); }, matrix(8, 8)));
  expect_kernels("exp(x) + matmul(exp(x), x)", around, 3);
}
TEST_CASE("05.3: matmuls and sums down columns stay alone") {
  expect_kernels("gelu's parts around a matmul",
                 capture([](const Array& x, const Array& b) { return exp(matmul(x * 2, x) + b); },
                         matrix(8, 8), row()),
                 3);
  expect_kernels("a sum down columns",
                 capture([](const Array& x) { return column_sum(x * x) * 2; }, matrix()), 3);
}

TEST_CASE("05.4: another kernel reads it") {
  expect_leaves(merge_equal(capture(
      [](const Array& x) { return exp(x * 1.0) + matmul(exp(x * 1.0), x); }, matrix(8, 8))));
  // exp is read by a matmul and by +.
  expect_leaves(capture(
      [](const Array& x, const Array& w) {
        const Array e = exp(x);
        return e * 2 + matmul(e, w);
      },
      matrix(8, 8), matrix(8, 8)));
  // The matmul reads exp first, and its own kernel last.
  expect_leaves(capture_list(
      [](const std::vector<Array>& in) {
        const Array e = exp(in[0]);
        return std::vector<Array>{matmul(e, in[0]), e * 2};
      },
      {matrix(8, 8)}));
}
TEST_CASE("05.4: what only its own kernel reads stays in registers") {
  expect_leaves(capture(softmax, matrix()));
}
TEST_CASE("05.4: the caller reads it") {
  expect_leaves(capture_list(
      [](const std::vector<Array>& in) {
        const Array e = exp(in[0]);
        return std::vector<Array>{e, e * 2};
      },
      {matrix()}));
}

TEST_CASE("05.5: what uses a reduction waits for its loop") {
  for (const Graph& graph : {capture(softmax, matrix()), capture(layernorm, matrix(), row())})
    expect_phases(graph,
                  "the sum is there when its loop is over, so what uses it is a phase later");
}
TEST_CASE("05.5: what is read is loaded where it is first used") {
  const Graph late =
      capture([](const Array& x, const Array& y) { return y * row_sum(x); }, matrix(), matrix());
  expect_phases(late, "only the second loop reads it");
  const Graph twice = capture([](const Array& x) { return x * row_sum(x); }, matrix());
  expect_phases(twice, "the first of its users needs it there");
  const Graph later_in_the_list =
      capture([](const Array& x, const Array& z) { return (x / row_sum(x) + z) * row_sum(z); },
              matrix(), matrix());
  expect_phases(later_in_the_list, "the earliest phase in which any of its users needs it");
}
TEST_CASE("05.5: what comes from memory is there") {
  const Graph long_rows = capture(softmax, matrix(2, longest_row + 1));
  expect_phases(long_rows, "another kernel has added it up, and it is loaded like any other value",
                1);
}
TEST_CASE("05.5: made numbers too") {
  const Graph graph =
      capture([](const Array& x) { return x / row_sum(x) * column_index(x); }, matrix());
  expect_phases(graph, "it is made where it is first used");
}

TEST_CASE("05.6: rows come out right, whatever their length") {
  for (const int64_t columns : {8, 40, 17, 1000}) {
    const Tensor x = matrix(3, columns), b = row(columns);
    execute("a chain", merge_equal(capture(chain, x, b)), {x, b});
    execute("softmax", capture(softmax, x), {x});
    execute("layernorm", capture(layernorm, x, b), {x, b});
    execute("a mean of each row", capture([](const Array& a) { return row_sum(a) / 8.0; }, x), {x});
  }
}
TEST_CASE("05.6: nothing else crosses memory") {
  const Tensor x = matrix(3, 40), b = row(40);
  for (const auto& [what, graph] :
       {std::pair{"softmax", capture(softmax, x)}, {"layernorm", capture(layernorm, x, b)}}) {
    const std::vector<Tensor> in = graph.inputs().size() == 1 ? std::vector{x} : std::vector{x, b};
    const Executed got = execute(what, graph, in);
    // A repeated row is asked for once a row.
    const int64_t loaded = in.size() == 1 ? 120 : 240;
    expect(got.moved.loaded == loaded,
           fmt::format("{}: {} numbers are loaded, expected {}: each input once, and what later "
                       "loops need is saved",
                       what, got.moved.loaded, loaded));
    expect(got.moved.stored == 120,
           fmt::format("{}: {} numbers are stored, expected 120: only what the kernel writes", what,
                       got.moved.stored));
  }
  const Executed sums = execute("a mean of each row",
                                capture([](const Array& a) { return row_sum(a) / 8.0; }, x), {x});
  expect(sums.moved.stored == 3,
         fmt::format("a mean of each of 3 rows: {} numbers are stored, expected 3: lines_of stores "
                     "what is one number a row",
                     sums.moved.stored));
}
TEST_CASE("05.6: only what a later loop needs is saved") {
  const Graph graph = capture(softmax, matrix());
  const Kernel kernel = first_kernel(graph);
  const Walk walk = walk_of(graph, kernel);
  for (const Line& line : lines_by_student(graph, kernel, walk))
    expect(line.step != LineStep::save || walk.crosses[line.node],
           fmt::format("{} is saved, and no later loop needs it: it would cost registers",
                       name_of(graph, line.node)));
  CHECK(true);
}
TEST_CASE("05.6: one number a row is computed once") {
  for (const Graph& graph :
       {capture(layernorm, matrix(), row()), capture(centred_by, matrix(), matrix(4, 1))}) {
    const Kernel kernel = first_kernel(graph);
    const Walk walk = walk_of(graph, kernel);
    bool inside = false;
    for (const Line& line : lines_by_student(graph, kernel, walk)) {
      inside = (inside || line.step == LineStep::loop) && line.step != LineStep::end;
      if (!inside || line.step == LineStep::loop || line.step == LineStep::reduce) continue;
      expect(!walk.a_row[line.node],
             fmt::format("{} is one number a row; in a loop it is loaded or computed once for each "
                         "vector of the row",
                         name_of(graph, line.node)));
    }
  }
  CHECK(true);
}
TEST_CASE("05.6: no empty loops") {
  const Graph graph = capture([](const Array& x) { return row_sum(x) / 8.0; }, matrix());
  const Kernel kernel = first_kernel(graph);
  int loops = 0;
  for (const Line& line : lines_by_student(graph, kernel, walk_of(graph, kernel)))
    loops += line.step == LineStep::loop ? 1 : 0;
  expect(loops == 1, fmt::format("the mean of a row: {} loops, expected 1", loops));
}

namespace {
constexpr int load_step = static_cast<int>(LineStep::load),
              store_step = static_cast<int>(LineStep::store);
Graph two_values(Size from, Size to) {
  Graph graph;
  graph.add({.op = Op::input, .size = from});
  graph.add({.op = Op::exp, .in = {0}, .size = to});
  return graph;
}
}  // namespace

TEST_CASE("05.7: over what has been loaded") {
  expect(
      solution.can_overwrite(two_values({4, 8}, {4, 8}), {{load_step, 0}, {store_step, 1}}, 0, 1),
      "a number is loaded before the new one is stored in its place: allowed");
}
TEST_CASE("05.7: not over what is still to be loaded") {
  expect(
      !solution.can_overwrite(two_values({4, 8}, {4, 8}), {{store_step, 1}, {load_step, 0}}, 0, 1),
      "the result is stored in an earlier loop than the one that loads the operand: what is "
      "loaded later would be the result");
}
TEST_CASE("05.7: only over a value of its size") {
  expect(
      !solution.can_overwrite(two_values({4, 1}, {4, 8}), {{load_step, 0}, {store_step, 1}}, 0, 1),
      "the operand is (4, 1), the result (4, 8): it would be written over what lies behind");
  expect(
      !solution.can_overwrite(two_values({1, 8}, {4, 8}), {{load_step, 0}, {store_step, 1}}, 0, 1),
      "the operand is (1, 8), a row that all rows read; the result (4, 8) has no room there");
  expect(
      !solution.can_overwrite(two_values({4, 8}, {4, 1}), {{load_step, 0}, {store_step, 1}}, 0, 1),
      "the operand is (4, 8), the result (4, 1): they are not alike in size");
}
