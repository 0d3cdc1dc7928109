// The bodies of device/emulator/cuda_errors.hpp.
#pragma once

#include "yotta/device/emulator/cuda_errors.hpp"

#include "yotta/core/system/build.hpp"

namespace yotta {

struct CudaErrorText {
  cudaError_t code;
  const char *name, *text;
};

inline constexpr CudaErrorText cuda_error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue",
     "invalid argument (cudaErrorInvalidValue): not memory from cudaMalloc, or more bytes than it "
     "has, or a null pointer"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation",
     "out of memory (cudaErrorMemoryAllocation)"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice",
     "invalid device ordinal (cudaErrorInvalidDevice): the emulator has one device, number 0"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "a copy between other memories than its kind says (cudaErrorInvalidMemcpyDirection): a side "
     "that should be the host's lies on the device. cudaMemcpyDefault finds the kind"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "invalid resource handle (cudaErrorInvalidResourceHandle): the stream, event or graph has "
     "been destroyed, or was never created"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation is not allowed now (cudaErrorIllegalState): a stream that captures already, or "
     "an end without a beginning"},
    {cudaErrorNotReady, "cudaErrorNotReady",
     "not ready (cudaErrorNotReady): work of the stream or event is still under way"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure",
     "an operation of a stream has failed (cudaErrorLaunchFailure): the next call that may throw "
     "says which"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in a cooperative launch (cudaErrorCooperativeLaunchTooLarge)"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted",
     "not permitted (cudaErrorNotPermitted): a function of cudaLaunchHostFunc must not call CUDA"},
    {cudaErrorNotSupported, "cudaErrorNotSupported",
     "not supported by the emulator (cudaErrorNotSupported)"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "not permitted while a stream captures (cudaErrorStreamCaptureUnsupported): a capture records "
     "work and runs none, so the host can neither wait for it nor read and branch on its results, "
     "nor allocate. Do that before cudaStreamBeginCapture or after cudaGraphLaunch, or keep the "
     "decision on the device"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "the capture is void because of an earlier call in it (cudaErrorStreamCaptureInvalidated): "
     "the "
     "first error that was returned since cudaStreamBeginCapture is the cause"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "an event would join two captures into one (cudaErrorStreamCaptureMerge)"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "this stream did not begin the capture (cudaErrorStreamCaptureUnmatched): end it on the "
     "stream "
     "that was given to cudaStreamBeginCapture"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "the capture ends while a second stream still has work in it "
     "(cudaErrorStreamCaptureUnjoined): record an event after its last operation, and let the "
     "stream that began the capture wait for it"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "a captured stream would wait for work outside of the capture "
     "(cudaErrorStreamCaptureIsolation): wait for it before cudaStreamBeginCapture"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "the legacy default stream would wait for a stream that captures "
     "(cudaErrorStreamCaptureImplicit): give the call a stream, or create the streams with "
     "cudaStreamNonBlocking"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "the event was recorded in a capture (cudaErrorCapturedEvent): it never happens, so the host "
     "cannot wait for it or ask for it"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph has another form than the one that was instantiated "
     "(cudaErrorGraphExecUpdateFailure): instantiate it anew"},
};

}  // namespace yotta

YOTTA_INLINE const char* cudaGetErrorName(cudaError_t code) {
  for (const auto& each : yotta::cuda_error_texts)
    if (each.code == code) return each.name;
  return "unrecognized error code";
}

YOTTA_INLINE const char* cudaGetErrorString(cudaError_t code) {
  for (const auto& each : yotta::cuda_error_texts)
    if (each.code == code) return each.text;
  return "unknown error";
}
