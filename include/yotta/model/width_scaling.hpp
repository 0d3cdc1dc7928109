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
// So a small model is searched for its lr, and the large one takes it over. The number of layers
// stays, and so does the head size d: for heads that grow scores would be divided by d, not by
// sqrt(d). The output matrix must not be tied to the token table, which is of another row.
// Letters: C width, d head size.
// Reference: Yang et al., "Tensor Programs V" (2022), table 3 and appendix B.1.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "yotta/nn/adamw.hpp"

namespace yotta {

enum class WidthRole : uint8_t { input, hidden, output };

// By its name in a transformer (transformer.hpp).
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

// Turns the initial values of a model of the base's deviation into those of its width.
inline void scale_initial_values(const std::vector<ParameterPtr>& parameters, double wider,
                                 WidthRule rule = WidthRule::mup) {
  for (const ParameterPtr& each : parameters) {
    const auto factor = static_cast<float>(width_deviation(rule, width_role(*each), wider));
    float* const values = each->value.data<float>();
    for (int64_t i = 0; i < each->value.numel(); ++i) values[i] *= factor;
  }
}

// AdamW with the learning rates of a rule.
class WidthScaledAdamW : public AdamW {
 public:
  WidthScaledAdamW(const std::vector<ParameterPtr>& parameters, double wider,
                   WidthRule rule = WidthRule::mup, AdamWOptions options = {})
      : AdamW(parameters, options), wider_(wider), rule_(rule) {}

 protected:
  void update(Slot& slot, double learning_rate, double scale) override {
    AdamW::update(slot, learning_rate * width_rate(rule_, width_role(*slot.parameter), wider_),
                  scale);
  }

 private:
  double wider_;
  WidthRule rule_;
};

}  // namespace yotta
