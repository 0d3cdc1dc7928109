// What differs between builds and between compilers.
//
// One body of code can be built in two ways:
//
//     header-only    #include a header, and that is all: every function is inline
//     compiled       YOTTA_COMPILED is defined, and the program is linked with yotta::compiled,
//                    which holds the bodies of what is machinery: a file that includes such a
//                    header sees declarations only, and compiles in a fraction of the time
//
// A header that takes part only declares; its bodies stand in the folder impl/ beside it:
//
//     // nn/softmax.hpp
//     Tensor softmax(const Tensor& x, Where where = Where::current());
//
//     #ifndef YOTTA_COMPILED
//     #include "yotta/nn/impl/softmax.ipp"
//     #endif
//
//     // nn/impl/softmax.ipp
//     YOTTA_INLINE Tensor softmax(const Tensor& x, Where where) { ... }
//
// The files of cmake/compiled/ include the .ipp files of yotta::compiled. A function that is
// declared plainly and defined `inline` later is inline, so that declarations need no mark. Types
// that nearly every signature names live in the inline namespace YOTTA_FORM, so that files of both
// forms do not link into one program.
// YOTTA_ASAN and YOTTA_TSAN, 0 or 1: which sanitizer this build runs under.
#pragma once

#if defined(YOTTA_COMPILED)
#define YOTTA_INLINE
#define YOTTA_FORM compiled_form
#else
#define YOTTA_INLINE inline
#define YOTTA_FORM header_only_form
#endif

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

// Checked kernels are instrumented for the emulator, not for ThreadSanitizer
// (device/emulator/device_build.hpp).
#if YOTTA_INSTRUMENTED && !defined(YOTTA_CHECKED)
#define YOTTA_TSAN 1
#else
#define YOTTA_TSAN 0
#endif

// A variable of this thread, defined in a header: YOTTA_THREAD_LOCAL Fiber* current = nullptr;
// clang-repl (notebooks) loses an inline one between cells and crashes. There a notebook is one
// translation unit, so the definition need not be inline.
#if defined(__CLANG_REPL__)
#define YOTTA_THREAD_LOCAL thread_local
#else
#define YOTTA_THREAD_LOCAL inline thread_local
#endif
