#include "yotta/nn/rope_frequencies.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "yotta/nn/rope.hpp"

using namespace yotta;

namespace {
// The frequency of each pair, read off a turn by one position.
std::vector<double> frequencies_of(int64_t d, const RopeFrequencies& asked) {
  Tensor x = Tensor::zeros({1, 1, 1, d}, DType::f64);
  for (int64_t i = 0; i < d / 2; ++i) x.data<double>()[i] = 1;
  const Tensor y = rope(x, 1, asked);
  std::vector<double> all;
  for (int64_t i = 0; i < d / 2; ++i)
    all.push_back(std::atan2(y.item({0, 0, 0, i + d / 2}), y.item({0, 0, 0, i})));
  return all;
}

// What the Llama 3.1 release does to a frequency, case by case of its wavelength in tokens.
double as_released(double frequency, const RopeScaling& s) {
  const double wavelength = 2 * 3.14159265358979323846 / frequency;
  const double context = static_cast<double>(s.original_context);
  if (wavelength < context / s.high_freq_factor) return frequency;
  if (wavelength > context / s.low_freq_factor) return frequency / s.factor;
  const double kept =
      (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return kept * frequency + (1 - kept) * (frequency / s.factor);
}
}  // namespace

TEST_CASE("llama3 scaling is the formula of the Llama 3.1 release") {
  const std::vector<double> plain = frequencies_of(128, 500000.0);
  for (const RopeScaling& scaling : {RopeScaling{8, 1, 4, 8192}, RopeScaling{32, 1, 4, 8192},
                                     RopeScaling{8, 1.5, 3, 1000}, RopeScaling{1, 1, 4, 8192}}) {
    const std::vector<double> ours = frequencies_of(128, {500000, scaling});
    for (size_t i = 0; i < ours.size(); ++i)
      CHECK(ours[i] == doctest::Approx(as_released(plain[i], scaling)).epsilon(1e-12));
  }
  // Llama 3.1's own, as Python computes them: kept, between, divided by 8.
  const std::vector<double> llama31 = frequencies_of(128, {500000, {8, 1, 4, 8192}});
  const std::pair<size_t, double> python[] = {{0, 1.0},
                                              {28, 0.003211445994752591},
                                              {29, 0.002166570763503359},
                                              {31, 0.0008567514129196321},
                                              {34, 0.0001785078127679964},
                                              {35, 9.556212353964683e-05},
                                              {63, 3.068925988914511e-07}};
  for (const auto& [pair, frequency] : python)
    CHECK(llama31[pair] == doctest::Approx(frequency).epsilon(1e-9));
}

TEST_CASE("nothing is scaled unless asked, to the bit") {
  for (const double frequency : {1.0, 0.1, 3e-6}) {
    CHECK(RopeScaling{}.scaled(frequency) == frequency);
    CHECK(RopeScaling{8, 1, 4, 8192}.scaled(1e-6) == 1e-6 / 8);
  }
  CHECK(RopeScaling{8, 1, 4, 8192}.scaled(1) == 1);
  CHECK(RopeFrequencies{}.theta == 10000);
}
