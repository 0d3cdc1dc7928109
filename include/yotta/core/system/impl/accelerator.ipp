// The bodies of core/system/accelerator.hpp.
#pragma once

#include "yotta/core/system/accelerator.hpp"

namespace yotta {

YOTTA_INLINE Accelerator*& accelerator() {
  static Accelerator* one = nullptr;
  return one;
}
YOTTA_INLINE std::string& why_no_accelerator() {
  static std::string why = "this build has no CUDA tensors";
  return why;
}
YOTTA_INLINE Accelerator& accelerator_or_fail(Where where) {
  if (accelerator() == nullptr)
    fail(where, "{}; use Device::cpu or Device::meta", why_no_accelerator());
  return *accelerator();
}

YOTTA_INLINE Gathered*& gathered_kernels() {
  static thread_local Gathered* here = nullptr;
  return here;
}
YOTTA_INLINE void launch_gathered(Where where) {
  if (gathered_kernels() != nullptr) gathered_kernels()->run(where);
}

}  // namespace yotta
