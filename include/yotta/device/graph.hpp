// A program as data: which operation reads what, in the order in which they were called.
//
// A compiler can only improve what it can see. Here it sees a graph: a list of nodes, each an
// operation on the results of earlier nodes. Every value is a matrix (rows, columns).
//
//     f(x, b) = exp(x + b) * 2          0  input     x                  (4, 8)
//                                       1  input     b                  (1, 8)
//         x   b                         2  add       0 1                (4, 8)
//          \ /                          3  exp       2                  (4, 8)
//           +                           4  number    2                  (1, 1)
//           |                           5  multiply  3 4                (4, 8)
//          exp   2                      returns 5
//            \  /
//             *
//
// Sizes follow NumPy's rule: a side of 1 is repeated ("broadcast") to fit the other operand.
// Contract: a node reads only nodes before it, so the list is a valid order of execution.
// capture.hpp makes graphs from functions, fusion.hpp makes kernels from graphs.
// Reference: Reed et al., "torch.fx: Practical Program Capture and Transformation" (2022).
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "yotta/core/matrix_view.hpp"
#include "yotta/core/tensor.hpp"

namespace yotta {

enum class Op : uint8_t {
  input,
  number,
  row,
  column,
  keep,  // made from nothing
  add,
  subtract,
  multiply,
  divide,
  larger,
  less,
  choose,
  exp,
  sqrt,  // element by element
  row_sum,
  row_max,     // (R, C) -> (R, 1)
  column_sum,  // (R, C) -> (1, C)
  matmul,
  matmul_tn,
  matmul_nt,  // A B, A' B, A B'
  all_reduce  // the sum over ranks
};

// What is to know of an operation. `text` is its expression in C++ and in CUDA, where $0, $1 and $2
// are its operands, and $p is the place in its own value; of a reduction it is what joins two
// partial results.
struct OpInfo {
  const char* name;
  int inputs;
  double flops;  // per number of the result; of a reduction, per number that it reads
  const char* text;
};
inline constexpr std::array<OpInfo, 21> op_infos = {{{"input", 0, 0, ""},
                                                     {"number", 0, 0, "spread($n)"},
                                                     {"row", 0, 0, "spread($p)"},
                                                     {"column", 0, 0, "count_from($p)"},
                                                     {"keep", 0, 0, "keep($d, $p, $k)"},
                                                     {"add", 2, 1, "$0 + $1"},
                                                     {"subtract", 2, 1, "$0 - $1"},
                                                     {"multiply", 2, 1, "$0 * $1"},
                                                     {"divide", 2, 1, "$0 / $1"},
                                                     {"larger", 2, 1, "larger($0, $1)"},
                                                     {"less", 2, 1, "less($0, $1)"},
                                                     {"choose", 3, 1, "choose($0, $1, $2)"},
                                                     {"exp", 1, 1, "exp_of($0)"},
                                                     {"sqrt", 1, 1, "sqrt_of($0)"},
                                                     {"row_sum", 1, 1, "$0 + $1"},
                                                     {"row_max", 1, 1, "larger($0, $1)"},
                                                     {"column_sum", 1, 1, ""},
                                                     {"matmul", 2, 2, ""},
                                                     {"matmul_tn", 2, 2, ""},
                                                     {"matmul_nt", 2, 2, ""},
                                                     {"all_reduce", 1, 0, ""}}};
constexpr const OpInfo& info(Op op) { return op_infos[static_cast<size_t>(op)]; }

// Made from nothing, so cheaper to make again wherever it is used than to fetch from memory.
constexpr bool is_made(Op op) { return op >= Op::number && op <= Op::keep; }
// Of Op::keep: a draw of 32 bits below this is dropped.
constexpr uint32_t keep_threshold(double p) { return static_cast<uint32_t>(p * 0x1p32); }
constexpr bool is_elementwise(Op op) { return op >= Op::add && op <= Op::sqrt; }
constexpr bool is_row_reduction(Op op) { return op == Op::row_sum || op == Op::row_max; }
constexpr bool is_matmul(Op op) { return op >= Op::matmul && op <= Op::matmul_nt; }

struct Size {
  int64_t rows = 1, columns = 1;
  constexpr int64_t count() const { return rows * columns; }
  bool operator==(const Size&) const = default;
};
inline std::string str(Size size) { return fmt::format("({}, {})", size.rows, size.columns); }

struct Node {
  Op op;
  std::vector<int> in = {};  // nodes before this one
  Size size = {};
  double number = 0;               // of Op::number its value, of Op::keep the probability of 0
  uint64_t seed = 0;               // of Op::keep, with the name: Random(seed, name)
  std::string name = {};           // of Op::input too
  Where where = Where::current();  // the line that called the operation
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<int> outputs;
  DType dtype = DType::f32;  // of every value

  const Node& node(int n) const { return nodes[static_cast<size_t>(n)]; }
  int size() const { return static_cast<int>(nodes.size()); }
  int add(Node node) {
    nodes.push_back(std::move(node));
    return size() - 1;
  }
  std::vector<int> inputs() const {
    std::vector<int> found;
    for (int n = 0; n < size(); ++n)
      if (node(n).op == Op::input) found.push_back(n);
    return found;
  }
};

// A list with an entry for each node of a graph.
template <class T>
struct ByNode : std::vector<T> {
  ByNode() = default;
  explicit ByNode(const Graph& graph, T first = {}) : std::vector<T>(graph.nodes.size(), first) {}
  decltype(auto) operator[](int n) { return std::vector<T>::operator[](static_cast<size_t>(n)); }
  decltype(auto) operator[](int n) const {
    return std::vector<T>::operator[](static_cast<size_t>(n));
  }
};
inline bool contains(const std::vector<int>& nodes, int n) {
  return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
}

// ---- sizes ----
// The size of an elementwise result. Errors: a side differs, and neither is 1.
inline Size broadcast(const char* op, Size a, Size b, Where where) {
  const auto side = [&](int64_t p, int64_t q) {
    if (p != q && p != 1 && q != 1)
      fail(where, "{}: {} and {} do not fit: a side is the same in both, or 1 in one of them", op,
           str(a), str(b));
    return std::max(p, q);
  };
  return {side(a.rows, b.rows), side(a.columns, b.columns)};
}

inline Size matmul_size(Op op, Size a, Size b, Where where) {
  if (op == Op::matmul_tn) std::swap(a.rows, a.columns);
  if (op == Op::matmul_nt) std::swap(b.rows, b.columns);
  if (a.columns != b.rows)
    fail(where, "{}: {} times {}: the inner sizes {} and {} differ", info(op).name, str(a), str(b),
         a.columns, b.rows);
  return {a.rows, b.columns};
}

// The size of op's result, from those of its operands.
inline Size result_size(Op op, const std::vector<Size>& in, Where where) {
  if (std::ssize(in) != info(op).inputs)
    fail(where, "{} has {} operands, got {}", info(op).name, info(op).inputs, in.size());
  if (is_row_reduction(op)) return {in[0].rows, 1};
  if (op == Op::column_sum) return {1, in[0].columns};
  if (is_matmul(op)) return matmul_size(op, in[0], in[1], where);
  Size size = in[0];
  for (const Size& each : in) size = broadcast(info(op).name, size, each, where);
  return size;
}

// ---- what a node costs ----
inline double bytes_of(const Graph& graph, int n) {
  return static_cast<double>(graph.node(n).size.count() * bytes_of(graph.dtype));
}

inline double flops_of(const Graph& graph, int n) {
  const Node& node = graph.node(n);
  int64_t count = node.size.count();
  if (is_row_reduction(node.op) || node.op == Op::column_sum)
    count = graph.node(node.in[0]).size.count();
  if (is_matmul(node.op)) {
    const Size a = graph.node(node.in[0]).size;
    count *= node.op == Op::matmul_tn ? a.rows : a.columns;
  }
  return info(node.op).flops * static_cast<double>(count);
}

// ---- a graph as text ----
inline std::string print(const Graph& graph) {
  std::string text;
  for (int n = 0; n < graph.size(); ++n) {
    const Node& node = graph.node(n);
    std::string operands = node.op == Op::number ? fmt::format("{}", node.number) : node.name;
    for (const int i : node.in) operands += fmt::format("{}{}", operands.empty() ? "" : " ", i);
    text +=
        fmt::format("{:>3}  {:<10} {:<14} {}\n", n, info(node.op).name, operands, str(node.size));
  }
  text += "returns";
  for (const int n : graph.outputs) text += fmt::format(" {}", n);
  return text + "\n";
}

}  // namespace yotta
