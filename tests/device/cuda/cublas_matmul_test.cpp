// cuBLAS behind the ops' matmul, with a cuBLAS that needs no GPU (support/cublas_stand_in). nvcc
// compiles the call itself with course/training/cuda.cu; tests/gpu_training compares its numbers
// with the course's own matmul.
#define YOTTA_HAVE_CUDA
#include "yotta/device/cuda/cublas_matmul.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/core/tensor.hpp"
#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/device/emulator/stream_queue.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

void install_conversions() {
  install_accelerator();
  add_numbers<Conversion<bfloat16, float>, Conversion<float, bfloat16>, FillRows<float>,
              FillRows<double>, FillRows<bfloat16>>();
}
Tensor whole_numbers(int64_t rows, int64_t cols, int first, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * cols; ++i)
    values.push_back(static_cast<double>((i * 7 + first) % 13) - 6);
  return Tensor::from<double>(values, {rows, cols}).to(dtype).to(Device::cuda);
}
DeviceMatrix view_of(const Tensor& x) {
  return {x.raw(), x.dtype(), x.dim(0), x.dim(1), x.dim(1), 1};
}

void multiply_by_cublas(const DeviceProduct& product) {
  cublas_matmul({&product, 1}, Where::current());
}

// C (m, n) += A' B of A (k, m) and B (k, n): a layer's dw. What cuBLAS refuses is thrown.
void check_gemm(int64_t m, int64_t n, int64_t k, DType in, DType out, Into into) {
  const Tensor a = whole_numbers(k, m, 1, in), b = whole_numbers(k, n, 5, in);
  const Tensor before = whole_numbers(m, n, 3, out), c = before.clone();
  multiply_by_cublas({transposed(view_of(a)), view_of(b), view_of(c), into});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = into == Into::accumulate ? before.item({i, j}) : 0;
      for (int64_t l = 0; l < k; ++l) sum += a.item({l, i}) * b.item({l, j});
      if (out == DType::bf16) sum = static_cast<double>(bfloat16(static_cast<float>(sum)));
      CHECK(c.item({i, j}) == sum);
    }
}

// y (m, n) = x (m, k) w (n, k)' + bias: a layer's forward pass.
void check_bias(int64_t m, int64_t n, int64_t k, DType in, DType out) {
  const Tensor x = whole_numbers(m, k, 1, in), w = whole_numbers(n, k, 5, in);
  const Tensor bias = whole_numbers(1, n, 3, out), y = whole_numbers(m, n, 2, out);
  multiply_by_cublas({view_of(x), transposed(view_of(w)), view_of(y), Into::overwrite, bias.raw()});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.item({0, j});
      for (int64_t l = 0; l < k; ++l) sum += x.item({i, l}) * w.item({j, l});
      if (out == DType::bf16) sum = static_cast<double>(bfloat16(static_cast<float>(sum)));
      CHECK(y.item({i, j}) == sum);
    }
}

}  // namespace

TEST_CASE("a bias is added in the product's own pass; f64 has no such kernel in cuBLASLt") {
  install_conversions();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 5, 7}, {4, 1, 7}, {3, 4, 5}})
    for (const auto& [in, out] : {std::pair{DType::f32, DType::f32},
                                  {DType::f64, DType::f64},
                                  {DType::bf16, DType::f32},
                                  {DType::bf16, DType::bf16},
                                  {DType::f32, DType::bf16}})
      check_bias(m, n, k, in, out);
  const uint64_t launches = StreamQueue::instance().launches;
  cublas_calls.reduced = 0;
  const int asked = cublas_calls.lt_questions, products = cublas_calls.products;
  for (int i = 0; i < 3; ++i) check_bias(6, 5, 4, DType::bf16, DType::bf16);
  CHECK(StreamQueue::instance().launches == launches);  // the bias has no kernel of its own
  CHECK(cublas_calls.products == products + 3);
  CHECK(cublas_calls.lt_questions == asked + 1);  // once a shape
  CHECK(cublas_calls.lt_objects == 0);
  CHECK(cublas_calls.reduced == 0);
}

TEST_CASE("a matrix that begins amid 16 bytes gets a kernel that takes it") {
  install_conversions();
  const Tensor flat = whole_numbers(1, 40, 2, DType::f32), y = whole_numbers(3, 3, 1, DType::f32);
  for (const int first : {0, 1, 2, 1}) {
    const DeviceMatrix x{static_cast<float*>(flat.raw()) + first, DType::f32, 3, 3, 3, 1};
    multiply_by_cublas({x, x, view_of(y), Into::overwrite, x.data});
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        double sum = flat.item({0, first + j});
        for (int64_t l = 0; l < 3; ++l)
          sum += flat.item({0, first + 3 * i + l}) * flat.item({0, first + 3 * l + j});
        CHECK(y.item({i, j}) == sum);
      }
  }
}

TEST_CASE("cuBLAS multiplies every pair of types, one column and one row too") {
  install_conversions();
  for (const Into into : {Into::overwrite, Into::accumulate})
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 5, 7}, {4, 1, 7}, {4, 5, 1}, {3, 4, 5}})
      for (const auto& [in, out] : {std::pair{DType::f32, DType::f32},
                                    {DType::f64, DType::f64},
                                    {DType::bf16, DType::f32},
                                    {DType::bf16, DType::bf16},
                                    {DType::f32, DType::bf16}})
        check_gemm(m, n, k, in, out, into);
}

TEST_CASE("sums of bf16 are f32 in all their parts; a stream is set once a handle") {
  install_conversions();
  cublas_calls.reduced = 0;
  const int set = cublas_calls.streams_set, made = cublas_calls.handles;
  for (int i = 0; i < 3; ++i) check_gemm(2, 3, 4, DType::bf16, DType::f32, Into::overwrite);
  CHECK(cublas_calls.reduced == 0);
  CHECK(cublas_calls.streams_set - set == cublas_calls.handles - made);
}

TEST_CASE("each thread has a handle of its own") {
  install_conversions();
  const int made = cublas_calls.handles;
  for (int i = 0; i < 2; ++i)
    std::thread([] { check_gemm(2, 3, 4, DType::f32, DType::f32, Into::overwrite); }).join();
  CHECK(cublas_calls.handles == made + 2);
}

TEST_CASE("sizes that cuBLAS cannot take are refused by name") {
  float x = 0;
  const DeviceMatrix big{&x, DType::f32, int64_t{1} << 31, 1, 1, 1},
      one{&x, DType::f32, 1, 1, 1, 1};
  CHECK(contains(message_of([&] {
                   multiply_by_cublas({big, one, big});
                 }),
                 "cuBLAS takes sizes up to 2147483647; a matrix (2147483648, 1) has 2147483648"));
}
