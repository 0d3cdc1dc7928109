// Scaling laws: from the losses of small runs, how large a model should be for a large budget.
// Here the small runs follow a law that is known, so the fit must find it.
#include <fmt/format.h>

#include <cmath>

#include "yotta/plan/scaling_laws.hpp"

using namespace yotta;

int main() {
  const LossLaw truth = chinchilla_refit();
  std::vector<ScalingRun> runs;
  for (const double N : {1e7, 3e7, 1e8, 3e8})      // weights
    for (const double D : {1e9, 3e9, 1e10, 3e10})  // tokens
      runs.push_back({N, D, 6 * N * D, truth(N, D)});
  const LossLaw law = fit_loss_law(runs);
  const double budget = 5.76e23;  // FLOPs of Chinchilla
  const Optimum best = optimum(law, budget);
  fmt::print("{:.2e} FLOPs: {:.0f} billion weights, {:.0f} tokens for each, loss {:.3f}\n", budget,
             best.parameters / 1e9, best.tokens / best.parameters, best.loss);
  const double smaller = truth(best.parameters / 1.2, best.tokens * 1.2);
  const double larger = truth(best.parameters * 1.2, best.tokens / 1.2);
  const bool right = std::abs(6 * best.parameters * best.tokens / budget - 1) < 1e-6 &&
                     best.loss < smaller && best.loss < larger &&
                     std::abs(best.loss - truth(best.parameters, best.tokens)) < 1e-3;
  if (!right) fmt::print("the best must cost the budget, and other sizes must lose more\n");
  return right ? 0 : 1;
}
