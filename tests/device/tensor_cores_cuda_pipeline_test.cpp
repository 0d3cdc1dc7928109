// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_cuda_pipeline.hpp"

#include <doctest/doctest.h>

#include "support/bf16_matmul.hpp"

using namespace yotta;

namespace {

using Small = Tiles<64, 64, 32, 32, 32>;

template <int stages, class Kernel>
std::vector<float> product(Kernel kernel, const Bf16Problem& p) {
  return p.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    const auto across = static_cast<unsigned>((p.n + Small::BN - 1) / Small::BN);
    const auto down = static_cast<unsigned>((p.m + Small::BM - 1) / Small::BM);
    launch(kernel, {across, down}, Small::threads, pipeline_bytes<Small, stages>(), nullptr, a, b,
           c, p.m, p.n, p.k);
  });
}
template <int stages>
void check(const Bf16Problem& p) {
  const std::vector<float> c = product<stages>(matmul_cuda_pipeline<Small, stages>, p);
  check_product(p, c);
  CHECK(c == product<stages>(matmul_pipeline<Small, stages>, p));
}

}  // namespace

TEST_CASE("cuda::pipeline: the product of its twin, to the last bit, also beyond the edges") {
  for (const auto& [m, n, k] : matmul_sizes) {
    check<2>({m, n, k});
    check<3>({m, n, k});
  }
  check<3>({64, 64, 320});  // ten steps: the ring comes round
}
