// A learning rate that fits all widths: the maximal update parametrization (muP).
//
// Adam changes each weight by about lr, whatever its gradient. A hidden matrix sums over C inputs,
// and their changes are correlated, so one step changes its outputs by about lr C: the best lr of a
// wide model is smaller than that of a narrow one. With muP every matrix has a learning rate and
// initial values of its own, by what grows with the width, and the best lr stays where it is:
//
//     beside a model of the base width      initial deviation                learning rate
//                                           standard           muP           standard   muP
//     token table, norms, biases            1                  1             1          1
//     hidden matrices, C inputs             sqrt(base / C)     sqrt(base/C)  1          base / C
//     output matrix, C inputs               sqrt(base / C)     base / C      1          base / C
//
// So the best lr is searched for on a small model, and the large one takes it over. The number of
// layers stays, and so does the head size d: for heads that grow scores would be divided by d, not
// by sqrt(d). The output matrix must not be tied to the token table, whose rule is another row of
// this table.
//
// Weight decay takes lr x decay of a weight at each step. That product must not change with the
// width: a matrix whose lr is divided keeps lr x decay of the base (independent weight decay).
// AdamW multiplies decay with the divided lr, so that wide matrices would hardly decay at all.
// Letters: C width, d head size.
// Reference: Yang et al., "Tensor Programs V" (2022), table 3 and appendices B.1 and B.3.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "yotta/nn/adamw.hpp"

namespace yotta {

enum class WidthRole : uint8_t { input, hidden, output };

// By its name in a transformer (nn/transformer.hpp).
inline WidthRole width_role(const Parameter& parameter) {
  if (!parameter.is_matrix || parameter.name.starts_with("embedding.")) return WidthRole::input;
  return parameter.name.starts_with("layers.") ? WidthRole::hidden : WidthRole::output;
}

enum class WidthRule : uint8_t { standard, mup };

// What the learning rate is multiplied by: wider = C / base.
inline double width_rate(WidthRule rule, WidthRole role, double wider) {
  return rule == WidthRule::standard || role == WidthRole::input ? 1 : 1 / wider;
}
// And the initial values.
inline double width_deviation(WidthRule rule, WidthRole role, double wider) {
  if (role == WidthRole::input) return 1;
  const bool linear = rule == WidthRule::mup && role == WidthRole::output;
  return linear ? 1 / wider : 1 / std::sqrt(wider);
}

namespace detail {
inline void scale_values(Tensor& tensor, double factor) {
  float* const values = tensor.data<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) values[i] *= static_cast<float>(factor);
}
}  // namespace detail

// Turns the initial values of a model of the base's deviation into those of its width.
inline void scale_initial_values(const std::vector<ParameterPtr>& parameters, double wider,
                                 WidthRule rule = WidthRule::mup) {
  for (const ParameterPtr& each : parameters)
    detail::scale_values(each->value, width_deviation(rule, width_role(*each), wider));
}

// AdamW with the learning rates of a rule. Decay is that of the rate before the rule divides it.
class WidthScaledAdamW : public AdamW {
 public:
  WidthScaledAdamW(const std::vector<ParameterPtr>& parameters, double wider,
                   WidthRule rule = WidthRule::mup, AdamWOptions options = {})
      : AdamW(parameters, without_decay(options)),
        decay_(options.weight_decay),
        wider_(wider),
        rule_(rule) {}

 protected:
  void update(Slot& slot, double learning_rate, double scale) override {
    if (slot.parameter->is_matrix) detail::scale_values(slot.weight(), 1 - learning_rate * decay_);
    AdamW::update(slot, learning_rate * width_rate(rule_, width_role(*slot.parameter), wider_),
                  scale);
  }

 private:
  static AdamWOptions without_decay(AdamWOptions options) {
    options.weight_decay = 0;
    return options;
  }

  double decay_, wider_;
  WidthRule rule_;
};

}  // namespace yotta
