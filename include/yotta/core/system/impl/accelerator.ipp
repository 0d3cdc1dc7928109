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

}  // namespace yotta
