// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/flash_attention_backward.hpp"

#include <doctest/doctest.h>

#include "device/flash_attention_cases.hpp"

using namespace yotta;

namespace {

struct TwiceTheScore {
  __device__ float operator()(float score, int, int, int, int) const { return 2 * score; }
  __device__ float derivative(float, int, int, int, int) const { return 2; }
};

}  // namespace

TEST_CASE("gradients are those of the formula, with dq by atomics and in a fixed order") {
  for (const AttentionCase& each : attention_cases) {
    const AttentionProblem problem(each.shape, each.logits);
    for (const SumOrder order : {SumOrder::as_blocks_come, SumOrder::fixed})
      with_head_size(problem.shape, [&]<int d>() {
        check_backward(problem, [&](const auto& x) {
          run_flash_backward<FlashSquare<d, 32>>(x, problem.shape, order);
        });
      });
  }
}

TEST_CASE("gradients pass through a modifier by its derivative") {
  AttentionProblem problem({.B = 1, .Tq = 37, .Tk = 37, .H = 2, .Hkv = 2, .d = 32});
  for (double& x : problem.q) x /= 2;  // the scores are as before
  for (double& x : problem.dq) x *= 2;
  problem.dq_size *= 2;
  for (const SumOrder order : {SumOrder::as_blocks_come, SumOrder::fixed})
    check_backward(problem, [&](const auto& x) {
      run_flash_backward<FlashSquare<32, 32>>(x, problem.shape, order, AllQueries{2}, AllKeys{2},
                                              TwiceTheScore{});
    });
}
