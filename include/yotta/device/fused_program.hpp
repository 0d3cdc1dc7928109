// A captured function, ready to run: passes, kernels, code, memory.
//
//     FusedProgram gelu(capture(f, x));     graph -> merge_equal -> fuse -> source -> compiler
//     gelu({x})                             guards, then a launch after the other
//
//     CompiledFunction g(f);                the same by itself: g captures f when it is called, and
//     g({x})                                once more when no program's guards hold (torch.compile)
//
// Where there is no compiler, lines are interpreted over tiles, and the program says so once.
// Contract: a program runs on the CPU. Cost: for each launch the sum of its kernels' costs, under
// "fused" or the operation's name in the ledger.
#pragma once

#include <functional>

#include "yotta/device/capture.hpp"
#include "yotta/device/compile/kernel_code.hpp"

namespace yotta {

enum class RunBy { compiler, interpreter };

struct FusionOptions {
  RunBy run_by = RunBy::compiler;  // interpreter: even where there is a compiler
  bool fuse = true;                // else a kernel for each node
  bool one_launch = true;          // kernels that do not need each other share a launch
  bool reuse = true;               // results are written over what nobody reads any more
};

class FusedProgram {
 public:
  explicit FusedProgram(const Graph& graph, FusionOptions options = {})
      : graph_(merge_equal(graph)),
        kernels_(kernels(graph_, options.fuse ? fuse(graph_) : one_kernel_each(graph_))),
        launches_(options.one_launch ? foreach (graph_, kernels_) : one_launch_each(kernels_)) {
    memory_ = reuse_memory(graph_, options.reuse ? launches_ : std::vector<Launch>{});
    for (const Launch& launch : launches_)
      code_.push_back(KernelCode(graph_, launch, options.run_by == RunBy::compiler));
  }

  const Graph& graph() const { return graph_; }
  const std::vector<Kernel>& kernels_in_order() const { return kernels_; }
  const std::vector<Launch>& launches() const { return launches_; }
  // How many results have memory of their own.
  int allocations() const {
    int count = 0;
    for (const Kernel& kernel : kernels_)
      for (const int n : kernel.writes) count += memory_[n] == n ? 1 : 0;
    return count;
  }

  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments,
                                 Where where = Where::current()) const {
    check_guards(graph_, arguments, where);
    ByNode<Tensor> values(graph_);
    std::vector<Tensor> results;
    for (size_t i = 0; const int n : graph_.inputs())
      values[n] = arguments[i++].reshape({graph_.node(n).size.rows, graph_.node(n).size.columns});
    for (size_t l = 0; l < launches_.size(); ++l) {
      run_launch(l, values, where);
      drop_unread(l, values);
    }
    for (const int n : graph_.outputs) results.push_back(values[n]);
    return results;
  }

 private:
  void run_launch(size_t l, ByNode<Tensor>& values, Where where) const {
    OpCost cost{"fused", graph_.dtype, 0, 0, 0};
    for (const Kernel& kernel : launches_[l]) {
      const OpCost own = cost_of(graph_, kernel);
      if (launches_[l].size() == 1) cost.name = own.name;
      cost.flops += own.flops;
      cost.bytes_read += own.bytes_read;
      cost.bytes_written += own.bytes_written;
    }
    charge(cost);
    for (const Kernel& kernel : launches_[l])
      for (const int n : kernel.writes) {
        const int memory = memory_[n];
        const Size size = graph_.node(n).size;
        values[n] = memory == n ? Tensor::empty({size.rows, size.columns}, graph_.dtype, where)
                                : owner_of(memory, values);
      }
    code_[l].run(graph_, launches_[l], values, where);
  }
  // The tensor, of those still held, that has this value's memory.
  Tensor owner_of(int memory, const ByNode<Tensor>& values) const {
    for (int n = 0; n < graph_.size(); ++n)
      if (memory_[n] == memory && values[n].defined()) return values[n];
    return {};
  }
  // Memory goes back as soon as no launch reads it.
  void drop_unread(size_t done, ByNode<Tensor>& values) const {
    ByNode<bool> needed(graph_);
    for (const int n : graph_.outputs) needed[n] = true;
    for (size_t l = done + 1; l < launches_.size(); ++l)
      for (const int n : values_of(launches_[l]).reads) needed[n] = true;
    for (int n = 0; n < graph_.size(); ++n)
      if (!needed[n]) values[n] = Tensor();
  }

  Graph graph_;
  std::vector<Kernel> kernels_;
  std::vector<Launch> launches_;
  ByNode<int> memory_;
  std::vector<KernelCode> code_;
};

// A function that is captured when it is called, and again for sizes that it has not seen.
class CompiledFunction {
 public:
  using Function = std::function<std::vector<Array>(const std::vector<Array>&)>;
  explicit CompiledFunction(Function f, FusionOptions options = {})
      : f_(std::move(f)), options_(options) {}

  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments,
                                 Where where = Where::current()) {
    for (const FusedProgram& each : programs_)
      if (guards_hold(each.graph(), arguments)) return each(arguments, where);
    programs_.emplace_back(capture_list(f_, arguments, where), options_);
    return programs_.back()(arguments, where);
  }
  const std::vector<FusedProgram>& programs() const { return programs_; }

 private:
  Function f_;
  FusionOptions options_;
  std::vector<FusedProgram> programs_;
};

}  // namespace yotta
