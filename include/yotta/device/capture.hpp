// Two ways to run the same function: each operation at once, or first a graph of all of them.
//
//     Array f(Array x, Array b) { return exp(x + b) * 2; }
//
//     f(x, b)              array programming: + runs and writes its result to memory; exp runs,
//                          reads that and writes its own; then * does
//     capture(f, x, b)     tracing: f runs once on arrays without numbers; each operation only adds
//                          a node to a graph, which passes may improve before anything runs
//
// The first way is how NumPy and PyTorch work, and why people like them: a program is run line by
// line, any value may be printed, any `if` and any library works in between. Its price is memory
// traffic: every operation reads its operands and writes its result, a launch each.
//
// Tracing sees operations and nothing else. So it cannot follow what depends on a value: a branch,
// a number that is read. These throw, and name the line. A number of the program (a learning rate)
// is a constant of the graph. A graph holds for the sizes and the type that it was captured with:
// check_guards throws for others.
//
// Contract: arrays are matrices of f32 or f64, all of one type; a tensor with more dims is taken as
// the matrix of its rows. Cost of running at once: for each operation its operands and its result,
// each once; the ledger has it under the operation's name.
// References: Frostig, Johnson, Leary, "Compiling machine learning programs via high-level tracing"
// (2018), JAX; Ansel et al., "PyTorch 2" (2024), on guards and graph breaks.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "yotta/core/random.hpp"
#include "yotta/device/compile/tiles.hpp"
#include "yotta/device/graph.hpp"

namespace yotta {

// Of a tensor taken as a matrix. Errors: it has no numbers.
inline Size size_of(const Tensor& x) {
  if (!x.defined() || x.numel() == 0)
    fail(Where::current(), "an array has numbers; got a tensor {}",
         x.defined() ? str(x.shape()) : "that is undefined");
  const int64_t columns = x.ndim() == 0 ? 1 : x.dim(-1);
  return {x.numel() / columns, columns};
}

// What running node n alone costs: it reads each operand once and writes its result. Numbers come
// with the call.
inline OpCost eager_cost(const Graph& graph, int n) {
  OpCost cost{info(graph.node(n).op).name, graph.dtype, flops_of(graph, n), 0, bytes_of(graph, n)};
  std::vector<int> seen;
  for (const int i : graph.node(n).in) {
    if (graph.node(i).op == Op::number || contains(seen, i)) continue;
    cost.bytes_read += bytes_of(graph, i);
    seen.push_back(i);
  }
  return cost;
}

class Array {
 public:
  // With numbers: operations on it run at once.
  explicit Array(Tensor numbers) : numbers_(std::move(numbers)) {}
  // A number of the program. In a graph it is a constant.
  Array(double number) : number_(number) {}
  // Without numbers: node n of a graph that is being captured. The graph is not the array's: an
  // array that is kept for longer than its capture is of no use, and says so.
  Array(const std::shared_ptr<Graph>& graph, int n) : graph_(graph), node_(n) {}

  Size size() const {
    if (is_captured()) return graph()->node(node_).size;
    return number_ ? Size{} : size_of(numbers_);
  }
  int node() const { return node_; }
  bool is_captured() const { return node_ >= 0; }
  bool is_made() const { return is_captured() && yotta::is_made(graph()->node(node_).op); }

  // The result. Errors: there is none while a graph is being captured.
  const Tensor& tensor(Where where = Where::current()) const {
    expect_numbers("reading an array", where);
    return numbers_;
  }
  double item(Where where = Where::current()) const {
    expect_numbers("reading a number", where);
    if (number_) return *number_;
    if (numbers_.numel() != 1)
      fail(where, "an array of {} is no single number: reduce it first, as in row_max(x)",
           str(size()));
    return numbers_.reshape({-1}).item({0}, where);
  }
  // For `if (loss < 3)`. Errors: it has more than one number.
  explicit operator bool() const {
    if (is_captured())
      expect_numbers("a branch on a value that is computed here", graph()->node(node_).where);
    return item() != 0;
  }

  // An operand, and the line where the operation is called.
  struct Operand;
  friend Array operator+(const Array& a, const Operand& b);
  friend Array operator-(const Array& a, const Operand& b);
  friend Array operator*(const Array& a, const Operand& b);
  friend Array operator/(const Array& a, const Operand& b);
  friend Array operator<(const Array& a, const Operand& b);  // 1 where it is so, else 0

 private:
  friend Array apply(Node node, const std::vector<Array>& in);
  friend Array record(const std::shared_ptr<Graph>& graph, Node node, const std::vector<Array>& in);
  friend Array run_at_once(Node node, const std::vector<Array>& in);
  void expect_numbers(const char* what, Where where) const {
    if (is_captured())
      fail(where,
           "{} cannot be captured: while a graph is made there are no numbers. Keep it out of the "
           "captured function (end the graph before it and capture what follows as a second one), "
           "or write it with choose(condition, a, b)",
           what);
  }
  std::shared_ptr<Graph> graph(Where where = Where::current()) const {
    if (graph_.expired())
      fail(where,
           "an array of a captured function is used when its capture has ended: it never had "
           "numbers. Return it from the function, and run the graph");
    return graph_.lock();
  }
  // This value as a node of `its`.
  int in_graph(const std::shared_ptr<Graph>& its, Where where) const {
    if (is_captured() && graph(where) == its) return node_;
    if (number_) return its->add({.op = Op::number, .number = *number_, .where = where});
    if (is_captured())
      fail(where,
           "an array of one captured function is used inside of another: capture one function "
           "that calls both");
    fail(where,
         "an array with numbers of its own is used inside of a captured function: pass it as "
         "an argument, else its numbers of today would become a part of the graph");
  }

  Tensor numbers_;
  std::optional<double> number_;
  std::weak_ptr<Graph> graph_;
  int node_ = -1;
};

struct Array::Operand {
  Array array;
  Where where;
  Operand(const Array& x, Where at = Where::current()) : array(x), where(at) {}
  Operand(double number, Where at = Where::current()) : array(number), where(at) {}
};

// ---- one operation: a node if a graph is being captured, else it runs at once ----
inline Array record(const std::shared_ptr<Graph>& graph, Node node, const std::vector<Array>& in) {
  std::vector<Size> sizes;
  for (const Array& each : in) {
    node.in.push_back(each.in_graph(graph, node.where));
    sizes.push_back(each.size());
  }
  if (is_made(node.op))
    node.in.clear();  // only the size of x counts
  else
    node.size = result_size(node.op, sizes, node.where);
  return Array(graph, graph->add(std::move(node)));
}

inline Array run_at_once(Node node, const std::vector<Array>& in) {
  const auto now = std::make_shared<Graph>();  // of this operation alone
  for (const Array& each : in)
    if (each.numbers_.defined()) now->dtype = each.numbers_.dtype();
  std::vector<Array> nodes;
  std::vector<Tensor> numbers;
  for (const Array& each : in) {
    Array same = each;  // x * x reads x once
    for (size_t i = 0; i < nodes.size(); ++i)
      if (each.numbers_.defined() && in[i].numbers_.raw() == each.numbers_.raw()) same = nodes[i];
    if (!same.is_captured() && !each.number_)
      same = Array(now, now->add({.op = Op::input, .size = each.size()}));
    nodes.push_back(same);
    numbers.push_back(each.number_ ? Tensor::full({1, 1}, *each.number_, now->dtype)
                                   : each.numbers_);
  }
  const Array made = record(now, std::move(node), nodes);
  const Node& done = now->node(made.node());
  charge(eager_cost(*now, made.node()));
  if (is_made(done.op)) numbers.clear();
  return Array(run_node(done, now->dtype, numbers, done.where));
}

inline Array apply(Node node, const std::vector<Array>& in) {
  for (const Array& each : in)
    if (each.is_captured()) return record(each.graph(node.where), std::move(node), in);
  return run_at_once(std::move(node), in);
}

inline Array operator+(const Array& a, const Array::Operand& b) {
  return apply({.op = Op::add, .where = b.where}, {a, b.array});
}
inline Array operator-(const Array& a, const Array::Operand& b) {
  return apply({.op = Op::subtract, .where = b.where}, {a, b.array});
}
inline Array operator*(const Array& a, const Array::Operand& b) {
  return apply({.op = Op::multiply, .where = b.where}, {a, b.array});
}
inline Array operator/(const Array& a, const Array::Operand& b) {
  return apply({.op = Op::divide, .where = b.where}, {a, b.array});
}
inline Array operator<(const Array& a, const Array::Operand& b) {
  return apply({.op = Op::less, .where = b.where}, {a, b.array});
}
inline Array larger(const Array& a, const Array& b, Where where = Where::current()) {
  return apply({.op = Op::larger, .where = where}, {a, b});
}
// a where the condition is not 0, else b.
inline Array choose(const Array& condition, const Array& a, const Array& b,
                    Where where = Where::current()) {
  return apply({.op = Op::choose, .where = where}, {condition, a, b});
}
inline Array exp(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::exp, .where = where}, {x});
}
inline Array sqrt(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::sqrt, .where = where}, {x});
}
// (R, C) -> (R, 1)
inline Array row_sum(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::row_sum, .where = where}, {x});
}
inline Array row_max(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::row_max, .where = where}, {x});
}
// (R, C) -> (1, C)
inline Array column_sum(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::column_sum, .where = where}, {x});
}
// (m, k) (k, n) -> (m, n)
inline Array matmul(const Array& a, const Array& b, Where where = Where::current()) {
  return apply({.op = Op::matmul, .where = where}, {a, b});
}
// The sum of x over all ranks. parallel/graph_collectives.hpp runs it.
inline Array all_reduce(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::all_reduce, .where = where}, {x});
}

// ---- made from nothing, as large as x ----
// 0, 1, 2, ...: which row, (R, 1), or which column, (1, C), a number is in.
inline Array row_index(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::row, .size = {x.size().rows, 1}, .where = where}, {x});
}
inline Array column_index(const Array& x, Where where = Where::current()) {
  return apply({.op = Op::column, .size = {1, x.size().columns}, .where = where}, {x});
}
// 1 where dropout keeps a number and 0 where it drops it: the mask of nn/dropout.hpp for
// Random(seed, name), from index 0.
inline Array keep_mask(const Array& x, double p, uint64_t seed, std::string name,
                       Where where = Where::current()) {
  if (!(p >= 0 && p < 1)) fail(where, "keep_mask: p = {}; it is 0 or more, and below 1", p);
  return apply({.op = Op::keep,
                .size = x.size(),
                .number = p,
                .seed = seed,
                .name = std::move(name),
                .where = where},
               {x});
}

// ---- capture ----
// The node of a result. What is made from nothing gets a 0 added, so that a kernel computes it.
inline int as_result(const Array& x) { return x.is_made() ? (x + 0.0).node() : x.node(); }

// The graph of f, a function from arrays to arrays.
template <class F>
Graph capture_list(F&& f, const std::vector<Tensor>& examples, Where where = Where::current()) {
  const auto graph = std::make_shared<Graph>();
  if (examples.empty()) fail(where, "capture: a function without arguments has no sizes to go by");
  graph->dtype = examples[0].dtype();
  std::vector<Array> arguments;
  for (const Tensor& each : examples) {
    if (each.dtype() != graph->dtype)
      fail(where, "capture: all arguments have one type; got {} and {}", name(graph->dtype),
           name(each.dtype()));
    const int n = graph->add({.op = Op::input,
                              .size = size_of(each),
                              .name = fmt::format("x{}", arguments.size()),
                              .where = where});
    arguments.push_back(Array(graph, n));
  }
  for (const Array& each : f(arguments)) {
    if (!each.is_captured()) fail(where, "capture: a result does not depend on the arguments");
    graph->outputs.push_back(as_result(each));
  }
  return std::move(*graph);
}

// capture(f, x, b): the same for a function of so many arrays, with one result.
template <class F, class... Examples>
Graph capture(F&& f, const Examples&... examples) {
  return capture_list(
      [&]<size_t... i>(std::index_sequence<i...>) {
        return [&](const std::vector<Array>& in) { return std::vector<Array>{f(in[i]...)}; };
      }(std::index_sequence_for<Examples...>{}),
      {examples...});
}

// ---- guards ----
inline bool guard_holds(const Graph& graph, const Node& input, const Tensor& argument) {
  return argument.dtype() == graph.dtype && size_of(argument) == input.size;
}
// Whether the graph is right for these arguments: as many, of its type, of its sizes.
inline bool guards_hold(const Graph& graph, const std::vector<Tensor>& arguments) {
  const std::vector<int> inputs = graph.inputs();
  bool hold = inputs.size() == arguments.size();
  for (size_t i = 0; hold && i < inputs.size(); ++i)
    hold = guard_holds(graph, graph.node(inputs[i]), arguments[i]);
  return hold;
}
// Throws unless they hold.
inline void check_guards(const Graph& graph, const std::vector<Tensor>& arguments,
                         Where where = Where::current()) {
  if (guards_hold(graph, arguments)) return;
  const std::vector<int> inputs = graph.inputs();
  if (inputs.size() != arguments.size())
    fail(where, "the graph has {} arguments, got {}", inputs.size(), arguments.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& input = graph.node(inputs[i]);
    if (!guard_holds(graph, input, arguments[i]))
      fail(where,
           "argument {} is {} {}, and the graph was captured for {} {}: capture the function again "
           "with the new arguments",
           i, str(size_of(arguments[i])), name(arguments[i].dtype()), str(input.size),
           name(graph.dtype));
  }
}

// Computes node n, whose operands are in `values`.
inline void run_graph_node(const Graph& graph, int n, ByNode<Tensor>& values, Where where) {
  const Node& node = graph.node(n);
  std::vector<Tensor> in;
  for (const int i : node.in) in.push_back(values[i]);
  if (node.op != Op::number) charge(eager_cost(graph, n));
  values[n] = run_node(node, graph.dtype, in, where);
}

// The graph as it stands, one operation after the other: what running at once does.
inline std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& arguments,
                               Where where = Where::current()) {
  check_guards(graph, arguments, where);
  ByNode<Tensor> values(graph);
  std::vector<Tensor> results;
  for (size_t i = 0; const int n : graph.inputs()) values[n] = arguments[i++];
  for (int n = 0; n < graph.size(); ++n)
    if (graph.node(n).op != Op::input) run_graph_node(graph, n, values, where);
  for (const int n : graph.outputs) results.push_back(values[n]);
  return results;
}

}  // namespace yotta
