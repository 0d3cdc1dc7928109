#include "yotta/nn/adamw.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
// Plain double arithmetic, one weight at a time, straight from the formula.
struct Reference {
  double w, m = 0, v = 0;
  void step(double g, int t, double lr, const AdamWOptions& o) {
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    w -= lr * o.weight_decay * w;
    w -= lr * (m / (1 - std::pow(o.beta1, t))) /
         (std::sqrt(v / (1 - std::pow(o.beta2, t))) + o.epsilon);
  }
};
double worst_difference(DType dtype, int64_t n, int threads) {
  RankContext rank;
  const ContextScope scope(rank);
  rank.threads = threads;
  const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0.1};
  const ParameterPtr w = make_parameter("w", {1, n}, true, normal(1), 0, dtype);
  std::vector<Reference> references;
  for (const double value : w->value.values()) references.push_back({value});
  AdamW adamw({w}, options);
  double worst = 0;
  for (int t = 1; t <= 4; ++t) {
    fill_initial(w->gradient(), {1, n}, normal(0.3), static_cast<uint64_t>(t), "gradient");
    const std::vector<double> g = w->grad.values();
    adamw.step(0.01 * t, 0.5);
    const std::vector<double> values = w->value.values();
    for (size_t i = 0; i < values.size(); ++i) {
      references[i].step(0.5 * g[i], t, 0.01 * t, options);
      const double difference = std::abs(values[i] - references[i].w);
      if (!(difference <= worst)) worst = difference;  // NaN sticks
    }
  }
  return worst;
}
}  // namespace

TEST_CASE("AdamW agrees with the plain formula at every length and number of threads") {
  for (const int64_t n : {1, 15, 16, 17, 40000})
    for (const int threads : {1, 3}) {
      CHECK(worst_difference(DType::f64, n, threads) <= 1e-14);
      CHECK(worst_difference(DType::f32, n, threads) <= 2e-6);
    }
}

// torch.optim.AdamW in f64: weights 1, -2, 0.5; gradients below; lr 0.1, betas 0.9, 0.999, decay
// 0.01.
TEST_CASE("AdamW gives PyTorch's numbers") {
  const ParameterPtr w = make_parameter("w", {1, 3}, true, zeros(), 0, DType::f64);
  w->value = Tensor::from<double>({1, -2, 0.5}, {1, 3});
  AdamW adamw({w}, {.beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0.01});
  const std::vector<std::vector<double>> gradients = {{0.5, -1, 2}, {-0.25, 3, 1e-3}, {0, 1, -1}};
  for (const std::vector<double>& g : gradients) {
    w->gradient().copy_from(Tensor::from<double>(g, {1, 3}));
    adamw.step(0.1);
  }
  const std::vector<double> torch = {0.85000790168676232, -1.9992674724364397, 0.31397295080206861};
  for (size_t i = 0; i < 3; ++i) CHECK(std::abs(w->value.values()[i] - torch[i]) <= 1e-14);
}

TEST_CASE("biases and norms do not decay, and 28 bytes a parameter are moved") {
  RankContext rank;
  const ContextScope scope(rank);
  const ParameterPtr bias = make_parameter("b", {1, 3}, false, ones(), 0, DType::f32);
  bias->gradient();
  AdamW adamw({bias}, {.weight_decay = 0.5});
  adamw.step(0.1);
  CHECK(bias->value.values() == std::vector<double>{1, 1, 1});
  CHECK(rank.ledger.op("adamw").bytes_read + rank.ledger.op("adamw").bytes_written == 28 * 3);
  CHECK(rank.ledger.memory()->live(MemoryKind::optimizer) == 2 * 12);
}
