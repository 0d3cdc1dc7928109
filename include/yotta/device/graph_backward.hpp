// The backward pass of a captured graph, as a graph; and which values to keep for it.
//
// Each operation has one rule: given the gradient dy of its result, what are those of its operands?
// The rules are applied from the last node to the first, and what they compute is nodes too. So a
// backward is compiled and fused like everything else.
//
//     forward    x ──> exp ──> * ──> y          the joint graph: forward, then backward,
//     backward   dx <── * <── * <── dy          which reads values of the forward
//
// Then the joint graph is cut in two. What backward reads of the forward is kept in memory, or
// computed again from what is kept. To keep a value costs its bytes twice (written, read), or once
// if it is in memory anyway (an input, a matmul's result). To compute it again in a fused kernel
// costs no bytes if its operands are there anyway. So the choice is a minimum cut: the cheapest set
// of values, by bytes, from which all that backward reads follows without a matmul or a collective.
//
// Example: y = gelu(x + b). Backward reads six values of the chain; the cut keeps x and b alone,
// since x + b, its square and exp are cheap to compute again.
// Contract: gradients are those of the sum of dy * output over all numbers of one output; what they
// flow to is an input. larger and row_max give their gradient to the operand that is the largest (a
// tie: to the first; in a row to all that tie).
// Cost: each rule adds one to eight nodes; the cut one search of the graph for each kept value.
// References: Jiang et al., "Dynamic Tensor Rematerialization" (2021); He, "Min-cut optimal(*)
// recomputation with AOTAutograd" (2022); Ford and Fulkerson (1956).
#pragma once

#include <limits>

#include "yotta/device/capture.hpp"
#include "yotta/device/fusion.hpp"

namespace yotta {

// ---- the rules ----
// As large as x, and made from nothing.
inline Array zeros_like(const Array& x) { return apply({.op = Op::number, .size = x.size()}, {x}); }

// dy, of the size of a result, summed over what was repeated to make it: of the size of an operand.
inline Array sum_to(Array dy, Size size) {
  if (dy.size().columns != size.columns) dy = row_sum(dy);
  if (dy.size().rows != size.rows) dy = column_sum(dy);
  return dy;
}

inline Array matmul_tn(const Array& a, const Array& b) {
  return apply({.op = Op::matmul_tn}, {a, b});
}
inline Array matmul_nt(const Array& a, const Array& b) {
  return apply({.op = Op::matmul_nt}, {a, b});
}

// The gradients of a node's operands, from its value y and its gradient dy. Before sum_to.
inline std::vector<Array> gradients_of(const Node& node, const std::vector<Array>& in,
                                       const Array& y, const Array& dy) {
  switch (node.op) {
    case Op::add: return {dy, dy};
    case Op::subtract: return {dy, dy * -1.0};
    case Op::multiply: return {dy * in[1], dy * in[0]};
    case Op::divide: return {dy / in[1], dy * y / in[1] * -1.0};
    case Op::larger: return {choose(in[0] < in[1], 0.0, dy), choose(in[0] < in[1], dy, 0.0)};
    case Op::choose: return {zeros_like(in[0]), choose(in[0], dy, 0.0), choose(in[0], 0.0, dy)};
    case Op::exp: return {dy * y};
    case Op::sqrt: return {dy * 0.5 / y};
    case Op::row_sum: return {dy + zeros_like(in[0])};  // the same to each number of the row
    case Op::row_max: return {choose(in[0] < y, 0.0, dy)};
    case Op::column_sum: return {dy + zeros_like(in[0])};
    case Op::matmul: return {matmul_nt(dy, in[1]), matmul_tn(in[0], dy)};
    case Op::matmul_tn: return {matmul_nt(in[1], dy), matmul(in[0], dy)};
    case Op::matmul_nt: return {matmul(dy, in[1]), matmul_tn(dy, in[0])};
    default: return {zeros_like(in[0]), zeros_like(in[1])};  // less: a step has no slope
  }
}

// ---- the joint graph ----
struct Joint {
  Graph graph;        // the forward's nodes first; its last input is dy
  int forward_nodes;  // how many of them
  int forward_outputs;
};

// Adds the backward of output `from` to a graph: dy as one more input, and as outputs the gradients
// of the inputs `of`.
inline Joint backward(const Graph& forward, int from, const std::vector<int>& of,
                      Where where = Where::current()) {
  const auto graph = std::make_shared<Graph>(forward);
  const int dy =
      graph->add({.op = Op::input, .size = forward.node(from).size, .name = "dy", .where = where});
  ByNode<std::optional<Array>> gradient(forward);
  gradient[from] = Array(graph, dy);
  for (int n = from; n >= 0; --n) {
    const Node node = forward.node(n);
    if (!gradient[n] || node.in.empty()) continue;
    if (node.op == Op::all_reduce)
      fail(node.where,
           "backward: the gradient of an all_reduce is not defined here; take gradients "
           "first, and reduce these");
    std::vector<Array> in;
    for (const int i : node.in) in.push_back(Array(graph, i));
    const std::vector<Array> gradients = gradients_of(node, in, Array(graph, n), *gradient[n]);
    for (size_t k = 0; k < in.size(); ++k) {
      if (is_made(forward.node(node.in[k]).op)) continue;
      std::optional<Array>& sum = gradient[node.in[k]];
      const Array part = sum_to(gradients[k], in[k].size());
      sum = sum ? *sum + part : part;
    }
  }
  for (const int n : of) {
    if (!gradient[n])
      fail(where, "backward: the output does not depend on input {}", forward.node(n).name);
    graph->outputs.push_back(as_result(*gradient[n]));
  }
  return {std::move(*graph), forward.size(), static_cast<int>(forward.outputs.size())};
}

// ---- what to keep ----
// Values that backward may compute again: all but those that would cost a kernel of their own.
constexpr bool can_recompute(Op op) { return needs_kernel(op) && !stands_alone(op); }

// The values of the forward that backward reads, or that lead to one it reads.
inline ByNode<bool> read_by_backward(const Joint& joint) {
  ByNode<bool> read(joint.graph), needed(joint.graph);
  for (size_t k = static_cast<size_t>(joint.forward_outputs); k < joint.graph.outputs.size(); ++k)
    needed[joint.graph.outputs[k]] = true;
  for (int n = joint.graph.size() - 1; n >= joint.forward_nodes; --n)
    if (needed[n])
      for (const int i : joint.graph.node(n).in) needed[i] = true;
  for (int n = 0; n < joint.forward_nodes; ++n)
    read[n] = needed[n] && !is_made(joint.graph.node(n).op);
  return read;
}

// Keeps everything that backward reads: what a framework without a compiler does.
inline std::vector<int> keep_all(const Joint& joint) {
  std::vector<int> kept;
  const ByNode<bool> read = read_by_backward(joint);
  for (int n = 0; n < joint.forward_nodes; ++n)
    if (read[n]) kept.push_back(n);
  return kept;
}

// Bytes that cross memory if backward reads value n and does not compute it again. What an input or
// a kernel of its own holds is there anyway, and is read once more; else it must be written, too.
inline double keep_price(const Joint& joint, int n) {
  return bytes_of(joint.graph, n) * (can_recompute(joint.graph.node(n).op) ? 2 : 1);
}

// Ford and Fulkerson on the graph below; flow and capacity are bytes.
class Cut {
 public:
  static constexpr double unlimited = 1e300;
  explicit Cut(int points) : edges_(static_cast<size_t>(points)) {}
  void edge(int from, int to, double capacity) {
    edges_[static_cast<size_t>(from)].push_back({to, count_, capacity});
    edges_[static_cast<size_t>(to)].push_back({from, count_ + 1, 0});
    count_ += 2;
  }
  // Sends flow until none reaches `sink`; then which points it still reaches.
  std::vector<bool> reached(int source, int sink) {
    for (;;) {
      std::vector<Edge*> by(edges_.size());
      std::vector<bool> seen(edges_.size());
      std::vector<int> waiting = {source};
      seen[static_cast<size_t>(source)] = true;
      for (size_t next = 0; next < waiting.size(); ++next)
        for (Edge& edge : edges_[static_cast<size_t>(waiting[next])])
          if (edge.capacity > 0 && !seen[static_cast<size_t>(edge.to)]) {
            seen[static_cast<size_t>(edge.to)] = true;
            by[static_cast<size_t>(edge.to)] = &edge;
            waiting.push_back(edge.to);
          }
      if (!seen[static_cast<size_t>(sink)]) return seen;
      double flow = unlimited;
      for (int at = sink; at != source; at = back(*by[static_cast<size_t>(at)]).to)
        flow = std::min(flow, by[static_cast<size_t>(at)]->capacity);
      for (int at = sink; at != source;) {
        Edge& edge = *by[static_cast<size_t>(at)];
        edge.capacity -= flow;
        back(edge).capacity += flow;
        at = back(edge).to;
      }
    }
  }

 private:
  struct Edge {
    int to, number;
    double capacity;
  };
  // The edge of the other direction: numbers 2 i and 2 i + 1 are a pair.
  Edge& back(const Edge& edge) {
    for (Edge& each : edges_[static_cast<size_t>(edge.to)])
      if (each.number == (edge.number ^ 1)) return each;
    return edges_[0][0];
  }
  std::vector<std::vector<Edge>> edges_;
  int count_ = 0;
};

// The cheapest set to keep. Each value n is an edge from point 2 n to 2 n + 1, as wide as its
// price; the source leads to what is there anyway or cannot be computed again, what backward reads
// leads to the sink.
inline std::vector<int> keep_least(const Joint& joint) {
  const int source = 2 * joint.forward_nodes, sink = source + 1;
  const ByNode<bool> read = read_by_backward(joint);
  Cut cut(sink + 1);
  for (int n = 0; n < joint.forward_nodes; ++n) {
    const Node& node = joint.graph.node(n);
    if (is_made(node.op)) continue;
    cut.edge(2 * n, 2 * n + 1, keep_price(joint, n));
    if (!can_recompute(node.op)) cut.edge(source, 2 * n, Cut::unlimited);
    if (can_recompute(node.op))
      for (const int i : node.in)
        if (!is_made(joint.graph.node(i).op)) cut.edge(2 * i + 1, 2 * n, Cut::unlimited);
    if (read[n]) cut.edge(2 * n + 1, sink, Cut::unlimited);
  }
  const std::vector<bool> reached = cut.reached(source, sink);
  std::vector<int> kept;
  for (int n = 0; n < joint.forward_nodes; ++n)
    if (reached[static_cast<size_t>(2 * n)] && !reached[static_cast<size_t>(2 * n + 1)])
      kept.push_back(n);
  return kept;
}

// ---- two graphs ----
struct Halves {
  Graph forward;   // its outputs: those it had, then the kept values that are no inputs
  Graph backward;  // its inputs: the kept values, then dy; its outputs: the gradients
  std::vector<int> kept;
};

// Cuts a joint graph at what is kept. Backward computes the rest of what it reads again.
inline Halves split(const Joint& joint, const std::vector<int>& kept) {
  Halves halves;
  halves.kept = kept;
  halves.forward = joint.graph;
  halves.forward.nodes.resize(static_cast<size_t>(joint.forward_nodes));
  halves.forward.outputs.resize(static_cast<size_t>(joint.forward_outputs));
  for (const int n : kept)
    if (joint.graph.node(n).op != Op::input) halves.forward.outputs.push_back(n);
  Graph& back = halves.backward;
  back.dtype = joint.graph.dtype;
  ByNode<int> moved(joint.graph, -1);
  for (const int n : kept)
    moved[n] = back.add({.op = Op::input,
                         .size = joint.graph.node(n).size,
                         .name = fmt::format("kept{}", n),
                         .where = joint.graph.node(n).where});
  for (int n = 0; n < joint.graph.size(); ++n) {
    Node node = joint.graph.node(n);
    const bool from_caller = node.op == Op::input && n != joint.forward_nodes;
    bool known = moved[n] < 0 && !from_caller;
    for (const int i : node.in) known = known && moved[i] >= 0;
    if (!known) continue;
    for (int& i : node.in) i = moved[i];
    moved[n] = back.add(std::move(node));
  }
  for (size_t k = static_cast<size_t>(joint.forward_outputs); k < joint.graph.outputs.size(); ++k)
    back.outputs.push_back(moved[joint.graph.outputs[k]]);
  back = remove_dead(back);
  return halves;
}

// Bytes that wait in memory between forward and backward.
inline double kept_bytes(const Joint& joint, const std::vector<int>& kept) {
  double bytes = 0;
  for (const int n : kept) bytes += bytes_of(joint.graph, n);
  return bytes;
}

}  // namespace yotta
