#include "yotta/device/emulator/cuda_errors.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

TEST_CASE("every code has CUDA's name and number, and a text of its own that says the name") {
  struct Code {
    cudaError_t code;
    int number;
    std::string name;
  };
  const Code codes[] = {
      {cudaErrorInvalidValue, 1, "cudaErrorInvalidValue"},
      {cudaErrorMemoryAllocation, 2, "cudaErrorMemoryAllocation"},
      {cudaErrorInvalidMemcpyDirection, 21, "cudaErrorInvalidMemcpyDirection"},
      {cudaErrorInvalidResourceHandle, 400, "cudaErrorInvalidResourceHandle"},
      {cudaErrorIllegalState, 401, "cudaErrorIllegalState"},
      {cudaErrorNotReady, 600, "cudaErrorNotReady"},
      {cudaErrorLaunchFailure, 719, "cudaErrorLaunchFailure"},
      {cudaErrorCooperativeLaunchTooLarge, 720, "cudaErrorCooperativeLaunchTooLarge"},
      {cudaErrorNotPermitted, 800, "cudaErrorNotPermitted"},
      {cudaErrorNotSupported, 801, "cudaErrorNotSupported"},
      {cudaErrorStreamCaptureUnsupported, 900, "cudaErrorStreamCaptureUnsupported"},
      {cudaErrorStreamCaptureInvalidated, 901, "cudaErrorStreamCaptureInvalidated"},
      {cudaErrorStreamCaptureMerge, 902, "cudaErrorStreamCaptureMerge"},
      {cudaErrorStreamCaptureUnmatched, 903, "cudaErrorStreamCaptureUnmatched"},
      {cudaErrorStreamCaptureUnjoined, 904, "cudaErrorStreamCaptureUnjoined"},
      {cudaErrorStreamCaptureIsolation, 905, "cudaErrorStreamCaptureIsolation"},
      {cudaErrorStreamCaptureImplicit, 906, "cudaErrorStreamCaptureImplicit"},
      {cudaErrorCapturedEvent, 907, "cudaErrorCapturedEvent"},
      {cudaErrorGraphExecUpdateFailure, 910, "cudaErrorGraphExecUpdateFailure"},
  };
  std::set<std::string> texts;
  for (const Code& each : codes) {
    CAPTURE(each.name);
    CHECK(each.code == each.number);
    CHECK(cudaGetErrorName(each.code) == each.name);
    const std::string text = cudaGetErrorString(each.code);
    CHECK(text.find(each.name) != std::string::npos);
    CHECK(texts.insert(text).second);
  }
  CHECK(std::string(cudaGetErrorString(cudaErrorStreamCaptureUnjoined)).find("record an event") !=
        std::string::npos);
  CHECK(cudaGetErrorName(static_cast<cudaError_t>(12345)) ==
        std::string("unrecognized error code"));
}
