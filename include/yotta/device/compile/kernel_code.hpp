// One launch of kernels as something that runs: a function that the system's compiler has made, or,
// without a compiler, the lines themselves.
#pragma once

#include "yotta/device/compile/interpreter.hpp"
#include "yotta/device/compile/shared_object.hpp"

namespace yotta {

class KernelCode {
 public:
  // compiled: if there is a compiler; where there is none, stderr says so once.
  KernelCode(const Graph& graph, const Launch& launch, bool compiled);

  // Computes what the launch writes, from what it reads; both are in `values`, by node.
  void run(const Graph& graph, const Launch& launch, ByNode<Tensor>& values, Where where) const;
  bool is_compiled() const { return object_.object != nullptr; }

 private:
  using Function = void (*)(const void* arrays, long first, long last);
  Compiled object_;
  Function function_ = nullptr;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/compile/impl/kernel_code.ipp"
#endif
