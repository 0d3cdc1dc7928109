// AdamW: every weight gets a step of its own size, about lr, whatever the scale of its gradient.
//
//     m = b1 m + (1 - b1) g             running mean of the gradient
//     v = b2 v + (1 - b2) g^2           running mean of its square
//     w = w - lr decay w                decoupled: decay is not divided by sqrt(v)
//     w = w - lr m' / (sqrt(v') + eps)  m' = m / (1 - b1^t), v' = v / (1 - b2^t): the means
//                                       start at zero, and this corrects their early bias
//
// One fused pass: reads w, g, m, v and writes w, m, v, 28 bytes per parameter in f32 for about 14
// FLOPs: memory-bound on any machine. Written as separate operations it would read and write each
// several times over.
// References: Kingma and Ba, "Adam" (2015), algorithm 1; Loshchilov and Hutter, "Decoupled Weight
// Decay Regularization" (2019), algorithm 2; formulas as in PyTorch's torch.optim.AdamW.
#pragma once

#include <cmath>

#include "yotta/nn/cpu/body.hpp"
#include "yotta/nn/cpu/math.hpp"
#include "yotta/nn/cpu/step_gate.hpp"
#include "yotta/nn/optimizer.hpp"

namespace yotta {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;  // for language models; PyTorch's default is 0.999
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices only; PyTorch's default is 0.01 on everything
};

class AdamW : public Optimizer {
 public:
  explicit AdamW(const std::vector<ParameterPtr>& parameters, AdamWOptions options = {},
                 Where where = Where::current());

  bool steps_on_device() const override { return true; }
  void set_factors(StepNumbers& now, double learning_rate) const override;

 protected:
  void update(Slot& slot, double learning_rate, double scale) override;

 private:
  AdamWOptions options_;
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

  // The same with what changes from step to step as a device has it.
  YOTTA_HOST_DEVICE AdamWFactors with(const StepNumbers& now, double decay) const {
    AdamWFactors f = *this;
    f.scale = static_cast<Real>(now.scale);
    f.keep = static_cast<Real>(1 - now.learning_rate * decay);
    f.rate = static_cast<Real>(now.rate);
    f.correction = static_cast<Real>(now.correction);
    return f;
  }
};

// One step of weight i.
template <class Real>
struct AdamWStep {
  AdamWFactors<Real> f;
  Real* w;
  const Real* g;
  Real *m, *v;
  template <class Count>
  YOTTA_BODY void operator()(int64_t i, Count count) const {
    const auto gradient = load(g + i, count) * f.scale;
    const auto mean = load(m + i, count) * f.beta1 + gradient * (1 - f.beta1);
    const auto square = load(v + i, count) * f.beta2 + gradient * gradient * (1 - f.beta2);
    const auto size = square_root(square) * f.correction + f.epsilon;
    store(m + i, mean, count);
    store(v + i, square, count);
    store(w + i, load(w + i, count) * f.keep - f.rate * mean / size, count);
  }
  YOTTA_HOST_DEVICE AdamWStep with(const StepNumbers& now, double decay) const {
    return {f.with(now, decay), w, g, m, v};
  }
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/adamw.ipp"
#endif
