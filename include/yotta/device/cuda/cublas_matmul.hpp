// cuBLAS behind the ops' matmul on Device::cuda.
//
//     launch_product(a b -> c)         ──► in_columns ──► cublasGemmEx, compute stream
//     launch_product(a b + bias -> c)  ──► in_columns ──► cublasLtMatmul, which adds the bias
//                                                         before it stores a sum
//
// f32 is computed in f32 (not TF32), bf16 on tensor cores with sums in f32, in all of their parts.
// cublasGemmEx has no product of f32 that is stored as bf16: its sums are f32 in memory of their
// own, and rounded from there.
//
// A handle serves one thread at a time, so each thread that computes has one, for as long as it
// lives. Its stream is set once: each time it would lose its workspace.
// cuBLASLt is asked once for each shape which kernel computes it: the answer takes longer than a
// launch. Where it has none (f64), the bias is written first and added to.
// Products that come together (q, k and v) are still one launch each: their matrices do not lie at
// equal distances, and cuBLAS adds a bias to no other batch.
// Empty unless YOTTA_HAVE_CUDA is defined. Link cuBLAS (CMake: CUDA::cublas, CUDA::cublasLt).
// Reference: NVIDIA, cuBLAS Library, cublasGemmEx, cublasLtMatmul.
#pragma once

#ifdef YOTTA_HAVE_CUDA

#include <cublasLt.h>
#include <cublas_v2.h>

#include <array>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>

#include "yotta/core/cpu/convert.hpp"
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

// This thread's, for the stream on which this process computes.
inline cublasHandle_t cublas_handle(Where where) {
  struct Handle {
    cublasHandle_t made = nullptr;
    ~Handle() {
      if (made != nullptr) static_cast<void>(cublasDestroy(made));
    }
  };
  thread_local Handle handle;
  if (handle.made != nullptr) return handle.made;
  check_cublas(cublasCreate(&handle.made), where);
  check_cublas(cublasSetStream(handle.made, compute_stream()), where);
  check_cublas(cublasSetMathMode(handle.made, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
               where);
  return handle.made;
}

inline void expect_int_sizes(const DeviceMatrix& x, Where where) {
  const int64_t largest = std::max({x.rows, x.cols, x.row_stride, x.col_stride});
  if (largest > INT_MAX)
    fail(where, "cuBLAS takes sizes up to {}; a matrix ({}, {}) has {}", INT_MAX, x.rows, x.cols,
         largest);
}

// One product that cublasGemmEx has.
inline void run_gemm(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c, Into into,
                     Where where) {
  const cublasHandle_t handle = cublas_handle(where);
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

// C (bf16) = A B of f32. C's rows lie one after the other.
inline void run_gemm_and_round(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c,
                               Into into, Where where) {
  const int64_t n = c.rows * c.cols;
  const DeviceScratch scratch(n * int64_t{sizeof(float)}, where);
  auto* const sums = scratch.as<float>();
  if (into == Into::accumulate)
    run_kernel("matmul", Conversion<float, bfloat16>{sums, c.data}, n, where);
  run_gemm(a, b, {sums, DType::f32, c.rows, c.cols, c.cols, 1}, into, where);
  run_kernel("matmul", Conversion<bfloat16, float>{c.data, sums}, n, where);
}

// ---- a bias, by cuBLASLt ----

// What one product is described by; it frees itself.
struct LtProduct {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  LtProduct() = default;
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;
  ~LtProduct() {
    for (const cublasLtMatrixLayout_t each : {left, right, result})
      if (each != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(each));
    if (operation != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(operation));
  }
};

// This thread's: its handle, memory for kernels to work in, and the kernels of the shapes so far.
struct LtState {
  static constexpr size_t workspace_bytes = 32 << 20;  // what NVIDIA recommends for Hopper
  using Shape = std::array<int, 12>;
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::map<Shape, std::optional<cublasLtMatmulAlgo_t>> kernels;  // nullopt: there is none

  ~LtState() {
    if (workspace != nullptr) static_cast<void>(cudaFree(workspace));
    if (handle != nullptr) static_cast<void>(cublasLtDestroy(handle));
  }
  static LtState& here(Where where) {
    thread_local LtState one;
    if (one.handle == nullptr) check_cublas(cublasLtCreate(&one.handle), where);
    if (one.workspace == nullptr) check_cuda(cudaMalloc(&one.workspace, workspace_bytes), where);
    return one;
  }
};

inline void describe(LtProduct& to, const ColumnMajorProduct& p, const DeviceProduct& product,
                     Where where) {
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    check_cublas(cublasLtMatmulDescSetAttribute(to.operation, name, &value, sizeof value), where);
  };
  const auto layout = [&](cublasLtMatrixLayout_t& made, const ColumnMajorMatrix& x, DType dtype,
                          int rows, int cols) {  // as it is stored
    check_cublas(cublasLtMatrixLayoutCreate(
                     &made, cublas_type(dtype), static_cast<uint64_t>(x.transpose ? cols : rows),
                     static_cast<uint64_t>(x.transpose ? rows : cols), x.leading),
                 where);
  };
  const auto turn = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check_cublas(cublasLtMatmulDescCreate(&to.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), where);
  set(CUBLASLT_MATMUL_DESC_TRANSA, turn(p.left.transpose));
  set(CUBLASLT_MATMUL_DESC_TRANSB, turn(p.right.transpose));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cublas_type(product.c.dtype));
  layout(to.left, p.left, product.b.dtype, p.m, p.k);
  layout(to.right, p.right, product.a.dtype, p.k, p.n);
  layout(to.result, p.result, product.c.dtype, p.m, p.n);
}

// On how many bytes an address lies, 256 at most: some kernels read 16 at once, and cuBLASLt
// supposes 256 unless told.
inline uint32_t alignment_of(const void* x) {
  const auto address = reinterpret_cast<uintptr_t>(x) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

// The kernel that cuBLASLt would take; sums of bf16 are f32 in all their parts.
inline std::optional<cublasLtMatmulAlgo_t> ask_for_kernel(const LtState& state, const LtProduct& lt,
                                                          const ColumnMajorProduct& p,
                                                          Where where) {
  cublasLtMatmulPreference_t wish = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&wish), where);
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      freed(wish, cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(wish, name, &value, sizeof value), where);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, LtState::workspace_bytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.left.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.right.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.result.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.result.data));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      state.handle, lt.operation, lt.left, lt.right, lt.result, lt.result, wish, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0))
    return std::nullopt;
  check_cublas(status, where);
  return found.algo;
}

// What the kernel depends on.
inline LtState::Shape lt_shape(const DeviceProduct& product, const ColumnMajorProduct& p) {
  const auto aligned = [](const void* x) { return static_cast<int>(alignment_of(x)); };
  return {p.m,
          p.n,
          p.k,
          p.left.leading,
          p.right.leading,
          2 * p.left.transpose + p.right.transpose,
          static_cast<int>(product.a.dtype),
          static_cast<int>(product.c.dtype),
          aligned(p.left.data),
          aligned(p.right.data),
          aligned(p.result.data),
          aligned(product.bias)};
}

// C = A B + bias, or C += A B + bias, in one pass. False: cuBLASLt has no kernel for it.
inline bool run_with_bias(const DeviceProduct& product, Where where) {
  LtState& state = LtState::here(where);
  const ColumnMajorProduct p = in_columns(product.a, product.b, product.c);
  LtProduct lt;
  describe(lt, p, product, where);
  const LtState::Shape shape = lt_shape(product, p);
  auto kernel = state.kernels.find(shape);
  if (kernel == state.kernels.end())
    kernel = state.kernels.emplace(shape, ask_for_kernel(state, lt, p, where)).first;
  if (!kernel->second) return false;
  const float one = 1, keep = product.into == Into::accumulate ? 1 : 0;
  check_cublas(
      cublasLtMatmul(state.handle, lt.operation, &one, p.left.data, lt.left, p.right.data, lt.right,
                     &keep, p.result.data, lt.result, p.result.data, lt.result, &*kernel->second,
                     state.workspace, LtState::workspace_bytes, compute_stream()),
      where);
  return true;
}

// The bias into C, which becomes C = A B + C.
inline DeviceProduct fill_with_bias(DeviceProduct product, Where where) {
  const auto fill = [&]<class T>(Type<T>) {
    run_kernel("matmul",
               FillRows<T>{product.c.cols, static_cast<const T*>(product.bias),
                           static_cast<T*>(product.c.data)},
               product.c.rows * product.c.cols, where);
  };
  if (product.c.dtype == DType::f64)
    fill(Type<double>{});
  else if (product.c.dtype == DType::bf16)
    fill(Type<bfloat16>{});
  else
    fill(Type<float>{});
  product.into = Into::accumulate;
  product.bias = nullptr;
  return product;
}

inline void cublas_multiply(DeviceProduct product, Where where) {
  const auto& [a, b, c, into, bias] = product;
  if (is_empty(product)) return;
  for (const DeviceMatrix& x : {a, b, c}) expect_int_sizes(x, where);
  const bool lt_has_types = a.dtype != DType::f64 && (a.dtype == DType::bf16 || c.dtype == a.dtype);
  if (bias != nullptr && lt_has_types && run_with_bias(product, where)) return;
  if (bias != nullptr) product = fill_with_bias(product, where);
  if (a.dtype == DType::f32 && c.dtype == DType::bf16)
    return run_gemm_and_round(a, b, c, into, where);
  run_gemm(a, b, c, into, where);
}

// device_matmul() by cuBLAS, on the stream on which this process computes.
inline void cublas_matmul(std::span<const DeviceProduct> products, Where where) {
  for (const DeviceProduct& each : products) cublas_multiply(each, where);
}
inline void install_cublas_matmul() { device_matmul() = cublas_matmul; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#endif  // YOTTA_HAVE_CUDA
