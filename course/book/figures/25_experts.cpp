#include <algorithm>
#include <cmath>

#include "course/book/figures/figure.hpp"
#include "yotta/parallel/expert_cost.hpp"

namespace book {
namespace {

constexpr int64_t tokens = 4096, chosen = 2, width = 4096;

// Choices by expert: the i-th is chosen (i + 1)^-skew as often as the first; what is left over by
// rounding goes to the first.
std::vector<int64_t> choices(size_t experts, double skew) {
  double sum = 0;
  for (size_t i = 0; i < experts; ++i) sum += std::pow(static_cast<double>(i + 1), -skew);
  std::vector<int64_t> rows;
  int64_t left = tokens * chosen;
  for (size_t i = 0; i < experts; ++i) {
    const double share = std::pow(static_cast<double>(i + 1), -skew) / sum;
    rows.push_back(static_cast<int64_t>(share * static_cast<double>(tokens * chosen) + 1e-6));
    left -= rows.back();
  }
  rows[0] += left;
  return rows;
}

Data data(const std::vector<double>& at) {
  const auto experts = static_cast<size_t>(at[0]),
             ranks = std::min(static_cast<size_t>(at[1]), experts);
  const std::vector<int64_t> rows = choices(experts, at[2]);
  std::vector<int64_t> of_rank(ranks);
  for (size_t i = 0; i < experts; ++i) of_rank[i * ranks / experts] += rows[i];
  const double factor = yotta::load_factor(of_rank);
  Data made;
  made.numbers = {{"the busiest rank has", "times the mean", factor},
                  {"the others wait", "% of their time, on average", 100 * (1 - 1 / factor)},
                  {"the hottest expert has", "times the mean", yotta::load_factor(rows)},
                  {"rank 0 sends in one exchange", "MB",
                   static_cast<double>(yotta::expert_bytes_sent(of_rank, 0, width, 2)) / 1e6}};
  Row loads{"rows of ranks"}, each{"rows of experts"};
  loads.values.assign(of_rank.begin(), of_rank.end());
  each.values.assign(rows.begin(), rows.end());
  made.rows = {loads, each};
  made.code = fmt::format(
      "const std::vector<int64_t> rows = {{{}}};\n"
      "fmt::print(\"{{}} times the mean\\n\", yotta::load_factor(rows));\n"
      "fmt::print(\"{{}} bytes\\n\", yotta::expert_bytes_sent(rows, 0, {}, 2));",
      fmt::join(of_rank, ", "), width);
  return made;
}

}  // namespace

Figure experts_figure() {
  return {"25_experts",
          "All ranks wait for the one with the hottest experts. How uneven may the choices be "
          "before that costs more than it gains?",
          {{"experts", "", multiplied(4, 64, 2), 2},
           {"ep, ranks", "", multiplied(2, 16, 2), 2},
           {"a: expert i is chosen as 1 / i^a", "", counted(0, 2, 0.1), 5}},
          data};
}

}  // namespace book
