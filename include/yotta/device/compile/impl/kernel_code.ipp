// The bodies of device/compile/kernel_code.hpp.
#pragma once

#include "yotta/device/compile/kernel_code.hpp"
//
#include <cstdio>

#include "yotta/core/parallel_for.hpp"

namespace yotta {

namespace detail {

inline void say_that_no_compiler_is_there() {
  static const bool said = [] {
    fmt::print(stderr,
               "yotta: no C++ compiler was found ($YOTTA_CXX, c++, g++, clang++): fused "
               "kernels are interpreted over tiles\n");
    return true;
  }();
  static_cast<void>(said);
}

inline void* address_of(Tensor& x, Where where) {
  return visit_real(x.dtype(), where,
                    [&]<class Real>(Type<Real>) -> void* { return x.data<Real>(where); });
}

}  // namespace detail

YOTTA_INLINE KernelCode::KernelCode(const Graph& graph, const Launch& launch, bool compiled) {
  if (!compiled || stands_alone(graph.node(launch[0].nodes.back()).op)) return;
  const CompilerOptions options = compiler_here();
  if (options.compiler.empty()) {
    detail::say_that_no_compiler_is_there();
    return;
  }
  object_ = compile_source(print_cpu(graph, launch), options);
  function_ = reinterpret_cast<Function>(object_.object->function("run"));
}

YOTTA_INLINE void KernelCode::run(const Graph& graph, const Launch& launch, ByNode<Tensor>& values,
                                  Where where) const {
  const Node& last = graph.node(launch[0].nodes.back());
  if (stands_alone(last.op)) {
    std::vector<Tensor> in;
    for (const int i : last.in)  // what is made from nothing is made here
      in.push_back(is_made(graph.node(i).op) ? run_node(graph.node(i), graph.dtype, {}, where)
                                             : values[i]);
    values[launch[0].nodes.back()] = run_node(last, graph.dtype, in, where);
    return;
  }
  const LaunchValues all = values_of(launch);
  std::map<int, void*> memory;
  std::vector<void*> arrays;
  const auto add = [&](int n) {
    arrays.push_back(memory[n] = detail::address_of(values[n], where));
  };
  for (const int n : all.reads) add(n);
  if (all.reads.empty()) arrays.push_back(nullptr);
  for (const int n : all.writes) add(n);
  if (function_ == nullptr) {
    for (const Kernel& kernel : launch) {
      const Walk walk = walk_of(graph, kernel);
      interpret(graph, walk, lines_of(graph, kernel, walk), memory, where);
    }
    return;
  }
  const int64_t tasks = tasks_of(graph, launch, cpp_kernel);
  const int64_t piece = piece_of(walk_of(graph, launch[0]), cpp_kernel);
  parallel_for(tasks, std::max<int64_t>(1, 16384 / piece),
               [&](int64_t begin, int64_t end) { function_(arrays.data(), begin, end); });
}

}  // namespace yotta
