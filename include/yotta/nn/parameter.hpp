// Parameter: a named weight with its gradient, and the moment when its gradient is ready.
//
// Two things matter when a model is spread over ranks. First, a weight's initial values must be
// those of the whole model, whoever holds which shard (initial.hpp). Second, whoever reduces
// gradients over ranks must know when one is ready. A weight may be used in
// two places (GPT-2's token table is also its output matrix). Every use reports its weight gradient
// (wgrad); on_grad_ready fires when all uses have reported equally often, that is once per
// microbatch:
//
//     head's wgrad        ── mark_grad_ready ──┐
//                                              ├──> on_grad_ready(parameter)
//     embedding's wgrad   ── mark_grad_ready ──┘
//
// With gradient accumulation it fires for each microbatch; the listener knows which is the last.
//
// Types: value is f32 (f64 for gradient checks) or bf16. Linear layers multiply bf16 by bf16 and
// sum in f32; rows of a bf16 table are read as they are; norms widen each weight as they read it.
// Gradients of bf16 weights are summed in f32.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yotta/core/system/kernel_batch.hpp"
#include "yotta/nn/initial.hpp"

namespace yotta {

struct Parameter {
  std::string name;
  Tensor value;      // this rank's shard
  Tensor grad;       // the same shape; undefined until the first wgrad
  ShardRange range;  // of the whole parameter
  Initial initial;   // what its values began as, drawn with this seed
  uint64_t seed = 0;
  bool is_matrix = true;  // weight decay applies to these, not to biases and norms
  int uses = 0;           // how many layers use it
  int copies = 1;  // ranks that hold these same numbers of a split model; a norm counts them once
  std::function<void(Parameter&)> on_grad_ready;  // grad is complete for this microbatch

  // The value in the type that layers compute in: a copy in f32 if it is stored in 16 bits.
  Tensor wide() const { return bytes_of(value.dtype()) < 4 ? value.to(DType::f32) : value; }

  // The gradient to accumulate into; zeros the first time.
  Tensor& gradient() {
    if (!grad.defined()) {
      const MemoryScope memory(MemoryKind::gradients);
      const DeviceScope device(value.device());
      grad = Tensor::zeros(value.shape(), bytes_of(value.dtype()) < 4 ? DType::f32 : value.dtype());
    }
    return grad;
  }
  void zero_grad() {
    if (grad.defined()) grad.zero();
  }

  // Use number `use` has added its gradient for one more microbatch.
  void mark_grad_ready(int use) {
    reports_.resize(static_cast<size_t>(uses));
    const int64_t complete = *std::min_element(reports_.begin(), reports_.end());
    ++reports_[static_cast<size_t>(use)];
    const bool one_more = *std::min_element(reports_.begin(), reports_.end()) > complete;
    if (one_more && on_grad_ready) on_grad_ready(*this);
  }

 private:
  std::vector<int64_t> reports_;  // by use: wgrads so far
};

using ParameterPtr = std::shared_ptr<Parameter>;

// Throws unless a parameter can hold such a range. Rows beyond the whole's last one are padding.
inline void check_range(const std::string& name, const ShardRange& r, Where where) {
  if (r.rows < 0 || r.columns < 0 || r.first_row < 0 || r.first_column < 0 || r.whole_rows < 0 ||
      r.first_column + r.columns > r.all_columns())
    fail(where,
         "{}: rows {} on and columns {} on, {} and {} of them, of a whole of ({}, {}); none is "
         "negative, and columns lie in the whole",
         name, r.first_row, r.first_column, r.rows, r.columns, r.all_rows(), r.all_columns());
}

// A new parameter with its initial values, on context().device.
inline ParameterPtr make_parameter(std::string name, const ShardRange& range, bool is_matrix,
                                   Initial initial, uint64_t seed, DType dtype,
                                   Where where = Where::current()) {
  check_range(name, range, where);
  const MemoryScope memory(MemoryKind::parameters);
  ParameterPtr parameter = std::make_shared<Parameter>();
  parameter->name = std::move(name);
  parameter->is_matrix = is_matrix;
  parameter->range = range;
  parameter->initial = initial;
  parameter->seed = seed;
  parameter->value =
      Tensor::empty(is_matrix ? Shape{range.rows, range.columns} : Shape{range.columns}, dtype);
  fill_initial(parameter->value, range, initial, seed, parameter->name);
  return parameter;
}

// A layer's hold on a parameter. Making one registers a use.
class Use {
 public:
  Use() = default;  // of nothing: a layer without a bias
  explicit Use(ParameterPtr parameter)
      : parameter_(std::move(parameter)), index_(parameter_->uses++) {}
  // A second Use of one parameter is made on purpose, never by a copy.
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Use(Use&&) = default;
  Use& operator=(Use&&) = default;

  bool defined() const { return parameter_ != nullptr; }
  const ParameterPtr& parameter() const { return parameter_; }
  // The value to compute with; undefined if there is no parameter.
  Tensor value() const { return defined() ? parameter_->wide() : Tensor(); }
  // The same for an op that widens what is stored as its x is.
  Tensor value_beside(const Tensor& x) const {
    return defined() && dtype() == x.dtype() ? parameter_->value : value();
  }
  DType dtype() const { return parameter_->value.dtype(); }
  Tensor& grad() const { return parameter_->gradient(); }
  // This use has added its weight gradient for the microbatch.
  void mark_grad_ready() const {
    if (defined()) after_launch([own = parameter_, use = index_] { own->mark_grad_ready(use); });
  }

 private:
  ParameterPtr parameter_;
  int index_ = 0;
};

}  // namespace yotta
