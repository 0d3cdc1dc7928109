// All kernels of Device::cuda: those of nn/, and of the bodies that the parallel techniques add.
//
//     install_accelerator();  install_all_kernels();    then every layer runs on Device::cuda
//
// A program has this compiled once: by nvcc in one .cu file that includes this header, which gives
// it use_cuda() (parallel/cuda/use_cuda.hpp); or by g++ for the emulator. nvcc compiles this file
// too.
#pragma once

#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/device/cuda/cublas_matmul.hpp"
#include "yotta/device/cuda/strided_matmul.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"
#include "yotta/parallel/ring_attention.hpp"
#include "yotta/parallel/vocab_parallel_loss.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

template <class Number>
void install_parallel_kernels_of() {
  add_rows_kernels<detail::OwnLogSumExp<Number>, detail::OwnSums<Number>,
                   detail::LossOfSums<Number>, detail::MaskRow<Number>>();
}

// Those of nn/ and of parallel/. Call it once, after install_accelerator().
inline void install_all_kernels() {
  install_kernels();
  install_parallel_kernels_of<float>();
  install_parallel_kernels_of<double>();
  install_parallel_kernels_of<bfloat16>();
  add_rows_kernels<MergeRow<float>, MergeRow<double>>();
}

}  // namespace YOTTA_DEVICE_BUILD

#if defined(__CUDACC__) && defined(YOTTA_HAVE_CUDA)
[[gnu::used]] inline std::string use_cuda(int gpu, MatmulBy matmul) {
  const std::string why_not = open_gpu(gpu);
  if (!why_not.empty()) return why_no_accelerator() = why_not;
  install_all_kernels();
  if (matmul == MatmulBy::cublas)
    install_cublas_matmul();
  else
    install_course_matmul();
  return "";
}
#endif

}  // namespace yotta
