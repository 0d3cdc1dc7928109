// Norm: layernorm or rmsnorm as a layer, with its weight and, for layernorm, its bias.
//
//     F   y  = norm(x) w + b     keeps x and one or two numbers per row
//     I   dx                     keeps dy
//     W   dw, db
//
// x (..., C). The formulas and costs are in norm.hpp. Weights start at 1, biases at 0.
#pragma once

#include "yotta/core/options.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/norm.hpp"

namespace yotta {

enum class NormKind : uint8_t { layernorm, rmsnorm };

struct NormOptions {
  NormKind kind = NormKind::layernorm;
  int64_t width = 1;
  double epsilon = 1e-5;
};

// Throws if a number is one that no norm can have.
inline const NormOptions& checked(const NormOptions& o, Where where = Where::current()) {
  check_option(where, "NormOptions::width", o, &NormOptions::width, one_or_more);
  check_option(where, "NormOptions::epsilon", o, &NormOptions::epsilon, zero_or_more);
  return o;
}

class Norm : public Layer {
 public:
  Norm(std::string name, const NormOptions& options, const ParameterOptions& init = {},
       Where where = Where::current())
      : Layer(std::move(name)),
        options_(checked(options, where)),
        weight_(vector(".weight", ones(), init)) {
    if (has_bias()) bias_ = Use(vector(".bias", zeros(), init));
  }

  // x (..., C) -> y (..., C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const Tensor rows = as_rows(x);
    saved.keep("x", rows);
    if (!has_bias()) {
      RmsnormOutput out = rmsnorm(rows, weight_.value_beside(rows), options_.epsilon);
      saved.keep("rstd", std::move(out.rstd));
      return out.y.reshape(x.shape());
    }
    LayernormOutput out =
        layernorm(rows, weight_.value_beside(rows), bias_.value_beside(rows), options_.epsilon);
    saved.keep("mean", std::move(out.mean));
    saved.keep("rstd", std::move(out.rstd));
    return out.y.reshape(x.shape());
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor rows = as_rows(dy);
    saved.keep("dy", rows);
    const Tensor &x = saved.get("x"), &rstd = saved.get("rstd");
    const Tensor weight = weight_.value_beside(x);
    const Tensor dx = has_bias()
                          ? layernorm_backward_input(rows, x, weight, saved.get("mean"), rstd)
                          : rmsnorm_backward_input(rows, x, weight, rstd);
    return dx.reshape(dy.shape());
  }
  void backward_weight(Saved& saved) override {
    const Tensor x = saved.take("x"), dy = saved.take("dy"), rstd = saved.take("rstd");
    if (has_bias())
      layernorm_backward_weight(dy, x, saved.take("mean"), rstd, weight_.grad(), bias_.grad());
    else
      rmsnorm_backward_weight(dy, x, rstd, weight_.grad());
    weight_.mark_grad_ready();
    bias_.mark_grad_ready();
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    to.push_back(weight_.parameter());
    if (has_bias()) to.push_back(bias_.parameter());
  }

 private:
  bool has_bias() const { return options_.kind == NormKind::layernorm; }
  ParameterPtr vector(const char* kind, Initial initial, const ParameterOptions& init) const {
    return make_parameter(name() + kind, {1, options_.width}, false, initial, init.seed,
                          init.dtype);
  }

  NormOptions options_;
  Use weight_;  // (C)
  Use bias_;    // (C)
};

}  // namespace yotta
