// AdamW: every weight gets a step of its own size, about lr, whatever the scale of its gradient.
//
//     m = b1 m + (1 - b1) g             running mean of the gradient
//     v = b2 v + (1 - b2) g^2           running mean of its square
//     w = w - lr decay w                decoupled: decay is not divided by sqrt(v)
//     w = w - lr m' / (sqrt(v') + eps)  m' = m / (1 - b1^t), v' = v / (1 - b2^t): the means start at
//                                       zero, and this corrects their early bias
//
// One fused pass: reads w, g, m, v and writes w, m, v, 28 bytes a parameter in f32 for about 14 FLOPs:
// memory-bound on any machine. Written as separate operations it would read and write each several
// times over.
// References: Kingma and Ba, "Adam" (2015), algorithm 1; Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization" (2019), algorithm 2; formulas as in PyTorch's torch.optim.AdamW.
#pragma once

#include <cmath>

#include "yotta/nn/optimizer.hpp"
#include "yotta/nn/vectors.hpp"

namespace yotta {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;  // for language models; PyTorch's default is 0.999
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices only; PyTorch's default is 0.01 on everything
};

// The formula's factors of one step, ready for the loop.
template <class Real>
struct AdamWFactors {
  Real beta1, beta2, scale, keep, rate, correction, epsilon;

  AdamWFactors(const AdamWOptions& o, double learning_rate, double gradient_scale, bool decays,
               int64_t steps)
      : beta1(static_cast<Real>(o.beta1)),
        beta2(static_cast<Real>(o.beta2)),
        scale(static_cast<Real>(gradient_scale)),
        keep(static_cast<Real>(decays ? 1 - learning_rate * o.weight_decay : 1)),
        rate(static_cast<Real>(learning_rate / (1 - std::pow(o.beta1, steps)))),
        correction(static_cast<Real>(1 / std::sqrt(1 - std::pow(o.beta2, steps)))),
        epsilon(static_cast<Real>(o.epsilon)) {}
};

// Lane by lane: compilers have no portable vector square root.
template <class Real>
[[gnu::always_inline]] inline Vector<Real> vector_sqrt(Vector<Real> x) {
  Real lane[lane_count<Real>];
  std::memcpy(lane, &x, sizeof x);
  for (Real& each : lane) each = std::sqrt(each);
  std::memcpy(&x, lane, sizeof x);
  return x;
}

// n weights, their gradients and their state, through one step.
template <class Real>
void adamw_step(const AdamWFactors<Real>& f, int64_t n, Real* w, const Real* g, Real* m, Real* v) {
  for_lanes<Real>(n, [&](int64_t i, auto count) {
    const Vector<Real> gradient = load(g + i, count) * f.scale;
    const Vector<Real> mean = load(m + i, count) * f.beta1 + gradient * (1 - f.beta1);
    const Vector<Real> square = load(v + i, count) * f.beta2 + gradient * gradient * (1 - f.beta2);
    const Vector<Real> size = vector_sqrt<Real>(square) * f.correction + f.epsilon;
    store(m + i, mean, count);
    store(v + i, square, count);
    store(w + i, load(w + i, count) * f.keep - f.rate * mean / size, count);
  });
}

class AdamW : public Optimizer {
 public:
  explicit AdamW(const std::vector<ParameterPtr>& parameters, AdamWOptions options = {})
      : Optimizer(parameters, {"exp_avg", "exp_avg_sq"}), options_(options) {}

 protected:
  void update(Slot& slot, double learning_rate, double scale) override {
    Tensor& weight = slot.weight();
    const int64_t n = weight.numel();
    const double bytes = static_cast<double>(weight.nbytes());
    charge({"adamw", weight.dtype(), 14 * static_cast<double>(n), 4 * bytes, 3 * bytes});
    if (weight.device() == Device::meta) return;
    visit_real(weight.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
      const bool decays = slot.parameter->is_matrix;
      const AdamWFactors<Real> factors(options_, learning_rate, scale, decays, steps());
      Real* w = weight.data<Real>();
      const Real* g = slot.parameter->grad.data<Real>();
      Real* m = slot.state[0].data<Real>();
      Real* v = slot.state[1].data<Real>();
      parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
        adamw_step(factors, end - begin, w + begin, g + begin, m + begin, v + begin);
      });
    });
  }

 private:
  AdamWOptions options_;
};

}  // namespace yotta
