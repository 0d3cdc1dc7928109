// SGD with momentum: each step follows a running sum of the gradients.
//
//     b = momentum b + g + decay w          g: the gradient
//     w = w - lr b
//
// Cost per parameter: 6 FLOPs; without momentum reads 8 bytes and writes 4, with it 12 and 8.
// PyTorch's form: the learning rate multiplies the whole of b, so a change of it acts at once.
#pragma once

#include "yotta/nn/optimizer.hpp"

#if YOTTA_BODIES_OF(nn)
#include "yotta/core/parallel_for.hpp"
#endif

namespace yotta {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;  // on matrices only
};

class Sgd : public Optimizer {
 public:
  YOTTA_API explicit Sgd(const std::vector<ParameterPtr>& parameters, SgdOptions options = {});

 protected:
  YOTTA_API void update(Slot& slot, double learning_rate, double scale) override;

 private:
  SgdOptions options_;
};

#if YOTTA_BODIES_OF(nn)

Sgd::Sgd(const std::vector<ParameterPtr>& parameters, SgdOptions options)
    : Optimizer(parameters, options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"}
                                                  : std::vector<std::string>{}),
      options_(options) {}

void Sgd::update(Slot& slot, double learning_rate, double scale) {
  Tensor& weight = slot.weight();
  const int64_t n = weight.numel();
  const double bytes = static_cast<double>(weight.nbytes());
  const bool has_momentum = !slot.state.empty();
  charge({"sgd", weight.dtype(), 6.0 * static_cast<double>(n), (has_momentum ? 3 : 2) * bytes,
          (has_momentum ? 2 : 1) * bytes});
  if (weight.device() == Device::meta) return;
  visit_real(weight.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    Real* w = weight.data<Real>();
    const Real* g = slot.parameter->grad.data<Real>();
    Real* b = has_momentum ? slot.state[0].data<Real>() : nullptr;
    const Real rate = static_cast<Real>(learning_rate), clip = static_cast<Real>(scale);
    const Real momentum = static_cast<Real>(options_.momentum);
    const Real decay = static_cast<Real>(slot.parameter->is_matrix ? options_.weight_decay : 0);
    parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Real direction = clip * g[i] + decay * w[i];
        if (b != nullptr) direction = b[i] = momentum * b[i] + direction;
        w[i] -= rate * direction;
      }
    });
  });
}

#endif  // YOTTA_BODIES

}  // namespace yotta
