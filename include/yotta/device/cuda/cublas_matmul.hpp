// cuBLAS behind the ops' matmul on Device::cuda.
//
//     device_matmul()(a, b, c, into) ──► in_columns(a, b, c) ──► cublasGemmEx, compute stream
//
// f32 is computed in f32 (not TF32), bf16 on tensor cores with sums in f32.
// Empty unless YOTTA_HAVE_CUDA is defined. Link cuBLAS (CMake: CUDA::cublas).
// Reference: NVIDIA, cuBLAS Library, cublasGemmEx.
#pragma once

#ifdef YOTTA_HAVE_CUDA

#include <cublas_v2.h>

#include "yotta/device/cuda/cuda_accelerator.hpp"
#include "yotta/device/cuda/device_matmul.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Throws cuBLAS's own message if a call has failed.
inline void check_cublas(cublasStatus_t status, Where where) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(where, "cuBLAS: {}", cublasGetStatusString(status));
}

inline cudaDataType_t cublas_type(DType dtype) {
  return dtype == DType::f64 ? CUDA_R_64F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

// device_matmul() by cuBLAS, on the stream on which this process computes.
inline void cublas_matmul(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c,
                          Into into, Where where) {
  if (c.rows == 0 || c.cols == 0) return;
  static cublasHandle_t handle = nullptr;  // as long as the process
  if (handle == nullptr) check_cublas(cublasCreate(&handle), where);
  check_cublas(cublasSetStream(handle, compute_stream()), where);
  const bool wide = a.dtype == DType::f64;
  const double one = 1, keep = into == Into::accumulate ? 1 : 0;
  const float one_f32 = 1, keep_f32 = static_cast<float>(keep);
  const auto turn = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const ColumnMajorProduct p = in_columns(a, b, c);
  check_cublas(
      cublasGemmEx(handle, turn(p.left.transpose), turn(p.right.transpose), p.m, p.n, p.k,
                   wide ? static_cast<const void*>(&one) : &one_f32, p.left.data,
                   cublas_type(b.dtype), p.left.leading, p.right.data, cublas_type(a.dtype),
                   p.right.leading, wide ? static_cast<const void*>(&keep) : &keep_f32,
                   p.result.data, cublas_type(c.dtype), p.result.leading,
                   wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      where);
}
inline void install_cublas_matmul() { device_matmul() = cublas_matmul; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#endif  // YOTTA_HAVE_CUDA
