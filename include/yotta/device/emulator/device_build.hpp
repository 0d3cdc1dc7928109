// One source, three builds: what a kernel file is compiled for, and the attributes that this takes.
//
//     nvcc                                gpu         CUDA itself; nothing of the emulator is left
//     g++ or clang                        unchecked   each CUDA thread is a fiber; fast
//     the same, -fsanitize=thread,bounds  checked     every access to memory is checked and counted
//         -DYOTTA_CHECKED -g1 -O1
//
// How accesses are seen. A kernel is plain CUDA: raw pointers and __shared__ arrays. For the
// checked build the compiler instruments it as for ThreadSanitizer: it puts a call of
// __tsan_read4(p) or the like before each access. ThreadSanitizer's library is not linked; those
// functions are ours (compiler_hooks.hpp). The alternative, pointer types that check and that
// vanish under nvcc, was weighed too:
//   + it would know an access's type and line from the source, without debug information;
//   - float4 casts, arrays of arrays, pointers to rows of tiles and kernels from elsewhere would
//     not compile or, worse, would go unchecked; and students would learn words that CUDA lacks.
// Instrumentation misses nothing of the code as written, with g++ and with clang, as long as some
// optimisations are kept from it: hence -O1, clang's -tsan-instrument-read-before-write, and vector
// types that copy themselves as a whole (vector_types.hpp). cmake/kernels.cmake has the flags:
// yotta_check_kernels(target). The emulator itself, compiled once, is not instrumented: it would
// take three times as long.
//
// All device code lives in an inline namespace named after the build, so that one program may hold
// the checked and the unchecked body of a function and never confuses them.
#pragma once

#include "yotta/core/system/build.hpp"

#if defined(__CUDACC__)
#define YOTTA_DEVICE_BUILD gpu
#elif defined(YOTTA_CHECKED)
#define YOTTA_DEVICE_BUILD checked
#else
#define YOTTA_DEVICE_BUILD unchecked
#endif

// YOTTA_NO_KERNELS: this file has none, only the emulator itself.
#if defined(YOTTA_CHECKED) && !defined(__SANITIZE_THREAD__) && !defined(YOTTA_NO_KERNELS)
#if defined(__has_feature)
#if !__has_feature(thread_sanitizer)
#error \
    "YOTTA_CHECKED needs -fsanitize=thread, for compiling only; cmake: yotta_check_kernels(target)"
#endif
#else
#error \
    "YOTTA_CHECKED needs -fsanitize=thread, for compiling only; cmake: yotta_check_kernels(target)"
#endif
#endif

// Functions of the emulator itself: their accesses are not the kernel's.
#if defined(__clang__)
#define YOTTA_UNSEEN __attribute__((disable_sanitizer_instrumentation))
#else
#define YOTTA_UNSEEN __attribute__((no_sanitize("thread")))
#endif

// A function that is called, never inlined: its return address is a line of the kernel. Weak, since
// g++ warns of an inline function that must not be inlined.
#define YOTTA_CALLED __attribute__((weak))
