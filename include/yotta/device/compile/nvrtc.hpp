// CUDA source to machine code while the program runs: NVRTC, NVIDIA's compiler as a library.
//
//     source ──NVRTC──> "sm_90": machine code of that chip, a cubin
//                       "compute_90": PTX, which the driver translates for any later chip
//
// The library is opened when the first source comes, as shared_object.hpp looks for the C++
// compiler when it is needed. So nothing is linked, a program that was built without CUDA uses
// NVRTC where it is installed, and no GPU is needed.
// Contract: the library is $YOTTA_NVRTC, else that of the loader's path, of $CUDA_HOME or of
// /usr/local/cuda.
// Reference: NVIDIA, "NVRTC", the CUDA Toolkit's documentation.
#pragma once

#include <string>

#include "yotta/core/error.hpp"

namespace yotta {

// Why NVRTC cannot be used here; empty if it can.
std::string why_no_nvrtc();

// Machine code or PTX of the target. Errors: NVRTC is not installed; it does not take the source.
// The message then has what it said, and under each complaint the line of the source.
std::string compile_cuda(const std::string& source, const std::string& target,
                         Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/compile/impl/nvrtc.ipp"
#endif
