#include "course/book/figures/figure.hpp"
#include "yotta/plan/scaling_laws.hpp"
#include "yotta/plan/training_budget.hpp"

namespace book {
namespace {

yotta::LossLaw law_of(double which) {
  return which > 0 ? yotta::chinchilla_refit() : yotta::chinchilla_law();
}

Data data(const std::vector<double>& at) {
  const yotta::LossLaw law = law_of(at[1]);
  const double flops = at[0];
  const yotta::Optimum best = yotta::optimum(law, flops);
  const double N = best.parameters * at[2], D = flops / 6 / N;
  const auto computers = yotta::known_computers();
  const auto years = [&](size_t i, double chips) {
    const yotta::Fleet fleet{.chips = chips, .printed_peak = computers[i].peak, .mfu = 0.4};
    return yotta::run_needs(flops, fleet).seconds / yotta::seconds_a_year;
  };
  Data made;
  made.numbers = {{"N, parameters", "billion", N / 1e9},
                  {"D, tokens", "billion", D / 1e9},
                  {"tokens per parameter", "", D / N},
                  {"loss", "", law(N, D), 4},
                  {"lost to the best size", "", law(N, D) - best.loss},
                  {"on your laptop", "years", years(0, 1)},
                  {"on 1024 H100", "days", years(4, 1024) * 365}};
  Row curve{"loss by size"};
  for (const double share : multiplied(1.0 / 32, 32, 2)) {
    const double n = best.parameters * share;
    curve.values.insert(curve.values.end(), {n, law(n, flops / 6 / n)});
  }
  made.rows = {{"chosen", {N, law(N, D)}, {}}, curve};
  made.code = fmt::format(
      "const yotta::LossLaw law = yotta::{}();\n"
      "const yotta::Optimum best = yotta::optimum(law, {:g});\n"
      "const double N = best.parameters * {}, D = {:g} / 6 / N;\n"
      "fmt::print(\"{{}} parameters, {{}} tokens, loss {{}}\\n\", N, D, law(N, D));",
      at[1] > 0 ? "chinchilla_refit" : "chinchilla_law", flops, at[2], flops);
  return made;
}

}  // namespace

Figure budget_figure() {
  return {"29_budget",
          "You have so many FLOPs. How large a model, on how many tokens, and how much worse is a "
          "model of half or twice that size?",
          {{"budget", "FLOPs", multiplied(1e17, 1e26, std::pow(10.0, 0.5)), 10},
           choice("law", {"Chinchilla's", "its fit made again"}),
           {"size, of the best", "times", multiplied(1.0 / 32, 32, 2), 5}},
          data};
}

}  // namespace book
