// Experts: E feed-forward layers, each on its own rows, as one grouped matmul.
//
//     rows (m, C), sorted by expert        counts 2, 0, 3: an expert may have no rows at all
//     . . . . ┐                 w_0 (F, C)
//     . . . . ┘ expert 0  ──>             ──> h (m, F) ──> act ──> down ──> y (m, C)
//     . . . . ┐                 w_2 (F, C)
//     . . . . │ expert 2  ──>
//     . . . . ┘
//
//     swiglu   y = down_e (silu(gate_e x) * up_e x)     3 C F weights per expert, as in Mixtral
//     gelu     y = down_e gelu(up_e x)                  2 C F weights per expert
//
// A loop over experts would be E small matmuls; a grouped matmul is one launch whose tiles belong
// to different experts, and is charged as one op. Experts have no biases.
//
// A rank may hold some of the experts (expert parallelism), and of each some of its F hidden
// numbers (tensor parallelism: then y is a part of the sum). Each expert's weights are parameters
// of their own, "experts.3.up.weight" with 3 counted in the whole layer, with the values that they
// have in the whole model.
//
// Cost: 2 C F FLOPs per weight matrix and row, twice that backward; the counts change nothing but
// the balance. Saved keeps the rows, h (and gate), and the activation's output.
// Letters: m rows, C width, F hidden width, E experts.
// References: Shazeer et al. 2017; Gale et al. 2022, MegaBlocks, section 5.
#pragma once

#include <span>

#include "yotta/nn/layer.hpp"
#include "yotta/nn/linear_ops.hpp"
#if YOTTA_BODIES_OF(nn)
#include "yotta/nn/activations.hpp"
#include "yotta/nn/linear.hpp"
#endif  // YOTTA_BODIES

namespace yotta {

// y (m, O) = each expert's rows of x (m, I) times its w (O, I)'. counts[e] rows for w[e].
YOTTA_API Tensor grouped_linear(const Tensor& x, std::span<const int64_t> counts,
                                std::span<const Tensor> w, Where where = Where::current());
// dx (m, I) = dy (m, O) w, or dx += dy w.
YOTTA_API void grouped_linear_backward_input_into(Tensor& dx, Into into, const Tensor& dy,
                                                  std::span<const int64_t> counts,
                                                  std::span<const Tensor> w,
                                                  Where where = Where::current());
// dw[e] (O, I) += dy' x over the rows of expert e.
YOTTA_API void grouped_linear_backward_weight(const Tensor& dy, const Tensor& x,
                                              std::span<const int64_t> counts,
                                              std::span<Tensor* const> dw,
                                              Where where = Where::current());

struct ExpertsOptions {
  bool gated = true;              // swiglu; else gelu
  int64_t width = 1, hidden = 4;  // C, F of each
  int64_t experts = 1;            // E
  Initial initial = normal(0.02);
  Initial initial_down = normal(0.02);
  // What is held here; 0 experts, 0 hidden: all.
  int64_t first_expert = 0, held_experts = 0;
  int64_t first_hidden = 0, held_hidden = 0;
};

class Experts {
 public:
  YOTTA_API Experts(std::string name, const ExpertsOptions& options,
                    const ParameterOptions& init = {});

  const std::string& name() const { return name_; }
  const ExpertsOptions& options() const { return options_; }  // held_* are filled in
  DType dtype() const { return up_[0].dtype(); }

  // F: rows (m, C) -> (m, C); counts[i]: rows of expert first_expert + i.
  YOTTA_API Tensor forward(const Tensor& rows, std::span<const int64_t> counts, Saved& saved);
  // I: dy (m, C) -> drows (m, C).
  YOTTA_API Tensor backward_input(const Tensor& dy, Saved& saved);
  // W: adds to the gradients of all experts held here, those without rows included.
  YOTTA_API void backward_weight(Saved& saved);
  YOTTA_API void add_parameters(std::vector<ParameterPtr>& to);

 private:
  std::string name_;
  ExpertsOptions options_;
  std::vector<Use> gate_, up_, down_;  // of each expert held: (F, C), (F, C), (C, F)
};

// Whether this parameter, or the part of one, belongs to one expert of many; by its name. Ranks of
// ep hold different ones.
YOTTA_API bool is_expert_parameter(const Parameter& parameter);

#if YOTTA_BODIES_OF(nn_linear)

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

Tensor grouped_linear(const Tensor& x, std::span<const int64_t> counts, std::span<const Tensor> w,
                      Where where) {
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

void grouped_linear_backward_input_into(Tensor& dx, Into into, const Tensor& dy,
                                        std::span<const int64_t> counts, std::span<const Tensor> w,
                                        Where where) {
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

void grouped_linear_backward_weight(const Tensor& dy, const Tensor& x,
                                    std::span<const int64_t> counts, std::span<Tensor* const> dw,
                                    Where where) {
  constexpr const char* op = "grouped_linear_backward_weight";
  charge(detail::grouped_cost(op, x.dtype(), x.dim(0), x.dim(1), dy.dim(1), dw.size()));
  detail::each_group(op, x.dim(0), counts, dw.size(), where, [&](size_t e, int64_t a, int64_t b) {
    detail::add_weight_product(op, dy.rows(a, b), x.rows(a, b), *dw[e], where);
  });
}

#endif  // YOTTA_BODIES

#if YOTTA_BODIES_OF(nn)

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

Experts::Experts(std::string name, const ExpertsOptions& options, const ParameterOptions& init)
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

Tensor Experts::forward(const Tensor& rows, std::span<const int64_t> counts, Saved& saved) {
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

Tensor Experts::backward_input(const Tensor& dy, Saved& saved) {
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

void Experts::backward_weight(Saved& saved) {
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

void Experts::add_parameters(std::vector<ParameterPtr>& to) {
  for (size_t e = 0; e < up_.size(); ++e) {
    if (options_.gated) to.push_back(gate_[e].parameter());
    to.push_back(up_[e].parameter());
    to.push_back(down_[e].parameter());
  }
}

bool is_expert_parameter(const Parameter& parameter) {
  return parameter.name.starts_with("experts.") ||
         parameter.name.find(".experts.") != std::string::npos;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
