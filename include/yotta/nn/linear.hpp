// Linear: y = x W' + b, the layer in which nearly all FLOPs of a transformer are spent.
//
//     x (N, I)  ──>  y (N, O)         W (O, I), b (O): rows of W are outputs, as in PyTorch
//     F   y  = x W' + b       2 N I O FLOPs      keeps x
//     I   dx = dy W           2 N I O            keeps dy; x stays
//     W   dW += dy' x         2 N I O            uses both up
//         db += column sums of dy
//
// With bf16 weights x and dy are kept in bf16, products are summed in f32, and y is rounded to bf16
// once: what a tensor core does. y has the type of x, and dx that of dy: in a bf16 model bf16 flows
// from layer to layer. Where x is f32, y is f32 too, with bf16's values, rounded when its sums are
// whole. Gradients of weights are f32 (f64).
// Leading dims of x are free: (B, T, I) gives (B, T, O).
// Letters: N = B T tokens, I inputs, O outputs.
#pragma once

#include "yotta/core/options.hpp"
#include "yotta/nn/layer.hpp"
#include "yotta/nn/linear_ops.hpp"

namespace yotta {

// x as (rows, last dim): what the ops work on.
inline Tensor as_rows(const Tensor& x) { return x.reshape({-1, x.dim(-1)}); }

// y (rows, O) with the leading dims of x: (B, T, O).
inline Tensor with_leading_dims_of(const Tensor& x, const Tensor& y) {
  Shape shape = x.shape();
  shape.back() = y.dim(-1);
  return y.reshape(std::move(shape));
}

struct LinearOptions {
  int64_t inputs, outputs;
  bool bias = false;
  Initial initial = normal(0.02);
  // Where these outputs and inputs begin in a larger layer, and how many it has; 0: as here.
  int64_t first_output = 0, whole_outputs = 0;
  int64_t first_input = 0, whole_inputs = 0;
  bool adds_bias = true;  // false: the bias is held and trained here, and added elsewhere
};

// Which range of the whole weight (O, I) and of the whole bias (O) such a layer holds.
constexpr ShardRange weight_range(const LinearOptions& o) {
  return {o.outputs, o.inputs, o.first_output, o.first_input, o.whole_outputs, o.whole_inputs};
}
constexpr ShardRange bias_range(const LinearOptions& o) {
  return {1, o.outputs, 0, o.first_output, 1, o.whole_outputs};
}

// How many numbers it holds.
constexpr int64_t parameter_count(const LinearOptions& o) {
  return o.inputs * o.outputs + (o.bias ? o.outputs : 0);
}

class Linear : public Layer {
 public:
  Linear(std::string name, const LinearOptions& options, const ParameterOptions& init = {},
         Where where = Where::current())
      : Layer(std::move(name)),
        weight_(make_parameter(this->name() + ".weight", weight_range(options), true,
                               options.initial, init.seed, init.dtype, where)),
        adds_bias_(options.bias && options.adds_bias) {
    check_option(where, "LinearOptions::inputs", options, &LinearOptions::inputs, one_or_more);
    check_option(where, "LinearOptions::outputs", options, &LinearOptions::outputs, one_or_more);
    if (options.bias)
      bias_ = Use(make_parameter(this->name() + ".bias", bias_range(options), false, zeros(),
                                 init.seed, init.dtype, where));
  }

  // Takes over another layer's weights: for a layer that does the same on several ranks.
  explicit Linear(Linear&& serial)
      : Layer(serial.name()),
        weight_(std::move(serial.weight_)),
        bias_(std::move(serial.bias_)),
        adds_bias_(serial.adds_bias_) {}

  // Uses a weight (O, I) that another layer has made: a tied output matrix.
  Linear(std::string name, ParameterPtr tied) : Layer(std::move(name)), weight_(std::move(tied)) {}

  // x (..., I) -> y (..., O)
  Tensor forward(const Tensor& x, Saved& saved) override { return rounded(sums(x, saved)); }

  // dy (..., O) -> dx (..., I)
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor rows = keep_dy(dy, saved);
    Tensor dx = empty_beside(rows, {rows.dim(0), weight().dim(1)}, dy.dtype(), Where::current());
    linear_backward_input_into(dx, Into::overwrite, rows, weight());
    return with_leading_dims_of(dy, dx);
  }

  // dx (..., I) += what this layer gives to it, for layers that share an input.
  void add_backward_input(Tensor& dx, const Tensor& dy, Saved& saved) {
    Tensor sum = as_rows(dx);
    linear_backward_input_into(sum, Into::accumulate, keep_dy(dy, saved), weight());
  }
  void backward_weight(Saved& saved) override {
    const Tensor x = saved.take("x"), dy = saved.take("dy");
    linear_backward_weight(dy, x, weight_.grad());
    weight_.mark_grad_ready();
    if (!bias_.defined()) return;
    bias_backward(dy, bias_.grad());
    bias_.mark_grad_ready();
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    to.push_back(weight_.parameter());
    if (bias_.defined()) to.push_back(bias_.parameter());
  }

  Parameter& weight_parameter() const { return *weight_.parameter(); }
  Parameter* bias_parameter() const { return bias_.parameter().get(); }  // none: null
  // false: the bias is held and trained here, and added elsewhere.
  void set_adds_bias(bool adds) { adds_bias_ = adds && bias_.defined(); }

 protected:
  // y as it is summed, in x's type: a layer whose inputs are split among ranks has
  // one term of each sum.
  Tensor sums(const Tensor& x, Saved& saved) const {
    const Tensor rows = as_type(as_rows(x), weight_.dtype());
    saved.keep("x", rows);
    const Tensor bias = adds_bias_ ? as_type(bias_.parameter()->value, x.dtype()) : Tensor();
    return with_leading_dims_of(x, linear_as(x.dtype(), rows, weight(), bias));
  }

  // y as numbers that fit into the weights' type, once it is whole.
  Tensor rounded(Tensor y) const {
    if (bytes_of(weight_.dtype()) < bytes_of(y.dtype())) y.copy_from(y.to(weight_.dtype()));
    return y;
  }

  Use weight_;  // (O, I)

 private:
  const Tensor& weight() const { return weight_.parameter()->value; }
  Tensor keep_dy(const Tensor& dy, Saved& saved) const {
    Tensor rows = as_type(as_rows(dy), weight_.dtype());
    saved.keep("dy", rows);
    return rows;
  }

  Use bias_;  // (O)
  bool adds_bias_ = false;
};

}  // namespace yotta
