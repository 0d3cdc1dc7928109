#include "yotta/plan/latency_wall.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace yotta;

TEST_CASE("the largest run takes all its seconds, whatever the batch's growth") {
  for (const double growth : {0.0, 0.3, 0.5})
    for (const double inner : {1.0, 50.0}) {
      const StepLatency latency{0.01, 0.3, inner};
      const BatchGrowth batches{.growth = growth};
      const double tokens = largest_tokens(90 * 86400.0, latency, batches);
      const double seconds = sequential_steps(tokens, batches) * latency.seconds();
      CHECK(std::abs(seconds / (90 * 86400.0) - 1) < 1e-9);
    }
}

TEST_CASE("Llama 3's run: a million steps of 16 million tokens") {
  const BatchGrowth batches;
  CHECK(std::abs(sequential_steps(15.6e12, batches) - 975000) < 1);
  CHECK(std::abs(run_flops(15.6e12) / 7.3e25 - 1) < 0.01);
}

TEST_CASE("half the latency is twice the tokens, and four times the FLOPs") {
  const BatchGrowth batches;
  const double slow = largest_tokens(1e6, {0.1}, batches);
  const double fast = largest_tokens(1e6, {0.05}, batches);
  CHECK(std::abs(fast / slow - 2) < 1e-12);
  CHECK(std::abs(run_flops(fast) / run_flops(slow) - 4) < 1e-12);
  const BatchGrowth grows{.growth = 0.5};  // and with growing batches four times the tokens
  CHECK(std::abs(largest_tokens(1e6, {0.05}, grows) / largest_tokens(1e6, {0.1}, grows) - 4) <
        1e-9);
}

TEST_CASE("DiLoCo divides what lies between the cities by H") {
  CHECK(ring_latency(4, 0.05) == doctest::Approx(0.3));
  CHECK(ring_latency(1, 0.05) == 0);
  CHECK(StepLatency{0.01, 0.3, 500}.seconds() == doctest::Approx(0.0106));
  CHECK(StepLatency{0.01, 0.3, 1}.seconds() == doctest::Approx(0.31));
}
