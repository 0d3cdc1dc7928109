// What calls of the CUDA runtime return, in the emulator: CUDA's words and numbers, and what each
// means. A program checks the code of every call: check_cuda(cudaMemcpyAsync(...)) throws the text.
// Reference: CUDA Runtime API, "Data types used by CUDA Runtime", cudaError.
#pragma once

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorNotPermitted = 800,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
  cudaErrorGraphExecUpdateFailure = 910
};

// "cudaErrorNotReady".
const char* cudaGetErrorName(cudaError_t code);
// What it means, and what to try.
const char* cudaGetErrorString(cudaError_t code);

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/cuda_errors.ipp"
#endif
