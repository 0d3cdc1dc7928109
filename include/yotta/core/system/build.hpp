// What differs between compilers. YOTTA_ASAN and YOTTA_TSAN, 0 or 1: which sanitizer this build runs under.
#pragma once

#if defined(__has_feature)  // clang
#define YOTTA_ASAN __has_feature(address_sanitizer)
#define YOTTA_INSTRUMENTED __has_feature(thread_sanitizer)
#else  // g++
#if defined(__SANITIZE_ADDRESS__)
#define YOTTA_ASAN 1
#else
#define YOTTA_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define YOTTA_INSTRUMENTED 1
#else
#define YOTTA_INSTRUMENTED 0
#endif
#endif

// Checked kernels are instrumented for the emulator, not for ThreadSanitizer (device/emulator/simt_build.hpp).
#if YOTTA_INSTRUMENTED && !defined(YOTTA_CHECKED)
#define YOTTA_TSAN 1
#else
#define YOTTA_TSAN 0
#endif

// A variable of this thread, defined in a header: YOTTA_THREAD_LOCAL Fiber* current = nullptr;
// clang-repl (notebooks) loses an inline one between cells and crashes. There a notebook is one translation
// unit, so the definition need not be inline.
#if defined(__CLANG_REPL__)
#define YOTTA_THREAD_LOCAL thread_local
#else
#define YOTTA_THREAD_LOCAL inline thread_local
#endif
