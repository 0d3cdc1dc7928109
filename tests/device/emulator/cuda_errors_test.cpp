#include "yotta/device/emulator/cuda_errors.hpp"

#include <doctest/doctest.h>

#include <string>

TEST_CASE("codes have CUDA's words, and say what to try") {
  CHECK(cudaGetErrorName(cudaErrorStreamCaptureUnsupported) ==
        std::string("cudaErrorStreamCaptureUnsupported"));
  CHECK(std::string(cudaGetErrorString(cudaErrorStreamCaptureUnjoined)).find("record an event") !=
        std::string::npos);
  CHECK(cudaGetErrorName(static_cast<cudaError_t>(12345)) ==
        std::string("unrecognized error code"));
}
