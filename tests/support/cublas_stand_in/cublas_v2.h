// cuBLAS without a GPU, for tests of what calls it: cublasGemmEx multiplies in the emulator's
// memory, and refuses what cuBLAS's documentation says that it refuses. A handle that another
// thread made is refused too: two threads that use one at once race for its stream and workspace.
// The other products are made of it.
// Reference: NVIDIA, cuBLAS Library, "cublasGemmEx", "Thread Safety".
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <type_traits>

#include "yotta/core/dtype.hpp"
#include "yotta/device/emulator/cuda_errors.hpp"
#include "yotta/device/emulator/task.hpp"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};

struct cublasContext {
  std::thread::id owner = std::this_thread::get_id();
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};
using cublasHandle_t = cublasContext*;

namespace yotta_test {

// What the library did.
struct CublasCalls {
  std::atomic<int> handles = 0, streams_set = 0, products = 0, reduced = 0;  // reduced: could be
  std::atomic<int> lt_objects = 0, lt_questions = 0;  // living; kernels that were asked for
};
inline CublasCalls cublas_calls;

template <class T>
double cublas_number(const void* data, int i) {
  return static_cast<double>(static_cast<const T*>(data)[i]);
}
inline double cublas_number(const void* data, cudaDataType_t type, int i) {
  if (type == CUDA_R_64F) return cublas_number<double>(data, i);
  return type == CUDA_R_32F ? cublas_number<float>(data, i)
                            : cublas_number<yotta::bfloat16>(data, i);
}
inline void set_cublas_number(void* data, cudaDataType_t type, int i, double value) {
  if (type == CUDA_R_64F)
    static_cast<double*>(data)[i] = value;
  else if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = static_cast<float>(value);
  else
    static_cast<yotta::bfloat16*>(data)[i] = yotta::bfloat16(static_cast<float>(value));
}

}  // namespace yotta_test

inline const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    default: return "an internal error";
  }
}
inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  ++yotta_test::cublas_calls.handles;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) {
  ++yotta_test::cublas_calls.streams_set;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
  handle->math = math;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t turn_a,
                                   cublasOperation_t turn_b, int m, int n, int k, const void* alpha,
                                   const void* a, cudaDataType_t type_a, int lda, const void* b,
                                   cudaDataType_t type_b, int ldb, const void* beta, void* c,
                                   cudaDataType_t type_c, int ldc, cublasComputeType_t compute,
                                   cublasGemmAlgo_t) {
  using namespace yotta_test;
  if (handle->owner != std::this_thread::get_id()) return CUBLAS_STATUS_INTERNAL_ERROR;
  const bool turns_a = turn_a == CUBLAS_OP_T, turns_b = turn_b == CUBLAS_OP_T;
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, turns_a ? k : m) ||
      ldb < std::max(1, turns_b ? n : k) || ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = compute == CUBLAS_COMPUTE_64F, narrow = type_a == CUDA_R_16BF;
  if (type_a != type_b || wide != (type_a == CUDA_R_64F) || wide != (type_c == CUDA_R_64F) ||
      (type_c == CUDA_R_16BF && !narrow))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  ++cublas_calls.products;
  if (narrow && handle->math != CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)
    ++cublas_calls.reduced;
  const auto scalar = [&](const void* x) {
    return wide ? *static_cast<const double*>(x) : double{*static_cast<const float*>(x)};
  };
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = scalar(beta) == 0 ? 0 : scalar(beta) * cublas_number(c, type_c, i + j * ldc);
      for (int l = 0; l < k; ++l)
        sum += scalar(alpha) * cublas_number(a, type_a, turns_a ? l + i * lda : i + l * lda) *
               cublas_number(b, type_b, turns_b ? j + l * ldb : l + j * ldb);
      set_cublas_number(c, type_c, i + j * ldc, sum);
    }
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t turn_a,
                                  cublasOperation_t turn_b, int m, int n, int k, const float* alpha,
                                  const float* a, int lda, const float* b, int ldb,
                                  const float* beta, float* c, int ldc) {
  return cublasGemmEx(handle, turn_a, turn_b, m, n, k, alpha, a, CUDA_R_32F, lda, b, CUDA_R_32F,
                      ldb, beta, c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
// Strides in numbers, from one matrix to the next.
inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType_t type_a, int lda, long long stride_a,
    const void* b, cudaDataType_t type_b, int ldb, long long stride_b, const void* beta, void* c,
    cudaDataType_t type_c, int ldc, long long stride_c, int count, cublasComputeType_t compute,
    cublasGemmAlgo_t algorithm) {
  const auto at = [](auto* data, cudaDataType_t type, long long number) {
    const int bytes = type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>,
                                    const char, char>;
    return static_cast<Byte*>(data) + bytes * number;
  };
  for (int i = 0; i < count; ++i) {
    const cublasStatus_t status =
        cublasGemmEx(handle, turn_a, turn_b, m, n, k, alpha, at(a, type_a, i * stride_a), type_a,
                     lda, at(b, type_b, i * stride_b), type_b, ldb, beta,
                     at(c, type_c, i * stride_c), type_c, ldc, compute, algorithm);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}
