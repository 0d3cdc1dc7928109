// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/nn/cuda/attention_f32.hpp"

#include <doctest/doctest.h>

#include "nn/attention_inputs.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"
#include "yotta/nn/flash_attention.hpp"

using namespace yotta;
using namespace yotta_test;

// Attention of Device::cuda in f32 against that of the CPU.

namespace {

Inputs there(const Inputs& x) {
  return {x.q.to(Device::cuda), x.dout.to(Device::cuda), x.k.to(Device::cuda),
          x.v.to(Device::cuda)};
}

// The largest difference of numbers of about 1; infinity if there is a NaN.
double gap(const Tensor& found, const Tensor& expected) {
  const std::vector<double> a = found.values(), b = expected.values();
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])  // both may be -infinity: no key is seen
      if (const double each = std::abs(a[i] - b[i]); !(each <= worst))
        worst = std::isnan(each) ? INFINITY : each;
  return worst;
}

// o, L, dq, dk and dv of a block; gradients are added to the inputs themselves.
std::vector<Tensor> run_block(const Inputs& x, const AttentionBlock& block) {
  const FlashAttention part = attention_block(x.q, x.k, x.v, block);
  AttentionGradients d{x.q.clone(), x.k.clone(), x.v.clone()};
  attention_block_backward(x.dout, x.q, x.k, x.v, flash_attention(x.q, x.k, x.v), block, d);
  return {part.o, part.log_sum_exp, d.dq, d.dk, d.dv};
}

void check_block(const Inputs& here, const AttentionBlock& block) {
  const std::vector<Tensor> expected = run_block(here, block),
                            found = run_block(there(here), block),
                            again = run_block(there(here), block);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(gap(found[i], expected[i]) <= 2e-5);
    CHECK(found[i].values() == again[i].values());
  }
}

}  // namespace

TEST_CASE("f32 and d 32, 64, 128: o, L and gradients of the CPU, grouped queries, any length") {
  install_accelerator();
  install_kernels();
  for (const auto& [T, d] : {std::pair{70, 32}, {130, 32}, {65, 64}, {34, 128}, {1, 32}}) {
    CAPTURE(T);
    CAPTURE(d);
    check_block(inputs(2, T, 4, 2, d, DType::f32), {.length = T});
  }
}

TEST_CASE("a block takes its part of every sequence, and adds to gradients") {
  install_accelerator();
  install_kernels();
  const Inputs here = inputs(2, 90, 2, 1, 32, DType::f32);
  for (const AttentionBlock& block :
       {AttentionBlock{3, 1, 70, 2}, {2, 5, 70, -40}, {4, 0, 50, 100}, {0, 0, 0, 0}}) {
    CAPTURE(block.query);
    check_block(here, block);
  }
}

TEST_CASE(
    "d 32, 64 and 128 have tiles, where all rows begin on 16 bytes and a grid holds the heads") {
  alignas(16) const float numbers[8] = {};
  int threads = 0;
  const auto run = [&]<class T>(T) { threads += T::threads; };
  for (const int64_t d : {32, 64, 128})
    CHECK(with_f32_tile<true>(d, 2, {numbers, numbers + 4}, run));
  CHECK(threads == 3 * 128);
  CHECK_FALSE(with_f32_tile<true>(40, 2, {numbers}, run));
  CHECK(F32Tile<128, 2>::backward_bytes <= 99 * 1024);
  CHECK(F32Tile<64, 4>::backward_bytes <= 99 * 1024);
  threads = 0;
  CHECK_FALSE(with_f32_tile<false>(32, 2, {numbers, numbers + 1}, run));
  CHECK_FALSE(with_f32_tile<false>(32, 65536, {numbers}, run));  // a grid has 65535 rows
  CHECK(threads == 0);
}

TEST_CASE("other d, and a view that begins elsewhere, take rows and give the same") {
  install_accelerator();
  install_kernels();
  check_block(inputs(1, 9, 2, 1, 40, DType::f32), {.length = 9});
  const Inputs here = inputs(1, 40, 2, 2, 32, DType::f32), on = there(here);
  const auto moved = [](const Tensor& x) {
    const DeviceScope scope(Device::cuda);
    Tensor flat = Tensor::zeros({x.numel() + 1, 1});
    Tensor view = flat.rows(1, x.numel() + 1).reshape(x.shape());
    view.copy_from(x);
    return view;
  };
  const FlashAttention a = flash_attention(on.q, on.k, on.v),
                       b = flash_attention(moved(on.q), on.k, on.v);
  CHECK(gap(a.o, b.o) <= 1e-5);
}
