// What papers on DiLoCo say of bytes and of the outer step. Their perplexities (16.23 with one
// worker and 15.02 with 8, at H = 500; 2.9% more at H = 1000 than at 50) are those of models of
// their size: no test here trains one.
//
// Douillard et al. (2023), DiLoCo: Distributed Low-Communication Training of Language Models.
// Douillard et al. (2025), Streaming DiLoCo with overlapping communication.
#include <doctest/doctest.h>

#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/diloco.hpp"

using namespace yotta;

namespace {
constexpr int64_t k = 8, H = 500, N = 150'000'000;  // the main run of the paper
}

TEST_CASE("DiLoCo: 8 workers that meet every 500 steps send 500 times less than DDP") {
  const auto ddp = static_cast<double>(H * ddp_bytes_sent_by_all(k, 4 * N));
  const auto diloco = static_cast<double>(mean_bytes_sent(k, N, 4));
  CHECK(ddp / diloco == doctest::Approx(500).epsilon(1e-6).scale(0));
}

TEST_CASE("DiLoCo: the outer step is Nesterov's, with a rate of 0.7 and a momentum of 0.9") {
  const DilocoOptions usual;
  CHECK(usual.learning_rate == 0.7);
  CHECK(usual.momentum == 0.9);
  // Two outer gradients of 1, as PyTorch's SGD with nesterov=True takes them.
  Tensor w = Tensor::zeros({1}, DType::f64), v = Tensor::zeros({1}, DType::f64);
  double expected = 0, momentum = 0;
  for (int step = 0; step < 2; ++step) {
    momentum = 0.9 * momentum + 1;
    expected -= 0.7 * (1 + 0.9 * momentum);
    outer_step(w, v, Tensor::full({1}, w.item({0}) - 1, DType::f64), usual);
    CHECK(w.item({0}) == doctest::Approx(expected).epsilon(1e-12).scale(0));
  }
}

TEST_CASE("Streaming DiLoCo: 4 bits a number; with a scale for each 128 it is a 7.5th of f32") {
  const auto whole = static_cast<double>(mean_bytes_sent(k, N, 4));
  const auto few = static_cast<double>(packed_mean_bytes_sent(k, N, 4));
  CHECK(whole / few == doctest::Approx(32 / (4 + 32.0 / 128)).epsilon(1e-3).scale(0));
}
