// Extents: an index beyond the declared size of its array, though there may be memory of ours where it leads.
//
//     __shared__ float tile[32][32];      tile[0][40]     lies in row 1: no region is left, but no one means that
//     float sums[8];                      sums[8]         lies on the thread's stack, where anything may be
//
// Addresses cannot tell, so the compiler is asked to compare such an index with the type of its array, as for
// -fsanitize=bounds, and to call the function below when it is too large. Where a pointer into the array is indexed, the
// type is lost: then the array's end counts, since no two lie side by side (__shared__ in cuda_builtins.hpp).
// Reference: LLVM, compiler-rt/lib/ubsan/ubsan_handlers.h.
#pragma once

#if defined(YOTTA_CHECKED)

#include <cstdint>

#include "yotta/device/emulator/access_checker.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What the compiler tells: of a type, its kind, its size (of an integer: twice log2 of the bits, plus 1 if it has a sign),
// and its name, "'float [8]'".
struct CompilersType {
  uint16_t kind, info;
  char name[1];
};
struct CompilersIndex {
  const char* file;
  uint32_t line, column;
  const CompilersType *array, *index;
};

// The index as a number: signed ones narrower than a register come without their upper bits.
YOTTA_UNSEEN constexpr int64_t signed_index(uint16_t info, uint64_t value) {
  const int bits = 1 << (info >> 1);
  if ((info & 1) == 0 || bits >= 64) return static_cast<int64_t>(value);
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

extern "C" __attribute__((weak, used)) YOTTA_UNSEEN void __ubsan_handle_out_of_bounds(void* data,
                                                                                      void* index) {
  namespace emulator = yotta::emulator;
  emulator::AccessChecker* const watch = emulator::on_duty;
  if (watch == nullptr) return;  // of the host's code
  emulator::on_duty = nullptr;
  const auto& what = *static_cast<const emulator::CompilersIndex*>(data);
  const int64_t number =
      emulator::signed_index(what.index->info, reinterpret_cast<uintptr_t>(index));
  watch->beyond_extent(what.array->name, number, watch->site(__builtin_return_address(0)));
}

#endif
