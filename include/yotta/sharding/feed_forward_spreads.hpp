// Data parallelism, FSDP, tensor parallelism and FSDP with tensor parallelism: four spreads of one
// layer.
//
//     Out = (In W_in) W_out        In[B, D]  W_in[D, F]  Hidden[B, F]  W_out[F, D]  Out[B, D]
//
//                            In           W_in          Hidden        W_out
//     data parallelism       [B_X, D]     [D, F]        [B_X, F]      [F, D]
//     FSDP                   [B_X, D]     [D_X, F]      [B_X, F]      [F, D_X]
//     tensor parallelism     [B, D]       [D, F_Y]      [B, F_Y]      [F_Y, D]
//     FSDP and tensor        [B_X, D]     [D_X, F_Y]    [B_X, F_Y]    [F_Y, D_X]
//
// The spreads are all that defines a technique; its collectives follow from them. A layer is six
// products, two forward and four backward, and the planner (matmul_plans.hpp) finds the cheapest
// plan of each.
// A gradient is spread as what it is the gradient of, and ' is the transpose:
//
//     Hidden = In W_in       dHidden = dOut W_out'      dW_out = Hidden' dOut
//     Out = Hidden W_out     dIn = dHidden W_in'        dW_in = In' dHidden
//
// An activation between the two works on each number of Hidden, and Hidden is not unreduced in any
// of the four: so nothing is sent for it. For the same reason it is left out here.
// Contract: each product is planned for itself, and what one has gathered is dropped after it.
// Letters: B tokens of a batch, D width of the model, F width of the layer, X and Y axes.
// Reference: Austin et al. (2025), How to scale your model, "Training".
#pragma once

#include <fmt/ranges.h>

#include <array>
#include <string>
#include <vector>

#include "yotta/sharding/matmul_plans.hpp"

namespace yotta {

struct FeedForwardLayout {
  const char *name, *in, *w_in, *hidden, *w_out;
};
inline constexpr std::array<FeedForwardLayout, 4> feed_forward_layouts = {{
    {"data parallelism", "[B_X, D]", "[D, F]", "[B_X, F]", "[F, D]"},
    {"FSDP", "[B_X, D]", "[D_X, F]", "[B_X, F]", "[F, D_X]"},
    {"tensor parallelism", "[B, D]", "[D, F_Y]", "[B, F_Y]", "[F_Y, D]"},
    {"FSDP and tensor", "[B_X, D]", "[D_X, F_Y]", "[B_X, F_Y]", "[F_Y, D_X]"},
}};

struct FeedForwardSizes {
  int64_t B = 0, D = 0, F = 0;
  DType dtype = DType::bf16;
  double flops = 0;  // of a chip; 0: computing takes no time
};

// One of the six products, and the cheapest plan for it.
struct PlannedProduct {
  const char *result, *left, *right;  // "dW_in", "In'", "dHidden"
  MatmulProblem problem;
  MatmulPlan plan;
};

namespace detail {

// The product of two matrices of the layer.
inline MatmulProblem problem_of(const Spread& a, const Spread& b, const FeedForwardSizes& sizes,
                                const NamedMesh& mesh, TorusLinks links) {
  const auto size = [&](const SpreadDim& dim) {
    return dim.name == "B" ? sizes.B : dim.name == "D" ? sizes.D : sizes.F;
  };
  MatmulProblem problem;
  problem.I = size(a.dims[0]), problem.J = size(a.dims[1]), problem.K = size(b.dims[1]);
  problem.dtype = sizes.dtype, problem.mesh = mesh, problem.links = links;
  problem.flops = sizes.flops;
  problem.dims = {a.dims[0].name, a.dims[1].name, b.dims[1].name};
  return problem;
}

}  // namespace detail

// All six in the order in which they run.
inline std::vector<PlannedProduct> feed_forward_plans(const FeedForwardLayout& layout,
                                                      const FeedForwardSizes& sizes,
                                                      const NamedMesh& mesh, TorusLinks links) {
  const auto spread = [&](const char* text) { return parse_spread(text, mesh); };
  const Spread in = spread(layout.in), hidden = spread(layout.hidden);
  const Spread w_in = spread(layout.w_in), w_out = spread(layout.w_out);
  std::vector<PlannedProduct> products;
  const auto add = [&](const char* result, const char* left, const char* right, const Spread& a,
                       const Spread& b, const Spread& c) {
    const MatmulProblem problem = detail::problem_of(a, b, sizes, mesh, links);
    products.push_back({result, left, right, problem, MatmulPlanner(problem).choose(a, b, c)});
  };
  add("Hidden", "In", "W_in", in, w_in, hidden);
  add("Out", "Hidden", "W_out", hidden, w_out, in);
  add("dHidden", "dOut", "W_out'", in, transposed(w_out), hidden);
  add("dW_out", "Hidden'", "dOut", transposed(hidden), in, w_out);
  add("dIn", "dHidden", "W_in'", hidden, transposed(w_in), in);
  add("dW_in", "In'", "dHidden", transposed(in), hidden, w_in);
  return products;
}

// "all_gather W_in over X", joined by commas; "nothing" if nothing is sent. Slices are left out.
inline std::string collectives_of(const PlannedProduct& product) {
  std::vector<std::string> said;
  const auto say = [&](const char* matrix, const std::vector<Step>& steps) {
    for (const Step& step : steps)
      if (step.move != Move::slice)
        said.push_back(fmt::format("{} {} over {}", name(step.move), matrix, step.axes));
  };
  say(product.left, product.plan.of_a);
  say(product.right, product.plan.of_b);
  say(product.result, product.plan.of_c);
  return said.empty() ? "nothing" : fmt::format("{}", fmt::join(said, ", "));
}

// What all six cost, or the first `count` of them.
inline StepCost cost_of(const std::vector<PlannedProduct>& products, size_t count = 6) {
  StepCost sum;
  for (size_t i = 0; i < std::min(count, products.size()); ++i) sum = sum + products[i].plan.cost;
  return sum;
}

}  // namespace yotta
