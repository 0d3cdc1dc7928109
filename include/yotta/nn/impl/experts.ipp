// The bodies of nn/experts.hpp.
#pragma once

#include "yotta/nn/experts.hpp"

#include "yotta/nn/activations.hpp"
#include "yotta/nn/impl/linear_ops.ipp"
#include "yotta/nn/linear.hpp"

namespace yotta {

namespace detail {

// One op, whatever the number of experts: each weight is read once.
inline OpCost grouped_cost(const char* name, DType dtype, int64_t m, int64_t I, int64_t O,
                           size_t experts) {
  return op_cost(name, dtype, 2 * m * I * O, m * I + static_cast<int64_t>(experts) * I * O, m * O);
}

// Calls one(e, first row, last row) for each expert that has rows.
template <class One>
void each_group(const char* operation, int64_t m, std::span<const int64_t> counts, size_t experts,
                Where where, One one) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  if (sum != m || counts.size() != experts)
    fail(where, "{}: {} rows of {} groups in counts, but {} rows and {} weights", operation, sum,
         counts.size(), m, experts);
  int64_t first = 0;
  for (size_t e = 0; e < counts.size(); first += counts[e++])
    if (counts[e] > 0) one(e, first, first + counts[e]);
}

}  // namespace detail

YOTTA_INLINE Tensor grouped_linear(const Tensor& x, std::span<const int64_t> counts,
                                   std::span<const Tensor> w, Where where) {
  const int64_t m = x.dim(0), O = w.empty() ? 0 : w[0].dim(0);
  charge(detail::grouped_cost("grouped_linear", x.dtype(), m, x.dim(1), O, w.size()));
  Tensor y = empty_beside(x, {m, O}, x.dtype(), where);
  detail::each_group("grouped_linear", m, counts, w.size(), where,
                     [&](size_t e, int64_t a, int64_t b) {
                       const Tensor rows = x.rows(a, b);
                       Tensor to = y.rows(a, b);
                       detail::expect_linear("grouped_linear", rows, w[e], 1, where);
                       detail::multiply_into(
                           "grouped_linear", rows, w[e], [](auto view) { return transposed(view); },
                           to, Into::overwrite, where);
                     });
  return y;
}

YOTTA_INLINE void grouped_linear_backward_input_into(Tensor& dx, Into into, const Tensor& dy,
                                                     std::span<const int64_t> counts,
                                                     std::span<const Tensor> w, Where where) {
  constexpr const char* op = "grouped_linear_backward_input";
  charge(detail::grouped_cost(op, dy.dtype(), dy.dim(0), dy.dim(1), dx.dim(1), w.size()));
  detail::each_group(op, dy.dim(0), counts, w.size(), where, [&](size_t e, int64_t a, int64_t b) {
    const Tensor rows = dy.rows(a, b);
    Tensor to = dx.rows(a, b);
    detail::expect_linear(op, rows, w[e], 0, where);
    detail::multiply_into(
        op, rows, w[e], [](auto view) { return view; }, to, into, where);
  });
}

YOTTA_INLINE void grouped_linear_backward_weight(const Tensor& dy, const Tensor& x,
                                                 std::span<const int64_t> counts,
                                                 std::span<Tensor* const> dw, Where where) {
  constexpr const char* op = "grouped_linear_backward_weight";
  charge(detail::grouped_cost(op, x.dtype(), x.dim(0), x.dim(1), dy.dim(1), dw.size()));
  detail::each_group(op, x.dim(0), counts, dw.size(), where, [&](size_t e, int64_t a, int64_t b) {
    detail::add_weight_product(op, dy.rows(a, b), x.rows(a, b), *dw[e], where);
  });
}

namespace detail {

inline std::vector<Tensor> values_of(const std::vector<Use>& uses) {
  std::vector<Tensor> values;
  for (const Use& each : uses) values.push_back(each.parameter()->value);
  return values;
}

// What this rank holds, with the zeros filled in.
inline ExpertsOptions with_held(ExpertsOptions o, const std::string& layer) {
  if (o.held_experts == 0) o.held_experts = o.experts;
  if (o.held_hidden == 0) o.held_hidden = o.hidden;
  if (o.width < 1 || o.hidden < 1 || o.experts < 1 || o.first_expert < 0 || o.held_experts < 0 ||
      o.first_expert + o.held_experts > o.experts || o.first_hidden < 0 || o.held_hidden < 0 ||
      o.first_hidden + o.held_hidden > o.hidden)
    fail(Where::current(), "{}: experts {} to {} of {}, hidden numbers {} to {} of {}, width {}",
         layer, o.first_expert, o.first_expert + o.held_experts, o.experts, o.first_hidden,
         o.first_hidden + o.held_hidden, o.hidden, o.width);
  return o;
}

}  // namespace detail

YOTTA_INLINE Experts::Experts(std::string name, const ExpertsOptions& options,
                              const ParameterOptions& init)
    : name_(std::move(name)), options_(detail::with_held(options, name_)) {
  const ExpertsOptions& o = options_;
  const LinearOptions in{.inputs = o.width,
                         .outputs = o.held_hidden,
                         .initial = o.initial,
                         .first_output = o.first_hidden,
                         .whole_outputs = o.hidden};
  const LinearOptions out{.inputs = o.held_hidden,
                          .outputs = o.width,
                          .initial = o.initial_down,
                          .first_input = o.first_hidden,
                          .whole_inputs = o.hidden};
  const auto make = [&](std::vector<Use>& to, const char* which, int64_t e,
                        const LinearOptions& as) {
    to.emplace_back(make_parameter(name_ + "." + std::to_string(e) + which, weight_range(as), true,
                                   as.initial, init.seed, init.dtype));
  };
  for (int64_t e = o.first_expert; e < o.first_expert + o.held_experts; ++e) {
    if (o.gated) make(gate_, ".gate.weight", e, in);
    make(up_, ".up.weight", e, in);
    make(down_, ".down.weight", e, out);
  }
}

YOTTA_INLINE Tensor Experts::forward(const Tensor& rows, std::span<const int64_t> counts,
                                     Saved& saved) {
  const Tensor x = as_type(rows, dtype());
  Tensor h = grouped_linear(x, counts, detail::values_of(up_)), active;
  if (options_.gated) {
    const Tensor gate = grouped_linear(x, counts, detail::values_of(gate_));
    active = swiglu(gate, h);
    saved.keep("gate", gate);
  } else {
    active = gelu(h);
  }
  saved.keep("x", x);
  saved.keep("h", h);
  saved.keep("active", active);
  const DeviceScope host(Device::cpu);
  saved.keep("counts", Tensor::from<int64_t>({counts.begin(), counts.end()}, {std::ssize(counts)}));
  return grouped_linear(active, counts, detail::values_of(down_));
}

YOTTA_INLINE Tensor Experts::backward_input(const Tensor& dy, Saved& saved) {
  const std::span<const int64_t> counts = saved.get("counts").span<int64_t>();
  const Tensor h = saved.take("h");
  Tensor dactive = empty_like(h, Where::current());
  grouped_linear_backward_input_into(dactive, Into::overwrite, dy, counts,
                                     detail::values_of(down_));
  Tensor dh, dgate;
  if (options_.gated) {
    SwigluGradients d = swiglu_backward(dactive, saved.take("gate"), h);
    dh = d.dup, dgate = d.dgate;
  } else {
    dh = gelu_backward(dactive, h);
  }
  Tensor dx = empty_like(saved.get("x"), Where::current());
  grouped_linear_backward_input_into(dx, Into::overwrite, dh, counts, detail::values_of(up_));
  if (options_.gated)
    grouped_linear_backward_input_into(dx, Into::accumulate, dgate, counts,
                                       detail::values_of(gate_));
  saved.keep("dy", dy);
  saved.keep("dh", dh);
  if (options_.gated) saved.keep("dgate", dgate);
  return dx;
}

YOTTA_INLINE void Experts::backward_weight(Saved& saved) {
  const Tensor counts = saved.take("counts"), x = saved.take("x");
  const auto add = [&](const std::vector<Use>& uses, const Tensor& dy, const Tensor& from) {
    std::vector<Tensor*> gradients;
    for (const Use& each : uses) gradients.push_back(&each.grad());
    grouped_linear_backward_weight(dy, from, counts.span<int64_t>(), gradients);
    for (const Use& each : uses) each.mark_grad_ready();
  };
  add(down_, saved.take("dy"), saved.take("active"));
  add(up_, saved.take("dh"), x);
  if (options_.gated) add(gate_, saved.take("dgate"), x);
}

YOTTA_INLINE void Experts::add_parameters(std::vector<ParameterPtr>& to) {
  for (size_t e = 0; e < up_.size(); ++e) {
    if (options_.gated) to.push_back(gate_[e].parameter());
    to.push_back(up_[e].parameter());
    to.push_back(down_[e].parameter());
  }
}

YOTTA_INLINE bool is_expert_parameter(const Parameter& parameter) {
  return parameter.name.starts_with("experts.") ||
         parameter.name.find(".experts.") != std::string::npos;
}

}  // namespace yotta
