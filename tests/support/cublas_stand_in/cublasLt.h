// cuBLASLt without a GPU, beside cublas_v2.h: a product with a bias in the emulator's memory. As
// documented, it has no such kernel for f64, and supposes that matrices lie on 256 bytes unless the
// preference says less: a kernel that was chosen for more refuses other addresses.
// Reference: NVIDIA, cuBLAS Library, "cublasLtMatmul".
#pragma once

#include <cstdint>
#include <cstring>

#include "support/cublas_stand_in/cublas_v2.h"

enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};
enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };
enum cublasLtReductionScheme_t {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

struct cublasLtContext {
  std::thread::id owner = std::this_thread::get_id();
};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t leading;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};
};
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];  // the alignments that it needs
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
};
using cublasLtHandle_t = cublasLtContext*;
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t,
                                               cudaDataType_t) {
  ++yotta_test::cublas_calls.lt_objects;
  *made = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) {
  --yotta_test::cublas_calls.lt_objects;
  delete made;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to,
                                                     cublasLtMatmulDescAttributes_t name,
                                                     const void* value, size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(to->turn_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(to->turn_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(to->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(to->bias);
    default: return set(to->bias_type);
  }
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type,
                                                 uint64_t rows, uint64_t cols, int64_t leading) {
  ++yotta_test::cublas_calls.lt_objects;
  *made = new cublasLtMatrixLayoutOpaque_t{type, rows, cols, leading};
  return leading < static_cast<int64_t>(rows) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) {
  --yotta_test::cublas_calls.lt_objects;
  delete made;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  ++yotta_test::cublas_calls.lt_objects;
  *made = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) {
  --yotta_test::cublas_calls.lt_objects;
  delete made;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t to, cublasLtMatmulPreferenceAttributes_t name, const void* value,
    size_t bytes) {
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof to->workspace) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to->workspace, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (bytes != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool reductions = name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
  std::memcpy(reductions ? &to->reductions
                         : &to->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
              value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t wish, int, cublasLtMatmulHeuristicResult_t* found, int* count) {
  using namespace yotta_test;
  ++cublas_calls.lt_questions;
  *count = 0;
  if (a->type == CUDA_R_64F || operation->bias_type != c->type ||
      operation->epilogue != CUBLASLT_EPILOGUE_BIAS)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (a->type != b->type || (c->type == CUDA_R_16BF && a->type != CUDA_R_16BF))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // In place, parts of a sum are added up in the type of the result.
  if (c->type == CUDA_R_16BF && (wish->reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0)
    ++cublas_calls.reduced;
  for (int i = 0; i < 4; ++i) found->algo.data[i] = wish->alignment[i];
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                     const void* alpha, const void* a, cublasLtMatrixLayout_t a_is,
                                     const void* b, cublasLtMatrixLayout_t b_is, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t, void* d,
                                     cublasLtMatrixLayout_t d_is, const cublasLtMatmulAlgo_t* algo,
                                     void* workspace, size_t, cudaStream_t) {
  using namespace yotta_test;
  if (handle->owner != std::this_thread::get_id()) return CUBLAS_STATUS_INTERNAL_ERROR;
  const void* const all[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(all[i]) % algo->data[i] != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace == nullptr || operation->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const bool turns_a = operation->turn_a == CUBLAS_OP_T, turns_b = operation->turn_b == CUBLAS_OP_T;
  const int m = static_cast<int>(d_is->rows), n = static_cast<int>(d_is->cols),
            k = static_cast<int>(turns_a ? a_is->rows : a_is->cols);
  if (m != static_cast<int>(turns_a ? a_is->cols : a_is->rows) ||
      k != static_cast<int>(turns_b ? b_is->cols : b_is->rows) ||
      n != static_cast<int>(turns_b ? b_is->rows : b_is->cols))
    return CUBLAS_STATUS_INVALID_VALUE;
  ++cublas_calls.products;
  const int lda = static_cast<int>(a_is->leading), ldb = static_cast<int>(b_is->leading),
            ldd = static_cast<int>(d_is->leading);
  const double keep = double{*static_cast<const float*>(beta)};
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = cublas_number(operation->bias, operation->bias_type, i);
      if (keep != 0) sum += keep * cublas_number(c, d_is->type, i + j * ldd);
      for (int l = 0; l < k; ++l)
        sum += double{*static_cast<const float*>(alpha)} *
               cublas_number(a, a_is->type, turns_a ? l + i * lda : i + l * lda) *
               cublas_number(b, b_is->type, turns_b ? j + l * ldb : l + j * ldb);
      set_cublas_number(d, d_is->type, i + j * ldd, sum);
    }
  return CUBLAS_STATUS_SUCCESS;
}
