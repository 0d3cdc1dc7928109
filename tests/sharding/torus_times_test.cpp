#include "yotta/sharding/torus_times.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/message_of.hpp"

using namespace yotta;

namespace {
constexpr TorusLinks links{90e9, 1e-6};
}

TEST_CASE("the time of an all_gather: bytes over what all axes carry, or hops") {
  CHECK(torus_gather_seconds(links, {4}, 9e9) == doctest::Approx(0.1).scale(0));
  CHECK(torus_gather_seconds(links, {4, 4, 4}, 9e9) == doctest::Approx(0.1 / 3).scale(0));
  CHECK(torus_gather_seconds(links, {4, 1}, 9e9) ==
        doctest::Approx(0.1).scale(0));  // Y sends nothing
  CHECK(torus_gather_seconds(links, {8, 4}, 100) == doctest::Approx(6e-6).scale(0));
  CHECK(torus_gather_seconds(links, {1}, 9e9) == 0);
  CHECK(torus_all_reduce_seconds(links, {4}, 9e9) == 2 * torus_gather_seconds(links, {4}, 9e9));
  CHECK(torus_all_to_all_seconds(links, 4, 9e9) == torus_gather_seconds(links, {4}, 9e9) / 4);
  CHECK(torus_all_to_all_seconds(links, 1, 9e9) == 0);
}

TEST_CASE(
    "counted hop by hop, all_to_all takes a quarter of a bidirectional ring, half of another") {
  for (const int n : {2, 4, 8, 16, 64}) {  // N / 4W: a link of one direction has W / 2
    CHECK(ring_all_to_all_link_bytes(n, 2, 1) == doctest::Approx(1 / 8.0).epsilon(1e-12));
    CHECK(ring_all_to_all_link_bytes(n, 1, 1) / ring_gather_link_bytes(n, 1, 1) ==
          doctest::Approx(0.5).epsilon(1e-12));
    // The gather's N / W leaves (p-1)/p out, so its quarter is that of the rounded time.
    CHECK(ring_gather_link_bytes(n, 2, 1) == doctest::Approx(0.5 * (n - 1) / n).epsilon(1e-12));
  }
  for (const int n : {3, 5, 7})  // a little less than a quarter: (n^2 - 1) / n^2
    CHECK(ring_all_to_all_link_bytes(n, 2, 1) ==
          doctest::Approx((n * n - 1.0) / (8 * n * n)).epsilon(1e-12));
}

TEST_CASE("links that carry nothing are refused") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const TorusLinks wrong :
       {TorusLinks{}, TorusLinks{-1, 0}, TorusLinks{nan, 0}, TorusLinks{1, -1}, TorusLinks{1, nan}})
    for (const std::string& message :
         {yotta_test::message_of([&] { torus_gather_seconds(wrong, {4}, 8); }),
          yotta_test::message_of([&] { torus_all_reduce_seconds(wrong, {1}, 8); }),
          yotta_test::message_of([&] { torus_all_to_all_seconds(wrong, 4, 8); })})
      CHECK(yotta_test::contains(message, "bytes/s and"));
}

TEST_CASE("thresholds are where computing and sending take equally long") {
  const double flops = 4.59e14, W = 1.8e11, D = 8192, F = 32768;
  // FSDP: a chip's share of one matrix product, against one all_gather of the weights.
  const double tokens = flops_per_sent_byte(flops, W);
  CHECK(2 * tokens * D * F / flops ==
        doctest::Approx(torus_gather_seconds({W, 0}, {8}, 2 * D * F)));
  // Tensor parallelism: a product of B tokens over Y chips against the gather of its input.
  const double B = 4096, Y = most_tensor_parallel(F, flops, W);
  CHECK(2 * B * D * F / Y / flops == doctest::Approx(torus_gather_seconds({W, 0}, {8}, 2 * B * D)));
  // Two chips swap partial sums of a product.
  const double width = least_width_of_two(1.97e14, 4.5e10);
  CHECK(2 * B * width * F / 2 / 1.97e14 == doctest::Approx(2 * B * F / 4.5e10));
}

TEST_CASE("the mixture: no other X sends less, and its bound is where it is compute-bound") {
  const double flops = 4.59e14, W = 1.8e11, F = 32768, D = 8192;
  for (const auto& [axes_x, axes_y] : {std::pair{1.0, 1.0}, {2.0, 1.0}, {1.0, 2.0}}) {
    const double N = 1024, B = N * least_tokens_mixed(flops, W, F, axes_x, axes_y);
    // Weights gathered over X, of which a chip has F / Y; activations over Y, of which it has B /
    // X.
    const auto seconds = [&](double X) {
      return 2 * D * F * X / N / (W * axes_x) + 2 * B * D / X / (W * axes_y);
    };
    const double best = best_fsdp_part(B, F, N, axes_x, axes_y);
    CHECK(seconds(best) <= seconds(best * 1.1));
    CHECK(seconds(best) <= seconds(best / 1.1));
    CHECK(seconds(best) == doctest::Approx(2 * B * D * F / N / flops).epsilon(1e-9).scale(0));
  }
}
