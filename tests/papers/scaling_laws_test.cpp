// Scaling laws as their papers print them.
#include <doctest/doctest.h>

#include "yotta/nn/transformer_config.hpp"
#include "yotta/plan/training_budget.hpp"

using namespace yotta;

TEST_CASE("Chinchilla: exponents of the third approach follow from alpha and beta") {
  // Hoffmann et al., table 2: 0.46 and 0.54, from values with more digits than are printed.
  const LossLaw law = chinchilla_law();
  CHECK(law.beta / (law.alpha + law.beta) == doctest::Approx(0.46).epsilon(0.02).scale(0));
  // Besiroglu et al., section 4: about 20 tokens for each weight, as Chinchilla was trained.
  const Optimum best = optimum(chinchilla_refit(), 5.76e23);
  CHECK(best.tokens / best.parameters == doctest::Approx(20).epsilon(0.1));
  CHECK(best.parameters == doctest::Approx(70e9).epsilon(0.05));
  // Their exponent of N, from these digits.
  const LossLaw refit = chinchilla_refit();
  CHECK(refit.beta / (refit.alpha + refit.beta) == doctest::Approx(0.5126).epsilon(1e-4));
  // By the law as it was printed, the same budget wants a model half as large.
  CHECK(optimum(law, 5.76e23).parameters < 45e9);
}

TEST_CASE("Chinchilla 70B on 1.4e12 tokens is better than Gopher 280B on 300e9, by either law") {
  for (const LossLaw& law : {chinchilla_law(), chinchilla_refit()})
    CHECK(law(chinchilla_trained().parameters, chinchilla_trained().tokens) <
          law(gopher_trained().parameters, gopher_trained().tokens));
}

TEST_CASE("Llama 3: 16.55e12 tokens and 402e9 weights at 3.8e25 FLOPs") {
  const double tokens = llama3_tokens_line()(3.8e25);
  CHECK(tokens == doctest::Approx(16.55e12).epsilon(0.02));
  CHECK(3.8e25 / (6 * tokens) == doctest::Approx(402e9).epsilon(0.04));
  // The rounded values of the text do not give it.
  CHECK(PowerLaw{0.29, 0.53}(3.8e25) == doctest::Approx(10.5e12).epsilon(0.01));
  // 405e9 weights on 15.6e12 tokens are 3.8e25 FLOPs.
  CHECK(6.0 * 405e9 * 15.6e12 == doctest::Approx(3.8e25).epsilon(0.01));
}

// Kaplan et al., table 2: alpha_N 0.076, alpha_D 0.103, Nc 6.4e13, Dc 1.8e13. Losses by hand.
TEST_CASE("Kaplan: losses of the printed constants, with endless data and with endless weights") {
  const KaplanLaw law;
  const double endless = 1e40;
  CHECK(law(1e9, endless) == doctest::Approx(2.3188).epsilon(1e-3));   // 64,000^0.076
  CHECK(law(1e6, endless) == doctest::Approx(3.9198).epsilon(1e-3));   // 6.4e7^0.076
  CHECK(law(endless, 22e9) == doctest::Approx(1.9953).epsilon(1e-3));  // 818.2^0.103
  CHECK(law(endless, 22e6) == doctest::Approx(4.0645).epsilon(1e-3));  // 818,182^0.103
}

// Equation 4.4, which the paper derives from these constants: D of 5e3 N^0.74 keeps the loss within
// 2% of that with endless data.
TEST_CASE("Kaplan: 5e3 N^0.74 tokens cost 2% of the loss") {
  const KaplanLaw law;
  for (const double N : {1e6, 1e8, 1e10}) {
    const double over = law(N, 5e3 * std::pow(N, 0.74)) / law(N, 1e40) - 1;
    CHECK(over == doctest::Approx(0.02).epsilon(0.15).scale(0));
  }
}

// The exponent is alpha_D / (alpha_N + alpha_D) = 0.103 / 0.179.
TEST_CASE("Kaplan: the lowest point of the form along 6 N D, and its exponent of 0.575") {
  const KaplanLaw law;
  const Optimum small = optimum(law, 1e20), large = optimum(law, 1e24);
  for (const Optimum& best : {small, large}) {
    CHECK(best.parameters * best.tokens * 6 == doctest::Approx(best.flops));
    for (const double other : {0.8, 0.98, 1.02, 1.25})
      CHECK(law(other * best.parameters, best.tokens / other) > best.loss);
  }
  CHECK(std::log10(large.parameters / small.parameters) / 4 ==
        doctest::Approx(0.103 / 0.179).epsilon(1e-9));
  CHECK_THROWS_AS(optimum(law, 0), Error);
}

TEST_CASE("GPT-3: 3.15e23 FLOPs on 300e9 tokens; a slide's 5.24e23 are all 499e9 of the data set") {
  CHECK(gpt3_trained().flops() == doctest::Approx(3.15e23));
  CHECK(6 * gpt3_trained().parameters * gpt3_data_set == doctest::Approx(5.24e23).epsilon(1e-3));
  // Brown et al., table D.1, count 3.14e23.
  CHECK(gpt3_trained().flops() == doctest::Approx(3.14e23).epsilon(0.005));
}

TEST_CASE("slides: PF-days, and years on one TPU v6e at its peak") {
  const double slide = 6 * gpt3_trained().parameters * gpt3_data_set;
  const double llama = llama3_trained().flops(), peak = chip_named("v6e").bf16;
  CHECK(slide / 1e15 / seconds_a_day == doctest::Approx(6064).epsilon(1e-4));
  CHECK(llama / 1e15 / seconds_a_day == doctest::Approx(438'657).epsilon(0.001));
  CHECK(slide / peak / seconds_a_year == doctest::Approx(18.1).epsilon(0.002));
  CHECK(llama / peak / seconds_a_year == doctest::Approx(1309).epsilon(0.001));
}

TEST_CASE("Llama 3: 16,000 H100 of 700 watts take 11.2 MW") {
  const Fleet fleet{16000, chip_named("h100").bf16, false, 0.4, 700};
  const RunNeeds needs = run_needs(llama3_trained().flops(), fleet);
  CHECK(needs.joules / needs.seconds == doctest::Approx(11.2e6));
}
