// The source step: what a .cu file needs before g++ or clang can read it. It runs in the build
// (yotta_add_cuda_program in cmake/kernels.cmake); nvcc needs none of it.
//
//     scale<float><<<grid, block, 0, s>>>(x, n);      in the file
//     launch_call([=](auto... a) { scale<float>(a...); }, LaunchShape(grid, block, 0, s))(x, n);
//                                                          what names no kernel is evaluated first:
//     table[i]<<<grid, block>>>(x)                         in the file
//     launch_call([k = table[i]](auto... a) { k(a...); }, LaunchShape(grid, block))(x)
//
//     extern __shared__ float part[];                      in the file
//     auto* const part = dynamic_shared<float>();
//
// It knows tokens, not C++: comments, strings, preprocessor lines and brackets. The whole list:
//
//     <<<...>>>(...)                    a call of launch_syntax.hpp; 0 and NULL among the arguments
//                                       stand in the kernel's call itself: a parameter would make a
//                                       number of what may be a null pointer
//     __global__ ... { ... }            the kernel is never inlined, and can say where it lies and
//                                       what its __launch_bounds__ and __cluster_dims__ are
//     extern __shared__ T x[]           a pointer to the block's dynamic shared memory; outside of
//                                       functions an object, of which f(x) gets the pointer
//     extern "C" with a kernel          C++'s linkage: names of kernels have tags
//     __shared__ alignas(n)             __shared__ __align__(n)
//     static __shared__, __constant__   without static, which these words mean already
//     extern __constant__               an error: such a variable belongs to its file
//     __noinline__, __forceinline__     attributes, since headers of the C++ library use the word
//                                       __noinline__ for themselves
//     f((void*)kernel, ...)             without the cast, for functions of the runtime that take a
//                                       kernel: the types of its parameters would be lost
//     dim3 gridDim(4)                   another name, in the scope of a variable that is called as
//                                       threadIdx, blockIdx, blockDim or gridDim; for members
//                                       wherever they are named
//     asm("...")                        an error that says what to use instead
//
// Of #if and #else, the branch that opens or closes a scope counts, the first if both do. Nothing
// is moved to another line, so the compiler's messages name lines of the file.
#pragma once

#include <map>
#include <set>
#include <string>

namespace yotta {

// What a file declares that matters to those that include it.
struct SourceNames {
  std::set<std::string> macros;
  std::set<std::string> kernel_macros;  // #define KERNEL __global__ void
  std::set<std::string> kernels;
  std::set<std::string> variables;      // which may point to kernels
  std::set<std::string> shared_arrays;  // extern __shared__ T x[], outside of functions
  std::map<std::string, std::set<std::string>> own_sizes;  // of a class: members such as gridDim
};

// The text of a file as g++ and clang can read it. The names are those of the files that it
// includes; its own are added.
std::string emulator_source(const std::string& text, SourceNames& names);
std::string emulator_source(const std::string& text);

// One #include "file" of a text: where the name stands.
struct QuotedInclude {
  size_t begin = 0, end = 0;  // without its quotes
};

// The first #include "file" that begins at `from` or later; end is 0 if there is none.
QuotedInclude next_quoted_include(const std::string& text, size_t from);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/unchanged/impl/source_step.ipp"
#endif
