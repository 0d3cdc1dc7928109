// Fusion: several operations in one kernel, so that what one passes to the next stays in registers.
//
//     exp(x + b) * 2, one kernel each            fused
//     x, b -> [+] -> memory -> [exp] -> memory   x, b -> [+  exp  *] -> y
//          -> [*] -> y
//     6 times the bytes of x cross the bus       2 times: x is read once, y is written once
//
// Memory is what these operations wait for (lesson 02), so the bytes that cross its bus are the
// time. A kernel reads each of its distinct inputs once and writes each of its outputs once: that
// is its cost, and the formula below.
//
// What fits into one kernel? Here a kernel walks over the rows of a matrix, and one thread or one
// block has a whole row. So it can compute any element-by-element operation of that size, the sum
// or the largest of a row, and what is computed from these: softmax and layernorm are one kernel
// each.
// A matmul and a sum down columns need numbers of other rows; they stay kernels of their own.
//
// The passes, each from graph to graph or from graph to kernels:
//
//     remove_dead     drops what no output needs
//     merge_equal     computes equal expressions once
//     fuse            merges nodes into kernels, as long as no path leads out of a kernel and back
//     foreach         puts kernels that do not need each other into one launch
//     reuse_memory    writes a result over an input that nobody reads any more
//
// Cost of fuse: at most nodes^2 steps for each operand. Contract: kernels come in an order in which
// they can run. Letters: R rows and C columns of what a kernel walks over.
// References: Ansel et al., "PyTorch 2" (2024), section 4; Ivanov et al., "Data Movement Is All You
// Need" (2021); Ragan-Kelley et al., "Halide" (2013).
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "yotta/device/graph.hpp"

namespace yotta {

// ---- from graph to graph ----
// The graph without nodes that no output needs. Inputs stay: callers count on their places.
inline Graph remove_dead(const Graph& graph) {
  ByNode<bool> needed(graph);
  for (const int n : graph.outputs) needed[n] = true;
  for (int n = graph.size() - 1; n >= 0; --n)
    if (needed[n])
      for (const int i : graph.node(n).in) needed[i] = true;
  Graph result{{}, {}, graph.dtype};
  ByNode<int> moved(graph);
  for (int n = 0; n < graph.size(); ++n) {
    Node node = graph.node(n);
    if (!needed[n] && node.op != Op::input) continue;
    for (int& i : node.in) i = moved[i];
    moved[n] = result.add(node);
  }
  for (const int n : graph.outputs) result.outputs.push_back(moved[n]);
  return result;
}

// The graph with one node in place of several that compute the same from the same.
inline Graph merge_equal(const Graph& graph) {
  Graph result{{}, {}, graph.dtype};
  ByNode<int> moved(graph);
  // By the bits of its number: 0 and -0 are two, and NaN is one.
  using Key = std::tuple<Op, std::vector<int>, int64_t, int64_t, uint64_t, uint64_t, std::string>;
  std::map<Key, int> known;
  for (int n = 0; n < graph.size(); ++n) {
    Node node = graph.node(n);
    for (int& i : node.in) i = moved[i];
    const Key key = {node.op,
                     node.in,
                     node.size.rows,
                     node.size.columns,
                     std::bit_cast<uint64_t>(node.number),
                     node.seed,
                     node.name};
    const auto found = known.find(key);
    const bool is_new = found == known.end() || node.op == Op::input;
    moved[n] = is_new ? result.add(node) : found->second;
    if (is_new) known[key] = moved[n];
  }
  for (const int n : graph.outputs) result.outputs.push_back(moved[n]);
  return remove_dead(result);
}

// ---- from graph to kernels ----
struct Kernel {
  std::vector<int> nodes;          // what it computes, in this order
  std::vector<int> reads, writes;  // values from and to memory, each once
  Size space;                      // the matrix over whose rows it walks
};

// Whether a node is a kernel of its own whatever stands beside it.
constexpr bool stands_alone(Op op) {
  return is_matmul(op) || op == Op::column_sum || op == Op::all_reduce;
}
// Whether a node belongs to a kernel at all. Inputs and numbers are there, and what is made from
// nothing is made in each kernel that uses it.
constexpr bool needs_kernel(Op op) { return op != Op::input && !is_made(op); }

// What a node walks over.
inline Size space_of(const Graph& graph, int n) {
  const Node& node = graph.node(n);
  return is_row_reduction(node.op) ? graph.node(node.in[0]).size : node.size;
}

// A row that a kernel with a reduction can hold in registers; a longer one is not fused across it.
inline constexpr int64_t longest_row = 8192;

// Kernels while they are merged: owner[n] is the kernel of node n, named after one of its nodes.
using Owners = ByNode<int>;

// Each node is a kernel of its own: how a program without a compiler runs.
inline Owners one_kernel_each(const Graph& graph) {
  Owners owner(graph);
  for (int n = 0; n < graph.size(); ++n) owner[n] = n;
  return owner;
}

// What two kernels have in common decides whether one may be both.
struct KernelShape {
  Size space = {0, 1};
  bool alone = false, reduces = false;
};
inline KernelShape shape_of(const Graph& graph, const Owners& owner, int kernel) {
  KernelShape shape;
  for (int n = 0; n < graph.size(); ++n) {
    if (owner[n] != kernel) continue;
    const Node& node = graph.node(n);
    const Size space = space_of(graph, n);
    shape.space = {std::max(shape.space.rows, space.rows),
                   std::max(shape.space.columns, space.columns)};
    shape.alone = shape.alone || stands_alone(node.op);
    shape.reduces = shape.reduces || is_row_reduction(node.op);
  }
  return shape;
}

// Whether one walk over rows can compute both: rows are the same, columns too, unless one of them
// has a number a row.
inline bool same_walk(const KernelShape& a, const KernelShape& b) {
  if (a.alone || b.alone || a.space.rows != b.space.rows) return false;
  const int64_t p = a.space.columns, q = b.space.columns;
  if ((a.reduces || b.reduces) && std::max(p, q) > longest_row) return false;
  return p == q || (p == 1 && !a.reduces) || (q == 1 && !b.reduces);
}

// Whether a value of kernel `from` reaches kernel `to` by way of a third one. Merged, the two would
// have to run before and after that one.
inline bool leads_around(const Graph& graph, const Owners& owner, int from, int to) {
  ByNode<bool> after(graph);  // kernels that wait for `from`, without `to`
  for (bool grown = true; grown;) {
    grown = false;
    for (int n = 0; n < graph.size(); ++n)
      for (const int i : graph.node(n).in) {
        const int source = owner[i], here = owner[n];
        if (source == to || source == here || here == from) continue;
        if (source != from && !after[source]) continue;
        if (here != to && !after[here]) after[here] = grown = true;
        if (here == to && source != from) return true;
      }
  }
  return false;
}

// Merges kernels: each node with the kernels that it reads from, where one walk can do both and no
// path leads around.
inline Owners fuse(const Graph& graph) {
  Owners owner = one_kernel_each(graph);
  for (int n = 0; n < graph.size(); ++n) {
    if (!needs_kernel(graph.node(n).op)) continue;
    for (const int i : graph.node(n).in) {
      const int producer = owner[i], mine = owner[n];
      if (!needs_kernel(graph.node(i).op) || producer == mine) continue;
      if (!same_walk(shape_of(graph, owner, producer), shape_of(graph, owner, mine))) continue;
      if (leads_around(graph, owner, producer, mine)) continue;
      std::replace(owner.begin(), owner.end(), producer, mine);
    }
  }
  return owner;
}

// Whether a value of this kernel must be written: the caller or another kernel reads it.
inline bool leaves_kernel(const Graph& graph, const Owners& owner, int n) {
  if (contains(graph.outputs, n)) return true;
  for (int reader = 0; reader < graph.size(); ++reader)
    if (owner[reader] != owner[n] && contains(graph.node(reader).in, n)) return true;
  return false;
}

// The kernel that computes these nodes. What is made from nothing is made in it.
inline Kernel kernel_of(const Graph& graph, const Owners& owner, int kernel) {
  Kernel made{{}, {}, {}, shape_of(graph, owner, kernel).space};
  const auto inside = [&](int n) { return owner[n] == kernel && needs_kernel(graph.node(n).op); };
  ByNode<bool> used(graph);
  for (int n = 0; n < graph.size(); ++n)
    for (const int i : graph.node(n).in) used[i] = used[i] || inside(n);
  for (int n = 0; n < graph.size(); ++n) {
    const bool is_new = is_made(graph.node(n).op);
    if (inside(n) || (used[n] && is_new)) made.nodes.push_back(n);
    if (inside(n) && leaves_kernel(graph, owner, n)) made.writes.push_back(n);
    if (used[n] && !inside(n) && !is_new) made.reads.push_back(n);
  }
  return made;
}

// All kernels, each after those whose values it reads.
inline std::vector<Kernel> kernels(const Graph& graph, const Owners& owner,
                                   Where where = Where::current()) {
  std::vector<Kernel> waiting, order;
  for (int k = 0; k < graph.size(); ++k)
    for (int n = 0; n < graph.size(); ++n)
      if (owner[n] == k && needs_kernel(graph.node(n).op)) {
        waiting.push_back(kernel_of(graph, owner, k));
        break;
      }
  ByNode<bool> there(graph);
  for (const int n : graph.inputs()) there[n] = true;
  while (!waiting.empty()) {
    const auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const Kernel& kernel) {
      return std::all_of(kernel.reads.begin(), kernel.reads.end(), [&](int n) { return there[n]; });
    });
    if (ready == waiting.end())
      fail(where,
           "{} kernels wait for each other's values: each would have to run before another "
           "one and after it. Nodes were merged although a path leads around",
           waiting.size());
    for (const int n : ready->writes) there[n] = true;
    order.push_back(std::move(*ready));
    waiting.erase(ready);
  }
  return order;
}

// ---- what a kernel costs ----
inline OpCost cost_of(const Graph& graph, const Kernel& kernel) {
  OpCost cost{kernel.nodes.size() == 1 ? info(graph.node(kernel.nodes[0]).op).name : "fused",
              graph.dtype, 0, 0, 0};
  for (const int n : kernel.nodes) cost.flops += flops_of(graph, n);
  for (const int n : kernel.reads) cost.bytes_read += bytes_of(graph, n);
  for (const int n : kernel.writes) cost.bytes_written += bytes_of(graph, n);
  return cost;
}

inline double bytes_moved(const Graph& graph, const std::vector<Kernel>& kernels) {
  double bytes = 0;
  for (const Kernel& kernel : kernels) {
    const OpCost cost = cost_of(graph, kernel);
    bytes += cost.bytes_read + cost.bytes_written;
  }
  return bytes;
}

// ---- several kernels in one launch ----
// Kernels that do not need each other: one launch, whose blocks are shared out among them. An
// optimizer's step on a hundred parameters is a hundred kernels and one launch (PyTorch: foreach).
using Launch = std::vector<Kernel>;

inline std::vector<Launch> one_launch_each(const std::vector<Kernel>& kernels) {
  std::vector<Launch> launches;
  for (const Kernel& kernel : kernels) launches.push_back({kernel});
  return launches;
}

inline std::vector<Launch> foreach (const Graph& graph, const std::vector<Kernel>& kernels) {
  std::vector<Launch> launches;
  for (const Kernel& kernel : kernels) {
    size_t first = 0;  // the earliest launch that follows all that it reads
    for (size_t l = 0; l < launches.size(); ++l)
      for (const Kernel& other : launches[l])
        for (const int n : kernel.reads)
          if (std::count(other.writes.begin(), other.writes.end(), n) > 0) first = l + 1;
    const auto alone = [&](const Kernel& each) {
      return stands_alone(graph.node(each.nodes.back()).op);
    };
    while (first < launches.size() && (alone(kernel) || alone(launches[first][0]))) ++first;
    if (first == launches.size()) launches.emplace_back();
    launches[first].push_back(kernel);
  }
  return launches;
}

}  // namespace yotta
