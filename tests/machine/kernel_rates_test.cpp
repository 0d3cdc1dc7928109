// What kernels reach: the roofline, and kernels that hide nothing.
#include "yotta/machine/kernel_rates.hpp"

#include <doctest/doctest.h>

#include "yotta/machine/clock.hpp"
#include "yotta/nn/linear_ops.hpp"

using namespace yotta;

namespace {

const Chip& h100 = chip_named("h100");

// The share of the peak that a product of n x n matrices reaches.
double share(const Efficiency& e, int64_t n) {
  const OpCost cost = linear_cost("linear", DType::bf16, n, n, n);
  return cost.flops / peak(h100, DType::bf16) /
         (kernel_seconds(h100, e, cost) - h100.launch_overhead);
}

}  // namespace

TEST_CASE("all shares 1: the clock's roofline, of products and of others") {
  for (const OpCost& cost : {linear_cost("linear", DType::bf16, 64, 512, 512),
                             linear_cost("linear", DType::bf16, 8192, 8192, 8192),
                             OpCost{"gelu", DType::bf16, 1e6, 2e6, 2e6}})
    CHECK(kernel_seconds(h100, {}, cost) == op_seconds(h100, cost));
}

TEST_CASE("where nothing hides, a product of n x n reaches n / (n + 3 corner) of the peak") {
  const Efficiency sum{.overlap = 0};
  const double corner = 989.4e12 / 3.35e12;  // FLOPs per byte; n / 3 of them for each byte of bf16
  for (const double n : {256.0, 1024.0, 8192.0})
    CHECK(share(sum, static_cast<int64_t>(n)) ==
          doctest::Approx(n / (n + 3 * corner)).epsilon(1e-12).scale(0));
  CHECK(share({.matmul = 0.5, .overlap = 0.5}, 1 << 16) > 0.49);
}

TEST_CASE("passes count for what multiplies nothing, and the memory's share for all") {
  const OpCost add{"add", DType::bf16, 0, 2e9, 1e9}, product{"linear", DType::bf16, 0, 2e9, 1e9};
  const auto moving = [](const Efficiency& e, const OpCost& cost) {
    return kernel_seconds(h100, e, cost) - h100.launch_overhead;
  };
  CHECK(moving({.passes = 3}, add) == doctest::Approx(3 * moving({}, add)));
  CHECK(moving({.passes = 3}, product) == moving({}, product));
  CHECK(moving({.memory = 0.5}, product) == doctest::Approx(2 * moving({}, product)));
}

TEST_CASE("in fp8 products with weights compute twice as fast, and read 5 bytes for 4") {
  const Efficiency plain{.overlap = 0}, fp8{.overlap = 0, .fp8 = true};
  const OpCost cost = linear_cost("linear", DType::bf16, 8192, 8192, 8192);
  const auto seconds = [&](const Chip& chip, const Efficiency& e, const OpCost& of) {
    return kernel_seconds(chip, e, of) - chip.launch_overhead;
  };
  CHECK(seconds(h100, fp8, cost) ==
        doctest::Approx(cost.flops / h100.fp8 +
                        (1.25 * cost.bytes_read + cost.bytes_written) / h100.bandwidth));
  const Chip& a100 = chip_named("a100");  // has none
  CHECK(seconds(a100, fp8, cost) == seconds(a100, plain, cost));
  for (const OpCost& other : {OpCost{"flash_attention", DType::bf16, 1e12, 1e9, 1e9},
                              OpCost{"gelu", DType::bf16, 1e6, 2e6, 2e6},
                              linear_cost("linear", DType::f32, 512, 512, 512)})
    CHECK(seconds(h100, fp8, other) == seconds(h100, plain, other));
}

TEST_CASE("attention has shares of its own; what holds its scores is products") {
  const Efficiency e{.matmul = 0.8, .attention = 0.5, .attention_backward = 0.4};
  CHECK(reached(e, "flash_attention") == 0.5);
  CHECK(reached(e, "flash_attention_backward") == 0.4);
  CHECK(reached(e, "attention_plain_backward") == 0.8);
  CHECK(reached(e, "linear_backward_weight") == 0.8);
}
