#include "gpu_matmul.hpp"

#include "gpu_tools.hpp"
#include "yotta/device/matmul_rungs.hpp"
#include "yotta/device/mma_fragments.hpp"
#include "yotta/device/tensor_cores_hopper_rungs.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"
#include "yotta/machine/toggle_power.hpp"

namespace yotta::bench {
namespace {

// Rows of C are columns of C' = B' A', which is how cuBLAS, column by column, sees it.
void multiply(const Cublas& cublas, const float* a, const float* b, float* c, int n) {
  const float one = 1, zero = 0;
  check_cublas(
      cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, n, a, n, &zero, c, n));
}
void multiply(const Cublas& cublas, const bfloat16* a, const bfloat16* b, float* c, int n) {
  const float one = 1, zero = 0;
  check_cublas(cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, CUDA_R_16BF, n, a,
                            CUDA_R_16BF, n, &zero, c, CUDA_R_32F, n, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT));
}

// cuBLAS and every rung of a ladder on matrices of T.
template <class T, class Rungs>
std::vector<GpuMatmul> measure(const Rungs& rungs, int size, const ShortestOfBatches& shortest) {
  const size_t count = static_cast<size_t>(size) * static_cast<size_t>(size);
  const DeviceArray<T> a(random_numbers<T>(count, "a")), b(random_numbers<T>(count, "b"));
  DeviceArray<float> c(count);
  const auto tflops = [&](auto run) {
    const double best = shortest([&](int calls) { return seconds_by_events(calls, run); });
    return matmul_flops(size, size, size) / best * 1e-12;
  };
  const Cublas cublas;
  std::vector<GpuMatmul> rows;
  rows.push_back(
      {"cuBLAS", size, tflops([&] { multiply(cublas, a.data(), b.data(), c.data(), size); }), 0});
  const std::vector<float> expected = c.to_host();
  for (const auto& rung : rungs) {
    check_cuda(cudaMemset(c.data(), 0xff, count * sizeof(float)));  // NaN: nothing may be left over
    const double rate =
        tflops([&] { rung.run(a.data(), b.data(), c.data(), size, size, size, nullptr); });
    rows.push_back({rung.name, size, rate, largest_difference(c.to_host(), expected)});
  }
  return rows;
}

// Seconds of a call, on average over at least `least` seconds of calls in a queue.
template <class Body>
double mean_seconds(double least, const Body& body) {
  double passed = 0;
  int calls = 0;
  for (; passed < least; calls += 20) passed += seconds_by_events(20, body);
  return passed / calls;
}

// Each warp multiplies again and again into 8 sums that do not wait for each other. What it stores,
// if a sum were 1, keeps the compiler from leaving all of it out.
constexpr int mma_rounds = in_emulator ? 1 : 4096, mma_sums = 8;
__global__ void __launch_bounds__(256) mma_alone(float* out, uint32_t bits) {
  const uint32_t a[4] = {bits, bits, bits, bits}, b[2] = {bits, bits};
  float sums[mma_sums][4] = {};
  for (int round = 0; round < mma_rounds; ++round) {
    YOTTA_UNROLL
    for (int i = 0; i < mma_sums; ++i) mma_m16n8k16_bf16(sums[i], a, b, sums[i]);
  }
  float all = 0;
  for (int i = 0; i < mma_sums; ++i) all += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  if (all == 1) *out = all;
}

}  // namespace

std::string gpu_name() { return first_gpu(); }

bool has_hopper_instructions() {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0));
  return properties.major == 9;
}

std::vector<GpuMatmul> measure_gpu_matmul(Ladder ladder, int size,
                                          const ShortestOfBatches& shortest) {
  if (ladder == Ladder::fp32) return measure<float>(matmul_rungs, size, shortest);
  if (ladder == Ladder::hopper)
    return measure<bfloat16>(hopper_rungs<HopperTiles<256, 4, 2>>, size, shortest);
  using Large = Tiles<128, 256, 32, 64, 64>;
  return measure<bfloat16>(tensor_core_rungs<Large, 4>, size, shortest);
}

double measure_mma_peak(const ShortestOfBatches& shortest) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0));
  const int blocks = in_emulator ? 1 : 4 * properties.multiProcessorCount, warps = 8;
  DeviceArray<float> out(1);
  const auto run = [&] { launch(mma_alone, blocks, 32 * warps, 0, nullptr, out.data(), 0u); };
  const double seconds = shortest([&](int calls) { return seconds_by_events(calls, run); });
  const double products = double{mma_rounds} * mma_sums * warps * blocks;
  return products * static_cast<double>(mma_flops<M16N8K16>()) / seconds * 1e-12;
}

std::vector<GpuMatmul> measure_gpu_data(int size, double seconds) {
  const size_t count = static_cast<size_t>(size) * static_cast<size_t>(size);
  DeviceArray<float> c(count);
  const Cublas cublas;
  std::vector<GpuMatmul> rows;
  for (const DataKind kind : all_data_kinds) {
    const DeviceArray<bfloat16> a(numbers_of(kind, count, "a")), b(numbers_of(kind, count, "b"));
    const auto call = [&] { multiply(cublas, a.data(), b.data(), c.data(), size); };
    mean_seconds(seconds / 2, call);  // until the clock has settled
    const double mean = mean_seconds(seconds, call);
    rows.push_back({name(kind), size, matmul_flops(size, size, size) / mean * 1e-12, 0});
  }
  return rows;
}

}  // namespace yotta::bench
