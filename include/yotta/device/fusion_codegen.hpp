// From a kernel to source: C++ for a CPU and CUDA for a GPU, from one list of lines.
//
// A kernel walks over the rows of its matrix. What is one number a row is computed once a row; the
// rest in loops along it. A reduction ends a loop: its value is there only when the loop is over.
// So a row has as many loops as it has reductions in a chain, and one more. Softmax has three:
//
//     y = exp(x - max) / sum       phase 0   load x, save it, the largest so far
//                                  phase 1   recall x, exp(x - max), save it, add up
//                                  phase 2   recall that, divide, store
//
// What a later phase needs is saved: in registers of a GPU, in an array on the CPU's stack. So each
// input is read from memory once, whatever the number of loops. (A CPU saves no inputs, and no sums
// and products of inputs: the row is in its cache, and is loaded from there again.)
//
// A division by what is one number a row becomes a product with its inverse, computed once a row: a
// division takes as long as ten products. The last bit may differ.
//
// An addition takes four cycles, and the next one into the same sum waits for it. So on the CPU a
// loop that reduces has four sums, which take vectors in turn.
//
// On the CPU the 16 numbers of a vector (`V`) are computed together and a thread has whole rows. On
// a GPU V is one number, a thread has every 256th column and a block has the row. The lines between
// are the same, down to the letter; only loops, folds and the functions on top differ
// (compile/lanes.hpp, compile/cuda_functions.hpp).
//
// Contract: the order of lines is that in which a row is computed; every load of a value stands
// before a store that may overwrite it (reuse_memory).
// Letters: R, C as in fusion.hpp; r a row, c a column, k which of a thread's columns.
// References: Ansel et al., "PyTorch 2" (2024), section 4.3, TorchInductor.
#pragma once

#include <cmath>
#include <optional>

#include "yotta/core/cpu/matmul_packing.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/compile/cuda_functions.hpp"
#include "yotta/device/compile/lanes.hpp"
#include "yotta/device/fusion.hpp"

namespace yotta {

// ---- the lines of a kernel ----
enum class LineStep : uint8_t {
  load,     // from memory
  compute,  // by its expression
  save,     // for a later phase
  recall,   // from an earlier one
  reduce,   // into what the loop has summed up so far
  fold,     // what the lanes or the threads have summed up, into one number
  store,    // to memory
  loop,     // along the row
  end
};
struct Line {
  LineStep step;
  int node = -1;
  bool operator==(const Line&) const = default;
};

// What is known of a kernel before its lines are written.
struct Walk {
  Size space;         // rows and columns that it walks over
  bool flat = false;  // rows do not matter: all of it is one long row
  bool reduces = false;
  std::vector<int> values;  // all that it loads or computes, in order
  ByNode<int> phase;        // in which loop, or before which, it is there
  ByNode<bool> a_row;       // one number a row, computed outside of loops
  ByNode<bool> crosses;     // a later phase needs it
  ByNode<bool> reduced;     // summed up here, along the row
};

// In which phase each value is computed. A loop's reductions are there in the next phase. What is
// loaded or made is so where it is first used.
inline void find_phases(const Graph& graph, const Kernel& kernel, Walk& walk) {
  constexpr int none = 1 << 20;
  walk.phase = ByNode<int>(graph, none);
  for (const int n : kernel.nodes) {
    if (is_made(graph.node(n).op)) continue;
    int& phase = walk.phase[n] = 0;
    for (const int i : graph.node(n).in) {
      if (!contains(kernel.nodes, i) || is_made(graph.node(i).op)) continue;
      const int wait = is_row_reduction(graph.node(i).op) ? 1 : 0;
      phase = std::max(phase, walk.phase[i] + wait);
    }
  }
  for (const int n : kernel.nodes)
    for (const int i : graph.node(n).in) walk.phase[i] = std::min(walk.phase[i], walk.phase[n]);
}

// Whether the whole matrix may be taken as one row: nothing depends on where a row begins.
inline bool is_flat(const Graph& graph, const Kernel& kernel) {
  const auto fits = [&](int n) {
    return graph.node(n).size == kernel.space || graph.node(n).size.count() == 1;
  };
  const auto whole = [&](int n) {
    const Op op = graph.node(n).op;
    return fits(n) && !is_row_reduction(op) && op != Op::row && op != Op::column;
  };
  return std::all_of(kernel.nodes.begin(), kernel.nodes.end(), whole) &&
         std::all_of(kernel.reads.begin(), kernel.reads.end(), fits);
}

inline Walk walk_of(const Graph& graph, const Kernel& kernel) {
  Walk walk;
  walk.space = kernel.space;
  walk.flat = is_flat(graph, kernel);
  if (walk.flat) walk.space = {1, kernel.space.count()};
  std::merge(kernel.nodes.begin(), kernel.nodes.end(), kernel.reads.begin(), kernel.reads.end(),
             std::back_inserter(walk.values));
  find_phases(graph, kernel, walk);
  walk.a_row = ByNode<bool>(graph);
  walk.crosses = ByNode<bool>(graph);
  walk.reduced = ByNode<bool>(graph);
  for (const int n : kernel.nodes)
    if (is_row_reduction(graph.node(n).op)) walk.reduced[n] = walk.reduces = true;
  for (const int n : walk.values) {
    const Node& node = graph.node(n);
    walk.a_row[n] =
        walk.flat ? node.size.count() == 1 && walk.space.columns > 1 : node.size.columns == 1;
    for (const int i : node.in)
      if (!walk.a_row[i] && walk.phase[i] < walk.phase[n]) walk.crosses[i] = true;
  }
  return walk;
}

// What a loop takes from earlier ones.
inline std::vector<Line> recalls(const Graph& graph, const Kernel& kernel, const Walk& walk,
                                 int phase) {
  std::vector<Line> lines;
  for (const int n : walk.values) {
    if (!walk.crosses[n] || walk.phase[n] >= phase) continue;
    if (std::any_of(kernel.nodes.begin(), kernel.nodes.end(), [&](int user) {
          return walk.phase[user] == phase && contains(graph.node(user).in, n);
        }))
      lines.push_back({LineStep::recall, n});
  }
  return lines;
}

// One loop of a row, and what is computed before and after it.
inline void add_phase(const Graph& graph, const Kernel& kernel, const Walk& walk, int phase,
                      std::vector<Line>& lines) {
  std::vector<Line> body = recalls(graph, kernel, walk, phase), folds;
  for (const int n : walk.values) {
    if (walk.phase[n] != phase) continue;
    const LineStep step = contains(kernel.reads, n) ? LineStep::load : LineStep::compute;
    if (walk.reduced[n]) {
      body.push_back({LineStep::reduce, n});
      folds.push_back({LineStep::fold, n});
    } else if (walk.a_row[n]) {
      lines.push_back({step, n});
    } else {
      body.push_back({step, n});
      if (walk.crosses[n]) body.push_back({LineStep::save, n});
      if (contains(kernel.writes, n)) body.push_back({LineStep::store, n});
    }
  }
  if (body.empty()) return;
  lines.push_back({LineStep::loop, phase});
  lines.insert(lines.end(), body.begin(), body.end());
  lines.push_back({LineStep::end, phase});
  lines.insert(lines.end(), folds.begin(), folds.end());
}

// How a row is computed, from its first load to its last store.
inline std::vector<Line> lines_of(const Graph& graph, const Kernel& kernel, const Walk& walk) {
  std::vector<Line> lines;
  int last = 0;
  for (const int n : kernel.nodes) last = std::max(last, walk.phase[n]);
  for (int phase = 0; phase <= last; ++phase) add_phase(graph, kernel, walk, phase, lines);
  for (const int n : kernel.writes)
    if (walk.a_row[n]) lines.push_back({LineStep::store, n});
  return lines;
}

// ---- writing over what nobody reads any more ----
// Whether these lines may write `to` over `from`: they are alike in size, and a number is loaded
// before the new one is stored in its place.
inline bool can_overwrite(const Graph& graph, const std::vector<Line>& lines, int from, int to) {
  const auto at = [&](Line line) { return std::find(lines.begin(), lines.end(), line); };
  return graph.node(from).size == graph.node(to).size &&
         at({LineStep::load, from}) < at({LineStep::store, to});
}

// For each value the one whose memory it takes, or itself. That may be taken if it is neither the
// caller's nor read by another kernel that runs beside this one or later.
inline ByNode<int> reuse_memory(const Graph& graph, const std::vector<Launch>& launches) {
  ByNode<int> memory(graph), last_read(graph), readers(graph);
  for (int n = 0; n < graph.size(); ++n) memory[n] = n;
  const int kept = static_cast<int>(launches.size());
  for (size_t l = 0; l < launches.size(); ++l)
    for (const Kernel& kernel : launches[l])
      for (const int n : kernel.reads) {
        int& last = last_read[n];
        int& count = readers[n];
        count = last == static_cast<int>(l) ? count + 1 : 1;  // in that launch
        last = static_cast<int>(l);
      }
  for (const int n : graph.inputs()) last_read[n] = kept;
  for (const int n : graph.outputs) last_read[n] = kept;
  for (size_t l = 0; l < launches.size(); ++l)
    for (const Kernel& kernel : launches[l]) {
      if (stands_alone(graph.node(kernel.nodes.back()).op)) continue;
      const Walk walk = walk_of(graph, kernel);
      const std::vector<Line> lines = lines_of(graph, kernel, walk);
      for (const int to : kernel.writes)
        for (const int from : kernel.reads) {
          const bool last = last_read[from] == static_cast<int>(l) && readers[from] == 1;
          // All threads of a row read its one number, and one of them would store another.
          const bool shared = walk.a_row[from];
          if (memory[to] != to || !last || shared || !can_overwrite(graph, lines, from, to))
            continue;
          memory[to] = memory[from];
          last_read[from] = kept;  // nobody else takes it
        }
    }
  return memory;
}

// ---- lines as text ----
// What differs between the two languages.
struct KernelLanguage {
  int64_t lanes;         // columns that one step of a loop computes
  int sums;              // into which a reduction sums in turn
  int64_t piece;         // columns of a row that one task or block computes, without reductions
  const char* function;  // what stands before the function of a part
  const char* loop;
  const char* fold_sum;
  const char* fold_max;
  bool saves_inputs;  // else a later loop loads them again
};
inline constexpr int cuda_threads = 256;  // of a block
inline constexpr KernelLanguage cpp_kernel = {
    0,
    4,
    4096,
    "static inline",
    "for (long c = begin, k = 0; c < end; c += lanes, ++k) {",
    "spread(fold_sum({}))",
    "spread(fold_max({}))",
    false};
inline constexpr KernelLanguage cuda_kernel = {
    cuda_threads,
    1,
    4 * cuda_threads,
    "static __device__",
    "for (long c = begin + threadIdx.x, k = 0; c < end; c += 256, ++k) {",
    "fold_sum({})",
    "fold_max({})",
    true};

// The columns that a task computes, and how many tasks there are.
inline int64_t piece_of(const Walk& walk, const KernelLanguage& language) {
  return walk.reduces ? walk.space.columns : std::min(walk.space.columns, language.piece);
}
inline int64_t tasks_of(const Walk& walk, const KernelLanguage& language) {
  return walk.space.rows * ceil_div(walk.space.columns, piece_of(walk, language));
}

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

inline std::string number_text(double x) {
  if (std::isnan(x)) return "infinity() - infinity()";
  if (std::isinf(x)) return x > 0 ? "infinity()" : "-infinity()";
  if (x == 0 && std::signbit(x)) return "-Real(0)";  // -0 would be an integer
  return fmt::format("Real({:.17g})", x);
}

// Where row r and column c of a value are in it. A value may be smaller than the walk.
inline std::string place(const Graph& graph, const Walk& walk, int n) {
  const Size size = walk.flat && !walk.a_row[n] ? walk.space : graph.node(n).size;
  if (walk.a_row[n]) return size.rows == 1 ? "0" : "r";
  return size.rows == 1 ? "c" : fmt::format("r * {} + c", size.columns);
}

// The expression of a node; operand(i) is the text of the value i.
template <class Operand>
std::string expression(const Graph& graph, const Walk& walk, int n, Operand operand) {
  const Node& node = graph.node(n);
  const bool by_one_number = node.op == Op::divide && walk.a_row[node.in[1]] && !walk.a_row[n];
  std::string text = by_one_number ? "$0 * (spread(1) / $1)" : info(node.op).text;
  for (size_t k = 0; k < node.in.size(); ++k)
    text = replaced(text, fmt::format("${}", k), operand(node.in[k]));
  if (node.op == Op::keep) {
    const uint64_t stream = hash_name(node.name);
    text = replaced(
        text, "$k",
        fmt::format("{}u, {}u, {}u, {}u, {}u", keep_threshold(node.number), node.seed & 0xffffffffu,
                    node.seed >> 32, stream & 0xffffffffu, stream >> 32));
  }
  text = replaced(replaced(text, "$p", place(graph, walk, n)), "$n", number_text(node.number));
  text = replaced(text, "$d", fmt::format("d{}", n));
  const bool counts = node.op == Op::column || node.op == Op::keep;  // another number in each lane
  return counts && walk.a_row[n] ? "spread(first(" + text + "))" : text;
}

// Whether later loops may load an input again, for what reads it or what is made from it: no loop
// before them writes where it may be.
inline bool is_loaded_again(const Graph& graph, const Kernel& kernel, const Walk& walk,
                            const KernelLanguage& language, int n, int made_from_it = -1) {
  if (language.saves_inputs || !contains(kernel.reads, n)) return false;
  int last = 0;
  for (const int user : kernel.nodes)
    if (contains(graph.node(user).in, n) || contains(graph.node(user).in, made_from_it))
      last = std::max(last, walk.phase[user]);
  return std::none_of(kernel.writes.begin(), kernel.writes.end(), [&](int w) {
    return graph.node(w).size == graph.node(n).size && walk.phase[w] < last;
  });
}

// A sum or a product of inputs that are loaded again, and of what is one number a row: a later loop
// makes it again from them, which costs less than to save it. Its text, or nothing.
inline std::optional<std::string> made_from_input(const Graph& graph, const Kernel& kernel,
                                                  const Walk& walk, const KernelLanguage& language,
                                                  int n, const std::map<int, std::string>& memory) {
  const Node& node = graph.node(n);
  if (node.op != Op::add && node.op != Op::subtract && node.op != Op::multiply) return {};
  for (const int i : node.in)
    if (!walk.a_row[i] && !is_loaded_again(graph, kernel, walk, language, i, n)) return {};
  return expression(graph, walk, n, [&](int i) {
    return walk.a_row[i] ? fmt::format("v{}", i)
                         : fmt::format("load({} + {}, count)", memory.at(i), place(graph, walk, i));
  });
}

// Whether a result is stored past the caches. Not in kernels with reductions, which write a row at
// once, faster than memory takes it.
inline bool is_streamed(const Graph& graph, const Walk& walk, int n) {
  return !walk.reduces && graph.node(n).size.count() * bytes_of(graph.dtype) > streamed_bytes;
}

// The head of a loop. One that reduces takes `language.sums` steps at a time, into as many
// sums.
inline std::string print_loop(const Kernel& kernel, const Walk& walk,
                              const KernelLanguage& language, int phase) {
  std::string own;
  for (const int n : kernel.nodes)
    if (walk.reduced[n] && walk.phase[n] == phase)
      own += fmt::format("\n    V& a{} = sums{}[j];", n, n);
  if (own.empty() || language.sums == 1) return language.loop;
  return fmt::format(
      "for (long base = begin, k = 0; base < end; base += {0} * lanes)\n"
      "  #pragma GCC unroll {0}\n"
      "  for (long j = 0; j < {0}; ++j, ++k) {{\n"
      "    const long c = base + j * lanes;{1}{2}",
      language.sums,
      walk.space.columns % (16 * language.sums) == 0 ? "" : "\n    if (c >= end) break;", own);
}

// In the loop before the one that stores a row, what will be written over is on its way.
inline std::string print_end(const Graph& graph, const Kernel& kernel, const Walk& walk, int phase,
                             const std::map<int, std::string>& memory) {
  std::string text;
  for (const int n : kernel.writes)
    if (!walk.a_row[n] && walk.phase[n] == phase + 1)
      text +=
          fmt::format("  fetch_to_write({});\n  ", memory.at(n) + " + " + place(graph, walk, n));
  return text + "}";
}

inline std::string print_line(const Graph& graph, const Kernel& kernel, const Walk& walk,
                              const KernelLanguage& language, const Line& line,
                              const std::map<int, std::string>& memory) {
  const int n = line.node;
  const auto pointer = [&] { return memory.at(n) + " + " + place(graph, walk, n); };
  if (line.step == LineStep::loop) {
    const bool whole = walk.space.columns % 16 == 0;  // no vector hangs over the end
    return print_loop(kernel, walk, language, n) +
           fmt::format("\n    const long count = {};", whole ? "lanes" : "end - c");
  }
  if (line.step == LineStep::end) return print_end(graph, kernel, walk, n, memory);
  const bool again = is_loaded_again(graph, kernel, walk, language, n);
  const std::optional<std::string> made_again =
      made_from_input(graph, kernel, walk, language, n, memory);
  const bool a_row = walk.a_row[n];
  const Op op = graph.node(n).op;
  switch (line.step) {
    case LineStep::load:
      return a_row ? fmt::format("const V v{} = spread(*({}));", n, pointer())
                   : fmt::format("const V v{} = load({}, count);", n, pointer());
    case LineStep::compute:
      return fmt::format("const V v{} = {};", n,
                         expression(graph, walk, n, [](int i) { return fmt::format("v{}", i); }));
    case LineStep::save: return again || made_again ? "" : fmt::format("s{}[k] = v{};", n, n);
    case LineStep::recall: {  // while a row is computed, the next one is on its way from memory
      if (made_again) return fmt::format("const V v{} = {};", n, *made_again);
      const std::string fetch =
          memory.count(n) > 0 ? fmt::format(" fetch({} + {});", pointer(), walk.space.columns) : "";
      return fmt::format(
          "const V v{} = {};{}", n,
          again ? fmt::format("load({}, count)", pointer()) : fmt::format("s{}[k]", n), fetch);
    }
    case LineStep::reduce:
      return fmt::format(
          "a{0} = {1};", n,
          replaced(replaced(info(op).text, "$0", fmt::format("a{}", n)), "$1",
                   fmt::format("among(v{}, count, {})", graph.node(n).in[0],
                               op == Op::row_sum ? "spread(0)" : "spread(-infinity())")));
    case LineStep::fold:
      return fmt::format("const V v{} = {};", n,
                         replaced(op == Op::row_sum ? language.fold_sum : language.fold_max, "{}",
                                  fmt::format("{}{}", language.sums == 1 ? "a" : "sums", n)));
    default:
      return a_row ? fmt::format("store_one({}, v{});", pointer(), n)
                   : fmt::format("{}({}, v{}, count);",
                                 is_streamed(graph, walk, n) ? "stream" : "store", pointer(), n);
  }
}

// What a reduction begins with.
inline std::string print_sums(const KernelLanguage& language, int n, Op op) {
  const std::string nothing = op == Op::row_sum ? "spread(0)" : "spread(-infinity())";
  if (language.sums == 1) return fmt::format("  V a{} = {};\n", n, nothing);
  std::string all = nothing;
  for (int i = 1; i < language.sums; ++i) all += ", " + nothing;
  return fmt::format("  V sums{}[{}] = {{{}}};\n", n, language.sums, all);
}

// The function of one kernel: what task number `task` of it does.
inline std::string print_part(const Graph& graph, const Kernel& kernel,
                              const KernelLanguage& language, size_t part,
                              const std::map<int, std::string>& memory) {
  const Walk walk = walk_of(graph, kernel);
  const int64_t piece = piece_of(walk, language), C = walk.space.columns;
  const int64_t lanes = language.lanes > 0 ? language.lanes : 64 / bytes_of(graph.dtype);
  std::string text =
      fmt::format("{} void part{}(const Arrays& a, long task) {{\n", language.function, part);
  const int64_t pieces = ceil_div(C, piece);
  if (pieces == 1) text += fmt::format("  const long r = task, begin = 0, end = {};\n", C);
  if (pieces > 1)
    text += fmt::format(
        "  const long r = task / {0}, begin = task % {0} * {1};\n"
        "  const long end = begin + {1} < {2} ? begin + {1} : {2};\n",
        pieces, piece, C);
  for (const int n : walk.values) {
    if (walk.crosses[n] && !is_loaded_again(graph, kernel, walk, language, n) &&
        !made_from_input(graph, kernel, walk, language, n, memory))
      text += fmt::format("  V s{}[{}];\n", n, ceil_div(piece, lanes));
    if (walk.reduced[n]) text += print_sums(language, n, graph.node(n).op);
    if (graph.node(n).op == Op::keep) text += fmt::format("  Draws d{};\n", n);
  }
  bool inside = false;
  for (const Line& line : lines_of(graph, kernel, walk)) {
    if (line.step == LineStep::end) inside = false;
    const std::string printed = print_line(graph, kernel, walk, language, line, memory);
    if (!printed.empty()) text += (inside ? "    " : "  ") + printed + "\n";
    inside = inside || line.step == LineStep::loop;
  }
  return text + "}\n";
}

// What memory a launch is given: the values that it reads, then those that it writes.
struct LaunchValues {
  std::vector<int> reads, writes;
};
inline LaunchValues values_of(const Launch& launch) {
  LaunchValues values;
  for (const Kernel& kernel : launch) {
    for (const int n : kernel.reads)
      if (std::count(values.reads.begin(), values.reads.end(), n) == 0) values.reads.push_back(n);
    values.writes.insert(values.writes.end(), kernel.writes.begin(), kernel.writes.end());
  }
  return values;
}

// Tasks of a whole launch: those of its first kernel, then those of the second, ...
inline int64_t tasks_of(const Graph& graph, const Launch& launch, const KernelLanguage& language) {
  int64_t tasks = 0;
  for (const Kernel& kernel : launch) tasks += tasks_of(walk_of(graph, kernel), language);
  return tasks;
}

// The functions of all kernels of a launch, and `run_task`, which finds the one that has a task.
inline std::string print_parts(const Graph& graph, const Launch& launch,
                               const KernelLanguage& language) {
  const LaunchValues values = values_of(launch);
  std::map<int, std::string> memory;
  for (size_t i = 0; i < values.reads.size(); ++i)
    memory[values.reads[i]] = fmt::format("a.in[{}]", i);
  for (size_t i = 0; i < values.writes.size(); ++i)
    memory[values.writes[i]] = fmt::format("a.out[{}]", i);
  std::string text = fmt::format("struct Arrays {{\n  const Real* in[{}];\n  Real* out[{}];\n}};\n",
                                 std::max<size_t>(1, values.reads.size()), values.writes.size());
  std::string choice =
      fmt::format("{} void run_task(const Arrays& a, long task) {{\n", language.function);
  int64_t first = 0;
  for (size_t part = 0; part < launch.size(); ++part) {
    text += print_part(graph, launch[part], language, part, memory);
    const int64_t next = first + tasks_of(walk_of(graph, launch[part]), language);
    choice += fmt::format("  if (task < {}) return part{}(a, task - {});\n", next, part, first);
    first = next;
  }
  return text + choice + "}\n";
}

// C++ that any compiler takes. `run` does the tasks [first, last).
inline std::string print_cpu(const Graph& graph, const Launch& launch) {
  return fmt::format("typedef {} Real;\n", graph.dtype == DType::f64 ? "double" : "float") +
         processor_text + lanes_text +
         "\nstatic inline void store_one(Real* to, V v) { *to = first(v); }\n" +
         print_parts(graph, launch, cpp_kernel) +
         "extern \"C\" void run(const void* arrays, long first, long last) {\n"
         "  for (long t = first; t < last; ++t) run_task(*(const Arrays*)arrays, t);\n"
         "  wait_for_stores();\n}\n";
}

// CUDA: the kernel `fused`, of blocks of cuda_threads threads, a block a task.
inline std::string print_cuda(const Graph& graph, const Launch& launch) {
  return fmt::format("typedef {} Real;\n", graph.dtype == DType::f64 ? "double" : "float") +
         cuda_functions + print_parts(graph, launch, cuda_kernel) +
         "extern \"C\" __global__ void fused(Arrays a) { run_task(a, blockIdx.x); }\n";
}

}  // namespace yotta
