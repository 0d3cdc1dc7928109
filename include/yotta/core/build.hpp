// Which sanitizer this build runs under: YOTTA_ASAN and YOTTA_TSAN are 0 or 1 with g++ and clang.
#pragma once

#if defined(__has_feature)  // clang
#define YOTTA_ASAN __has_feature(address_sanitizer)
#define YOTTA_TSAN __has_feature(thread_sanitizer)
#else  // g++
#if defined(__SANITIZE_ADDRESS__)
#define YOTTA_ASAN 1
#else
#define YOTTA_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define YOTTA_TSAN 1
#else
#define YOTTA_TSAN 0
#endif
#endif
