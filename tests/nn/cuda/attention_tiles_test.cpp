// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/nn/cuda/attention_tiles.hpp"

#include <doctest/doctest.h>

#include "nn/attention_inputs.hpp"
#include "yotta/device/cuda/strided_matmul.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

// Attention of Device::cuda against that of the CPU.

namespace {

// Counts the launches of tiles while it lives, forward and backward.
template <class Body>
class CountedLaunches {
 public:
  CountedLaunches() : launch_(KernelOf<Body>::launch) {
    of() = {launch_, 0};
    KernelOf<Body>::launch = [](const Body& body, int64_t items, Where where) {
      ++of().count;
      of().launch(body, items, where);
    };
  }
  ~CountedLaunches() { KernelOf<Body>::launch = launch_; }
  CountedLaunches(const CountedLaunches&) = delete;
  CountedLaunches& operator=(const CountedLaunches&) = delete;
  int count() const { return of().count; }

 private:
  using Launch = typename KernelOf<Body>::Launch;
  struct Counter {
    Launch launch;
    int count;
  };
  static Counter& of() {
    static Counter one;
    return one;
  }
  Launch launch_;
};

void install_cuda() {
  install_accelerator();
  install_kernels();
  install_course_matmul();
}

Inputs on_cuda(const Inputs& x) {
  const auto there = [](const Tensor& each) { return each.to(Device::cuda); };
  return {there(x.q), there(x.dout), there(x.k), there(x.v)};
}

// The largest difference, as a part of the largest number; infinity if there is a NaN.
double share(const Tensor& found, const Tensor& expected) {
  const std::vector<double> a = found.to(Device::cpu).values(), b = expected.values();
  double worst = 0, most = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::abs(b[i]));
    if (const double gap = std::abs(a[i] - b[i]); !(gap <= worst))
      worst = std::isnan(gap) ? INFINITY : gap;
  }
  return worst == 0 ? 0 : worst / most;
}

// P and dS are rounded to bf16, 2^-9 of each; o and the gradients are sums of many of them, rounded
// to bf16 themselves.
constexpr double o_share = 0x1p-7, gradient_share = 0x1p-6;

}  // namespace

TEST_CASE("bf16 and d 32, 64, 128 take tiles: o, L and gradients of the CPU, grouped queries") {
  install_cuda();
  for (const auto& [T, d] : {std::pair{70, 32}, {17, 64}, {9, 128}, {1, 32}}) {
    CAPTURE(T);
    CAPTURE(d);
    const CountedLaunches<detail::AttentionTiles<bfloat16>> tiles;
    const CountedLaunches<detail::AttentionTilesBackward<bfloat16>> tiles_backward;
    const Inputs here = inputs(2, T, 4, 2, d, DType::bf16), there = on_cuda(here);
    const FlashAttention a = flash_attention(here.q, here.k, here.v),
                         b = flash_attention(there.q, there.k, there.v);
    CHECK(share(b.o, a.o) <= o_share);
    CHECK(share(b.log_sum_exp, a.log_sum_exp) <= 1e-5);
    const auto gradients = [](const Inputs& x, const FlashAttention& saved) {
      return flash_attention_backward(x.dout, x.q, x.k, x.v, saved);
    };
    const AttentionGradients expected = gradients(here, a), found = gradients(there, b),
                             again = gradients(there, b);
    CHECK(share(found.dv, expected.dv) <= gradient_share);
    if (T > 1) {  // else one probability of 1: no gradient
      CHECK(share(found.dq, expected.dq) <= gradient_share);
      CHECK(share(found.dk, expected.dk) <= gradient_share);
    }
    CHECK(same_bits(found.dq.to(Device::cpu), again.dq.to(Device::cpu)));
    CHECK(tiles.count() == 1);
    CHECK(tiles_backward.count() == 2);
  }
}

TEST_CASE("a block takes its part of every sequence, and adds to gradients") {
  install_cuda();
  const Inputs here = inputs(2, 12, 2, 1, 32, DType::bf16), there = on_cuda(here);
  for (const AttentionBlock& block :
       {AttentionBlock{3, 1, 7, 2}, {2, 5, 7, -2}, {4, 0, 5, 100}, {0, 0, 0, 0}}) {
    CAPTURE(block.query);
    const auto run = [&](const Inputs& x) {
      const FlashAttention part = attention_block(x.q, x.k, x.v, block);
      AttentionGradients d{x.q.to(DType::f32), x.k.to(DType::f32), x.v.to(DType::f32)};
      attention_block_backward(x.dout, x.q, x.k, x.v, flash_attention(x.q, x.k, x.v), block, d);
      return std::vector{part.o, d.dq, d.dk, d.dv, part.log_sum_exp};
    };
    const std::vector<Tensor> expected = run(here), found = run(there);
    for (size_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      CHECK(share(found[i], expected[i]) <= gradient_share);
    }
    const std::vector<double> a = expected[4].values(), b = found[4].to(Device::cpu).values();
    for (size_t i = 0; i < a.size(); ++i)  // -infinity: no key is seen
      CHECK((a[i] == b[i] || std::abs(a[i] - b[i]) <= 1e-5));
  }
}

TEST_CASE("what kernels round has the bits of their f32 sums, rounded") {
  install_cuda();
  const Inputs x = on_cuda(inputs(2, 70, 4, 2, 32, DType::bf16));
  const AttentionBlock all{.length = 70};
  const FlashAttention whole = flash_attention(x.q, x.k, x.v);
  const auto rounded = [](const Tensor& sums) { return sums.to(DType::bf16).values(); };
  CHECK(whole.o.values() == rounded(attention_block(x.q, x.k, x.v, all).o));
  const AttentionGradients found = flash_attention_backward(x.dout, x.q, x.k, x.v, whole);
  AttentionGradients sums{zero_sums(x.q), zero_sums(x.k), zero_sums(x.v)};
  attention_block_backward(x.dout, x.q, x.k, x.v, whole, all, sums);
  CHECK(found.dq.values() == rounded(sums.dq));
  CHECK(found.dk.values() == rounded(sums.dk));
  CHECK(found.dv.values() == rounded(sums.dv));
}

TEST_CASE("more heads than a grid has rows of blocks are several launches") {
  const auto together = [](int64_t T, int64_t n, int64_t H, int64_t B) {
    return detail::sequences_together({T, n, H, 1, 32, 0, 0, 0}, B);
  };
  CHECK(together(4, 4, 64, 1023) == 1023);
  CHECK(together(4, 4, 64, 1024) == 1023);
  CHECK(together(4, 2, 64, 2) == 1);  // a block of each
  CHECK(together(4, 4, 70000, 2) == 1);
}

TEST_CASE("another type or another d takes rows") {
  install_cuda();
  const CountedLaunches<detail::AttentionTiles<bfloat16>> tiles;
  for (const auto& [d, dtype] : {std::pair{32, DType::f32}, {64, DType::f64}, {40, DType::bf16}}) {
    const Inputs here = inputs(1, 5, 2, 2, d, dtype), there = on_cuda(here);
    CHECK(share(flash_attention(there.q, there.k, there.v).o,
                flash_attention(here.q, here.k, here.v).o) <= o_share);
  }
  CHECK(tiles.count() == 0);
}

TEST_CASE("a transformer in bf16 with heads of 32: logits and every gradient of the CPU") {
  install_cuda();
  TransformerConfig config = llama_config(2, 64, 64, 2, 1, 20, 11);
  config.dtype = DType::bf16;
  config.deviation = 0.2;
  const Tensor tokens = Tensor::from<int32_t>({1, 7, 3, 3, 9, 0, 10, 2, 5, 6, 4, 8}, {2, 6});
  const auto run = [&](Device device) {
    const DeviceScope scope(device);
    const Transformer model(config);
    Saved saved;
    const Tensor logits = forward(model.stack(), tokens.to(device), saved);
    backward(model.stack(), logits, saved);
    std::vector<Tensor> all = {logits};
    for (const ParameterPtr& each : parameters(model.stack())) all.push_back(each->grad);
    return all;
  };
  const CountedLaunches<detail::AttentionTilesBackward<bfloat16>> tiles;
  const std::vector<Tensor> expected = run(Device::cpu), found = run(Device::cuda);
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(share(found[i], expected[i]) <= 0x1p-5);  // two layers, each rounded to bf16
  }
  CHECK(tiles.count() == 2);
}
